//! Credentials. All of them are home's: the deputy has them, and calls that require rights are made there.

const PROCESS: &str = "crates/abi/src/x86_64/process.rs";
const SUB: &str = "crates/abi/src/x86_64/sub.rs";

use crate::Name::{Call, Prctl, Proc, Status};
use crate::Owner::Credentials;
use crate::{Row, at_home, invisible, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "cred-ids",
        Credentials,
        "user and group ids",
        names![
            task_struct: cred real_cred;
            cred: uid gid suid sgid euid egid fsuid fsgid
            => Status("Uid"), Status("Gid"), Call("setresuid"), Call("setresgid"), Call("setfsuid")
        ],
        at_home(PROCESS),
        &["identity", "statfiles"],
    ),
    row(
        "cred-groups",
        Credentials,
        "supplementary groups",
        names![
            cred: group_info
            => Status("Groups"), Call("setgroups"), Call("getgroups")
        ],
        at_home(PROCESS),
        &["identity"],
    ),
    row(
        "cred-capabilities",
        Credentials,
        "capabilities",
        names![
            cred: cap_inheritable cap_permitted cap_effective cap_bset cap_ambient
            => Status("CapInh"), Status("CapPrm"), Status("CapEff"), Status("CapBnd"),
                Status("CapAmb"), Call("capset"), Prctl(23, "PR_CAPBSET_READ"),
                Prctl(24, "PR_CAPBSET_DROP"), Prctl(47, "PR_CAP_AMBIENT")
        ],
        at_home(PROCESS),
        &["statfiles", "prctls"],
    ),
    row(
        "cred-privileged",
        Credentials,
        "a program that has rights of its own",
        names![],
        stays("Privileged", "crates/noded/src/work/migrate.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "cred-securebits",
        Credentials,
        "securebits, keep-capabilities",
        names![
            cred: securebits
            => Prctl(27, "PR_GET_SECUREBITS"), Prctl(28, "PR_SET_SECUREBITS"),
                Prctl(7, "PR_GET_KEEPCAPS"), Prctl(8, "PR_SET_KEEPCAPS")
        ],
        at_home(SUB),
        &["prctls"],
    ),
    row(
        "cred-keyrings",
        Credentials,
        "keyrings",
        names![
            cred: jit_keyring session_keyring process_keyring thread_keyring request_key_auth
            => Call("keyctl"), Call("add_key"), Call("request_key")
        ],
        at_home("crates/abi/src/x86_64/ipc.rs"),
        &["keyrings"],
    ),
    row(
        "cred-security",
        Credentials,
        "labels of security modules, landlock",
        names![
            task_struct: security;
            cred: security
            => Proc("attr"), Proc("attr/current"), Proc("attr/prev"), Proc("attr/exec"),
                Proc("attr/fscreate"), Proc("attr/keycreate"), Proc("attr/sockcreate"),
                Proc("attr/apparmor"), Proc("attr/smack"), Call("landlock_restrict_self"),
                Call("lsm_get_self_attr"), Call("lsm_set_self_attr")
        ],
        at_home("crates/abi/src/x86_64/system.rs"),
        &["apparmor_profile_at_home_holds_away"],
    ),
    row(
        "cred-counts",
        Credentials,
        "what the user has: processes, signals, locked memory",
        names![cred: user ucounts],
        at_home("crates/keeper/src/calls/fork_and_map.rs"),
        &["rlimits"],
    ),
    row(
        "cred-internal",
        Credentials,
        "reference counts",
        names![cred: usage non_rcu rcu magic subscribers put_addr],
        invisible("bookkeeping of home's kernel"),
        &[],
    ),
];
