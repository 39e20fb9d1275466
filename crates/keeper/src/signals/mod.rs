//! Signals on their way between home's kernel and a body.
//!
//! Home's kernel sees a signal first and decides nothing: handlers run at the body. Start at `route.rs`.

mod coredump;
mod default_action;
mod flood;
mod interrupted_calls;
mod requeue;
mod route;
mod timers;
mod untraced_exec;

pub(crate) use default_action::take_default_action;
pub(crate) use flood::{BACKLOG_PAUSE, end_blocked, inherit_blocked, pass_on_backlog};
pub(crate) use interrupted_calls::{
    break_calls, break_calls_that, can_break_calls, is_exec, nudge_call,
};
pub(crate) use requeue::{requeue_signals, take_pending};
pub(crate) use route::{child_known, in_order, is_thread_directed, thread_stopped};
pub(crate) use timers::{drain_timers, may_ask_overruns, read_overruns, restore_timers};
pub(crate) use untraced_exec::exec_body;
