//! A program stands at its exec: it asks for its placement, or goes on at once.
//!
//! From: `dispatch.rs`. Next: `keeper/src/moves/placement.rs`.

use crate::lifecycle::image_replaced;
use crate::state::Tree;
use crate::traced::{exec_again, let_go};
use armento_migrate::stop_threads::Halted;
use armento_tracee::trace::Stopped;

/// Asks for its placement, or lets it go at once.
pub fn execed(t: &mut Tree, thread: Stopped) {
    let pid = thread.tid();
    let first = image_replaced(t, pid, true);
    let Some(thread) = exec_again(thread) else {
        // It is not seized any more.
        if let Some(p) = t.procs.get_mut(&pid) {
            p.leave_exec_stop();
        }
        return t.begins();
    };
    let signal = None;
    t.keep_standing(pid, [Halted { thread, signal }]);
    t.passing.insert(pid);
    if let Some(restarts) = t.keep.restarts.as_ref().filter(|r| r.begins(pid)) {
        return restarts.queue.push(pid);
    }
    if first && t.follow.on {
        // The first program makes the others: they go where there is room.
        return let_go(t, pid);
    }
    t.keep.push_placement(pid);
}
