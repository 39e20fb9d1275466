//! Can the namespaces that guests live in be made here? Tried before a home is promised a host, and by `armento doctor`.
//!
//! From: `host/src/start.rs`. Next: `sys.rs`, which makes them.

use super::privileges::Privileges;
use super::sys;
use std::io;

/// Why guests cannot live here, and what an administrator does about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    pub what: String,
    pub remedy: String,
}

/// KERNEL: namespaces(7), /proc/sys/user: how many of each may exist.
const KINDS: [&str; 6] = ["user", "pid", "mnt", "net", "ipc", "uts"];
/// More than any node uses.
const PLENTY: u32 = 10_000;

/// Makes one user namespace with the privileges of this host, and reads the settings of the other kinds.
/// Before: this process has one thread.
pub fn probe(privileges: &Privileges) -> Result<(), Forbidden> {
    if let Some(no) = counted_out(setting) {
        return Err(no);
    }
    let tried = privileges.used(|| sys::try_namespaces(libc::CLONE_NEWUSER));
    tried.map_err(|e| refused(&e, sys::euid() == 0, setting))
}

/// Makes all of them in a child, which has the privileges of a host of `uid` (or of this user, when it is not root).
pub fn probe_as(uid: u32) -> Result<(), Forbidden> {
    if let Some(no) = counted_out(setting) {
        return Err(no);
    }
    let make = || Privileges::of(uid, 0, setting)?.used(|| sys::try_namespaces(sys::NEW));
    sys::in_child(make).map_err(|e| refused(&e, false, setting))
}

/// The value of a sysctl, if the kernel has it.
pub fn setting(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// A kind of namespace whose limit is zero.
fn counted_out(setting: impl Fn(&str) -> Option<String>) -> Option<Forbidden> {
    let name = |kind: &&str| format!("user.max_{kind}_namespaces");
    let none = |kind: &&&str| setting(&name(kind)).as_deref() == Some("0");
    let kind = KINDS.iter().find(none)?;
    let name = name(kind);
    Some(Forbidden {
        what: format!("{kind} namespaces are forbidden: {name}=0"),
        remedy: format!("sysctl {name}={PLENTY}"),
    })
}

/// What the kernel's error means. KERNEL: user_namespaces(7); Debian's and Ubuntu's own settings beside it.
fn refused(e: &io::Error, root: bool, setting: impl Fn(&str) -> Option<String>) -> Forbidden {
    let is = |name: &str, value: &str| setting(name).as_deref() == Some(value);
    let of = |what: String, remedy: String| Forbidden { what, remedy };
    match e.raw_os_error() {
        Some(libc::ENOSPC) => of(
            "there are as many namespaces as user.max_*_namespaces allows".into(),
            format!("sysctl user.max_user_namespaces={PLENTY}, and so the others of user.max_*_namespaces"),
        ),
        Some(libc::EPERM | libc::EACCES) if !root && is("kernel.unprivileged_userns_clone", "0") => of(
            "user namespaces are forbidden to ordinary users: kernel.unprivileged_userns_clone=0".into(),
            "sysctl kernel.unprivileged_userns_clone=1".into(),
        ),
        Some(libc::EPERM | libc::EACCES) if is("kernel.apparmor_restrict_unprivileged_userns", "1") => of(
            "AppArmor restricts user namespaces: kernel.apparmor_restrict_unprivileged_userns=1".into(),
            "install the AppArmor profile of the package, or sysctl kernel.apparmor_restrict_unprivileged_userns=0".into(),
        ),
        Some(libc::EPERM | libc::EACCES) => of(
            format!("user namespaces are refused: {e}"),
            "in a container, allow clone and unshare; else a security module of the kernel forbids them".into(),
        ),
        _ => of(
            format!("namespaces cannot be made: {e}"),
            "use a kernel with user, pid, network, mount, ipc, uts and time namespaces".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only<'a>(name: &'a str, value: &'a str) -> impl Fn(&str) -> Option<String> + 'a {
        move |asked| (asked == name).then(|| value.to_owned())
    }

    #[test]
    fn a_forbidden_kind_of_namespace_is_named() {
        let no = counted_out(only("user.max_user_namespaces", "0")).expect("none may be");
        assert!(
            no.what.contains("user.max_user_namespaces=0"),
            "{}",
            no.what
        );
        assert!(no.remedy.starts_with("sysctl user.max_user_namespaces="));
        let net = counted_out(only("user.max_net_namespaces", "0")).expect("none may be");
        assert!(net.what.contains("user.max_net_namespaces=0"));
        assert_eq!(counted_out(only("user.max_user_namespaces", "7")), None);
        assert_eq!(counted_out(|_| None), None);
    }

    #[test]
    fn the_setting_behind_a_refusal_is_named() {
        let eperm = io::Error::from_raw_os_error(libc::EPERM);
        let debian = only("kernel.unprivileged_userns_clone", "0");
        let no = refused(&eperm, false, &debian);
        assert!(no.remedy.contains("kernel.unprivileged_userns_clone=1"));
        // Root is not restricted by this setting: something else refuses.
        assert!(
            !refused(&eperm, true, &debian)
                .remedy
                .contains("unprivileged_userns_clone")
        );
        let ubuntu = only("kernel.apparmor_restrict_unprivileged_userns", "1");
        assert!(refused(&eperm, false, &ubuntu).what.contains("AppArmor"));
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert!(
            refused(&full, false, &debian)
                .remedy
                .contains("user.max_user_namespaces")
        );
    }
}
