//! A tree whose lease is about to end is stopped; it goes on when the lease is renewed.
//!
//! From: `mod.rs`. Next: `keeper/src/signals/route.rs`, which stops the bodies that are away.

use crate::saved::with_descendants;
use crate::state::{Keep, Lease, Verdict, tell_user};
use armento_model::Pid;
use armento_tracee::{status, sys};
use std::collections::BTreeSet;
use std::time::Duration;

/// How often it is looked. A process that its user continues is stopped again within this time.
const LOOK: Duration = Duration::from_millis(50);

/// Watches, for ever.
pub fn watch_lease(keep: &Keep) {
    let mut stopped: Option<BTreeSet<Pid>> = None;
    let mut told = false;
    loop {
        match keep.lease.verdict(Lease::now()) {
            Verdict::Run => {
                if let Some(all) = stopped.take() {
                    for pid in all {
                        let _ = sys::kill(pid, libc::SIGCONT);
                    }
                    let line = "armento: its lease is renewed: it goes on\n";
                    tell_user(keep.settings.root, line);
                }
            }
            Verdict::Stop(at) => {
                let first = stopped.is_none();
                stop_all(keep, stopped.get_or_insert_default());
                if first {
                    let line = format!(
                        "armento: {at}, which keeps a checkpoint of this program, does not answer: it is stopped, \
                         since it may be recovered there\nhint: it goes on when {at} answers, or was removed from the farm\n"
                    );
                    tell_user(keep.settings.root, &line);
                }
            }
            Verdict::End(at) => {
                if !std::mem::replace(&mut told, true) {
                    let line = format!(
                        "armento: it was recovered at {at}, and goes on there; here it ends\n"
                    );
                    tell_user(keep.settings.root, &line);
                }
                for pid in with_descendants(&keep.pids()) {
                    let _ = sys::kill(pid, libc::SIGKILL);
                }
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Those that the user has stopped before are not noted: they are not continued either.
fn stop_all(keep: &Keep, stopped: &mut BTreeSet<Pid>) {
    let own = std::process::id() as Pid;
    for pid in with_descendants(&keep.pids()) {
        let stands = status::read(pid).is_ok_and(|s| s.state == 'T');
        if pid != own && !stands && sys::kill(pid, libc::SIGSTOP).is_ok() {
            stopped.insert(pid);
        }
    }
}
