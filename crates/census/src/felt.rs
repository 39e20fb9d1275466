//! Side effects of Armento that the program and its family can notice: in memory, descriptors, children, results of
//! calls.

use crate::Owner::Trace;
use crate::{Row, at_home, carried, invisible, manual, names, row};

const RUN: &str = "docs/manual/run.md";

pub const ROWS: &[Row] = &[
    row(
        "trace-own-region",
        Trace,
        "Armento's region in maps of a process at home or away",
        names![],
        invisible(
            "a process that reads its own maps is at home, and its region is unmapped before it runs there",
        ),
        &["mapsfile"],
    ),
    row(
        "trace-address-space",
        Trace,
        "addresses that a program may request and Armento's region has",
        names![],
        manual(
            "docs/manual/differences.md",
            "MAP_FIXED_NOREPLACE, and a hint, between 6a0000000000 and 6b0000000000 fail away only; RLIMIT_AS counts Armento's region",
        ),
        &[],
    ),
    row(
        "trace-remapped",
        Trace,
        "the old range after mremap has moved a mapping away",
        names![],
        invisible(
            "mremap is the body's own call, and Armento maps nothing at an address that the kernel chooses",
        ),
        &["oldranges"],
    ),
    row(
        "trace-vm-flags",
        Trace,
        "uw and other VmFlags that the program never asked for",
        names![],
        manual(
            "docs/manual/differences.md",
            "smaps shows uw while writes are watched (1 of 4 runs under storm 20)",
        ),
        &[],
    ),
    row(
        "trace-split-mappings",
        Trace,
        "mappings that a move leaves split or joined otherwise",
        names![],
        carried("crates/migrate/src/image/areas.rs"),
        &["mapsfile"],
    ),
    row(
        "trace-descriptors",
        Trace,
        "Armento's descriptors in the program's table",
        names![],
        invisible(
            "taken from outside by pidfd_getfd; a memory file has a number for the duration of one call while its thread is stopped",
        ),
        &["descriptors", "closers"],
    ),
    row(
        "trace-lowest-descriptor",
        Trace,
        "the lowest free descriptor while a thread of the same table is stopped in map_region",
        names![],
        invisible("all threads that share the table are stopped then"),
        &["clones"],
    ),
    row(
        "trace-children",
        Trace,
        "children and reaping by Armento",
        names![],
        at_home("crates/keeper/src/launch/start.rs"),
        &["waits", "forks"],
    ),
    row(
        "trace-stops-of-children",
        Trace,
        "SIGCHLD and wait results for Armento's stops",
        names![],
        at_home("crates/keeper/src/signals/route.rs"),
        &["stops", "waits"],
    ),
    row(
        "trace-cpu-time",
        Trace,
        "CPU time that a deputy and Armento's injected calls use",
        names![],
        manual(
            RUN,
            "at home its kernel answers, which counts only what was used at home",
        ),
        &["cputime"],
    ),
    row(
        "trace-eintr",
        Trace,
        "EINTR of calls that a stop has ended",
        names![],
        carried("crates/migrate/src/image/thread.rs"),
        &["restarts", "eintrs", "blocking_call_survives_every_move"],
    ),
    row(
        "trace-short-writes",
        Trace,
        "short results of writes that a stop has ended",
        names![],
        carried("crates/keeper/src/restart/partial_io.rs"),
        &["partwrites", "pipes"],
    ),
    row(
        "trace-short-reads",
        Trace,
        "short results of reads that a stop has ended: devices, getrandom, /proc, MSG_WAITALL",
        names![],
        carried("crates/tracee/src/endless.rs"),
        &["shortreads"],
    ),
    row(
        "trace-short-copies",
        Trace,
        "short results of splice, sendfile, copy_file_range that a stop has ended",
        names![],
        manual(
            "docs/manual/differences.md",
            "the kernel ends each early at a stop, as when a signal comes: callers go on from what was done",
        ),
        &["copying", "splices"],
    ),
    row(
        "trace-wakes",
        Trace,
        "waits that are woken without cause",
        names![],
        carried("crates/keeper/src/restart/spurious_wakeups.rs"),
        &["restarts", "pollers", "conds"],
    ),
    row(
        "trace-spurious-futex",
        Trace,
        "futex waits that return 0 or EAGAIN without a wake",
        names![],
        invisible("futex(2) allows both, and every user checks"),
        &["pelted"],
    ),
    row(
        "trace-extra-thread",
        Trace,
        "Armento's threads in the program's task directory",
        names![],
        invisible(
            "deputies are its own threads; the keeper and the host are processes of their own",
        ),
        &["statfiles", "crowd"],
    ),
    row(
        "trace-stale-files",
        Trace,
        "files that a node keeps and considers equal to home's current ones",
        names![],
        carried("crates/migrate/src/image/files.rs"),
        &["stales"],
    ),
    row(
        "trace-caches",
        Trace,
        "speed: caches, huge pages and NUMA places after a move",
        names![],
        invisible("speed is not guaranteed"),
        &[],
    ),
];
