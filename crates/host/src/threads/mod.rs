pub mod futex_waits;
pub mod resume;
pub mod sigtimedwait;
pub mod stops;
