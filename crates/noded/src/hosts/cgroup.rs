//! A control group for each host: what its guests may use of this node.
//!
//! From: `noded/src/work/start_host.rs`. The daemon makes it while the host starts: guests' processes have no way to it.
//!
//! Below the group of the unit that holds guests where there is one (`systemd/scope.rs`), otherwise below the
//! daemon's own:
//!
//! ```text
//! group of the daemon ─┬─ armento-HOME-TREE-PID   host, guard, guests of one tree
//!                      ├─ armento-HOME-UID        trees of a user with limits of its own (`guest_users`)
//!                      │  └─ armento-HOME-TREE-PID
//!                      └─ daemon                  version 2 only: no processes beside child groups
//! ```

use super::cgroup_files::{join, make};
use super::limits::files;
use super::record::{Record, stem};
use crate::config::Limits;
use crate::systemd::{scope_again, scope_base};
use armento_sense::Controller;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];
const PREFIX: &str = "armento-";
/// The last process of a host ends after it: looked for so often, ever more seldom, half a minute in all. On a loaded machine
/// one needed more than a second.
const REMOVE_TRIES: usize = 20;
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// Where groups for a controller are made.
fn controller(name: &'static str) -> Option<Controller> {
    match scope_base() {
        Some(base) => armento_sense::controller_at(name, base),
        None => armento_sense::controller(name),
    }
}

/// … and where an earlier daemon, which was started in another way, made them.
fn everywhere(name: &'static str) -> impl Iterator<Item = Controller> {
    let own = scope_base().and_then(|_| armento_sense::controller(name));
    controller(name).into_iter().chain(own)
}

/// The groups of one host.
pub struct Cgroups(Vec<PathBuf>);

/// Limits a host, and whatever it has started by now. `tree` is for this host alone, `user` for all hosts of its user.
/// Logs what cannot be had, once a host.
pub fn limit(record: &Record, tree: &Limits, user: Option<&Limits>) -> Cgroups {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for name in CONTROLLERS {
        let Some(c) = controller(name) else { continue };
        match below(&c, record, tree, user) {
            Ok(Some(dir)) if !dirs.contains(&dir) => dirs.push(dir),
            Ok(_) => {}
            Err(e) => tracing::warn!(
                "no control group `{name}` for guests of {}: {e}; \
                 what they take is not limited, see `armento doctor`",
                record.home
            ),
        }
    }
    // A group apart from the daemon even where nothing is limited.
    if let Some(base) = scope_base().filter(|_| dirs.is_empty()) {
        let dir = base.join(name_of(record));
        match fs::create_dir(&dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => tracing::warn!(
                "{}: {e}; guests of {} end with the daemon's service",
                dir.display(),
                record.home
            ),
            _ => dirs.push(dir),
        }
    }
    for dir in &dirs {
        if let Err(e) = join(dir, record.pid) {
            tracing::warn!("{}: {e}; these guests are not limited", dir.display());
        }
    }
    Cgroups(dirs)
}

/// Gives a host another weight than it was started with, where it has a group.
pub fn weigh(record: &Record, weight: u64) {
    let limits = Limits {
        cpu_weight: Some(weight),
        ..Limits::default()
    };
    for c in everywhere("cpu") {
        for dir in places(&c, record).into_iter().filter(|dir| dir.exists()) {
            for (file, value) in files(&limits, &c) {
                let file = dir.join(file);
                if let Err(e) = fs::write(&file, value) {
                    tracing::warn!("{}: {e}; these guests keep their weight", file.display());
                }
            }
        }
    }
}

/// Where a host's group may be: in its user's or in the daemon's.
fn places(c: &Controller, record: &Record) -> [PathBuf; 2] {
    let name = name_of(record);
    [
        c.dir.join(name_of_user(record)).join(&name),
        c.dir.join(name),
    ]
}

/// The group of a host; none where nothing is limited.
fn below(
    c: &Controller,
    record: &Record,
    tree: &Limits,
    user: Option<&Limits>,
) -> io::Result<Option<PathBuf>> {
    let (tree, user) = (
        files(tree, c),
        user.map_or(Vec::new(), |user| files(user, c)),
    );
    if tree.is_empty() && user.is_empty() {
        return Ok(None);
    }
    let name = name_of(record);
    if user.is_empty() {
        return make(c, &name, &tree).map(Some);
    }
    let within = || {
        let above = Controller {
            dir: make(c, &name_of_user(record), &user)?,
            ..c.clone()
        };
        make(&above, &name, &tree).map(Some)
    };
    match within() {
        // The user's last host ended just now, and the group with it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => within(),
        r => r,
    }
}

/// With the host's pid: another host of the tree may begin while this one's group is taken away.
fn name_of(record: &Record) -> String {
    let stem = stem(&record.home, record.tree);
    format!("{PREFIX}{stem}-{}", record.pid)
}

fn name_of_user(record: &Record) -> String {
    format!("{PREFIX}{}-{}", record.home, record.uid)
}

/// Takes a process that is no host, and that the daemon's end must not end, into a group of its own in the guests' scope,
/// where there is one.
pub fn apart(name: &str, pid: i32) {
    let Some(base) = scope_base() else { return };
    if let Err(why) = scope_again() {
        tracing::warn!("the guests' scope cannot be had: {why}");
    }
    let dir = base.join(name_apart(name, pid));
    let made = match fs::create_dir(&dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => join(&dir, pid),
    };
    if let Err(e) = made {
        tracing::warn!(
            "{}: {e}; process {pid} ends with the service",
            dir.display()
        );
    }
}

fn name_apart(name: &str, pid: i32) -> String {
    format!("{PREFIX}{name}-{pid}")
}

impl Cgroups {
    /// That of a process that [`apart`] took.
    pub fn apart(name: &str, pid: i32) -> Cgroups {
        let dir = scope_base().map(|base| base.join(name_apart(name, pid)));
        Cgroups(dir.into_iter().collect())
    }

    /// That of a host which an earlier daemon started.
    pub fn of(record: &Record) -> Cgroups {
        let dirs = CONTROLLERS.into_iter().flat_map(everywhere);
        let dirs = dirs.flat_map(|c| places(&c, record));
        Cgroups(dirs.filter(|dir| dir.exists()).collect())
    }

    /// Before: the host has ended, and its guard is about to.
    pub fn remove(self) {
        for dir in self.0 {
            let mut again = AGAIN;
            for _ in 0..REMOVE_TRIES {
                match fs::remove_dir(&dir) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => sleep(again),
                    _ => break,
                }
                again = (again * 2).min(AGAIN_MAX);
            }
            // That of its user, if this host was the last in it: otherwise the kernel refuses.
            if let Some(above) = dir.parent().filter(|dir| is_of_user(dir)) {
                let _ = fs::remove_dir(above);
            }
        }
    }
}

/// A user's group, and neither a lab's nor the daemon's own, whatever that is called.
fn is_of_user(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str());
    let ours = name.and_then(|name| name.strip_prefix(PREFIX));
    ours.and_then(|rest| rest.rsplit_once('-'))
        .is_some_and(|(home, uid)| !home.starts_with("lab") && uid.parse::<u32>().is_ok())
}

/// Groups of hosts that ended while there was no daemon.
pub fn clear() {
    for name in CONTROLLERS {
        for dir in everywhere(name).flat_map(|c| ours(&c.dir)) {
            ours(&dir).for_each(|inner| drop(fs::remove_dir(inner)));
            // Those that still have a process refuse.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Groups of hosts and of their users in `dir`.
fn ours(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let all = fs::read_dir(dir).into_iter().flatten().flatten();
    let ours = all.filter(|dir| {
        let name = dir.file_name();
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && !name.starts_with("armento-lab-")
    });
    ours.map(|dir| dir.path())
}
