//! Descriptor tables, open files, and objects that watch files. All of it is home's: the deputy has the table.

const FILES: &str = "crates/abi/src/x86_64/files.rs";
const SUB: &str = "crates/abi/src/x86_64/sub.rs";
const REASONS: &str = "crates/keeper/src/moves/eligibility.rs";
const EVENTS: &str = "crates/abi/src/x86_64/events.rs";

use crate::Name::{Call, Proc, Status};
use crate::Owner::{Descriptor, DescriptorTable};
use crate::{Row, at_home, invisible, manual, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "table-of-descriptors",
        DescriptorTable,
        "which numbers are open, close-on-exec, size of the table, threads that share it",
        names![
            task_struct: files;
            files_struct: fdt fdtab close_on_exec_init fd_array next_fd
            => Status("FDSize"), Proc("fd"), Proc("fdinfo"), Call("dup"), Call("close"),
                Call("close_range")
        ],
        at_home(FILES),
        &["descriptors", "closers", "clones"],
    ),
    row(
        "table-internal",
        DescriptorTable,
        "locks and bitmaps",
        names![
            files_struct: count resize_in_progress resize_wait file_lock open_fds_init
                full_fds_bits_init
        ],
        invisible("bookkeeping of home's kernel"),
        &[],
    ),
    row(
        "file-position",
        Descriptor,
        "position, flags, mode, path",
        names![
            file: f_pos f_pos_lock f_flags f_mode f_path __f_path f_inode f_mapping f_op
                f_iocb_flags private_data f_pipe f_cred f_version
            => Call("lseek"), Call("fcntl")
        ],
        at_home(FILES),
        &["files", "descriptors", "opens"],
    ),
    row(
        "file-errors",
        Descriptor,
        "write-back errors that fsync is yet to report",
        names![file: f_wb_err f_sb_err],
        at_home(FILES),
        &["holes"],
    ),
    row(
        "file-internal",
        Descriptor,
        "locks, reference counts, read-ahead",
        names![
            file: f_lock f_count f_ref f_task_work f_llist f_freeptr f_rcuhead f_ra
        ],
        invisible("bookkeeping of home's kernel; read-ahead is for speed"),
        &[],
    ),
    row(
        "file-security",
        Descriptor,
        "label of a security module",
        names![file: f_security],
        at_home(FILES),
        &["apparmor_profile_at_home_holds_away"],
    ),
    row(
        "file-epoll",
        Descriptor,
        "epoll sets and what they watch",
        names![file: f_ep => Call("epoll_create1"), Call("epoll_ctl")],
        at_home(EVENTS),
        &["epolls", "edges"],
    ),
    row(
        "file-owner",
        Descriptor,
        "owner of SIGIO, its signal",
        names![
            file: f_owner
            => Call("fcntl(F_SETOWN)"), Call("fcntl(F_SETOWN_EX)"), Call("fcntl(F_SETSIG)")
        ],
        at_home("crates/tracee/src/owners.rs"),
        &["sigioowner"],
    ),
    row(
        "file-locks",
        Descriptor,
        "record locks, locks of open file descriptions, flock",
        names![=> Call("flock"), Call("fcntl(F_SETLK)"), Call("fcntl(F_OFD_SETLK)")],
        at_home(SUB),
        &["locks", "descriptors"],
    ),
    row(
        "file-leases",
        Descriptor,
        "leases and notification of directories",
        names![=> Call("fcntl(F_SETLEASE)"), Call("fcntl(F_NOTIFY)")],
        at_home(SUB),
        &["locks"],
    ),
    row(
        "file-seals",
        Descriptor,
        "seals of a memfd",
        names![=> Call("fcntl(F_ADD_SEALS)"), Call("memfd_create")],
        at_home(SUB),
        &["memfds"],
    ),
    row(
        "file-direct",
        Descriptor,
        "O_DIRECT: devices write into its memory behind the page tables",
        names![=> Call("open(O_DIRECT)")],
        at_home(REASONS),
        &["rarecalls"],
    ),
    row(
        "fd-inotify",
        Descriptor,
        "inotify marks",
        names![=> Call("inotify_init1"), Call("inotify_add_watch")],
        at_home(FILES),
        &["watches", "ipc"],
    ),
    row(
        "fd-fanotify",
        Descriptor,
        "fanotify marks; permission events of a group wait for an answer",
        names![=> Call("fanotify_init"), Call("fanotify_mark")],
        manual(
            "docs/manual/differences.md",
            "the call comes home and the marks stay; not tried that a keeper which opens a file waits for an answer of its own tree",
        ),
        &["rarecalls"],
    ),
    row(
        "fd-signalfd",
        Descriptor,
        "signals that are read from a descriptor",
        names![sighand_struct: signalfd_wqh => Call("signalfd4")],
        at_home(REASONS),
        &["signalfds"],
    ),
    row(
        "fd-timerfd",
        Descriptor,
        "timers that are read from a descriptor",
        names![=> Call("timerfd_create"), Call("timerfd_settime")],
        at_home(EVENTS),
        &["timerfds"],
    ),
    row(
        "fd-eventfd",
        Descriptor,
        "counters that are read from a descriptor",
        names![=> Call("eventfd2")],
        at_home(EVENTS),
        &["eventfds"],
    ),
    row(
        "fd-pidfd",
        Descriptor,
        "processes as descriptors",
        names![=> Call("pidfd_open"), Call("pidfd_getfd"), Call("pidfd_send_signal")],
        at_home("crates/abi/src/x86_64/process.rs"),
        &["pidfds"],
    ),
    row(
        "fd-pipes-and-sockets",
        Descriptor,
        "pipes, sockets, terminals, message queues",
        names![=> Call("pipe2"), Call("socket"), Call("mq_open")],
        at_home("crates/abi/src/x86_64/sockets.rs"),
        &["pipes", "sockets", "streams", "ptys", "mqueues", "rights"],
    ),
    row(
        "fd-mq-notify",
        Descriptor,
        "process that is notified of the next message of a queue",
        names![=> Call("mq_notify")],
        at_home(EVENTS),
        &["mqueues", "ipc"],
    ),
    row(
        "fd-userfaultfd",
        Descriptor,
        "a userfaultfd of its own, or one that it was passed",
        names![],
        stays("UnsupportedCall", REASONS),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "fd-perf",
        Descriptor,
        "a perf event of its own",
        names![],
        stays("UnsupportedCall", REASONS),
        &["rarecalls"],
    ),
    row(
        "fd-proc",
        Descriptor,
        "open files of /proc that show its own memory or state",
        names![],
        stays("ProcSelfOpen", REASONS),
        &["every_stay_reason_is_reported_with_remedy", "memfile"],
    ),
    row(
        "fd-bpf",
        Descriptor,
        "BPF maps and programs",
        names![=> Call("bpf")],
        stays("UnsupportedCall", "crates/abi/src/x86_64/system.rs"),
        &["rarecalls"],
    ),
    row(
        "fd-landlock",
        Descriptor,
        "landlock: rules that hold for the deputy",
        names![=> Call("landlock_create_ruleset"), Call("landlock_restrict_self")],
        at_home("crates/abi/src/x86_64/process.rs"),
        &["rarecalls"],
    ),
    row(
        "fd-handles",
        Descriptor,
        "handles of files",
        names![=> Call("name_to_handle_at"), Call("open_by_handle_at")],
        stays("UnsupportedCall", FILES),
        &["rarecalls"],
    ),
    row(
        "fd-zero-copy",
        Descriptor,
        "pages that a socket or pipe still reads: MSG_ZEROCOPY, vmsplice",
        names![=> Call("vmsplice"), Call("sendmsg")],
        at_home("crates/abi/src/place.rs"),
        &["splices", "copying"],
    ),
];
