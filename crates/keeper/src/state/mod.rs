//! The data that the rooms above share, with the methods that need nothing else.
//!
//! It never talks to the daemon, opens a connection or decides a move. Start at `keeper.rs`.

mod away;
mod body_signals;
mod call_storm;
mod cpu_fixup;
mod daemon_queue;
mod deputies;
mod direct_sockets;
mod flood;
mod followed;
mod held_opens;
mod held_output;
mod home_hold;
mod hosts;
mod job_use;
mod keeper;
mod lease;
mod leaving;
mod loading;
mod move_queue;
mod moves;
mod no_paths;
mod pid_queue;
mod pins;
mod process;
mod ran;
mod restart;
mod safe;
mod shm_guards;
mod stay_reason;
mod thread_directed;
mod tree;
mod tree_signals;
mod usage;
mod user_message;

pub(crate) use away::Away;
pub(crate) use call_storm::CallStorm;
pub(crate) use daemon_queue::{DaemonQueue, Inbox, Item};
pub(crate) use direct_sockets::{DirectConnection, SocketEvents};
pub(crate) use flood::{AHEAD_MAX, BlockedSignals, FIRST_REALTIME, signal_number};
pub(crate) use keeper::{Keep, Settings, Tree};
pub use lease::{Lease, Verdict};
pub(crate) use leaving::Leaving;
pub(crate) use loading::{Loaded, Loading};
pub(crate) use move_queue::{MoveQueue, Task, Why};
pub(crate) use moves::{MoveEvent, READY_MAX, await_ready, not_finished, told_reason};
pub(crate) use process::{Place, Process};
pub use restart::Restart;
pub(crate) use restart::Restarts;
pub use safe::Safety;
pub(crate) use safe::{Kept, Safe};
pub(crate) use shm_guards::Guarded;
pub(crate) use stay_reason::StayReason;
pub(crate) use user_message::tell_user;
