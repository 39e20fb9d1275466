//! What a lab requires of the machine.

use super::check::{Check, Need, State};
use super::sys;
use crate::hierarchy::{Hierarchy, hierarchies};
use crate::{net, sys as host};
use std::fs;
use std::path::Path;

pub(super) fn checks() -> Vec<Check> {
    let root = host::is_root();
    vec![
        Check::new(
            "root",
            Need::Lab,
            if root { State::Ok } else { State::Missing },
            if root {
                "yes"
            } else {
                "no: labs need it, farms only for the daemon"
            },
            "sudo armento lab up",
        ),
        tools(),
        network(root),
        cgroups(&hierarchies()),
        overlay(root),
    ]
}

fn tools() -> Check {
    match &net::missing_tools()[..] {
        [] => Check::new("iproute2", Need::Lab, State::Ok, "ip, tc", ""),
        missing => {
            let found = format!("not found: {}", missing.join(", "));
            Check::new(
                "iproute2",
                Need::Lab,
                State::Missing,
                found,
                "apt-get install iproute2",
            )
        }
    }
}

fn network(root: bool) -> Check {
    let found = "veth, bridge, tbf";
    if !root || !net::missing_tools().is_empty() {
        return Check::new(
            "network",
            Need::Lab,
            State::Limited,
            format!("{found}: not tried"),
            "run armento doctor as root, with iproute2 installed",
        );
    }
    let tried = sys::in_child(|| {
        let made = host::unshare(libc::CLONE_NEWNET).is_ok() && net::rehearse().is_ok();
        i32::from(!made)
    });
    let tried = match tried {
        Ok(0) => Ok(()),
        Ok(_) => Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
        Err(e) => Err(e),
    };
    Check::probe(
        "network",
        Need::Lab,
        found,
        tried,
        "modprobe -a veth bridge sch_tbf; in a container, give it CAP_NET_ADMIN",
    )
}

fn cgroups(all: &[Hierarchy]) -> Check {
    let version = match (
        all.iter().any(|h| h.v1.is_some()),
        all.iter().any(|h| h.v1.is_none()),
    ) {
        (true, true) => "version 1 and 2",
        (true, false) => "version 1",
        (false, true) => "version 2",
        (false, false) => "none mounted",
    };
    let has = |c: &str| all.iter().any(|h| h.has(c));
    let (here, gone): (Vec<&str>, Vec<&str>) = ["cpu", "cpuset", "memory"]
        .into_iter()
        .partition(|c| has(c));
    let state = match (has("cpu"), gone.is_empty()) {
        (true, true) => State::Ok,
        (true, false) => State::Limited,
        (false, _) => State::Missing,
    };
    let mut found = format!(
        "{version}: {}",
        if here.is_empty() {
            "no controller".into()
        } else {
            here.join(", ")
        }
    );
    if !gone.is_empty() {
        found += &format!("; not {}", gone.join(", "));
    }
    Check::new(
        "cgroups",
        Need::Lab,
        state,
        found,
        "mount -t cgroup2 none /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1 cgroup_enable=memory",
    )
}

/// Mounting loads the module if there is one, so only a trial shows whether it works.
fn overlay(root: bool) -> Check {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known
        .lines()
        .any(|l| l.split_whitespace().last() == Some("overlay"))
    {
        return Check::new("overlayfs", Need::Lab, State::Ok, "yes", "");
    }
    let remedy = "modprobe overlay";
    if !root {
        return Check::new("overlayfs", Need::Lab, State::Limited, "not loaded", remedy);
    }
    let (nothing, top) = (Path::new(""), Path::new("/"));
    let tried = sys::errno_of(|| {
        host::unshare(libc::CLONE_NEWNS)?;
        host::mount(nothing, top, "", host::MS_REC | host::MS_PRIVATE, "")?;
        host::mount(
            Path::new("overlay"),
            top,
            "overlay",
            host::MS_RDONLY,
            "lowerdir=/etc:/usr",
        )
    });
    Check::probe("overlayfs", Need::Lab, "overlay", tried, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_requires_only_the_cpu_controller() {
        let hierarchy = |controllers: &[&str]| Hierarchy {
            mount: "/x".into(),
            base: "/x".into(),
            v1: None,
            controllers: controllers.iter().map(|c| (*c).to_owned()).collect(),
        };
        assert_eq!(cgroups(&[]).state, State::Missing);
        assert_eq!(cgroups(&[hierarchy(&["hugetlb"])]).state, State::Missing);
        assert_eq!(cgroups(&[hierarchy(&["cpu"])]).state, State::Limited);
        assert_eq!(
            cgroups(&[hierarchy(&["cpu", "cpuset", "memory"])]).state,
            State::Ok
        );
    }
}
