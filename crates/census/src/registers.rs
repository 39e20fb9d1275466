//! State of one thread in the processor: registers, and rights to use parts of it.

use crate::Name::{ArchPrctl, Call, Prctl, Proc, Ptrace, VmFlag};
use crate::Owner::{Process, Thread};
use crate::{Row, carried, invisible, manual, names, row, stays};

const THREAD: &str = "crates/migrate/src/image/thread.rs";

pub const ROWS: &[Row] = &[
    row(
        "thread-registers",
        Thread,
        "general registers, flags, orig_rax",
        names![
            thread_struct: sp;
            task_struct: thread stack stack_canary
            => Ptrace(12, "PTRACE_GETREGS"), Ptrace(13, "PTRACE_SETREGS"),
                Ptrace(3, "PTRACE_PEEKUSR"), Ptrace(6, "PTRACE_POKEUSR"), Proc("syscall")
        ],
        carried(THREAD),
        &["registers"],
    ),
    row(
        "thread-extended-state",
        Thread,
        "x87, SSE, AVX, AVX-512, PKRU in XSAVE form",
        names![
            thread_struct: fpu pkru
            => Ptrace(0x4204, "PTRACE_GETREGSET"), Ptrace(0x4205, "PTRACE_SETREGSET"),
                Ptrace(14, "PTRACE_GETFPREGS"), Ptrace(15, "PTRACE_SETFPREGS"),
                Ptrace(18, "PTRACE_GETFPXREGS"), Ptrace(19, "PTRACE_SETFPXREGS")
        ],
        carried(THREAD),
        &["vectors", "fpenv", "registers"],
    ),
    row(
        "thread-xcomp-permission",
        Process,
        "permission to use AMX tiles, granted by ARCH_REQ_XCOMP_PERM",
        names![
            => ArchPrctl(0x1021, "ARCH_GET_XCOMP_SUPP"), ArchPrctl(0x1022, "ARCH_GET_XCOMP_PERM"),
                ArchPrctl(0x1023, "ARCH_REQ_XCOMP_PERM")
        ],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["raremodes"],
    ),
    row(
        "thread-xcomp-guest-permission",
        Process,
        "the same for virtual machines that it runs by KVM",
        names![
            => ArchPrctl(0x1024, "ARCH_GET_XCOMP_GUEST_PERM"),
                ArchPrctl(0x1025, "ARCH_REQ_XCOMP_GUEST_PERM")
        ],
        invisible(
            "acts only on /dev/kvm, which has mappings of a device: such a process stays home",
        ),
        &[],
    ),
    row(
        "thread-bases",
        Thread,
        "FS and GS base",
        names![
            thread_struct: fsbase gsbase
            => ArchPrctl(0x1001, "ARCH_SET_GS"), ArchPrctl(0x1002, "ARCH_SET_FS"),
                ArchPrctl(0x1003, "ARCH_GET_FS"), ArchPrctl(0x1004, "ARCH_GET_GS"),
                Ptrace(30, "PTRACE_ARCH_PRCTL")
        ],
        carried(THREAD),
        &["threads"],
    ),
    row(
        "thread-segments",
        Thread,
        "selectors in DS, ES, FS, GS",
        names![thread_struct: es ds fsindex gsindex],
        carried(THREAD),
        &["raremodes"],
    ),
    row(
        "thread-tls-segments",
        Thread,
        "descriptors in the GDT for thread-local storage of 32-bit code",
        names![
            thread_struct: tls_array
            => Ptrace(25, "PTRACE_GET_THREAD_AREA"), Ptrace(26, "PTRACE_SET_THREAD_AREA")
        ],
        stays("ThirtyTwoBit", "crates/host/src/calls/dispatch.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "thread-debug-registers",
        Thread,
        "hardware breakpoints that a tracer set and left behind when it detached",
        names![thread_struct: ptrace_bps virtual_dr6 ptrace_dr7],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "thread-io-ports",
        Thread,
        "ioperm and iopl",
        names![
            thread_struct: io_bitmap iopl_emul iopl_warn
            => Call("ioperm"), Call("iopl")
        ],
        manual(
            "docs/manual/differences.md",
            "the call comes home; afterwards the process leaves again, without its ports. Privileged programs only",
        ),
        &[],
    ),
    row(
        "thread-last-fault",
        Thread,
        "CR2, trap number and error code of the last fault, which a signal frame shows",
        names![thread_struct: cr2 trap_nr error_code],
        invisible(
            "set anew before every frame of a fault; a frame of another signal shows zeros or old values, which no program may rely on",
        ),
        &[],
    ),
    row(
        "thread-shadow-stack",
        Thread,
        "user shadow stack: SSP, features, lock, its mapping (VmFlag ss)",
        names![
            thread_struct: shstk features features_locked
            => ArchPrctl(0x5001, "ARCH_SHSTK_ENABLE"), ArchPrctl(0x5002, "ARCH_SHSTK_DISABLE"),
                ArchPrctl(0x5003, "ARCH_SHSTK_LOCK"), ArchPrctl(0x5004, "ARCH_SHSTK_UNLOCK"),
                ArchPrctl(0x5005, "ARCH_SHSTK_STATUS"), Call("map_shadow_stack"), VmFlag("ss")
        ],
        stays("KernelState", "crates/migrate/src/image/flags.rs"),
        &["raremodes"],
    )
    .since(6, 6),
    row(
        "thread-flags",
        Thread,
        "thread_info.flags: TIF_NOTSC, TIF_NOCPUID, TIF_SSBD and others have rows of their own under prctl",
        names![task_struct: thread_info atomic_flags],
        invisible(
            "the flags that a program sets are listed one by one; the others are bookkeeping of the kernel",
        ),
        &[],
    ),
    row(
        "thread-rseq-cpu",
        Thread,
        "number of the processor in getcpu, rdpid, rseq.cpu_id, rseq.mm_cid",
        names![
            task_struct: recent_used_cpu wake_cpu mm_cid last_mm_cid migrate_from_cpu
                mm_cid_active cid_work;
            mm_struct: pcpu_cid mm_cid_next_scan nr_cpus_allowed max_nr_cid cpus_allowed_lock
                cpu_bitmap mm_cid
            => Call("getcpu")
        ],
        manual(
            "docs/manual/differences.md",
            "a body reads numbers of its node, which may be larger than any that home has",
        ),
        &["rarecalls"],
    ),
    row(
        "thread-machine-checks",
        Thread,
        "a memory error that was found, and the policy for it",
        names![
            task_struct: mce_vaddr mce_kflags mce_addr mce_ripv mce_whole_page __mce_reserved
                mce_kill_me mce_count l1d_flush_kill
            => Prctl(33, "PR_MCE_KILL"), Prctl(34, "PR_MCE_KILL_GET")
        ],
        manual(
            "docs/manual/differences.md",
            "the policy is set at home; a memory error of another node follows that node's",
        ),
        &["raremodes"],
    ),
    row(
        "thread-closid",
        Thread,
        "resctrl group: share of caches and memory bandwidth",
        names![task_struct: closid rmid => Proc("cpu_resctrl_groups")],
        invisible(
            "an administrator's share of one machine; how fast a body runs is the farm's to decide",
        ),
        &[],
    ),
    row(
        "thread-tsc-as-read",
        Thread,
        "the time-stamp counter as rdtsc reads it",
        names![=> Prctl(13, "PR_GET_TIMING"), Prctl(14, "PR_SET_TIMING")],
        manual(
            "docs/manual/run.md",
            "rdtsc read directly may jump between machines",
        ),
        &["prctls"],
    ),
];
