//! Processes at home that stay traced: for their CPU time, for `--spread`, for a move, or up to their entry point.
//!
//! It never touches a process that is away, but for its limits. Start at `resume.rs`.

mod auxv;
mod call_stops;
mod cpu_clock_fixup;
mod external_limits;
mod file_rights;
mod follow_forks;
mod resume;
mod run_to_entry;
mod setuid_exec;
mod user_hold;

pub(crate) use cpu_clock_fixup::watched_stopped;
pub(crate) use external_limits::watch_limits;
pub use file_rights::command_gains;
pub(crate) use file_rights::exec_gains;
pub(crate) use follow_forks::follow_stopped;
pub(crate) use resume::{call_fixups, let_go, resume_for_move, resume_process};
pub(crate) use run_to_entry::{entry_stopped, run_until_entry};
pub(crate) use setuid_exec::exec_again;
pub(crate) use user_hold::{hold_for_user, mark_placed, refuses_move, release_hold};
