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

/// Version of the engine's own protocol (calls, bulk). Sides that are one version apart use the older one's
/// ([`common_engine`]): the newer sends nothing that came with its own. Any other difference is [`Stay::EngineVersion`].
/// Additions to messages come behind what was there (`wire/src/talk.rs`).
pub const ENGINE_VERSION: u32 = 29;

/// The version that two engines use between them: that of the older one, which the newer one understands; `None`: they are more
/// than one version apart.
pub fn common_engine(one: u32, other: u32) -> Option<u32> {
    (one.abs_diff(other) <= 1).then_some(one.min(other))
}

/// Version of the control API, of which N and N-1 are understood.
pub const CONTROL_VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::common_engine;

    #[test]
    fn engines_one_version_apart_use_the_older() {
        assert_eq!(common_engine(28, 28), Some(28));
        assert_eq!(common_engine(28, 29), Some(28));
        assert_eq!(common_engine(29, 28), Some(28));
        assert_eq!(common_engine(30, 28), None);
        assert_eq!(common_engine(0, u32::MAX), None);
    }
}
