//! Control of another process: ptrace, injected calls, its memory, its seccomp filter.
//!
//! Everything here acts on one process or thread that the calling OS thread has seized (ptrace belongs to a thread).
//! This crate takes no decisions and uses no network. Start at [`trace`] (stops), then [`inject`] (injected calls) and
//! [`region`] (the shared page in which deputies wait).

pub mod blocking;
pub mod call;
pub mod cpu;
pub mod cpu_demand;
pub mod endless;
pub mod inject;
pub mod maps;
pub mod messages;
pub mod notify;
pub mod owners;
pub mod pages;
pub mod read_minimum;
pub mod region;
pub mod sched_slice;
pub mod sleep_time;
pub mod spawn;
pub mod status;
pub mod sys;
pub mod text;
pub mod timers;
pub mod trace;
pub mod tracer_thread;
pub mod trap;
pub mod uffd;
pub mod usage;
pub mod yama;

pub use trace::{Regs, Status, Stop, TraceError};

/// Page size of x86-64, bytes.
pub const PAGE: u64 = 4096;
