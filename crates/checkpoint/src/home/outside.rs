//! Processes outside the tree that hold the other end of a pipe or a socket of it.

use super::table::{Entry, Group};
use super::values::Bytes;
use armento_model::Pid;
use rustix::fs::FileType;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// How the kernel names memory of memfd_create(2).
pub const MEMFD: &[u8] = b"/memfd:";

pub fn is_memory(entry: &Entry) -> bool {
    entry.link.0.starts_with(MEMFD)
}

/// Processes that hold pipes and sockets of the tree.
#[derive(Default)]
pub struct Holders {
    /// By the kernel's name of the object, such as `pipe:[4711]`: a process outside.
    outside: HashMap<Bytes, String>,
    /// The same of memory without a file, by device and inode: its name says nothing.
    memory: HashMap<(u64, u64), String>,
    tree: Vec<Pid>,
}

impl Holders {
    /// Looks through all processes whose descriptors may be read, but the tree itself and its tracers.
    pub fn of(groups: &[Group], tree: &[Pid], tracers: &[Pid]) -> Holders {
        let shared = |g: &&Group| matches!(g.first().kind(), FileType::Fifo | FileType::Socket);
        let wanted = groups.iter().filter(shared).map(|g| g.first().link.clone());
        let wanted: HashSet<Bytes> = wanted.collect();
        let mut found = Holders {
            tree: tree.to_vec(),
            ..Holders::default()
        };
        let memory = groups.iter().map(Group::first).filter(|e| is_memory(e));
        let memory: HashSet<(u64, u64)> = memory.map(Entry::inode).collect();
        if wanted.is_empty() && memory.is_empty() {
            return found;
        }
        let Ok(all) = fs::read_dir("/proc") else {
            return found;
        };
        for entry in all.flatten() {
            let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
            if let Some(pid) = pid.filter(|p| !tree.contains(p) && !tracers.contains(p)) {
                found.look(pid, &entry.path(), (&wanted, &memory));
            }
        }
        found
    }

    fn look(
        &mut self,
        pid: Pid,
        dir: &Path,
        (wanted, memory): (&HashSet<Bytes>, &HashSet<(u64, u64)>),
    ) {
        let Ok(descriptors) = fs::read_dir(dir.join("fd")) else {
            return;
        };
        for fd in descriptors.flatten() {
            let Ok(link) = fs::read_link(fd.path()) else {
                continue;
            };
            let link = Bytes::from(link.as_path());
            let name = || {
                let comm = fs::read(dir.join("comm")).unwrap_or_default();
                let comm = comm.strip_suffix(b"\n").unwrap_or(&comm).to_vec();
                format!("process {pid} ({})", Bytes(comm))
            };
            if link.0.starts_with(MEMFD) {
                let found = rustix::fs::stat(fd.path());
                let inode = found.map(|f| (f.st_dev, f.st_ino)).unwrap_or_default();
                if memory.contains(&inode) {
                    self.memory.entry(inode).or_insert_with(name);
                }
            } else if wanted.contains(&link) {
                self.outside.entry(link).or_insert_with(name);
            }
        }
    }

    /// Of memory without a file.
    pub fn of_memory(&self, inode: (u64, u64)) -> Option<&str> {
        self.memory.get(&inode).map(String::as_str)
    }

    pub fn of_link(&self, link: &Bytes) -> Option<&str> {
        self.outside.get(link).map(String::as_str)
    }

    /// Whether the descriptors of an object in the tree are others than a moment ago: its processes run.
    pub fn changed(&self, ends: &[&Group]) -> bool {
        let Some(first) = ends.first() else {
            return false;
        };
        let members = ends.iter().flat_map(|g| &g.members);
        let mut known: Vec<(Pid, i32)> = members.map(|e| (e.pid, e.fd)).collect();
        let mut now = self.in_tree(&first.first().link);
        known.sort_unstable();
        now.sort_unstable();
        known != now
    }

    /// Descriptors of an object in the tree, at this moment.
    pub fn in_tree(&self, link: &Bytes) -> Vec<(Pid, i32)> {
        let mut found = Vec::new();
        for pid in &self.tree {
            let all = fs::read_dir(format!("/proc/{pid}/fd"));
            for fd in all.into_iter().flatten().flatten() {
                let same = fs::read_link(fd.path());
                let same = same.is_ok_and(|l| Bytes::from(l.as_path()) == *link);
                let number = fd.file_name().to_str().and_then(|n| n.parse().ok());
                found.extend(number.filter(|_| same).map(|n| (*pid, n)));
            }
        }
        found
    }
}
