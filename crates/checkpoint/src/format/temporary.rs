//! A file that has its name only when it is complete.

use super::error::{FormatError, Result};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, open, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    No,
    Yes,
}

/// Removed when it is dropped before [`Temporary::keep`].
pub struct Temporary {
    target: PathBuf,
    at: PathBuf,
    kept: bool,
}

impl Temporary {
    /// Makes it beside the target, for its owner only.
    pub fn create(target: &Path, overwrite: Overwrite) -> Result<(Temporary, File)> {
        let exists = fs::symlink_metadata(target).is_ok();
        if exists && overwrite == Overwrite::No {
            return Err(FormatError::Exists(target.to_owned()));
        }
        if fs::metadata(target).is_ok_and(|m| !m.is_file()) {
            let not = std::io::Error::other("it is no ordinary file");
            return Err(FormatError::io("write", target, not));
        }
        let Some(name) = target.file_name() else {
            let not = std::io::Error::other("it is no name of a file");
            return Err(FormatError::io("write", target, not));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let at = target.with_file_name(hidden);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = open(&at, flags, Mode::RUSR | Mode::WUSR);
        let file = file.map_err(|e| FormatError::io("create", &at, e.into()))?;
        let made = Temporary {
            target: target.to_owned(),
            at,
            kept: false,
        };
        Ok((made, File::from(file)))
    }

    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives it its name. After: file and name are on the disk.
    pub fn keep(mut self, overwrite: Overwrite) -> Result<()> {
        let moved = match overwrite {
            Overwrite::Yes => fs::rename(&self.at, &self.target),
            Overwrite::No => self.rename_new().map_err(Into::into),
        };
        match moved {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {
                return Err(FormatError::Exists(self.target.clone()));
            }
            other => other.map_err(|e| FormatError::io("rename", &self.target, e))?,
        }
        self.kept = true;
        let dir = match self.target.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let synced = File::open(dir).and_then(|d| d.sync_all());
        synced.map_err(|e| FormatError::io("save the name of", &self.target, e))
    }

    /// KERNEL: rename(2), RENAME_NOREPLACE; not every file system has it (EINVAL).
    fn rename_new(&self) -> std::result::Result<(), Errno> {
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(CWD, &self.at, CWD, &self.target, flags) {
            Err(Errno::INVAL) if fs::symlink_metadata(&self.target).is_ok() => Err(Errno::EXIST),
            Err(Errno::INVAL) => rustix::fs::rename(&self.at, &self.target),
            other => other,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            drop(fs::remove_file(&self.at));
        }
    }
}
