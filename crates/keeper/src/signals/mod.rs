pub(crate) mod break_calls;
pub(crate) mod coredump;
pub(crate) mod default_action;
pub(crate) mod flood;
pub(crate) mod requeue;
pub(crate) mod route;
pub(crate) mod timers;
pub(crate) mod untraced_exec;
