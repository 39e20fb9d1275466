//! A keeper becomes another program: its bodies come home, and what it knows of its tree goes over execve(2).
//!
//! ```text
//! give.rs     bodies come home ─► threads that are traced stand still ─► state into a memfd ─► execve
//! written.rs  the state
//! launch/successor.rs  (the next program) state ─► threads go on ─► bodies go back
//! ```
//! The process stays: its pid, its control group, and the threads that it traces (KERNEL: fs/exec.c, begin_new_exec: a tracer
//! stays one). Programs at home run on meanwhile, but for those that are traced there: they stand still for some milliseconds.
//! The same way it takes settings that hold from its beginning (`armento safe`): it begins its own program anew.
//! It decides nothing: the daemon orders it. Start at `give.rs`.

mod give;
mod written;

pub use give::TAKE_OVER;
pub(crate) use give::{become_program, begin_anew_often, keep_safe, send_back};
pub(crate) use written::{Handed, Standing};
