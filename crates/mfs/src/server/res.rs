//! How calls end.

/// The kernel's errors are the caller's.
pub type Res<T> = Result<T, rustix::io::Errno>;
