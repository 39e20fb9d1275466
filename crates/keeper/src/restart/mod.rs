mod futex_waits;
mod in_progress;
mod partial_io;
mod spurious_wakeups;
mod wait_deadlines;

pub(crate) use futex_waits::FutexWaits;
pub(crate) use in_progress::{RestartedCalls, signal_ends_call};
pub(crate) use spurious_wakeups::SpuriousWakeups;
pub(crate) use wait_deadlines::{WaitDeadlines, timed_sleepers, write_time_left};
