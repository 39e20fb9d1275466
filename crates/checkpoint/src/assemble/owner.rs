//! Whose files they are: root may restart the programs of another user, who decides what names in his directories lead to.

use super::by_name::{reopen, try_open};
use super::sys;
use crate::home::{Bytes, Home};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::process::getuid;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The user of the programs, if root restarts another's.
pub struct Owner<'a> {
    user: Option<(u32, u32, &'a [u32])>,
}

impl<'a> Owner<'a> {
    pub fn of(home: &'a Home) -> Owner<'a> {
        let root = home.root().filter(|p| getuid().is_root() && p.uids[1] != 0);
        Owner {
            user: root.map(|p| (p.uids[1], p.gids[1], p.groups.as_slice())),
        }
    }

    /// Does something with files as that user.
    pub fn act<T, E: From<io::Error>>(&self, what: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let Some((uid, gid, groups)) = self.user else {
            return what();
        };
        sys::with_files_of((uid, gid, groups), what).map_err(E::from)?
    }

    /// Opens by name. The very file that the program had open is opened as it was then, perhaps by root for it; another in its
    /// place as its user could.
    pub fn open(
        &self,
        path: &Bytes,
        flags: u32,
        wanted: FileType,
        was: Option<(u64, u64)>,
    ) -> io::Result<OwnedFd> {
        if self.user.is_some() && was.is_some() {
            let at = open(path.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let found = fstat(&at)?;
            let same = was == Some((found.st_dev, found.st_ino));
            if same && flags & libc::O_PATH as u32 == 0 {
                return reopen(at.as_fd(), flags);
            }
        }
        self.act(|| try_open(path, flags, wanted))
    }
}
