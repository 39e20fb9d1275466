//! What the tracer thread does with the threads of guests between their calls: stops, signals, ends.
//!
//! It works on the guest table, in the tracer thread, and never forwards a call or moves a process. Start at
//! `stops.rs`.

mod ends;
mod futex_waits;
mod halt;
mod interrupt_call;
mod resume;
mod signals;
mod sigtimedwait;
mod stops;
mod tampering;
mod timer_signals;

pub use ends::remove_body;
pub use futex_waits::{futex_came, futex_travels, futex_wait_begins};
pub use halt::halt;
pub use interrupt_call::{break_out, restart_call, unpark};
pub use signals::{end_socket_wait, queue_early, queue_signal};
pub use sigtimedwait::trace_sigwait;
pub use stops::{continued, default_taken, dumps_at_home, report, run_on};
pub use tampering::{end_tampered, judge_error, watch_injected_calls};
pub use timer_signals::{overrun, timer_was_set};
