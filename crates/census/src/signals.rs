//! Signals: dispositions, masks, stacks, pending signals.

const SIGS: &str = "crates/migrate/src/image/sigs.rs";
const THREAD: &str = "crates/migrate/src/image/thread.rs";
const QUEUE: &str = "crates/keeper/src/signals/requeue.rs";

use crate::Name::{Call, Status};
use crate::Owner::{PendingSignal, Process, Thread};
use crate::{Row, at_home, carried, invisible, manual, names, row};

pub const ROWS: &[Row] = &[
    row(
        "sig-actions",
        Process,
        "handlers, their flags, masks and restorers; ignored signals",
        names![
            task_struct: sighand;
            sighand_struct: action
            => Status("SigIgn"), Status("SigCgt"), Call("rt_sigaction")
        ],
        carried(SIGS),
        &["signals", "handlers", "deaftraps"],
    ),
    row(
        "sig-mask",
        Thread,
        "mask, and the one that a call has put aside (ppoll, sigsuspend)",
        names![
            task_struct: blocked real_blocked saved_sigmask restore_sigmask
            => Status("SigBlk"), Call("rt_sigprocmask"), Call("rt_sigsuspend")
        ],
        carried("crates/migrate/src/image/masked.rs"),
        &["signals", "outlets", "selects"],
    ),
    row(
        "sig-stack",
        Thread,
        "alternate stack, SS_AUTODISARM",
        names![
            task_struct: sas_ss_sp sas_ss_size sas_ss_flags
            => Call("sigaltstack")
        ],
        carried(THREAD),
        &["handlers", "signals"],
    ),
    row(
        "sig-pending",
        PendingSignal,
        "signals that wait for a thread or the process, in their order, with siginfo",
        names![
            task_struct: pending;
            signal_struct: shared_pending
            => Status("SigPnd"), Status("ShdPnd"), Call("rt_sigpending"), Call("rt_sigqueueinfo"),
                Call("rt_tgsigqueueinfo")
        ],
        carried(QUEUE),
        &["queued", "signals", "sigwaits"],
    ),
    row(
        "sig-pending-faults",
        PendingSignal,
        "blocked signals with the numbers of faults, and SIGPIPE, that wait",
        names![],
        carried("crates/keeper/src/signals/requeue.rs"),
        &["pendings", "faultloop"],
    ),
    row(
        "sig-queue-count",
        PendingSignal,
        "how many signals are queued, against RLIMIT_SIGPENDING",
        names![=> Status("SigQ")],
        at_home("crates/abi/src/procfs.rs"),
        &["rlimits"],
    ),
    row(
        "sig-senders",
        PendingSignal,
        "pid and uid of the sender as its namespaces number them",
        names![],
        carried("crates/host/src/state/siginfo_cookies.rs"),
        &["queued", "identity"],
    ),
    row(
        "sig-thread-directed",
        PendingSignal,
        "signals for one thread that are sent at home by rt_tgsigqueueinfo",
        names![],
        manual(
            "docs/manual/differences.md",
            "the kernel does not report which thread a sender at home meant: such a signal counts as the process's",
        ),
        &[],
    ),
    row(
        "sig-multiprocess",
        PendingSignal,
        "signals for a group while it forks",
        names![signal_struct: multiprocess curr_target],
        at_home("crates/keeper/src/calls/fork_and_map.rs"),
        &["forks"],
    ),
    row(
        "sig-wait",
        Thread,
        "sigtimedwait, sigsuspend, pause under way",
        names![=> Call("rt_sigtimedwait"), Call("pause")],
        carried("crates/host/src/threads/sigtimedwait.rs"),
        &["sigwaits", "outlets"],
    ),
    row(
        "sig-internal",
        Process,
        "locks and reference counts",
        names![task_struct: signal; sighand_struct: siglock count],
        invisible("bookkeeping of the kernel that holds it"),
        &[],
    ),
];
