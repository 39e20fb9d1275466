//! The control group of guests, outside that of the daemon.
//!
//! The service manager ends, limits and starts again what is in a service's group. Guests outlive the daemon, so their
//! hosts are in a scope of their own (systemd.scope(5)): a unit that lives as long as a process is in its group.
//!
//! ```text
//! system.slice ─┬─ armento.service          the daemon; started again, upgraded, killed
//!               └─ armento-guests.scope     Delegate=yes: the daemon makes groups below it
//!                  ├─ holder                a process that waits, so that the scope lives without guests
//!                  └─ armento-HOME-TREE-PID host, guard, guests of one tree (`hosts/cgroup.rs`)
//! ```
//!
//! A group without processes is removed by systemd even when its unit is active (seen with version 252), hence the
//! holder. It is not a service with the holder as its main process: version 252 cannot start a service again in a group
//! whose controllers were handed down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Present where systemd is the service manager (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// Where systemd mounts version 2; with version 1 beside it there are no controllers in it.
const MOUNT: &str = "/sys/fs/cgroup";
/// What a question to the service manager may take, seconds; it may be starting other units.
const ASK_S_MAX: &str = "20";
/// … and how long the scope may take.
const MADE_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The holder's group.
const HOLDER: &str = "holder";
/// Guests are many processes, and one that runs out of memory is no reason to end the others. Programs at other nodes
/// get told that their guests' node was lost, and no SIGTERM.
const PROPERTIES: [&str; 5] = [
    "Delegate=yes",
    "TasksMax=infinity",
    "KillSignal=SIGKILL",
    "TimeoutStopSec=10s",
    "Description=Guests of the Armento farm",
];

/// The unit, and its group's directory.
static PLACE: OnceLock<(String, PathBuf)> = OnceLock::new();
/// Held while the scope is made.
static MAKING: Mutex<()> = Mutex::new(());

/// The directory below which hosts have their groups; `None`: the daemon's own.
pub fn base() -> Option<&'static Path> {
    PLACE.get().map(|(_, dir)| dir.as_path())
}

/// Makes the scope `unit` if it is not there, and has hosts live in it from now on.
pub fn start(unit: &str) -> Result<(), String> {
    if !Path::new(BOOTED).exists() {
        return Err("systemd does not run here".into());
    }
    let dir = make(unit)?;
    // Set once: a daemon that begins anew in this process keeps it.
    let _ = PLACE.set((unit.to_owned(), dir));
    Ok(())
}

/// The scope is there again, should its holder have been killed. Before: a host is about to be put into it.
pub fn again() -> Result<(), String> {
    match PLACE.get() {
        Some((unit, dir)) if !dir.exists() => make(unit).map(drop),
        _ => Ok(()),
    }
}

fn make(unit: &str) -> Result<PathBuf, String> {
    let _turn = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = match group_of(unit)? {
        Some(dir) => dir,
        None => new_scope(unit)?,
    };
    let controllers = dir.join("cgroup.controllers");
    if !controllers.exists() {
        return Err(format!("{} is not there", controllers.display()));
    }
    make_room(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir)
}

/// The group of an active unit.
fn group_of(unit: &str) -> Result<Option<PathBuf>, String> {
    let said = Command::new("timeout")
        .args([ASK_S_MAX, "systemctl", "show"])
        .args(["--property=ActiveState,ControlGroup", "--", unit])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("timeout(1): {e}"))?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        return Err(format!("systemctl show: {} {}", said.status, why.trim()));
    }
    let said = String::from_utf8_lossy(&said.stdout);
    let dir = parse(&said).map(|path| PathBuf::from(format!("{MOUNT}{path}")));
    Ok(dir.filter(|dir| dir.exists()))
}

/// An active unit's path below the mount.
fn parse(said: &str) -> Option<&str> {
    let value = |key: &str| said.lines().find_map(|l| l.strip_prefix(key));
    let active = value("ActiveState=") == Some("active");
    value("ControlGroup=").filter(|path| active && path.starts_with('/') && path.len() > 1)
}

/// systemd-run(1) asks for the scope, is put into it, and becomes the holder.
fn new_scope(unit: &str) -> Result<PathBuf, String> {
    let mut holder = Command::new("systemd-run")
        .args(["--scope", "--quiet", "--collect"])
        .arg(format!("--unit={unit}"))
        .args(PROPERTIES.map(|p| format!("--property={p}")))
        .args(["--", "sleep", "infinity"])
        .env_remove(super::notify::SOCKET)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| format!("systemd-run(1): {e}"))?;
    let until = Instant::now() + MADE_MAX;
    let made = loop {
        if let Ok(Some(status)) = holder.try_wait() {
            return Err(format!("systemd-run made no scope: {status}"));
        }
        match group_of(unit) {
            Ok(Some(dir)) => break Ok(dir),
            Ok(None) if Instant::now() < until => sleep(LOOK_EVERY),
            Ok(None) => break Err("systemd-run made no scope in time".to_owned()),
            Err(why) => break Err(why),
        }
    };
    match made {
        Ok(dir) => {
            reap(holder);
            Ok(dir)
        }
        Err(why) => {
            let _ = holder.kill();
            let _ = holder.wait();
            Err(why)
        }
    }
}

/// So that a killed holder is no zombie; it outlives the daemon otherwise.
fn reap(mut holder: Child) {
    std::thread::spawn(move || {
        let _ = holder.wait();
        tracing::warn!("the holder of the guests' scope has ended");
    });
}

/// Groups with controllers have no processes beside child groups.
/// KERNEL: cgroup-v2.rst, "No Internal Process Constraint".
fn make_room(dir: &Path) -> std::io::Result<()> {
    let holder = dir.join(HOLDER);
    match fs::create_dir(&holder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    for pid in fs::read_to_string(dir.join("cgroup.procs"))?.lines() {
        match fs::write(holder.join("cgroup.procs"), pid) {
            // It has ended.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            r => r?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_active_unit_has_a_group() {
        let check = |said: &str, want| assert_eq!(parse(said), want, "{said}");
        let group = "/system.slice/armento-guests.scope";
        check(
            "ActiveState=active\nControlGroup=/system.slice/armento-guests.scope\n",
            Some(group),
        );
        check(
            "ControlGroup=/system.slice/armento-guests.scope\nActiveState=active\n",
            Some(group),
        );
        check("ActiveState=inactive\nControlGroup=/x\n", None);
        check("ActiveState=active\nControlGroup=\n", None);
        check("ActiveState=active\nControlGroup=/\n", None);
        check("", None);
    }
}
