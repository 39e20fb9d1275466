//! Namespaces, root and working directory. The deputy keeps them.

const PROCESS: &str = "crates/abi/src/x86_64/process.rs";
const PROCFS: &str = "crates/abi/src/procfs.rs";
const FILES: &str = "crates/abi/src/x86_64/files.rs";

use crate::Name::{Call, Proc, Status};
use crate::Owner::{Namespace, Process};
use crate::{Row, at_home, invisible, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "ns-set",
        Namespace,
        "which namespaces it is in",
        names![
            task_struct: nsproxy;
            nsproxy: uts_ns ipc_ns mnt_ns net_ns cgroup_ns
            => Proc("ns"), Proc("ns/uts"), Proc("ns/ipc"), Proc("ns/mnt"), Proc("ns/net"),
                Proc("ns/cgroup"), Call("unshare"), Call("setns")
        ],
        at_home(PROCESS),
        &["identity"],
    ),
    row(
        "ns-pid",
        Namespace,
        "pid namespace",
        names![
            nsproxy: pid_ns_for_children
            => Proc("ns/pid"), Proc("ns/pid_for_children")
        ],
        stays(
            "ForeignPidNamespace",
            "crates/keeper/src/moves/eligibility.rs",
        ),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "ns-time",
        Namespace,
        "time namespace and its offsets",
        names![
            nsproxy: time_ns time_ns_for_children
            => Proc("ns/time"), Proc("ns/time_for_children"), Proc("timens_offsets")
        ],
        stays("KernelState", "crates/keeper/src/moves/eligibility.rs"),
        &["timespaces"],
    ),
    row(
        "ns-user",
        Namespace,
        "user namespace and its maps of ids",
        names![
            cred: user_ns
            => Proc("ns/user"), Proc("uid_map"), Proc("gid_map"), Proc("projid_map"),
                Proc("setgroups")
        ],
        at_home(PROCFS),
        &["identity"],
    ),
    row(
        "ns-mounts",
        Namespace,
        "mounts as it sees them",
        names![
            => Proc("mounts"), Proc("mountinfo"), Proc("mountstats"), Call("mount"), Call("umount2")
        ],
        at_home(PROCFS),
        &["selflinks"],
    ),
    row(
        "ns-network",
        Namespace,
        "network as it sees it",
        names![=> Proc("net"), Call("socket")],
        at_home(PROCFS),
        &["sockets", "streams"],
    ),
    row(
        "ns-names-of-home",
        Namespace,
        "host name, and the other fields of uname",
        names![=> Call("uname"), Call("sethostname"), Call("sysinfo")],
        at_home("crates/abi/src/x86_64/system.rs"),
        &["identity", "limits"],
    ),
    row(
        "fs-places",
        Process,
        "root and working directory",
        names![
            task_struct: fs;
            fs_struct: root pwd
            => Proc("cwd"), Proc("root"), Call("chdir"), Call("chroot")
        ],
        at_home(FILES),
        &["dirs", "selflinks", "names"],
    ),
    row(
        "fs-umask",
        Process,
        "umask",
        names![fs_struct: umask => Status("Umask"), Call("umask")],
        at_home(FILES),
        &["identity", "dirs"],
    ),
    row(
        "ns-internal",
        Namespace,
        "locks and reference counts",
        names![nsproxy: count; fs_struct: users seq in_exec lock],
        invisible("bookkeeping of home's kernel"),
        &[],
    ),
];
