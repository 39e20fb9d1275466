//! Moves: from home to a host, back home, and from host to host.
//!
//! It never chooses which process moves: the daemon, a storm or a call that needs home asks (`state/move_queue.rs`).
//! Start at `run.rs`, then `move_process.rs`, `out.rs` and `home.rs`.

mod begin;
mod come_home;
mod copy;
mod departure;
mod eligibility;
mod freeze;
mod group;
mod group_home;
mod group_out;
mod hollow;
mod home;
mod host_to_host;
mod map_early;
mod mappings;
mod move_process;
mod onward;
mod out;
mod outcome;
mod permission;
mod placement;
mod prepare;
mod refusal;
mod restore_threads;
mod run;
mod storm;
mod tear_down;
mod vacate;

pub(crate) use begin::{Begun, begin_at_home, go_on_together};
pub(crate) use copy::{Halted, copy_at_home, go_on_at_home, halt_at_home};
pub(crate) use eligibility::signalfd_mask;
pub(crate) use freeze::restarting;
pub(crate) use move_process::move_now;
pub(crate) use permission::allow_keeper;
pub(crate) use refusal::refuses_start;
pub(crate) use run::run_moves;
pub(crate) use storm::{run_loss_storm, run_storm};
pub(crate) use vacate::{FileView, Shape, SharedView, make_room};
