//! Isolation that guests would have here, and what a daemon without root lacks.

use super::check::{Check, GUEST_UID, Need, State};
use super::machine::DaemonOwner;
use crate::sys;
use armento_sense::controller;
use std::fs;
use std::path::Path;

/// KERNEL: Documentation/admin-guide/mm/userfaultfd.rst.
const DEVICE: &str = "/dev/userfaultfd";
const SYSCTL: &str = "/proc/sys/vm/unprivileged_userfaultfd";

/// Present where systemd is the service manager (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// KERNEL: cgroup-v2.rst; with version 1 beside it this file is not there.
const V2: &str = "/sys/fs/cgroup/cgroup.controllers";
/// systemd's directory for a scope without a slice (systemd.special(7)); the name is that of the package's unit.
const SCOPE: &str = "/sys/fs/cgroup/system.slice/armento-guests.scope";

pub(super) fn checks(daemon_owner: DaemonOwner) -> Vec<Check> {
    match (sys::is_root(), daemon_owner) {
        (true, _) => [isolation(), limits()].into_iter().chain(scope()).collect(),
        // Root's daemon has its own rights; this user's do not count.
        (false, DaemonOwner::ByRoot) => Vec::new(),
        (false, _) => vec![isolation(), limits(), rootless()],
    }
}

/// Makes namespaces as the daemon's hosts make them.
fn isolation() -> Check {
    match armento_host::probe_as(GUEST_UID) {
        Ok(()) => {
            let found = "guests can have namespaces of their own";
            Check::new("walls", Need::Farm, State::Ok, found, "")
        }
        Err(no) => {
            let found = format!("no guest can live here: {}", no.what);
            Check::new("walls", Need::Farm, State::Missing, found, &no.remedy)
        }
    }
}

/// Whether control groups for guests can be made in this process's own.
fn limits() -> Check {
    let lacking: Vec<&str> = ["memory", "cpu"]
        .into_iter()
        .filter(|name| !controller(name).is_some_and(|c| takes_groups(&c.dir)))
        .collect();
    let (state, found) = match lacking[..] {
        [] => (
            State::Ok,
            "memory and weight of guests can be limited".into(),
        ),
        _ => {
            let what = lacking.join(", ");
            let found =
                format!("guests are not limited in: {what} (no control group can be made here)");
            (State::Limited, found)
        }
    };
    let remedy = "start the daemon as root, or as the package's armento.service does; rootless, in a user service with Delegate=yes";
    Check::new("guest-limits", Need::Nothing, state, found, remedy)
}

/// Whether guests have a systemd scope apart from the daemon's service, so that the service can be restarted without
/// them. `None`: no systemd, or control groups of version 1, where the check does not apply.
fn scope() -> Option<Check> {
    let managed = Path::new(BOOTED).exists() && Path::new(V2).exists();
    managed.then(|| {
        let there = Path::new(SCOPE).exists();
        let (state, found) = match there {
            true => (State::Ok, "guests outlive restarts of the daemon's service"),
            false => (
                State::Limited,
                "there is no scope for guests: a service that runs the daemon may end them, or not start again",
            ),
        };
        let remedy = "start the daemon by the package's armento.service, or with `armento node --guests armento-guests.scope`";
        Check::new("guests-scope", Need::Nothing, state, found, remedy)
    })
}

fn takes_groups(dir: &Path) -> bool {
    let group = dir.join(format!("armento-doctor-{}", std::process::id()));
    let made = fs::create_dir(&group).is_ok();
    // No process was put into it.
    let _ = fs::remove_dir(&group);
    made
}

/// Hosting and sending need no privilege; what an unprivileged daemon lacks is reported.
fn rootless() -> Check {
    let asks = fs::File::options()
        .read(true)
        .write(true)
        .open(DEVICE)
        .is_ok();
    let sysctl = fs::read_to_string(SYSCTL).is_ok_and(|t| t.trim() == "1");
    let mut lost = vec![
        "guests of all trees share this user's id, and guest_procs_max does not hold".to_owned(),
    ];
    if !asks && !sysctl {
        lost.push("programs that write faster than the link transfers are stopped, or slowed down, when they come here".into());
    }
    let found = format!(
        "an ordinary user's daemon hosts and sends, but {}",
        lost.join("; ")
    );
    let remedy = "start the daemon as root; or give this user /dev/userfaultfd, or set vm.unprivileged_userfaultfd = 1, for the last";
    Check::new("rootless", Need::Nothing, State::Limited, found, remedy)
}
