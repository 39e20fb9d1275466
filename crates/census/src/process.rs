//! State shared by the threads of a process: its family, its session and terminal, its limits.

const PROCESS: &str = "crates/abi/src/x86_64/process.rs";
const FAMILY: &str = "crates/keeper/src/calls/fork_and_map.rs";

use crate::Name::{Call, Prctl, Proc, Status};
use crate::Owner::{Process, Session};
use crate::{Row, at_home, carried, invisible, manual, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "process-parent",
        Process,
        "parent, and the process that waits for it",
        names![
            task_struct: real_parent parent children sibling;
            signal_struct: wait_chldexit notify_count
            => Status("PPid"), Proc("children"), Call("getppid"), Call("wait4"), Call("waitid")
        ],
        at_home(FAMILY),
        &["forks", "waits", "identity"],
    ),
    row(
        "process-tracer",
        Process,
        "its tracer, and processes that it traces",
        names![
            task_struct: ptrace ptraced ptracer_cred ptrace_message last_siginfo
            => Call("ptrace")
        ],
        stays("Traced", "crates/keeper/src/moves/eligibility.rs"),
        &[
            "every_stay_reason_is_reported_with_remedy",
            "moved_process_is_visible_and_controllable_at_home",
        ],
    ),
    row(
        "process-exit-code",
        Process,
        "exit status",
        names![
            signal_struct: group_exit_code group_exec_task
            => Call("exit_group"), Call("exit")
        ],
        at_home("crates/keeper/src/events/dispatch.rs"),
        &["exitorders", "waits"],
    ),
    row(
        "process-job-stop",
        Process,
        "stop by job control",
        names![signal_struct: group_stop_count flags => Status("State")],
        at_home("crates/keeper/src/signals/route.rs"),
        &["stops", "jobs", "waits"],
    ),
    row(
        "process-subreaper",
        Process,
        "adopts orphans of its tree",
        names![
            signal_struct: is_child_subreaper has_child_subreaper
            => Prctl(36, "PR_SET_CHILD_SUBREAPER"), Prctl(37, "PR_GET_CHILD_SUBREAPER")
        ],
        at_home("crates/abi/src/x86_64/sub.rs"),
        &["prctls"],
    ),
    row(
        "process-death-signal",
        Process,
        "signal at the end of its parent",
        names![
            task_struct: pdeath_signal
            => Prctl(1, "PR_SET_PDEATHSIG"), Prctl(2, "PR_GET_PDEATHSIG")
        ],
        at_home("crates/abi/src/x86_64/sub.rs"),
        &["prctls", "limits"],
    ),
    row(
        "process-group",
        Session,
        "process group, session, controlling terminal",
        names![
            signal_struct: tty_old_pgrp leader tty
            => Status("NSpgid"), Status("NSsid"), Call("setsid"), Call("setpgid"), Call("getpgid"),
                Call("getsid")
        ],
        at_home(PROCESS),
        &["jobs", "ptys", "identity"],
    ),
    row(
        "process-audit-session",
        Session,
        "login uid and audit session",
        names![
            task_struct: loginuid sessionid;
            signal_struct: audit_tty tty_audit_buf
            => Proc("loginuid"), Proc("sessionid")
        ],
        at_home("crates/abi/src/procfs.rs"),
        &["selflinks"],
    ),
    row(
        "process-limits",
        Process,
        "resource limits",
        names![
            signal_struct: rlim
            => Proc("limits"), Call("setrlimit"), Call("getrlimit"), Call("prlimit64")
        ],
        carried("crates/migrate/src/image/mod.rs"),
        &["rlimits", "limits", "givens"],
    ),
    row(
        "process-limit-cpu",
        Process,
        "RLIMIT_CPU",
        names![],
        stays("UnsupportedCall", "crates/keeper/src/moves/eligibility.rs"),
        &["limits", "givens"],
    ),
    row(
        "process-limit-rttime",
        Process,
        "RLIMIT_RTTIME, RLIMIT_NICE, RLIMIT_RTPRIO",
        names![],
        manual(
            "docs/manual/differences.md",
            "RLIMIT_RTTIME counts where the thread runs under a real-time policy, which a body does not",
        ),
        &[],
    ),
    row(
        "process-oom",
        Process,
        "priority for the kernel's OOM killer",
        names![
            signal_struct: oom_flag_origin oom_score_adj oom_score_adj_min oom_mm
            => Proc("oom_adj"), Proc("oom_score_adj"), Proc("oom_score")
        ],
        at_home("crates/host/src/isolation/sys.rs"),
        &["selflinks"],
    ),
    row(
        "process-dumpable",
        Process,
        "not dumpable: the kernel refuses to let others read its memory",
        names![=> Prctl(3, "PR_GET_DUMPABLE"), Prctl(4, "PR_SET_DUMPABLE")],
        stays("NotDumpable", "crates/keeper/src/moves/eligibility.rs"),
        &["every_stay_reason_is_reported_with_remedy", "prctls"],
    ),
    row(
        "process-core-dump",
        Process,
        "core dump under way, and which mappings go into it",
        names![
            signal_struct: core_state
            => Status("CoreDumping"), Proc("coredump_filter")
        ],
        at_home("crates/keeper/src/signals/coredump.rs"),
        &["moved_process_is_visible_and_controllable_at_home"],
    ),
    row(
        "process-words",
        Process,
        "arguments and environment as others read them",
        names![=> Proc("cmdline"), Proc("environ")],
        carried("crates/host/src/calls/cmdline.rs"),
        &["selflinks", "childfiles", "procself"],
    ),
    row(
        "process-thread-count",
        Process,
        "number of threads",
        names![
            signal_struct: nr_threads quick_threads thread_head live sigcnt
            => Status("Threads"), Proc("task")
        ],
        carried("crates/migrate/src/image/mod.rs"),
        &["statfiles", "crowd"],
    ),
    row(
        "process-exec-locks",
        Process,
        "locks and tick dependencies",
        names![signal_struct: cred_guard_mutex exec_update_lock tick_dep_mask],
        invisible("locks of the kernel that holds it"),
        &[],
    ),
    row(
        "process-kthread",
        Process,
        "threads of the kernel itself",
        names![=> Status("Kthread")],
        invisible("a program is none"),
        &[],
    ),
    row(
        "process-children-of-home",
        Process,
        "memory of a child that a parent at home writes with process_vm_writev",
        names![
            => Call("process_vm_writev"), Call("process_vm_readv"), Call("process_madvise"),
                Call("process_mrelease")
        ],
        manual(
            "docs/manual/differences.md",
            "EFAULT, or lost while it comes home: what runs at home is not traced, and the kernel reports the call to no process",
        ),
        &["copying"],
    ),
    row(
        "process-ptracer",
        Process,
        "tracer that Yama permits",
        names![=> Prctl(0x5961_6d61, "PR_SET_PTRACER")],
        at_home("crates/abi/src/x86_64/sub.rs"),
        &["restrictive_settings_are_handled_or_named"],
    ),
    row(
        "process-kcmp",
        Process,
        "identity of kernel objects",
        names![=> Call("kcmp")],
        stays("UnsupportedCall", PROCESS),
        &["rarecalls"],
    ),
];
