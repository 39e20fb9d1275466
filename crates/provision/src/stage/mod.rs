//! How far each machine got in its boot, and why one stopped. Pure: events and times come in, a board and words go out.
//! Start at [`Board`]; [`why`] is what usually stops a machine at a stage.

mod board;
mod dnsmasq_log;
mod step;
mod why;

pub use board::{Board, MACHINES_MAX, Mark, Progress};
pub use dnsmasq_log::{Seen, read_line};
pub use step::Step;
pub use why::{Cause, Verdict, why};
