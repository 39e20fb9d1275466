//! Versions that run on a node, and the replacement of its program.

use armento_model::{ENGINE_VERSION, NodeName, Pid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest program that is sent to a node, bytes: five times today's.
pub const PROGRAM_MAX: u64 = 256 << 20;
/// Bytes of a part of it: as hexadecimal digits it fits a line ([`crate::api::LINE_MAX`]).
pub const PART_MAX: usize = 400 << 10;
/// Longest version that a keeper or host may say it has, bytes.
pub const VERSION_MAX: usize = 64;

/// What a keeper, host or daemon was built from.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(default)]
pub struct Build {
    /// Empty: it is of a version that does not say.
    pub version: String,
    /// 0: it does not say.
    pub engine: u32,
}

impl Build {
    /// Of this process.
    pub fn own() -> Build {
        Build {
            version: env!("CARGO_PKG_VERSION").into(),
            engine: ENGINE_VERSION,
        }
    }
}

/// What a program file says of itself (`armento service versions`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramVersions {
    pub build: Build,
    pub control: u32,
}

/// What runs on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionsInfo {
    pub node: NodeName,
    pub build: Build,
    /// Version of the control protocol.
    pub control: u32,
    /// Greater after each start of the daemon.
    pub boot: u64,
    /// Of the daemon's program, hexadecimal.
    pub sha256: String,
    /// Where the daemon was started from.
    pub program: String,
    /// Another file is there by now: it runs after the next start.
    pub replaced: bool,
    /// The program before the last upgrade is kept beside it.
    pub previous: bool,
    /// The node lets a holder of the farm's key replace its program.
    pub allow_upgrade: bool,
    /// Keepers of another program become the daemon's.
    #[serde(default)]
    pub upgrade_keepers: bool,
    pub keepers: Vec<RunningBuild>,
    /// Keepers that could not become the daemon's program when they were last told to.
    #[serde(default)]
    pub staying: Vec<StayingKeeper>,
    pub hosts: Vec<RunningBuild>,
}

/// A keeper that goes on with the program that it was started from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StayingKeeper {
    /// The first process of its tree.
    pub process: Pid,
    pub why: String,
}

/// Keepers, or hosts, of one build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunningBuild {
    pub build: Build,
    /// They run the same file as the daemon; unknown of processes that have just ended.
    pub same_file: bool,
    pub count: u64,
    /// Processes that they hold: programs of a keeper, guests of a host.
    pub processes: u64,
    /// … of a keeper's, those elsewhere.
    pub away: u64,
}

/// A step of replacing a node's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum UpgradeStep {
    /// A program of so many bytes is about to be sent.
    Begin { sha256: String, size: u64 },
    /// A part of it, hexadecimal; each in turn.
    Part { offset: u64, data: String },
    /// All parts are there: check it, put it in place, restart the daemon with it.
    Install { sha256: String },
    /// Put the program of before in place again, and restart the daemon with it.
    Rollback,
}
