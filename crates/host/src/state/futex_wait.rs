//! What is known of a thread's FUTEX_WAIT with a timeout. Times are home's CLOCK_MONOTONIC, nanoseconds.

#[derive(Default)]
pub struct FutexWait {
    /// Until when the call lasts that was made last.
    pub until: Option<u64>,
    /// The thread came in the midst of one, which it is about to issue again.
    pub came: Option<Interrupted>,
    /// One whose timeout we replace.
    pub replaced: Option<Replaced>,
}

#[derive(Clone, Copy)]
pub struct Interrupted {
    pub until: u64,
    pub futex: u64,
    /// Where the program's timeout is.
    pub timeout_at: u64,
}

#[derive(Clone, Copy)]
pub struct Replaced {
    pub until: u64,
    /// Where the program's own timeout is, once ours has taken its place.
    pub own: Option<u64>,
}
