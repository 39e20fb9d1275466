//! Processes outside the tree that hold the other end of a pipe or a socket of it.

use super::table::Group;
use super::values::Bytes;
use armento_model::Pid;
use rustix::fs::FileType;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// By the kernel's name of the object, such as `pipe:[4711]`: a process that holds it.
#[derive(Default)]
pub struct Holders(HashMap<Bytes, String>);

impl Holders {
    /// Looks through all processes whose descriptors may be read; `skip` are the tree itself and its tracers.
    pub fn of(groups: &[Group], skip: &[Pid]) -> Holders {
        let shared = |g: &&Group| matches!(g.first().kind(), FileType::Fifo | FileType::Socket);
        let wanted = groups.iter().filter(shared).map(|g| g.first().link.clone());
        let wanted: HashSet<Bytes> = wanted.collect();
        let mut found = Holders::default();
        if wanted.is_empty() {
            return found;
        }
        let Ok(all) = fs::read_dir("/proc") else {
            return found;
        };
        for entry in all.flatten() {
            let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
            if let Some(pid) = pid.filter(|p| !skip.contains(p)) {
                found.look(pid, &entry.path(), &wanted);
            }
        }
        found
    }

    fn look(&mut self, pid: Pid, dir: &Path, wanted: &HashSet<Bytes>) {
        let Ok(descriptors) = fs::read_dir(dir.join("fd")) else {
            return;
        };
        for fd in descriptors.flatten() {
            let Ok(link) = fs::read_link(fd.path()) else {
                continue;
            };
            let link = Bytes::from(link.as_path());
            if wanted.contains(&link) {
                let name = || {
                    let comm = fs::read(dir.join("comm")).unwrap_or_default();
                    let comm = comm.strip_suffix(b"\n").unwrap_or(&comm).to_vec();
                    format!("process {pid} ({})", Bytes(comm))
                };
                self.0.entry(link).or_insert_with(name);
            }
        }
    }

    pub fn of_link(&self, link: &Bytes) -> Option<&str> {
        self.0.get(link).map(String::as_str)
    }
}
