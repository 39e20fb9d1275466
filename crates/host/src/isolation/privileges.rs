//! The privileges of a host: its user's and no more, but for one that it gives back before a guest runs.
//!
//! From: `host/src/start.rs`. Next: `namespaces.rs`, which tries what they are for.

use super::sys;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};
use std::io;

/// What an administrator may reserve to CAP_SYS_ADMIN: the making of user namespaces.
/// KERNEL: Debian's own sysctl, and Ubuntu's; others have neither.
const RESERVED: [(&str, &str); 2] = [
    ("kernel.unprivileged_userns_clone", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
];

/// Where user namespaces are reserved to root, root's host holds CAP_SYS_ADMIN until it has made its guests'. They
/// belong to the host's user all the same: it is the effective one.
pub struct Privileges {
    held: bool,
}

impl Privileges {
    /// Becomes `uid` for good (see [`sys::become_user`]).
    /// Before: this process has one thread. `setting` reads a sysctl.
    pub fn of(
        uid: u32,
        procs_max: u64,
        setting: impl Fn(&str) -> Option<String>,
    ) -> io::Result<Privileges> {
        let reserved = |(name, value): &(&str, &str)| setting(name).as_deref() == Some(value);
        let held = sys::euid() == 0 && uid != 0 && RESERVED.iter().any(reserved);
        if held {
            set_keep_capabilities(true)?;
        }
        sys::become_user(uid, procs_max)?;
        if held {
            hold(CapabilitySet::SYS_ADMIN, CapabilitySet::empty())?;
            set_keep_capabilities(false)?;
        }
        Ok(Privileges { held })
    }

    /// Makes namespaces. What is cloned meanwhile into a user namespace of its own has no privilege outside it.
    pub fn used<T>(&self, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if !self.held {
            return make();
        }
        hold(CapabilitySet::SYS_ADMIN, CapabilitySet::SYS_ADMIN)?;
        let made = make();
        hold(CapabilitySet::SYS_ADMIN, CapabilitySet::empty())?;
        made
    }

    /// The last of root's privileges goes, and does not come back.
    pub fn give_up(self) -> io::Result<()> {
        if self.held {
            hold(CapabilitySet::empty(), CapabilitySet::empty())?;
        }
        Ok(())
    }
}

fn hold(permitted: CapabilitySet, effective: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets {
        permitted,
        effective,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}
