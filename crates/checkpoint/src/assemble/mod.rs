//! The processes of a checkpoint made again, each up to the exec of its program.
//!
//! ```text
//! calling process ─ opens every description once, above all numbers that are used
//!    ├ forks its children, they theirs: sessions first, then groups
//!    ├ each puts its descriptors to their numbers and closes the rest
//!    └ each waits until all are ready, then starts its program
//! ```
//!
//! [`check`] finds everything that can be found before a process is started. [`assemble`] turns the calling process into
//! the root; where the recorded numbers are asked for, the root is its child, and the calling process passes signals and
//! the exit status on. What fails on the way ends all of them, and is on the [`Board`].
//!
//! Memory and threads are the engine's: it finds the processes by their numbers on the board, at their execs. Descriptors
//! that a program had marked close-on-exec stay open over this exec; the engine marks them again
//! ([`crate::home::Process::close_on_exec`]). Signals that a program ignores are the engine's too.

mod attributes;
mod board;
mod by_name;
mod check;
mod descriptors;
mod error;
mod how;
mod memory;
mod open;
mod owner;
mod pipes;
mod plan;
mod proxy;
mod put_back;
mod start;
mod sys;
mod watch;

pub use board::Board;
pub use check::check;
pub use error::{AssembleError, Step};
pub use how::{Contents, How, MemoryPages, TakePage, Warning};
pub use start::{assemble, become_root};
