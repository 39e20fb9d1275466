//! The deputy makes a call of its body.
//!
//! From: `dispatch.rs`, `keeper/src/moves/come_home.rs` (a call that was held). Next: `keeper/src/deputy/wait_loop.rs`.

use super::timer_settime;
use crate::deputy::Deputy;
use crate::state::Keep;
use armento_model::Tid;
use armento_wire::call::Call;
use std::sync::Arc;

pub fn issue(keep: &Keep, d: Arc<Deputy>, c: Box<Call>) {
    match &keep.storm_call {
        Some(storm) => storm.call(&keep.move_queue, d, c, |d, c| make_call(keep, d, c)),
        None => make_call(keep, d, c),
    }
}

/// The deputy makes the call. A call that changes more at home than its own result needs more steps.
pub fn make_call(keep: &Keep, d: Arc<Deputy>, c: Box<Call>) {
    if timer_settime::is_set(c.packed.nr) {
        return timer_settime::begin(keep, d, c);
    }
    if matches!(
        i64::from(c.packed.nr),
        libc::SYS_sched_getattr | libc::SYS_sched_setattr | libc::SYS_sched_setscheduler
    ) {
        // What is read, or set, is to be the program's own slice. 0 is the caller. KERNEL: the slice of a thread under
        // SCHED_IDLE cannot be set any more (6.18).
        let whom = keep.deputy(c.packed.args[0] as Tid);
        whom.as_ref().unwrap_or(&d).restore_slice();
    }
    keep.thread_directed.sent(&c);
    d.serve(c);
}
