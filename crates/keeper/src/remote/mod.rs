//! A checkpoint of the whole tree at another node, in case home is lost (`armento run --safe=remote`).
//!
//! ```text
//! copies (`send.rs`)     checkpoint file ─► this node's daemon ─► the daemon of the node that keeps it
//! renewals (`renew.rs`)  every answer of that node is a lease (`state/lease.rs`)
//! watch (`stop.rs`)      the lease is about to end: the tree is stopped; it was recovered elsewhere: the tree is killed
//! ```
//! It never recovers anything: a person does, at the other node (`armento farm recover`).

mod renew;
mod send;
mod stop;

use crate::state::Keep;
use armento_client::api::KeepStep;
use armento_tracee::spawn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Starts the threads.
pub(crate) fn start(keep: &Arc<Keep>, every: Duration) -> io::Result<()> {
    let k = keep.clone();
    spawn::start("remote-copies", move || send::send_copies(&k, every))?;
    let k = keep.clone();
    spawn::start("remote-renewals", move || renew::renew_lease(&k))?;
    let k = keep.clone();
    spawn::start("remote-watch", move || stop::watch_lease(&k))
}

/// The tree goes on without a checkpoint elsewhere. The reason if that is not possible: the node that keeps one does not answer.
pub(crate) fn forget_kept(keep: &Keep) -> Result<(), String> {
    let Some(at) = keep.lease.at() else {
        return Ok(());
    };
    let forgotten = renew::ask(keep, KeepStep::Forget);
    forgotten.map_err(|e| format!("{at} keeps a checkpoint of it, and does not forget it: {e}"))?;
    keep.lease.void();
    Ok(())
}

/// The tree has ended: its checkpoint is of no use any more. One that cannot be told keeps it until its user forgets it.
pub(crate) fn ended(keep: &Keep) {
    if keep.lease.at().is_some() {
        let _ = renew::ask(keep, KeepStep::Forget);
    }
}
