//! What each open file description is.

use super::changes::identity;
use super::found::Found;
use super::kinds::{Kind, OpenFile};
use super::process::same;
use super::table::{Entry, Group};
use super::values::Bytes;
use super::{epoll, inotify};
use rustix::fs::{FileType, major, minor};
use std::collections::HashMap;

/// Devices without a state of their own. KERNEL: Documentation/admin-guide/devices.txt: null, zero, full, random, urandom,
/// and /dev/tty, which is the controlling terminal of the one that opens it.
const DEVICES: &[(u32, u32)] = &[(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0)];
/// Terminals: virtual and serial ones, the console, pseudoterminals (136 to 143).
const TERMINALS: &[u32] = &[4, 5, 136, 137, 138, 139, 140, 141, 142, 143, 188, 204, 229];
/// The controlling side of pseudoterminals, /dev/ptmx.
const PTMX: (u32, u32) = (5, 2);

/// Objects without a name in a file system, by the kernel's name of them, in words.
const NAMELESS: &[(&str, &str)] = &[
    ("anon_inode:[fanotify]", "a watch on files (fanotify)"),
    ("anon_inode:[io_uring]", "an io_uring"),
    ("anon_inode:[userfaultfd]", "a userfaultfd"),
    ("anon_inode:[pidfd]", "a descriptor of a process (pidfd)"),
    ("pidfd:", "a descriptor of a process (pidfd)"),
    ("anon_inode:[perf_event]", "a performance counter"),
    ("/SYSV", "a segment of System V shared memory"),
    ("/secretmem", "secret memory (memfd_secret)"),
];

/// Contents that are kept, by device and inode.
pub struct Kept {
    pub with_files: bool,
    pub keys: HashMap<(u64, u64), u32>,
}

impl Kept {
    fn key(&mut self, entry: &Entry) -> Option<u32> {
        let next = self.keys.len() as u32;
        self.with_files
            .then(|| *self.keys.entry(entry.inode()).or_insert(next))
    }
}

/// Everything but pipes and sockets.
pub fn classify(group: &Group, all: &[Group], kept: &mut Kept) -> Found {
    let entry = group.first();
    if let Some((_, what)) = NAMELESS.iter().find(|(name, _)| entry.starts(name)) {
        return Found::no(*what);
    }
    match entry.link.0.strip_prefix(b"anon_inode:") {
        Some(b"inotify") => return inotify::find(group, all),
        Some(name) => return nameless(group, name),
        None if !entry.starts("/") => return Found::no(format!("{}, a namespace", entry.link)),
        None => {}
    }
    match entry.kind() {
        FileType::RegularFile => regular(entry, kept),
        FileType::Directory => directory(entry),
        FileType::CharacterDevice => device(entry),
        FileType::BlockDevice => Found::no(format!("{}, a block device", entry.link)),
        _ => Found::no(format!(
            "{}, opened in a way that is not carried",
            entry.link
        )),
    }
}

fn nameless(group: &Group, name: &[u8]) -> Found {
    let info = &group.first().info;
    match name {
        b"[eventfd]" => Found::Inside(Box::new(Kind::Event {
            count: info.event_count,
            semaphore: info.event_semaphore,
        })),
        b"[timerfd]" => Found::Inside(Box::new(Kind::Timer(info.timer))),
        b"[signalfd]" => Found::Inside(Box::new(Kind::Signals { mask: info.mask })),
        b"[eventpoll]" => epoll::find(group),
        other => Found::no(format!(
            "{}, an object of the kernel",
            Bytes(other.to_vec())
        )),
    }
}

fn regular(entry: &Entry, kept: &mut Kept) -> Found {
    let (path, deleted) = match entry.link.0.strip_suffix(b" (deleted)") {
        Some(path) if entry.found.st_nlink == 0 => (Bytes(path.to_vec()), true),
        _ => (entry.link.clone(), false),
    };
    let kept = kept.key(entry);
    if deleted && kept.is_none() {
        let hint = "--with-files keeps its content";
        return Found::Not(format!("{path}, which was deleted"), Some(hint));
    }
    if !deleted && !reachable(entry) {
        return Found::no(format!("{path}, which has another name now"));
    }
    Found::Inside(Box::new(Kind::File(OpenFile {
        path,
        identity: identity(&entry.found),
        deleted,
        kept,
    })))
}

fn directory(entry: &Entry) -> Found {
    if !reachable(entry) {
        return Found::no(format!("the directory {}, which was removed", entry.link));
    }
    let (dev, ino) = entry.inode();
    Found::Inside(Box::new(Kind::Directory {
        path: entry.link.clone(),
        dev,
        ino,
    }))
}

fn device(entry: &Entry) -> Found {
    let number = entry.found.st_rdev;
    let number = (major(number), minor(number));
    let path = entry.link.clone();
    if DEVICES.contains(&number) && reachable(entry) {
        Found::Inside(Box::new(Kind::Device { path }))
    } else if number == PTMX {
        Found::no(format!("{path}, from which a terminal is controlled"))
    } else if TERMINALS.contains(&number.0) {
        Found::Outside(format!("the terminal {path}"))
    } else {
        Found::no(format!("the device {path}"))
    }
}

/// Whether the name in `/proc` leads to the same file.
fn reachable(entry: &Entry) -> bool {
    let own = format!("/proc/{}/fd/{}", entry.pid, entry.fd);
    same(entry.link.path(), own.as_ref())
}
