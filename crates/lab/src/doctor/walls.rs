//! What guests would be kept in here, and what a daemon without root lacks.

use super::machine::Served;
use super::{Check, GUEST_UID, Need, State};
use crate::sys;
use armento_sense::controller;
use std::fs;
use std::path::Path;

/// KERNEL: Documentation/admin-guide/mm/userfaultfd.rst.
const DEVICE: &str = "/dev/userfaultfd";
const SYSCTL: &str = "/proc/sys/vm/unprivileged_userfaultfd";

pub(super) fn checks(served: Served) -> Vec<Check> {
    match (sys::is_root(), served) {
        (true, _) => vec![walls(), limits()],
        // What root's daemon does for this user is not this user's to do.
        (false, Served::ByRoot) => Vec::new(),
        (false, _) => vec![walls(), limits(), rootless()],
    }
}

/// Namespaces are made, as the daemon's hosts make them.
fn walls() -> Check {
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

/// Control groups for guests can be made where our own lie.
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
    let remedy =
        "start the daemon as root, or as a service with Delegate=yes and DelegateSubgroup=daemon";
    Check::new("guest-limits", Need::Nothing, state, found, remedy)
}

fn takes_groups(dir: &Path) -> bool {
    let group = dir.join(format!("armento-doctor-{}", std::process::id()));
    let made = fs::create_dir(&group).is_ok();
    // Nothing was put into it.
    let _ = fs::remove_dir(&group);
    made
}

/// Hosting and sending need no privilege; what is lost without is told.
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
        lost.push("programs that write faster than the link carries stand still, or are slowed down, when they come here".into());
    }
    let found = format!(
        "an ordinary user's daemon hosts and sends, but {}",
        lost.join("; ")
    );
    let remedy = "start the daemon as root; or give this user /dev/userfaultfd, or set vm.unprivileged_userfaultfd = 1, for the last";
    Check::new("rootless", Need::Nothing, State::Limited, found, remedy)
}
