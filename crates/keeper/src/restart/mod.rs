pub(crate) mod futex_waits;
pub(crate) mod in_progress;
pub(crate) mod partial_io;
pub(crate) mod spurious_wakeups;
pub(crate) mod wait_deadlines;
