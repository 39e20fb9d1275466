//! Errors of this crate: what failed, what is left, and what to do. Start at [`BootError`].

use std::io;
use std::path::{Path, PathBuf};

/// Why something about the boot of nodes failed.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A file could not be read or written; what was there before is there still.
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    /// The disk is full; what was half made is removed.
    #[error("no space is left on the disk of {}; nothing of it was kept", .0.display())]
    Full(PathBuf),
    /// The disk is full while images are copied from another boot server.
    #[error("no space is left on the disk of {}; what came so far is kept, the rest follows when there is room", .0.display())]
    NoRoom(PathBuf),
    /// A program that is needed is not installed; nothing was changed.
    #[error("{program} is not here; nothing was changed")]
    Missing {
        program: &'static str,
        package: &'static str,
    },
    /// A program failed; what was half made is removed.
    #[error("{program} failed ({status}):\n{tail}")]
    Failed {
        program: String,
        status: String,
        tail: String,
    },
    /// What the user named cannot be used. Nothing was changed.
    #[error("{what}; nothing was changed")]
    Refused { what: String, hint: String },
    /// A file of the boot directory is damaged. Nothing was changed.
    #[error("{} cannot be understood: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
}

impl BootError {
    /// What the user can do.
    pub fn hint(&self) -> String {
        match self {
            BootError::File { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
                "run it as root".into()
            }
            BootError::File { path, .. } => {
                format!(
                    "look at {} (`armento boot init` makes the boot directory)",
                    path.display()
                )
            }
            BootError::Full(path) | BootError::NoRoom(path) => {
                // What was half made is removed.
                let there = path.ancestors().find(|p| p.exists());
                format!(
                    "`df {}` shows the disk; `armento boot image remove NAME@GEN` removes a generation that no node uses",
                    there.unwrap_or(path).display()
                )
            }
            BootError::Missing { package, .. } => format!("apt-get install {package}"),
            BootError::Failed { .. } => {
                "the lines above are the last that it printed; mend that and try again".into()
            }
            BootError::Refused { hint, .. } => hint.clone(),
            BootError::Damaged { .. } => {
                "remove the file or bring it back from another boot server".into()
            }
        }
    }

    /// A refusal.
    pub fn refused(what: impl Into<String>, hint: impl Into<String>) -> BootError {
        BootError::Refused {
            what: what.into(),
            hint: hint.into(),
        }
    }
}

/// Names the file in an error of the system.
pub trait At<T> {
    fn at(self, path: &Path) -> Result<T, BootError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, BootError> {
        self.map_err(|cause| match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                BootError::Full(path.to_owned())
            }
            _ => BootError::File {
                path: path.to_owned(),
                cause,
            },
        })
    }
}
