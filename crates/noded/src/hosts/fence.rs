//! A control group for each host: what its guests may take of this node.
//!
//! From: `start.rs`. Here, for it runs when the host does, as the daemon: guests' processes have no way to it.
//!
//! ```text
//! group of the daemon ─┬─ armento-HOME-TREE-PID   host, guard, guests of one tree
//!                      └─ daemon                  version 2 only: no processes beside child groups
//! ```

use super::Record;
use super::files::stem;
use crate::core::Node;
use armento_model::{NodeName, TreeId};
use armento_sense::{Controller, OWN, controller};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

const PREFIX: &str = "armento-";
/// Processes that are made while others are let in are looked for again so often.
const ROUNDS_MAX: usize = 50;
/// The last process of a host ends after it: looked for so often, a second in all.
const REMOVE_TRIES: usize = 20;
const AGAIN: Duration = Duration::from_millis(50);
/// KERNEL: cgroup-v1/cpu: shares of a group with the weight 100 of version 2.
const SHARES_100: u64 = 1024;

/// The groups of one host.
pub struct Fence(Vec<PathBuf>);

/// What the guests of one tree may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub mem_kib: Option<u64>,
    pub weight: Option<u64>,
}

impl Limits {
    fn files(&self, c: &Controller) -> Vec<(&'static str, u64)> {
        let mem = self.mem_kib.map(|kib| kib.saturating_mul(1024));
        let set = match (c.name, c.v2) {
            ("memory", true) => mem.map(|b| ("memory.max", b)),
            ("memory", false) => mem.map(|b| ("memory.limit_in_bytes", b)),
            (_, true) => self.weight.map(|w| ("cpu.weight", w)),
            (_, false) => self.weight.map(|w| ("cpu.shares", w * SHARES_100 / 100)),
        };
        set.into_iter().collect()
    }
}

/// Puts a host, and whatever it has started by now, behind its limits. Says once a host what cannot be had.
pub fn raise(node: &Arc<Node>, home: &NodeName, tree: TreeId, host: i32) -> Fence {
    let limits = Limits {
        mem_kib: node.guest_mem_kib(),
        weight: node.config.guest_cpu_weight,
    };
    let mut dirs: Vec<PathBuf> = Vec::new();
    for name in ["memory", "cpu"] {
        let Some(c) = controller(name) else { continue };
        let files = limits.files(&c);
        if files.is_empty() {
            continue;
        }
        match make(&c, &name_of(home, tree, host), &files) {
            Ok(dir) if dirs.contains(&dir) => {}
            Ok(dir) => dirs.push(dir),
            Err(e) => tracing::warn!(
                "no control group `{name}` for guests of {home}: {e}; \
                 what they take is not limited, see `armento doctor`"
            ),
        }
    }
    for dir in &dirs {
        if let Err(e) = join(dir, host) {
            tracing::warn!("{}: {e}; these guests are not limited", dir.display());
        }
    }
    Fence(dirs)
}

/// With the host's pid: another host of the tree may begin while this one's group is taken away.
fn name_of(home: &NodeName, tree: TreeId, host: i32) -> String {
    format!("{PREFIX}{}-{host}", stem(home, tree))
}

fn make(c: &Controller, name: &str, files: &[(&str, u64)]) -> io::Result<PathBuf> {
    if c.v2 {
        enable(c)?;
    }
    let dir = c.dir.join(name);
    match fs::create_dir(&dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    for (file, value) in files {
        fs::write(dir.join(file), value.to_string())?;
    }
    Ok(dir)
}

/// Version 2: the daemon makes room in its own group, if nobody else is in it, and hands the controller down.
/// KERNEL: cgroup-v2.rst, "No Internal Process Constraint".
fn enable(c: &Controller) -> io::Result<()> {
    let control = c.dir.join("cgroup.subtree_control");
    let mut rounds = ROUNDS_MAX;
    loop {
        let on = fs::read_to_string(&control)?;
        if on.split_whitespace().any(|one| one == c.name) {
            return Ok(());
        }
        make_room(c)?;
        match fs::write(&control, format!("+{}", c.name)) {
            // Somebody was born there meanwhile.
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && rounds > 0 => rounds -= 1,
            r => return r,
        }
    }
}

/// The daemon goes to a group below its own, with the hosts that it is just starting.
fn make_room(c: &Controller) -> io::Result<()> {
    let inside = fs::read_to_string(c.dir.join("cgroup.procs"))?;
    let inside: Vec<i32> = inside.lines().filter_map(|l| l.parse().ok()).collect();
    // The first group of all has no type: processes may be in it.
    if inside.is_empty() || !c.dir.join("cgroup.type").exists() {
        return Ok(());
    }
    let ours = family(std::process::id() as i32);
    if let Some(p) = inside.iter().find(|p| !ours.contains(p)) {
        let dir = c.dir.display();
        let why = format!(
            "process {p} is in the daemon's group {dir}, too: start the daemon in one of its own (a service with Delegate=yes)"
        );
        return Err(io::Error::other(why));
    }
    let own = c.dir.join(OWN);
    match fs::create_dir(&own) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    for p in inside {
        match fs::write(own.join("cgroup.procs"), p.to_string()) {
            // It has ended.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            r => r?,
        }
    }
    Ok(())
}

/// Who forks while others are moved is found in the next round.
fn join(dir: &Path, host: i32) -> io::Result<()> {
    let procs = dir.join("cgroup.procs");
    fs::write(&procs, host.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let inside = fs::read_to_string(&procs)?;
        let inside: Vec<i32> = inside.lines().filter_map(|l| l.parse().ok()).collect();
        let mut outside = family(host);
        outside.retain(|p| !inside.contains(p));
        if outside.is_empty() {
            return Ok(());
        }
        for p in outside {
            // One that ended meanwhile.
            let _ = fs::write(&procs, p.to_string());
        }
    }
    Err(io::Error::other(
        "its guests are born faster than they are found",
    ))
}

/// A process and all below it.
fn family(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(&p) = all.get(at) {
        for task in fs::read_dir(format!("/proc/{p}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(
                text.split_whitespace()
                    .filter_map(|c| c.parse::<i32>().ok()),
            );
        }
        at += 1;
    }
    all
}

impl Fence {
    /// That of a host which an earlier daemon started.
    pub fn of(record: &Record) -> Fence {
        let name = name_of(&record.home, record.tree, record.pid);
        let dirs = ["memory", "cpu"].into_iter().filter_map(controller);
        Fence(dirs.map(|c| c.dir.join(&name)).collect())
    }

    /// Before: the host has ended, and its guard is about to.
    pub fn remove(self) {
        for dir in self.0 {
            for _ in 0..REMOVE_TRIES {
                match fs::remove_dir(&dir) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => sleep(AGAIN),
                    _ => break,
                }
            }
        }
    }
}

/// Groups of hosts that ended while there was no daemon.
pub fn clear() {
    for name in ["memory", "cpu"] {
        let dirs = controller(name).and_then(|c| fs::read_dir(c.dir).ok());
        for dir in dirs.into_iter().flatten().flatten() {
            let ours = dir.file_name().to_string_lossy().starts_with(PREFIX);
            if ours
                && !dir
                    .file_name()
                    .to_string_lossy()
                    .starts_with("armento-lab-")
            {
                // Those that still have one refuse.
                let _ = fs::remove_dir(dir.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_written_as_their_manuals_say() {
        let limits = Limits {
            mem_kib: Some(1024),
            weight: Some(50),
        };
        let check = |name, v2, want: (&str, u64)| {
            let dir = PathBuf::new();
            assert_eq!(limits.files(&Controller { name, v2, dir }), [want]);
        };
        check("memory", true, ("memory.max", 1 << 20));
        check("memory", false, ("memory.limit_in_bytes", 1 << 20));
        check("cpu", true, ("cpu.weight", 50));
        check("cpu", false, ("cpu.shares", 512));
        let none = Limits {
            mem_kib: None,
            weight: None,
        };
        let dir = PathBuf::new();
        let c = Controller {
            name: "cpu",
            v2: true,
            dir,
        };
        assert!(none.files(&c).is_empty());
    }

    /// Plain files stand for the kernel's.
    #[test]
    fn the_daemon_makes_room_where_it_is_alone() {
        let dir = std::env::temp_dir().join(format!("armento-fence-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        let put = |file: &str, text: &str| fs::write(dir.join(file), text).expect("written");
        put("cgroup.subtree_control", "");
        put("cgroup.type", "domain\n");
        put("cgroup.procs", &format!("{}\n", std::process::id()));
        let c = Controller {
            name: "memory",
            v2: true,
            dir: dir.clone(),
        };
        let made = make(&c, "armento-x", &[("memory.max", 4096)]);
        let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
        let got = [
            "cgroup.subtree_control",
            "daemon/cgroup.procs",
            "armento-x/memory.max",
        ]
        .map(read);
        // Somebody else is in it.
        put("cgroup.procs", "1\n");
        put("cgroup.subtree_control", "");
        let refused = make(&c, "armento-y", &[]).map_err(|e| e.to_string());
        fs::remove_dir_all(&dir).expect("gone");
        assert!(made.is_ok());
        assert!(refused.is_err_and(|e| e.contains("process 1 is in")));
        assert_eq!(
            got,
            [
                "+memory".to_owned(),
                std::process::id().to_string(),
                "4096".into()
            ]
        );
    }

    #[test]
    fn a_family_is_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let all = family(std::process::id() as i32);
        let _ = child.kill();
        let _ = child.wait();
        assert!(all.contains(&(child.id() as i32)));
    }
}
