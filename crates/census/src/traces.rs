//! Side effects of Armento that others see: in /proc, on files, in accounts.

use crate::Name::Status;
use crate::Owner::Trace;
use crate::{Row, at_home, carried, invisible, manual, names, row};

const RUN: &str = "docs/manual/run.md";

pub const ROWS: &[Row] = &[
    row(
        "trace-tracer",
        Trace,
        "TracerPid, while a restarted call is completed or CPU time is corrected",
        names![=> Status("TracerPid")],
        manual(
            "docs/manual/differences.md",
            "a program at home that reads it in that moment sees Armento's keeper",
        ),
        &["statfiles"],
    ),
    row(
        "trace-tracer-of-spread",
        Trace,
        "TracerPid under --spread",
        names![],
        manual(
            RUN,
            "a program that is followed is traced, and status names a tracer",
        ),
        &["statfiles"],
    ),
    row(
        "trace-debuggers",
        Trace,
        "strace -p and gdb -p from outside the tree",
        names![],
        manual(
            RUN,
            "while CPU time is corrected, and under --spread, they cannot attach",
        ),
        &["moved_process_is_visible_and_controllable_at_home"],
    ),
    row(
        "trace-debuggers-within",
        Trace,
        "strace -p and gdb -p from within a tree on one of the same tree",
        names![],
        manual(
            "docs/manual/differences.md",
            "EPERM: the process is not detached before the call is made",
        ),
        &[],
    ),
    row(
        "trace-set-uid",
        Trace,
        "an exec of a traced program gives no rights",
        names![],
        manual(
            RUN,
            "a set-uid program runs at home untraced; one that its user may not read, exec'd without a fork under --spread, runs without its rights",
        ),
        &["spread_places_every_exec_and_keeps_rights"],
    ),
    row(
        "trace-state",
        Trace,
        "state and CPU in /proc/PID/stat as ps and top at home read them",
        names![],
        manual(
            "docs/manual/hold.md",
            "of one that computes away: S and 0 %; of one that is stopped: t",
        ),
        &["childfiles"],
    ),
    row(
        "trace-resident",
        Trace,
        "memory, maps and smaps of one that is away, read at home by others than its tree",
        names![],
        manual(
            "docs/manual/hold.md",
            "those of its hollow deputy: no program in maps, a few KiB resident",
        ),
        &["childfiles"],
    ),
    row(
        "trace-memory-of-home",
        Trace,
        "/proc/PID/mem of one that is away, opened at home",
        names![],
        manual(
            "docs/manual/differences.md",
            "EIO, or zeros while it comes home: the kernel reports the open to no process",
        ),
        &["memfile"],
    ),
    row(
        "trace-wchan",
        Trace,
        "wchan, stack and syscall of one that is away, read at home by others",
        names![],
        manual("docs/manual/hold.md", "show the wait of its deputy"),
        &[],
    ),
    row(
        "trace-inotify",
        Trace,
        "inotify events of files that Armento opens: the program, what it maps",
        names![],
        manual(
            "docs/manual/differences.md",
            "watchers outside the tree see IN_OPEN, IN_ACCESS and IN_CLOSE_NOWRITE when a file goes to a node for the first time; within the tree IN_CLOSE_NOWRITE is seen now and then",
        ),
        &["quietfiles"],
    ),
    row(
        "trace-fanotify",
        Trace,
        "fanotify events, and permission events, of the same opens",
        names![],
        manual(
            "docs/manual/differences.md",
            "as inotify; a program that answers permission events and is of the same tree may be stopped while Armento waits for it",
        ),
        &[],
    ),
    row(
        "trace-atime",
        Trace,
        "access times",
        names![],
        manual(
            "docs/manual/differences.md",
            "a mapped file is read whole at a move: with relatime its atime changes later than natively, if it was written since it was mapped",
        ),
        &[],
    ),
    row(
        "trace-held-files",
        Trace,
        "files that Armento keeps open when the program has closed and unmapped them",
        names![],
        invisible(
            "closed when the last process of its tree is home (crates/keeper/src/calls/fork_and_map.rs); umount comes home first",
        ),
        &["stales"],
    ),
    row(
        "trace-leases",
        Trace,
        "leases that Armento takes on files that are read ahead",
        names![],
        manual(
            "docs/manual/files.md",
            "an open of such a file for writing waits some microseconds; with O_NONBLOCK it may fail with EWOULDBLOCK",
        ),
        &["readers"],
    ),
    row(
        "trace-posts",
        Trace,
        "writes and closes that are answered before they are made",
        names![],
        invisible(
            "what the tree does next is made behind them (crates/keeper/src/deputy/posts.rs)",
        ),
        &["posts"],
    ),
    row(
        "trace-directories",
        Trace,
        "directories that Armento reads and watches for lookups",
        names![],
        manual(
            "docs/manual/files.md",
            "watchers outside the tree see them opened, their time of access may change, and their file system is busy for two seconds",
        ),
        &["lookups"],
    ),
    row(
        "trace-attributes",
        Trace,
        "files that Armento holds open with a lease so that stat of them is answered away",
        names![],
        manual(
            "docs/manual/files.md",
            "a process outside the tree that opens one for writing waits microseconds, or gets EWOULDBLOCK; it gets no write lease",
        ),
        &["attributes"],
    ),
    row(
        "trace-devices",
        Trace,
        "reads and writes of /dev/null and the like that home does not see",
        names![],
        manual(
            "docs/manual/files.md",
            "/proc/PID/io and inotify on the device lack them",
        ),
        &["devices"],
    ),
    row(
        "trace-leases-of-mappings",
        Trace,
        "leases that Armento takes on files that are mapped shared and read-only",
        names![],
        manual(
            "docs/manual/differences.md",
            "an open of such a file for writing waits until the keeper releases the lease",
        ),
        &[],
    ),
    row(
        "trace-position",
        Trace,
        "position in fdinfo of a file that is read ahead",
        names![],
        manual("docs/manual/files.md", "fdinfo may be half a second behind"),
        &["selflinks"],
    ),
    row(
        "trace-keeper-process",
        Trace,
        "the keeper in ps, in the user's count of processes and in limits",
        names![],
        manual(
            "docs/manual/differences.md",
            "one process a tree and its threads count against RLIMIT_NPROC and pids.max",
        ),
        &[],
    ),
    row(
        "trace-dmesg",
        Trace,
        "what others read of the node: load, memory, audit records of ptrace",
        names![],
        manual(
            "docs/manual/differences.md",
            "audit and Yama log Armento's ptrace at home",
        ),
        &[],
    ),
    row(
        "trace-core",
        Trace,
        "core dumps: mappings and registers",
        names![],
        carried("crates/keeper/src/signals/coredump.rs"),
        &["moved_process_is_visible_and_controllable_at_home"],
    ),
    row(
        "trace-exec-text-busy",
        Trace,
        "ETXTBSY for writers of the program's file",
        names![],
        at_home("crates/keeper/src/moves/hollow.rs"),
        &["alike"],
    ),
];
