//! The state directory of a lab, `/run/armento-lab/NAME`:
//!
//! ```text
//! lab.json    the plan, written by `lab up`
//! pids.json   the lab's processes, written by its switch process
//! log         errors of the switch and of the nodes' first processes
//! mnt/        where each node, in its own mount namespace, builds its root
//! ```

use crate::spec::{Plan, check_name};
use crate::sys;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directory of all labs. Not shared with nodes: each has a /run of its own.
pub const ROOT: &str = "/run/armento-lab";

/// Marks every process of a lab; its value is the lab's name.
pub const MARK: &str = "ARMENTO_LAB";

/// A process identified by pid and start time, so that a reused pid is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proc {
    pub pid: i32,
    /// Field 22 of /proc/PID/stat, clock ticks since boot.
    pub start: u64,
}

impl Proc {
    pub fn of(pid: i32) -> Option<Proc> {
        Some(Proc {
            pid,
            start: start_of(pid)?,
        })
    }

    pub fn alive(self) -> bool {
        start_of(self.pid) == Some(self.start)
    }

    /// A handle to the process, if it still is the same one.
    pub fn open(self) -> Option<OwnedFd> {
        let fd = sys::pidfd(self.pid).ok()?;
        // Checked after opening: from here on the pid cannot be reused.
        self.alive().then_some(fd)
    }
}

/// `None` when there is no such process, or only a zombie of it.
fn start_of(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The processes that run a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pids {
    /// Holds the bridge; parent of every node's first process.
    pub switch: Proc,
    /// First processes of the nodes, in the order of the plan.
    pub nodes: Vec<Proc>,
    /// Control groups that every process of a node must join, in the same order.
    pub groups: Vec<Vec<PathBuf>>,
}

/// Limit on retries when the directory of all labs is removed while it is being locked. Each removal is the end of
/// another lab, of which there are 250 at most, and the lock is soon free.
const RETRIES_MAX: usize = 1000;

/// One lab's state directory.
#[derive(Clone, Debug)]
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn of(name: &str) -> Result<Dir> {
        check_name(name)?;
        Ok(Dir(Path::new(ROOT).join(name)))
    }

    pub fn mnt(&self) -> PathBuf {
        self.0.join("mnt")
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub fn plan(&self) -> Result<Plan> {
        let text = match fs::read(self.0.join("lab.json")) {
            Ok(t) => t,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let name = self.0.file_name().unwrap_or_default().display();
                bail!(
                    "there is no lab `{name}`\nhint: `armento lab list` shows the labs, `armento lab up` raises one"
                )
            }
            Err(e) => return Err(e).context("reading the lab's plan"),
        };
        Ok(serde_json::from_slice(&text)?)
    }

    pub fn pids(&self) -> Option<Pids> {
        serde_json::from_slice(&fs::read(self.0.join("pids.json")).ok()?).ok()
    }

    pub fn write_pids(&self, pids: &Pids) -> Result<()> {
        self.write("pids.json", &serde_json::to_vec(pids)?)
    }

    /// Readers see the old file or the new one, never half of it.
    fn write(&self, file: &str, bytes: &[u8]) -> Result<()> {
        let fresh = self.0.join(format!("{file}.new"));
        fs::write(&fresh, bytes)
            .and_then(|()| fs::rename(&fresh, self.0.join(file)))
            .with_context(|| format!("cannot write {}", self.0.join(file).display()))
    }

    /// Claims a name and a network number. The claim is the directory itself.
    pub fn claim(name: &str, plan: impl FnOnce(u8) -> Plan) -> Result<(Dir, Plan)> {
        let dir = Dir::of(name)?;
        let _root = lock(Path::new(ROOT))?; // two `lab up` at once must not choose the same network
        let taken: Vec<u8> = names()
            .iter()
            .filter_map(|n| Some(Dir::of(n).ok()?.plan().ok()?.net))
            .collect();
        let Some(net) = (1..=250).find(|n| !taken.contains(n)) else {
            bail!("250 labs are up already\nhint: armento lab down --all");
        };
        match fs::create_dir(&dir.0) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                bail!(
                    "a lab named `{name}` exists\nhint: `armento lab down --name {name}`, or choose another --name"
                )
            }
            other => other.with_context(|| format!("cannot create {}", dir.0.display()))?,
        }
        let plan = plan(net);
        fs::create_dir(dir.mnt())?;
        dir.write("lab.json", &serde_json::to_vec_pretty(&plan)?)?;
        Ok((dir, plan))
    }

    /// Removes the directory, and the directory of all labs when this was the last.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot remove {}", self.0.display()));
            }
            _ => {}
        }
        remove_if_empty(Path::new(ROOT));
        Ok(())
    }
}

/// The directory of all labs, created if necessary, and locked until the handle is dropped.
fn lock(root: &Path) -> Result<fs::File> {
    for _ in 0..RETRIES_MAX {
        match fs::create_dir(root) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(e).with_context(|| format!("cannot create {}", root.display()));
            }
            _ => {}
        }
        let held = lock_there(root).with_context(|| format!("cannot lock {}", root.display()))?;
        if let Some(held) = held {
            return Ok(held);
        }
    }
    let root = root.display();
    bail!(
        "{root} is there and cannot be opened: no lab was raised\n\
         hint: if it is a link that leads nowhere, remove it, or make the folder that it names"
    )
}

/// `None` when it has been removed. The process that takes the last lab down removes the directory, under the same
/// lock: the opened directory may be gone when the lock is acquired.
fn lock_there(root: &Path) -> io::Result<Option<fs::File>> {
    let file = match fs::File::open(root) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    file.lock()?;
    Ok(is_at(&file, root).then_some(file))
}

/// Whether the path still leads to the opened directory.
fn is_at(file: &fs::File, path: &Path) -> bool {
    let id = |m: fs::Metadata| (m.dev(), m.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => id(open) == id(there),
        _ => false,
    }
}

/// Removes the directory of all labs if it is empty. A directory that was created anew belongs to its creator.
fn remove_if_empty(root: &Path) {
    if let Ok(Some(_held)) = lock_there(root) {
        let _ = fs::remove_dir(root); // fails while another lab is up
    }
}

/// Names of all labs that have a state directory.
pub fn names() -> Vec<String> {
    let Ok(entries) = fs::read_dir(ROOT) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| check_name(n).is_ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangling_link_is_reported() {
        let root = std::env::temp_dir().join(format!("no-labs-{}", std::process::id()));
        std::os::unix::fs::symlink("/nowhere/at/all", &root).unwrap();
        let said = lock(&root).map(drop).unwrap_err().to_string();
        fs::remove_file(&root).unwrap();
        assert!(said.contains("hint: if it is a link"), "{said}");
    }

    /// One lab goes up while the last other one goes down, repeatedly: a process that holds the lock can make a lab in
    /// the directory.
    #[test]
    fn locked_directory_of_labs_exists() {
        let root = std::env::temp_dir().join(format!("labs-{}", std::process::id()));
        let turns = |thread: u32| {
            for turn in 0..500 {
                let held = lock(&root).unwrap();
                let lab = root.join(format!("{thread}-{turn}"));
                fs::create_dir(&lab).unwrap();
                drop(held);
                fs::remove_dir(&lab).unwrap();
                remove_if_empty(&root);
            }
        };
        std::thread::scope(|s| {
            for thread in 0..4 {
                s.spawn(move || turns(thread));
            }
        });
        assert!(!root.exists(), "the last one removed it");
    }
}
