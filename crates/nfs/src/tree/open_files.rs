//! Files that a connection has open for reading and writing, so that a long transfer opens its file once.

use super::failed::{Failed, status};
use super::found::Found;
use super::identities::Identities;
use super::sys::proc_path;
use crate::rpc::User;
use nfs3_types::nfs3::nfsstat3;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For each connection.
const FILES_MAX: usize = 16;
/// Then it is opened anew: what was removed, replaced or forbidden is noticed.
const OPEN_TIME: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Write,
}

/// An open file, with what it was opened for.
#[derive(Debug)]
struct Open {
    found: Arc<Found>,
    /// As the client said, before squashing.
    said: Option<User>,
    purpose: Purpose,
    file: Arc<OwnedFd>,
    at: Instant,
}

/// A file that may be read or written, as it is now.
#[derive(Clone, Debug)]
pub struct Ready {
    pub found: Arc<Found>,
    pub file: Arc<OwnedFd>,
    pub stat: Stat,
}

/// Open files of one connection.
#[derive(Debug, Default)]
pub struct OpenFiles {
    list: Vec<Open>,
}

impl OpenFiles {
    /// One that is open already, if nothing has changed that matters. The thread may have any user.
    pub fn get(&mut self, handle: &[u8], said: Option<&User>, purpose: Purpose) -> Option<Ready> {
        self.forget_old();
        let fits =
            |o: &Open| o.purpose == purpose && o.found.handle == handle && o.said.as_ref() == said;
        let at = self.list.iter().position(fits)?;
        let open = &self.list[at];
        let stat = rustix::fs::fstat(&open.file).ok()?;
        let rights = |s: &Stat| (s.st_mode, s.st_uid, s.st_gid);
        if stat.st_nlink == 0 || rights(&stat) != rights(&open.found.stat) {
            self.list.remove(at);
            return None;
        }
        Some(Ready {
            found: open.found.clone(),
            file: open.file.clone(),
            stat,
        })
    }

    /// Opens one, for what a client said and whom it is taken for. After: the thread is the user, or root.
    pub fn open(
        &mut self,
        found: Found,
        ids: &mut Identities,
        said: Option<&User>,
        user: &User,
        purpose: Purpose,
    ) -> Result<Ready, Failed> {
        match found.kind() {
            FileType::RegularFile => {}
            FileType::Directory => return Err(nfsstat3::NFS3ERR_ISDIR),
            _ => return Err(nfsstat3::NFS3ERR_INVAL),
        }
        let file = Arc::new(open_as(&found, ids, user, purpose)?);
        let (found, stat) = (Arc::new(found), rustix::fs::fstat(&file).map_err(status)?);
        if self.list.len() >= FILES_MAX {
            self.list.remove(0);
        }
        self.list.push(Open {
            found: found.clone(),
            said: said.cloned(),
            purpose,
            file: file.clone(),
            at: Instant::now(),
        });
        Ok(Ready { found, file, stat })
    }

    /// Closes what has been open for long.
    pub fn forget_old(&mut self) {
        self.list.retain(|o| o.at.elapsed() < OPEN_TIME);
    }
}

/// A client asks once, when a program opens the file; then the owner reads and writes even if the mode has changed, and
/// whoever may execute a file reads it (RFC 1813, 4.4).
fn open_as(
    found: &Found,
    ids: &mut Identities,
    user: &User,
    purpose: Purpose,
) -> Result<OwnedFd, Failed> {
    let mode = match purpose {
        Purpose::Read => OFlags::RDONLY,
        Purpose::Write => OFlags::WRONLY,
    };
    let flags = mode | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = proc_path(found.fd.as_fd());
    ids.become_user(user)?;
    match rustix::fs::openat(CWD, &path, flags, Mode::empty()) {
        Err(Errno::ACCESS)
            if found.stat.st_uid == user.uid
                || (purpose == Purpose::Read && found.may(libc::X_OK).is_ok()) =>
        {
            ids.root()?;
            rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(status)
        }
        other => other.map_err(status),
    }
}
