//! Files of /proc/PID that show several pieces of state at once; a file that shows one piece is in its row.

const PROCFS: &str = "crates/abi/src/procfs.rs";

use crate::Name::Proc;
use crate::Owner::{Process, Thread};
use crate::{Row, at_home, manual, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "proc-own-state",
        Process,
        "its own state, read by itself or by one of its tree: it comes home first",
        names![=> Proc("stat"), Proc("status"), Proc("arch_status")],
        stays("UnsupportedCall", PROCFS),
        &["procself", "statfiles", "childfiles"],
    ),
    row(
        "proc-by-descriptor",
        Thread,
        "a file of /proc that is opened by a path not from the root, or by a descriptor of /proc/PID",
        names![],
        manual(
            "docs/manual/differences.md",
            "paths from the root and those relative to a directory below /proc are recognised; through a symbolic link, a bind mount or another mount of procfs they are not",
        ),
        &[],
    ),
    row(
        "proc-written",
        Process,
        "files that change it when they are written: comm, oom_score_adj, timerslack_ns, coredump_filter, autogroup, attr, uid_map",
        names![],
        at_home(PROCFS),
        &["selflinks"],
    ),
];
