//! The record of a change that is not confirmed yet.

use crate::observe::{ObserveError, Observed};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What is kept in `pending/change.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pending {
    /// Version of this form.
    pub v: u32,
    /// So that the timer of an earlier change leaves this one alone.
    pub id: String,
    /// The start of the machine in which it was made: kernel settings do not outlive it.
    pub boot_id: String,
    pub node: String,
    /// When it is undone, seconds since 1970.
    pub until_s: u64,
    pub before: Observed,
    /// Path, text and permissions of the files that `confirm` writes.
    pub files: Vec<(String, String, u32)>,
}

/// Version of [`Pending`].
pub(super) const VERSION: u32 = 1;

/// Why a change was not made, not confirmed or not undone, and what is left.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(
        "{node} has a change that waits for `armento fabric confirm`; it is undone in {left_s} s"
    )]
    Busy { node: String, left_s: u64 },
    #[error("no change waits to be confirmed")]
    Nothing,
    #[error("the change came to its time and is being undone, or it is being confirmed just now")]
    Late,
    #[error("cannot keep the old settings in {dir}: {cause}; nothing was changed")]
    Snapshot { dir: PathBuf, cause: io::Error },
    #[error("cannot start the timer: {0}; nothing was changed")]
    Timer(io::Error),
    #[error("{0}; nothing was changed")]
    Before(ObserveError),
    #[error("{0}; what was changed before it has been undone")]
    Change(String),
    #[error("{0}; the old network is back, except: {1}")]
    Undo(String, String),
    #[error(
        "cannot write {path}: {cause}; the new settings are in force until the next start of the machine"
    )]
    Install { path: String, cause: io::Error },
}

impl ApplyError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            ApplyError::Busy { .. } => "confirm it, or wait until it is undone",
            ApplyError::Nothing => {
                "`armento fabric apply` makes a change; it may have been undone already: `armento fabric check`"
            }
            ApplyError::Late => "the old settings come back within two seconds; apply again",
            ApplyError::Snapshot { .. } => {
                "free some space, or name another directory with --state"
            }
            ApplyError::Timer(_) => "is the program still where it was started from?",
            ApplyError::Before(e) => e.hint(),
            ApplyError::Change(_) => {
                "`armento fabric plan --diff` shows the commands; the message is the kernel's"
            }
            ApplyError::Undo(..) => {
                "mend it by hand, or start the machine anew: its files are the old ones"
            }
            ApplyError::Install { .. } => "free some space, then apply and confirm again",
        }
    }
}

pub(super) fn pending_dir(dir: &Path) -> PathBuf {
    dir.join("pending")
}

/// The change that waits, if there is one of this start of the machine.
pub fn pending(dir: &Path) -> Option<Pending> {
    read(&pending_dir(dir)).filter(|p| p.boot_id == boot_id())
}

pub(super) fn read(dir: &Path) -> Option<Pending> {
    let text = fs::read_to_string(dir.join("change.json")).ok()?;
    serde_json::from_str(&text)
        .ok()
        .filter(|p: &Pending| p.v == VERSION)
}

pub(super) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|t| t.trim().to_owned()).unwrap_or_default()
}

pub(super) fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}
