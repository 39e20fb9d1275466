//! System calls that a stop interrupts: how they go on as if nothing had been.
//!
//! It never looks at the tree; it is told which threads stopped. Start at `in_progress.rs`.

mod futex_waits;
mod in_progress;
mod partial_io;
mod spurious_wakeups;
mod wait_deadlines;

pub(crate) use futex_waits::FutexWaits;
pub(crate) use in_progress::{Call, RestartedCalls, signal_ends_call};
pub(crate) use spurious_wakeups::SpuriousWakeups;
pub(crate) use wait_deadlines::{WaitDeadlines, timed_sleepers, write_time_left};
