//! What guests would be kept in here, and what a daemon without root lacks.

use super::{Check, Need, State};
use crate::sys;
use armento_sense::controller;
use std::fs;
use std::path::Path;

/// KERNEL: Documentation/admin-guide/mm/userfaultfd.rst.
const DEVICE: &str = "/dev/userfaultfd";
const SYSCTL: &str = "/proc/sys/vm/unprivileged_userfaultfd";

pub(super) fn checks() -> Vec<Check> {
    let mut all = vec![walls()];
    // A daemon of root's has everything.
    if !sys::is_root() {
        all.push(rootless());
    }
    all
}

/// Control groups for guests can be made where our own lie.
fn walls() -> Check {
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
    Check::new("walls", Need::Nothing, state, found, remedy)
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
