//! The opener: a child of the host with the guests' user's rights on this node, which opens files below shared mounts.
//!
//! From: `mounts.rs`. It has one thread and no descriptor but its socket, the mounts' roots and standard error, and ends
//! when its host does.

use super::message::{Ask, Said, receive, send};
use super::sys;
use armento_client::api::{SharedMount, SharedStart};
use armento_dfsa::{Proof, Root, identity, read, remove};
use armento_wire::talk::{MountSeen, ProofFile};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Flags of a description that are honoured. KERNEL: open(2).
const FLAGS: i32 = libc::O_ACCMODE | libc::O_APPEND | libc::O_SYNC | libc::O_DSYNC;

/// Serves until the host is gone. Before: in a child of its own.
pub fn run(start: &SharedStart, socket: OwnedFd) -> Result<(), Box<dyn std::error::Error>> {
    let user = start.user.as_ref().ok_or("no user")?;
    sys::keep_only(socket.as_raw_fd())?;
    sys::become_user(user.uid, user.gid, &user.groups)?;
    let mut roots: Vec<Option<Root>> = start.mounts.iter().map(|_| None).collect();
    while let Ok((ask, _)) = receive::<Ask>(&socket) {
        let (said, file) = answer(start, &mut roots, ask);
        let opened = file.is_some();
        send(&socket, &said, file.as_ref().map(AsFd::as_fd))?;
        drop(file);
        if opened {
            // From now on only the host has it open: a program that was written is run when it is closed. KERNEL: execve(2),
            // ETXTBSY.
            send(&socket, &Said::Done, None)?;
        }
    }
    Ok(())
}

fn answer(start: &SharedStart, roots: &mut [Option<Root>], ask: Ask) -> (Said, Option<File>) {
    match ask {
        Ask::Prove { mount, name } => {
            let (Some(m), Some(root)) = (start.mounts.get(mount), roots.get_mut(mount)) else {
                return (Said::No("no such mount".into()), None);
            };
            *root = None;
            match prove(m, &name) {
                Ok((seen, opened)) => {
                    *root = Some(opened);
                    (Said::Seen(Box::new(seen)), None)
                }
                Err(why) => (Said::No(why), None),
            }
        }
        Ask::Proved { mount, name } => {
            if let Some(Some(root)) = roots.get(mount) {
                remove(root, &name);
            }
            (Said::Done, None)
        }
        Ask::Open {
            mount,
            path,
            flags,
            identity: wanted,
        } => {
            let root = roots.get(mount).and_then(Option::as_ref);
            let path = Path::new(OsStr::from_bytes(&path));
            match root.and_then(|root| open(root, path, flags & FLAGS, &wanted)) {
                Some(file) => (Said::Opened, Some(file)),
                None => (Said::No("another file".into()), None),
            }
        }
    }
}

/// The mount is opened anew each time: another file system may have taken its place.
fn prove(m: &SharedMount, name: &str) -> Result<(MountSeen, Root), String> {
    let root = Root::open(&m.path).map_err(|e| e.to_string())?;
    let file = |name: &str, content, identity| ProofFile {
        name: name.to_owned(),
        content,
        identity,
    };
    let (content, seen) = read(&root, name)
        .map_err(|e| format!("it does not find there what this node wrote: {e}"))?;
    let own = Proof::write(&root).map_err(|e| format!("it can write nothing there: {e}"))?;
    let seen = MountSeen {
        magic: root.magic(),
        relaxed: m.relaxed,
        kernel: armento_dfsa::kernel(),
        found: file(name, content, seen),
        written: file(&own.name, own.content, own.identity),
    };
    Ok((seen, root))
}

/// Looks before it opens: an open of another file may have an effect, or wait.
fn open(
    root: &Root,
    path: &Path,
    flags: i32,
    wanted: &armento_model::FileIdentity,
) -> Option<File> {
    let found = root.open_below(path, OFlags::PATH, Mode::empty()).ok()?;
    let regular = wanted.mode & libc::S_IFMT == libc::S_IFREG;
    if !regular || identity(&found).as_ref() != Some(wanted) {
        return None;
    }
    // The same file again. KERNEL: proc_pid_fd(5).
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(again, flags, Mode::empty()).ok()?;
    Some(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_model::FileIdentity;
    use std::io::{Read, Write};

    /// The opener's answers, without its process, for a mount that every machine has.
    #[test]
    fn only_the_very_file_is_opened_with_the_flags_that_were_asked_for() {
        let shm = Path::new("/dev/shm");
        let root = Root::open(shm).expect("a mount point");
        let name = format!("dfsa-opener-{}", std::process::id());
        let at = shm.join(&name);
        std::fs::write(&at, "old").expect("written");
        let known = identity(File::open(&at).expect("opened")).expect("read");
        let ask = |flags, id: &FileIdentity| open(&root, Path::new(&name), flags, id);
        let mut f = ask(libc::O_WRONLY | libc::O_APPEND, &known).expect("the same");
        f.write_all(b"new").expect("written");
        assert_eq!(std::fs::read(&at).expect("read"), b"oldnew");
        assert!(ask(libc::O_RDONLY, &known).is_none(), "it has changed");
        let now = identity(File::open(&at).expect("opened")).expect("read");
        let mut f = ask(libc::O_RDONLY, &now).expect("the same");
        assert!(f.write_all(b"x").is_err() && f.read(&mut [0; 9]).is_ok_and(|n| n == 6));
        std::fs::remove_file(&at).expect("removed");
        std::fs::create_dir(&at).expect("made");
        let dir = identity(File::open(&at).expect("opened")).expect("read");
        assert!(ask(libc::O_RDONLY, &dir).is_none(), "no regular file");
        std::fs::remove_dir(&at).expect("removed");
    }
}
