//! State of one thread, beside registers (`registers.rs`), scheduling and signals.

use crate::Name::{Call, Prctl, Proc, Ptrace, Status};
use crate::Owner::Thread;
use crate::{Row, at_home, carried, names, row, stays};

const THREAD: &str = "crates/migrate/src/image/thread.rs";
const FAMILY: &str = "crates/keeper/src/calls/fork_and_map.rs";

pub const ROWS: &[Row] = &[
    row(
        "thread-name",
        Thread,
        "name of the thread",
        names![
            task_struct: comm
            => Proc("comm"), Status("Name"), Prctl(15, "PR_SET_NAME"), Prctl(16, "PR_GET_NAME")
        ],
        carried(THREAD),
        &["prctls", "selflinks"],
    ),
    row(
        "thread-numbers",
        Thread,
        "pid, tid, and what they are in each pid namespace",
        names![
            task_struct: pid tgid thread_pid pid_links thread_group;
            signal_struct: pids
            => Status("Tgid"), Status("Pid"), Status("NStgid"), Status("NSpid"), Call("getpid"),
                Call("gettid")
        ],
        carried("crates/migrate/src/image/mod.rs"),
        &["identity", "statfiles"],
    ),
    row(
        "thread-rseq",
        Thread,
        "registration of restartable sequences: address, length, signature",
        names![
            task_struct: rseq rseq_len rseq_sig rseq_event_mask rseq_slice
            => Call("rseq"), Ptrace(0x420f, "PTRACE_GET_RSEQ_CONFIGURATION")
        ],
        carried(THREAD),
        &["threads"],
    ),
    row(
        "thread-robust-list",
        Thread,
        "head of the list of robust futexes",
        names![
            task_struct: robust_list compat_robust_list
            => Call("set_robust_list"), Call("get_robust_list")
        ],
        carried(THREAD),
        &["pimutexes", "threads", "exitorders"],
    ),
    row(
        "thread-clear-tid",
        Thread,
        "address that the kernel clears when the thread ends",
        names![
            task_struct: clear_child_tid set_child_tid
            => Call("set_tid_address"), Prctl(40, "PR_GET_TID_ADDRESS")
        ],
        carried(THREAD),
        &["exitorders", "clones"],
    ),
    row(
        "thread-pi-futexes",
        Thread,
        "futexes with priority inheritance that it holds or waits for",
        names![
            task_struct: pi_state_list pi_state_cache futex_exit_mutex futex_state pi_lock
                pi_waiters pi_top_task pi_blocked_on blocked_on blocker
            => Call("futex"), Call("futex_waitv"), Call("futex_wait"), Call("futex_wake"),
                Call("futex_requeue")
        ],
        carried(THREAD),
        &["pimutexes"],
    ),
    row(
        "thread-restart-block",
        Thread,
        "a relative wait that a stop has interrupted: poll, nanosleep, futex, continued by restart_syscall",
        names![
            task_struct: restart_block;
            restart_block: arch_data fn futex nanosleep poll
            => Call("restart_syscall")
        ],
        at_home("crates/keeper/src/moves/hollow.rs"),
        &["restarts", "eintrs", "timers", "futexwaits"],
    ),
    row(
        "thread-user-dispatch",
        Thread,
        "syscall user dispatch: range that passes and selector byte",
        names![
            task_struct: syscall_dispatch
            => Prctl(59, "PR_SET_SYSCALL_USER_DISPATCH"),
                Ptrace(0x4210, "PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG"),
                Ptrace(0x4211, "PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG")
        ],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["dispatches"],
    ),
    row(
        "thread-seccomp",
        Thread,
        "its own seccomp filters",
        names![
            task_struct: seccomp
            => Status("Seccomp"), Status("Seccomp_filters"), Proc("seccomp_cache"),
                Prctl(21, "PR_GET_SECCOMP"), Prctl(22, "PR_SET_SECCOMP"), Call("seccomp"),
                Ptrace(0x420c, "PTRACE_SECCOMP_GET_FILTER"),
                Ptrace(0x420d, "PTRACE_SECCOMP_GET_METADATA")
        ],
        stays("OwnFilter", "crates/keeper/src/moves/eligibility.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "thread-seccomp-listener",
        Thread,
        "a seccomp filter of a parent, from before armento run (containers, browsers): inherited",
        names![
            => Prctl(38, "PR_SET_NO_NEW_PRIVS"), Prctl(39, "PR_GET_NO_NEW_PRIVS"),
                Status("NoNewPrivs")
        ],
        stays("OwnFilter", "crates/keeper/src/moves/eligibility.rs"),
        &["prctls"],
    ),
    row(
        "thread-personality",
        Thread,
        "personality(2)",
        names![task_struct: personality => Proc("personality"), Call("personality")],
        carried("crates/host/src/moves/build_threads.rs"),
        &["personas"],
    ),
    row(
        "thread-undo-lists",
        Thread,
        "undo lists of System V semaphores",
        names![task_struct: sysvsem => Call("semop"), Call("semtimedop")],
        at_home("crates/abi/src/x86_64/ipc.rs"),
        &["undos"],
    ),
    row(
        "thread-vfork",
        Thread,
        "a vfork child that has its parent's memory, and the parent that waits for it",
        names![task_struct: vfork_done => Call("vfork")],
        stays("Busy", "crates/keeper/src/moves/eligibility.rs"),
        &["spawns", "spawnfails"],
    ),
    row(
        "thread-io-uring",
        Thread,
        "io_uring contexts",
        names![
            task_struct: io_uring
            => Call("io_uring_setup"), Call("io_uring_enter"), Call("io_uring_register")
        ],
        stays("IoUring", "crates/keeper/src/moves/eligibility.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "thread-parent-by-clone",
        Thread,
        "exit signal, parent by CLONE_PARENT, flags of clone that the kernel remembers",
        names![
            task_struct: exit_signal group_leader
            => Call("clone"), Call("clone3"), Call("fork")
        ],
        at_home(FAMILY),
        &["clones"],
    ),
];
