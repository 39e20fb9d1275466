//! Watches of inotify(7): the files that they watch, by name.
//!
//! KERNEL: `/proc/PID/fdinfo` names a watched file by its handle (proc_pid_fdinfo(5)); what opens a handle needs
//! CAP_DAC_READ_SEARCH. Without it the names that a process has at hand are tried.

use super::fdinfo::Watch;
use super::found::Found;
use super::kinds::{Kind, WatchedFile};
use super::sys;
use super::table::{Entry, Group};
use super::values::Bytes;
use rustix::fs::{Mode, OFlags, makedev, open, stat};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

/// KERNEL: inotify(7): events, IN_DONT_FOLLOW is not kept; IN_EXCL_UNLINK, IN_ONESHOT.
const MASK: u32 = libc::IN_ALL_EVENTS | libc::IN_EXCL_UNLINK | libc::IN_ONESHOT;

/// `all`: the descriptors of the tree, whose files are tried.
pub fn find(group: &Group, all: &[Group]) -> Found {
    let entry = group.first();
    let mut watches = Vec::new();
    let mut names: Option<Vec<PathBuf>> = None;
    for watch in &entry.info.inotify {
        let path = by_handle(watch).or_else(|| {
            let names = names.get_or_insert_with(|| candidates(entry, all));
            names.iter().find(|p| is(p, watch)).cloned()
        });
        let Some(path) = path else {
            let hint = "root finds every name; or checkpoint it when it watches only its own files and directories";
            let what = format!(
                "a watch on files (inotify) of which number {} has a name that only root can find",
                watch.number
            );
            return Found::Not(what, Some(hint));
        };
        watches.push(WatchedFile {
            number: watch.number,
            path: Bytes::from(path.as_path()),
            mask: watch.mask & MASK,
        });
    }
    watches.sort_by_key(|w| w.number);
    let waiting = entry.copy().and_then(|copy| sys::waiting(copy.as_fd()));
    match waiting {
        Ok(waiting) => Found::Inside(Box::new(Kind::Inotify {
            watches,
            waiting: waiting > 0,
        })),
        Err(e) => Found::failed("a watch on files (inotify)", e),
    }
}

/// Whether the name leads to what is watched. KERNEL: of a file system in layers (overlay) the kernel's number of a file may
/// be another than the one that stat(2) tells; its handle is the same.
fn is(path: &Path, watch: &Watch) -> bool {
    let here = stat(path).is_ok_and(|found| found.st_dev == device(watch));
    let same = || stat(path).is_ok_and(|found| found.st_ino == watch.ino);
    let handle = || sys::handle(path).is_ok_and(|h| h == (watch.handle_type, watch.handle.clone()));
    here && (same() || handle())
}

/// KERNEL: fdinfo has the kernel's own encoding of device numbers: 20 bits for the minor one.
fn device(watch: &Watch) -> u64 {
    makedev(
        (watch.device >> 20) as u32,
        (watch.device & 0xf_ffff) as u32,
    )
}

/// Through any mount of its file system.
fn by_handle(watch: &Watch) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let wanted = format!("{}:{}", watch.device >> 20, watch.device & 0xf_ffff);
    let of = |line: &&str| line.split(' ').nth(2) == Some(wanted.as_str());
    let points = mounts
        .lines()
        .filter(of)
        .filter_map(|l| l.split(' ').nth(4));
    for point in points {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(mount) = open(point, flags, Mode::empty()) else {
            continue;
        };
        let Ok(file) = sys::open_handle(mount.as_fd(), watch.handle_type, &watch.handle) else {
            continue;
        };
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        if is(&path, watch) {
            return Some(path);
        }
    }
    None
}

/// Names that a process has at hand: of its directories and open files, and the directories that these are in.
fn candidates(entry: &Entry, all: &[Group]) -> Vec<PathBuf> {
    let dir = PathBuf::from(format!("/proc/{}", entry.pid));
    let own = ["cwd", "exe"].map(|name| fs::read_link(dir.join(name)).ok());
    let open = all.iter().map(|g| g.first().link.path().to_owned());
    let fixed = ["/tmp", "/var/tmp", "/dev/shm", "/etc", "/dev", "/run"].map(PathBuf::from);
    let mut found = BTreeSet::new();
    for path in own.into_iter().flatten().chain(open).chain(fixed) {
        if path.is_absolute() {
            found.extend(path.ancestors().map(Path::to_owned));
        }
    }
    // What is in the working directory, as far as that is small.
    let here = fs::read_dir(dir.join("cwd")).into_iter().flatten();
    found.extend(here.take(1000).flatten().filter_map(|e| {
        let cwd = fs::read_link(dir.join("cwd")).ok()?;
        Some(cwd.join(e.file_name()))
    }));
    found.into_iter().collect()
}
