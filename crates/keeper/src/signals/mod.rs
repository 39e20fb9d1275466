pub(crate) mod coredump;
pub(crate) mod flood;
pub(crate) mod requeue;
pub(crate) mod route;
pub(crate) mod timers;
