//! The host's side of its opener.
//!
//! From: `host/src/start.rs` (start), `host/src/home/messages.rs` (what home asks), `host/src/calls/direct.rs` (opens).
//! Next: `opener.rs`.

use super::message::{Ask, Said, receive, send};
use super::{opener, sys};
use crate::sync::lock;
use armento_client::api::SharedStart;
use armento_wire::talk::{DirectFile, MountSeen};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::time::Duration;

/// How long the opener may take. A file system that hangs hangs its opener, and no other file is opened here any more.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The mounts of this node that it shares.
pub struct SharedMounts {
    given: Option<SharedStart>,
    /// `None`: there is no opener, or it does not answer.
    opener: Mutex<Option<OwnedFd>>,
}

impl SharedMounts {
    /// Starts the opener. Before: this process has one thread, and the privileges with which it was started.
    pub fn start(given: Option<SharedStart>) -> SharedMounts {
        let opener = given.as_ref().filter(|g| g.user.is_some()).and_then(fork);
        SharedMounts {
            given,
            opener: Mutex::new(opener),
        }
    }

    fn number(&self, mount: &[u8]) -> Option<usize> {
        let all = &self.given.as_ref()?.mounts;
        all.iter()
            .position(|m| m.path.as_os_str().as_bytes() == mount)
    }

    /// What this node sees below a mount; or why it does not share it.
    pub fn prove(&self, mount: &[u8], name: String) -> Result<Box<MountSeen>, String> {
        let Some(mount) = self.number(mount) else {
            return Err("it does not declare the mount; name it in dfsa there".into());
        };
        let user = self.given.as_ref().and_then(|g| g.user.as_ref());
        if user.is_none() {
            return Err("it has no user with the number of the program's".into());
        }
        match self.ask(&Ask::Prove { mount, name }) {
            Some((Said::Seen(seen), _)) => Ok(seen),
            Some((Said::No(why), _)) => Err(why),
            _ => Err("its file system does not answer".into()),
        }
    }

    /// Home has seen what this node wrote.
    pub fn proved(&self, mount: &[u8], name: String) {
        if let Some(mount) = self.number(mount) {
            self.ask(&Ask::Proved { mount, name });
        }
    }

    /// The file that home has open; `None` where this node sees another one, or none.
    pub fn open(&self, file: DirectFile) -> Option<File> {
        let ask = Ask::Open {
            mount: self.number(&file.mount)?,
            path: file.path,
            flags: file.flags,
            identity: file.identity,
        };
        match self.ask(&ask)? {
            (Said::Opened, file) => file.map(File::from),
            _ => None,
        }
    }

    pub fn is_relaxed(&self, mount: &[u8]) -> bool {
        let all = self.given.as_ref().map(|g| &g.mounts);
        self.number(mount)
            .and_then(|n| all?.get(n))
            .is_none_or(|m| m.relaxed)
    }

    /// An opener that did not answer in time is not asked again: its answer would be taken for that to another question.
    fn ask(&self, ask: &Ask) -> Option<(Said, Option<OwnedFd>)> {
        let mut opener = lock(&self.opener);
        let socket = opener.as_ref()?;
        let answer = || {
            send(socket, ask, None)?;
            let said = receive::<Said>(socket)?;
            if matches!(said.0, Said::Opened) {
                receive::<Said>(socket)?;
            }
            Ok::<_, std::io::Error>(said)
        };
        match answer() {
            Ok(said) => Some(said),
            Err(e) => {
                eprintln!("no file of a shared mount is opened here any more: {e}");
                *opener = None;
                None
            }
        }
    }
}

fn fork(start: &SharedStart) -> Option<OwnedFd> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .ok()?;
    for limit in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&ours, limit, Some(ANSWER_MAX)).ok()?;
    }
    let child = sys::fork_child(|| {
        if let Err(e) = opener::run(start, theirs) {
            eprintln!("armento opener: {e}");
        }
    });
    child.map(|()| ours).ok()
}
