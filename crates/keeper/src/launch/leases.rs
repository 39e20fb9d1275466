//! Leases on files that hosts know or read ahead: the threads that hear of writers, and the lease holder.

use crate::calls::end_wanted_leases;
use crate::events::watch_leases;
use crate::state::Keep;
use armento_client::api::{Answer, Ask};
use armento_client::{ANSWER, AskError, Session};
use armento_leases::{self as leases, Holder};
use armento_tracee::spawn;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// Leases are looked at this often beside what their signal says.
const LOOK: Duration = Duration::from_secs(60);

pub fn start(keep: &Arc<Keep>) -> io::Result<()> {
    let k = keep.clone();
    leases::find_by(move || {
        let k = k.clone();
        spawn::soon("lease-holder", move || use_holder(&k));
    });
    let k = keep.clone();
    spawn::start("leases", move || {
        let heard = leases::hear(LOOK, |fd| {
            writer_waits(&k, fd);
            true
        });
        if let Err(e) = heard {
            eprintln!("writers of files that are read elsewhere may wait: {e}");
        }
    })
}

/// `fd`: the descriptor of the lease, if that is known.
fn writer_waits(keep: &Keep, fd: Option<RawFd>) {
    end_wanted_leases(keep, fd);
    keep.tracer.post(watch_leases);
}

/// Connects to the holder of this user and stays with it until it is gone.
fn use_holder(keep: &Keep) {
    match Session::connect().and_then(|mut s| s.ask(Ask::LeaseHolder, ANSWER)) {
        Ok(Answer::LeaseHolder { socket }) => match Holder::reach(&socket) {
            Ok(holder) => holder.watch(|| writer_waits(keep, None)),
            Err(e) => without_holder(&e),
        },
        Ok(_) => {}
        // Of a daemon that is not root's, or of an earlier version.
        Err(AskError::Refused(_)) => {}
        Err(e) => without_holder(&e),
    }
}

fn without_holder(e: &dyn std::fmt::Display) {
    eprintln!(
        "no lease holder for the next minute: each read of other users' files waits for home: {e}; see the daemon's log"
    );
}
