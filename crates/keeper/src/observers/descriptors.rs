//! Descriptors by which processes of a tree observe another, or watch or serve files that it maps: a body elsewhere would
//! not be seen (perf_event_open), what a move opens would be (inotify), or a move would wait for the server (FUSE).
//!
//! From: `keeper/src/moves/eligibility.rs`, `keeper/src/moves/prepare.rs`. Next: nothing. Descriptors of processes outside
//! of the tree are not looked for.

use crate::state::Keep;
use armento_migrate::image::files::{Served, Untouched};
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::{maps, status, text};
use std::collections::BTreeSet;
use std::path::Path;

/// The names of the descriptors of a process, with their numbers.
fn descriptors(pid: Pid) -> impl Iterator<Item = (String, String)> {
    let dir = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    dir.flatten().flatten().filter_map(|e| {
        let to = std::fs::read_link(e.path()).ok()?;
        let to = to.to_str()?.to_owned();
        Some((to, e.file_name().into_string().ok()?))
    })
}

/// Processes of the tree that count events of some process. They are at home, where that keeps them. KERNEL: the kernel
/// does not say of which process.
fn counters(keep: &Keep) -> impl Iterator<Item = Pid> + use<> {
    let away = keep.deputies.pids();
    let home = keep.pids().into_iter().filter(move |p| !away.contains(p));
    home.filter(|p| descriptors(*p).any(|(to, _)| to == "anon_inode:[perf_event]"))
}

/// No other process of the tree counts events of `pid`, as far as can be told.
pub fn not_counted(keep: &Keep, pid: Pid) -> Result<()> {
    let Some(by) = counters(keep).find(|by| *by != pid) else {
        return Ok(());
    };
    let name = status::comm(by, by);
    let why = format!("process {by} ({name}) counts events (perf_event_open)");
    Err(MigrateError::Stays(Stay::KernelState, why))
}

/// Processes that are away while another counts events, with that process.
pub fn counted(keep: &Keep) -> Vec<(Pid, Pid)> {
    let by = counters(keep).next();
    let all = by.map(|by| keep.deputies.pids().into_iter().map(move |pid| (pid, by)));
    all.into_iter().flatten().collect()
}

/// While a process of the tree counts events, all the others are at home. To look for it takes as long as there are
/// descriptors.
pub fn watch_counters(keep: &Keep) {
    if keep.deputies.pids().is_empty() {
        return;
    }
    for (pid, by) in counted(keep) {
        if !keep.move_queue.is_called_home(pid) {
            keep.move_queue.come_first(pid, by);
        }
    }
}

/// What processes of the tree watch by inotify, and what they may serve of what is mounted where `pid` is.
pub fn untouched(keep: &Keep, pid: Pid) -> Untouched {
    let mut all = Untouched::default();
    let mut server = None;
    for p in keep.pids() {
        for (to, number) in descriptors(p) {
            match &*to {
                "anon_inode:inotify" => {
                    let info = Path::new("/proc").join(format!("{p}/fdinfo/{number}"));
                    inodes(&text::read(info).unwrap_or_default()).for_each(|ino| all.watches(ino));
                }
                "/dev/fuse" => server = Some(p),
                _ => {}
            }
        }
    }
    if let Some(server) = server {
        let mounts = text::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        all.serves(Served {
            by: format!("process {server} ({})", status::comm(server, server)),
            others: unserved(&mounts).collect(),
        });
    }
    all
}

/// Inodes that processes of the tree watch by inotify.
pub fn watched_inodes(keep: &Keep) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    for p in keep.pids() {
        let watchers = descriptors(p).filter(|(to, _)| to == "anon_inode:inotify");
        for (_, number) in watchers {
            let info = Path::new("/proc").join(format!("{p}/fdinfo/{number}"));
            all.extend(inodes(&text::read(info).unwrap_or_default()));
        }
    }
    all
}

/// Devices of the file systems that the kernel has itself. KERNEL: proc_pid_mountinfo(5): `36 35 98:0 /mnt1 /mnt2
/// rw,noatime shared:1 - ext3 /dev/root rw,errors=continue`. 9p, too, may be served by a process (trans=fd).
fn unserved(mounts: &str) -> impl Iterator<Item = u64> {
    mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let kind = system.split(' ').next()?;
        if kind == "fuse" || kind == "9p" || kind.starts_with("fuse.") || kind == "fuseblk" {
            return None;
        }
        let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
        Some(maps::dev(major.parse().ok()?, minor.parse().ok()?))
    })
}

/// KERNEL: inotify_show_fdinfo: `inotify wd:1 ino:2f1 sdev:fe00010 mask:fff ignored_mask:0 …`, numbers in hexadecimal.
fn inodes(info: &str) -> impl Iterator<Item = u64> {
    let marks = info.lines().filter_map(|l| l.strip_prefix("inotify "));
    marks.filter_map(|l| {
        let ino = l.split(' ').find_map(|w| w.strip_prefix("ino:"))?;
        u64::from_str_radix(ino, 16).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_served_by_processes_are_recognized() {
        let mounts = "21 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
                      36 21 0:62 / /tmp/with\\040blank rw - fuse.bindfs /tmp/src rw\n\
                      37 21 0:40 / /sys/fs/fuse/connections rw shared:3 - fusectl none rw\n";
        let want = [maps::dev(254, 1), maps::dev(0, 40)];
        assert_eq!(unserved(mounts).collect::<Vec<_>>(), want);
    }

    #[test]
    fn inodes_of_inotify_marks_are_read() {
        let info = "pos:\t0\nflags:\t00\ninotify wd:2 ino:1f3 sdev:100008 mask:2 ignored_mask:0 fhandle-bytes:8\n\
                    inotify wd:1 ino:a sdev:100008 mask:fff ignored_mask:0\n";
        assert_eq!(inodes(info).collect::<Vec<_>>(), [0x1f3, 0xa]);
    }
}
