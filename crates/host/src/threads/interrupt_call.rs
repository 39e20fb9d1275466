//! Takes a thread of a guest out of a call that waits in its seccomp notification.

use crate::state::{GuestTable, GuestThread, Waiting};
use crate::sync::lock;
use armento_migrate::Result;
use armento_migrate::image::restarts::ERESTARTNOINTR;
use armento_tracee::inject::Hold;
use armento_tracee::trace::{self, Status, Stop, Stopped};
use std::sync::Arc;

/// Replies with one of the kernel's restart errors. Before: in the tracer thread, for the interruption
/// must be pending when the thread gets the result.
pub fn restart_call(guests: &GuestTable, thread: &Arc<GuestThread>, id: u64, ret: i64) {
    let _ = trace::interrupt(thread.here);
    guests.shared.listener.reply(id, ret);
}

/// Lets a parked thread stop; its call is issued again.
pub fn unpark(guests: &mut GuestTable, thread: &Arc<GuestThread>) {
    let mut st = lock(&thread.call);
    if let Some(Waiting::Parked { id }) = st.waiting {
        st.waiting = None;
        drop(st);
        restart_call(guests, thread, id, ERESTARTNOINTR);
    }
}

/// Takes a thread out of its notification; its call did not happen. Its registers are set by `finish`.
pub fn break_out(
    guests: &mut GuestTable,
    thread: &Arc<GuestThread>,
    id: u64,
) -> Result<(Stopped, Hold)> {
    trace::interrupt(thread.here)?;
    // ERESTARTNOINTR: it is issued again unless a result is set.
    guests.shared.listener.reply(id, -513);
    loop {
        match trace::wait_certain(thread.here)? {
            Status::Stopped(stopped, Stop::Trap) => {
                return Ok((stopped, Hold::take(thread.here, guests.allowlist())?));
            }
            Status::Stopped(stopped, _) => trace::resume(stopped, 0)?,
            _ => return Err(armento_migrate::MigrateError::Ended),
        }
    }
}
