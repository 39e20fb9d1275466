//! Kernel features that moves require.

use super::check::{Check, GUEST_UID, Need, State, Tier};
use super::machine::DaemonOwner;
use super::sys;
use armento_model::{KERNEL_FULL, KERNEL_MIN, kernel_version};
use std::fs;
use std::io;

const CONFIG_CR: &str =
    "use a kernel with CONFIG_CHECKPOINT_RESTORE=y (Debian's and most others have it)";

pub(super) fn checks(daemon_owner: DaemonOwner) -> Vec<Check> {
    vec![
        kernel(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()),
        namespaces(daemon_owner),
        Check::probe(
            "seccomp",
            Need::Farm,
            "seccomp user notification",
            sys::seccomp_notify(),
            "use a kernel with CONFIG_SECCOMP_FILTER=y; in a container, allow the seccomp call",
        ),
        userfaultfd(),
        pagemap_scan(),
        Check::probe(
            "pidfd-getfd",
            Need::Farm,
            "pidfd_getfd",
            sys::pidfd_getfd(),
            "in a container, allow the pidfd_getfd call and CAP_SYS_PTRACE",
        ),
        Check::probe(
            "set-tid",
            Need::Farm,
            "clone3 with a chosen pid",
            sys::clone3_set_tid(),
            "in a container, allow clone3 and user namespaces; else use a kernel from 5.5",
        ),
        Check::probe(
            "map-vdso",
            Need::Farm,
            "ARCH_MAP_VDSO_64",
            sys::map_vdso(),
            CONFIG_CR,
        ),
        Check::probe("set-mm", Need::Farm, "PR_SET_MM", sys::set_mm(), CONFIG_CR),
        ptrace_scope(armento_tracee::yama::scope(), daemon_owner),
        cpu(),
    ]
}

/// Before: `checks` are those of this module.
pub(super) fn tier(checks: &[Check]) -> Tier {
    let ok = |id: &str| checks.iter().any(|c| c.id == id && c.state == State::Ok);
    let old = checks
        .iter()
        .any(|c| c.id == "kernel" && c.state == State::Missing);
    match (old, ok("userfaultfd") && ok("pagemap-scan")) {
        (true, _) => Tier::None,
        (false, true) => Tier::Full,
        (false, false) => Tier::StopCopy,
    }
}

fn kernel(release: &str) -> Check {
    let release = release.trim();
    let state = match kernel_version(release) {
        v if v >= KERNEL_FULL => State::Ok,
        v if v >= KERNEL_MIN => State::Limited,
        _ => State::Missing,
    };
    Check::new(
        "kernel",
        Need::Farm,
        state,
        format!("Linux {release}"),
        "update the kernel to 6.7 or newer (Debian 12: bookworm-backports); 6.1 moves with long pauses, older not at all",
    )
}

/// With a daemon of root's the hosts make them under IDs of their own, not under that of the user who runs the doctor.
fn namespaces(daemon_owner: DaemonOwner) -> Check {
    let kinds = [
        ("user", 0),
        ("pid", libc::CLONE_NEWPID),
        ("mnt", libc::CLONE_NEWNS),
        ("net", libc::CLONE_NEWNET),
        ("uts", libc::CLONE_NEWUTS),
        ("ipc", libc::CLONE_NEWIPC),
        ("time", sys::CLONE_NEWTIME),
    ];
    let bad: Vec<&str> = kinds
        .iter()
        .filter(|(_, flag)| sys::can_unshare(libc::CLONE_NEWUSER | flag).is_err())
        .map(|(name, _)| *name)
        .collect();
    let remedy = "sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (those that exist); in a container, allow unshare";
    let all = kinds.map(|(name, _)| name).join(" ");
    let of = |state, found| Check::new("namespaces", Need::Farm, state, found, remedy);
    match (bad.is_empty(), crate::sys::is_root(), daemon_owner) {
        (true, true, _) => match armento_host::probe_as(GUEST_UID) {
            Ok(()) => of(State::Ok, format!("{all}, as root and for hosts of guests")),
            Err(no) => Check::new(
                "namespaces",
                Need::Farm,
                State::Limited,
                format!("{all}, as root; hosts of guests have none: {}", no.what),
                &no.remedy,
            ),
        },
        (true, false, _) => of(State::Ok, format!("{all}, as this user")),
        (false, false, DaemonOwner::ByRoot) => of(
            State::Limited,
            format!(
                "not available to this user: {} (this node's daemon is root's and needs no more)",
                bad.join(" ")
            ),
        ),
        (false, ..) => of(State::Missing, format!("not available: {}", bad.join(" "))),
    }
}

fn userfaultfd() -> Check {
    let remedy = "use a kernel from 6.7 with CONFIG_USERFAULTFD=y; without it programs are stopped while they move";
    match sys::userfaultfd_features() {
        Err(e) => Check::new(
            "userfaultfd",
            Need::Nothing,
            State::Missing,
            e.to_string(),
            remedy,
        ),
        Ok(f) if f & sys::UFFD_FEATURE_WP_ASYNC == 0 => Check::new(
            "userfaultfd",
            Need::Nothing,
            State::Limited,
            "without asynchronous write-protection",
            remedy,
        ),
        Ok(_) => {
            let sysctl =
                fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
            let device = fs::metadata("/dev/userfaultfd").is_ok();
            let found = format!(
                "asynchronous write-protection; kernel faults: sysctl {}, device {}",
                if sysctl.trim() == "1" { "on" } else { "off" },
                if device { "present" } else { "absent" },
            );
            Check::new("userfaultfd", Need::Nothing, State::Ok, found, "")
        }
    }
}

fn pagemap_scan() -> Check {
    Check::probe(
        "pagemap-scan",
        Need::Nothing,
        "PAGEMAP_SCAN",
        sys::pagemap_scan(),
        "use a kernel from 6.7; without it programs are stopped while they move",
    )
}

fn ptrace_scope(scope: Option<u8>, daemon_owner: DaemonOwner) -> Check {
    let helped = crate::sys::is_root() || daemon_owner == DaemonOwner::ByRoot;
    let (state, found) = match (scope, helped) {
        (None, _) => (State::Ok, "no Yama: users may trace their own programs"),
        (Some(0), _) => (State::Ok, "0: users may trace their own programs"),
        (Some(1), true) => (
            State::Ok,
            "1: what `armento run` starts moves, and what that starts; programs that were started otherwise do not",
        ),
        (Some(1), false) => (
            State::Limited,
            "1: programs that `armento run` starts move; what they start moves with --spread, or with a daemon of root's",
        ),
        (Some(2), _) => (State::Limited, "2: only root's programs move (allow_root)"),
        (Some(_), _) => (State::Missing, "3: nothing may be traced, so nothing moves"),
    };
    let remedy = match scope {
        Some(3..) => {
            "sysctl settings of 3 hold until the next boot: set kernel.yama.ptrace_scope=1 in /etc/sysctl.d"
        }
        _ => "sysctl kernel.yama.ptrace_scope=0, or a daemon of root's with scope 1",
    };
    Check::new("ptrace-scope", Need::Farm, state, found, remedy)
}

fn cpu() -> Check {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info
        .lines()
        .find_map(|l| l.strip_prefix("flags")?.split_once(": "))
        .map_or("", |(_, f)| f);
    let has = |f: &str| flags.split(' ').any(|x| x == f);
    let Some(xsave) = sys::xsave_size().filter(|_| has("xsave")) else {
        let why = io::Error::from(io::ErrorKind::Unsupported);
        return Check::probe(
            "cpu",
            Need::Farm,
            "x86-64 with XSAVE",
            Err(why),
            "use a machine with such a processor",
        );
    };
    let named: Vec<&str> = [
        ("avx2", "AVX2"),
        ("avx512f", "AVX-512"),
        ("amx_tile", "AMX"),
    ]
    .iter()
    .filter(|(f, _)| has(f))
    .map(|(_, n)| *n)
    .collect();
    let found = format!(
        "x86-64, {xsave} bytes of extended state, {}",
        if named.is_empty() {
            "no AVX2".into()
        } else {
            named.join(", ")
        }
    );
    Check::new("cpu", Need::Farm, State::Ok, found, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_classified() {
        let check = |release: &str, want| assert_eq!(kernel(release).state, want, "{release}");
        check("6.18.44-fc-v657\n", State::Ok);
        check("6.7.0", State::Ok);
        check("6.6.9-generic", State::Limited);
        check("6.1.0-18-amd64", State::Limited);
        check("5.15.0", State::Missing);
        check("", State::Missing);
        check("10.0", State::Ok);
    }

    #[test]
    fn tier_follows_the_probes() {
        let with = |kernel: State, uffd: State, scan: State| {
            tier(&[
                Check::new("kernel", Need::Farm, kernel, "x", "y"),
                Check::new("userfaultfd", Need::Nothing, uffd, "x", "y"),
                Check::new("pagemap-scan", Need::Nothing, scan, "x", "y"),
            ])
        };
        use State::{Limited, Missing, Ok};
        assert_eq!(with(Ok, Ok, Ok), Tier::Full);
        assert_eq!(with(Ok, Limited, Ok), Tier::StopCopy);
        assert_eq!(with(Limited, Ok, Missing), Tier::StopCopy);
        assert_eq!(with(Missing, Ok, Ok), Tier::None);
    }

    #[test]
    fn ptrace_scopes() {
        let check = |v: Option<u8>, daemon_owner, want| {
            assert_eq!(ptrace_scope(v, daemon_owner).state, want)
        };
        check(None, DaemonOwner::No, State::Ok);
        check(Some(0), DaemonOwner::No, State::Ok);
        check(Some(1), DaemonOwner::ByRoot, State::Ok);
        check(Some(2), DaemonOwner::ByRoot, State::Limited);
        check(Some(3), DaemonOwner::ByRoot, State::Missing);
    }
}
