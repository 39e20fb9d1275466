//! Types shared by every crate: names, numbers with units, reasons. No I/O.
//!
//! Start at [`Stay`], the closed list of reasons why a process does not move.

mod cpu;
mod file_counts;
mod file_identity;
mod file_rates;
mod hint;
mod id;
mod kernel;
mod message_counts;
mod show;
mod stay;
mod users;
mod xsave;

pub use cpu::{CpuTime, Shown};
pub use file_counts::FileCounts;
pub use file_identity::FileIdentity;
pub use file_rates::FileRates;
pub use hint::Hint;
pub use id::{BadName, HomePid, HomeTid, MoveId, NodeName, Pid, Tid, TreeId};
pub use kernel::{KERNEL_FULL, KERNEL_MIN, kernel_version};
pub use message_counts::MessageCounts;
pub use show::{clean, size, span};
pub use stay::Stay;
pub use users::Users;
pub use xsave::{Part, XSAVE_MAX, Xsave};

/// Version of the engine's own protocol (calls, bulk). Both sides must match
/// exactly; a difference is [`Stay::EngineVersion`].
pub const ENGINE_VERSION: u32 = 28;

/// Version of the control API, of which N and N-1 are understood.
pub const CONTROL_VERSION: u32 = 1;
