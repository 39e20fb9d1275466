//! Why a checkpoint file cannot be written or read.

use armento_model::Pid;
use std::io;
use std::path::{Path, PathBuf};

pub type Result<T, E = FormatError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("{0} exists already; it was left as it is")]
    Exists(PathBuf),
    #[error("no space is left for {0}; what was written is removed again")]
    NoSpace(PathBuf),
    #[error("the quota is used up for {0}; what was written is removed again")]
    Quota(PathBuf),
    /// Of the two numbers the first is of the file.
    #[error("{path} is a checkpoint of format {found}; this program reads format {ours}")]
    OtherVersion {
        path: PathBuf,
        found: u32,
        ours: u32,
    },
    #[error("{0} is not a checkpoint")]
    NotACheckpoint(PathBuf),
    #[error("{path} was made on {found}; this machine is {ours}")]
    OtherMachine {
        path: PathBuf,
        found: String,
        ours: String,
    },
    #[error("{path} is truncated: it ends after {bytes} bytes, before its end mark")]
    Truncated { path: PathBuf, bytes: u64 },
    #[error("{path} was changed after it was written, or is damaged ({what})")]
    Changed { path: PathBuf, what: &'static str },
    #[error("{what} is larger than a checkpoint can hold ({max} bytes)")]
    TooLarge { what: &'static str, max: u64 },
    #[error("the checkpoint holds no {what} of process {pid}")]
    Lacks { what: &'static str, pid: Pid },
    #[error("the checkpoint holds no content of file {0}")]
    NoFile(u32),
    #[error("cannot {doing} {path}: {source}")]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl FormatError {
    /// An error of a system call, with what it was about.
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> FormatError {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOSPC) => FormatError::NoSpace(path),
            Some(libc::EDQUOT) => FormatError::Quota(path),
            _ => FormatError::Io {
                doing,
                path,
                source,
            },
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            FormatError::Exists(_) => "name another file, or say --overwrite",
            FormatError::NoSpace(_) => "free some space, or name a file on another disk",
            FormatError::Quota(_) => "remove files of yours, or name a file on another disk",
            FormatError::OtherVersion { .. } => {
                "restart it with the version of armento that made it"
            }
            FormatError::OtherMachine { .. } => "restart it on a machine of that kind",
            FormatError::Truncated { .. } | FormatError::Changed { .. } => {
                "copy the file again from where it was made"
            }
            _ => return None,
        })
    }
}

impl From<FormatError> for io::Error {
    fn from(e: FormatError) -> io::Error {
        match e {
            FormatError::Io { source, .. } => source,
            other => io::Error::other(other.to_string()),
        }
    }
}
