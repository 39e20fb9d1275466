//! prctl(2) and arch_prctl(2): options without a row together with the state that they change.

use crate::Name::{ArchPrctl, Prctl, Status};
use crate::Owner::{AddressSpace, Process, Thread};
use crate::{Row, at_home, carried, invisible, manual, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "prctl-tsc",
        Thread,
        "rdtsc raises SIGSEGV",
        names![=> Prctl(25, "PR_GET_TSC"), Prctl(26, "PR_SET_TSC")],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["every_stay_reason_is_reported_with_remedy", "tsc"],
    ),
    row(
        "prctl-cpuid",
        Thread,
        "cpuid raises SIGSEGV",
        names![
            => ArchPrctl(0x1011, "ARCH_GET_CPUID"), ArchPrctl(0x1012, "ARCH_SET_CPUID")
        ],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["raremodes"],
    ),
    row(
        "prctl-speculation",
        Thread,
        "speculation controls: store bypass, indirect branches, flush of L1D",
        names![
            => Prctl(52, "PR_GET_SPECULATION_CTRL"), Prctl(53, "PR_SET_SPECULATION_CTRL"),
                Status("Speculation_Store_Bypass"), Status("SpeculationIndirectBranch")
        ],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["raremodes"],
    ),
    row(
        "prctl-mdwe",
        AddressSpace,
        "memory that was writable never becomes executable",
        names![=> Prctl(65, "PR_SET_MDWE"), Prctl(66, "PR_GET_MDWE")],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["raremodes"],
    )
    .since(6, 3),
    row(
        "prctl-memory-merge",
        AddressSpace,
        "KSM for all of its memory",
        names![=> Prctl(67, "PR_SET_MEMORY_MERGE"), Prctl(68, "PR_GET_MEMORY_MERGE")],
        manual("docs/manual/differences.md", "set at home; the memory of a body is not merged, and mappings that come home have no flag mg"),
        &["raremodes"],
    )
    .since(6, 4),
    row(
        "prctl-thp-disable",
        AddressSpace,
        "no transparent huge pages",
        names![
            => Prctl(41, "PR_SET_THP_DISABLE"), Prctl(42, "PR_GET_THP_DISABLE"),
                Status("THP_enabled")
        ],
        manual("docs/manual/differences.md", "asked, home answers; but a body has huge pages all the same, which mincore and its resident size show"),
        &["prctls"],
    ),
    row(
        "prctl-futex-hash",
        AddressSpace,
        "buckets of the private futex hash",
        names![=> Prctl(78, "PR_FUTEX_HASH")],
        invisible("speed of futexes only; the option comes home, and home's own table answers"),
        &[],
    )
    .since(6, 16),
    row(
        "prctl-timer-ids",
        Process,
        "timer_create takes the number that it is given",
        names![
            signal_struct: timer_create_restore_ids
            => Prctl(77, "PR_TIMER_CREATE_RESTORE_IDS")
        ],
        at_home("crates/abi/src/x86_64/events.rs"),
        &["raremodes"],
    )
    .since(6, 15),
    row(
        "prctl-rseq-slice",
        Thread,
        "extension of time slices by rseq",
        names![=> Prctl(79, "PR_RSEQ_SLICE_EXTENSION")],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &[],
    )
    .since(7, 0),
    row(
        "prctl-cfi",
        Thread,
        "control-flow integrity of user code, generic form of shadow stacks",
        names![
            => Prctl(74, "PR_GET_SHADOW_STACK_STATUS"), Prctl(75, "PR_SET_SHADOW_STACK_STATUS"),
                Prctl(76, "PR_LOCK_SHADOW_STACK_STATUS")
        ],
        invisible("EINVAL on x86-64, which has them in arch_prctl"),
        &[],
    )
    .since(6, 13),
    row(
        "prctl-mm",
        AddressSpace,
        "bounds of code, data, heap, stack, arguments and environment; auxiliary vector; program file",
        names![=> Prctl(35, "PR_SET_MM"), Prctl(0x4155_5856, "PR_GET_AUXV")],
        carried("crates/migrate/src/image/mm.rs"),
        &["procself", "statfiles"],
    ),
    row(
        "prctl-tagged-addresses",
        AddressSpace,
        "linear address masking (LAM), untag mask",
        names![
            => ArchPrctl(0x4001, "ARCH_GET_UNTAG_MASK"),
                ArchPrctl(0x4002, "ARCH_ENABLE_TAGGED_ADDR"),
                ArchPrctl(0x4003, "ARCH_GET_MAX_TAG_BITS"),
                ArchPrctl(0x4004, "ARCH_FORCE_TAGGED_SVA"), Status("untag_mask"),
                Status("x86_Thread_features"), Status("x86_Thread_features_locked")
        ],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["raremodes"],
    )
    .since(6, 4),
    row(
        "prctl-map-vdso",
        AddressSpace,
        "maps a vDSO at a place",
        names![
            => ArchPrctl(0x2001, "ARCH_MAP_VDSO_X32"), ArchPrctl(0x2002, "ARCH_MAP_VDSO_32"),
                ArchPrctl(0x2003, "ARCH_MAP_VDSO_64")
        ],
        stays("UnsupportedCall", "crates/abi/src/x86_64/process.rs"),
        &["raremodes"],
    ),
    row(
        "prctl-of-others",
        Thread,
        "options of other architectures",
        names![
            => Prctl(5, "PR_GET_UNALIGN"), Prctl(6, "PR_SET_UNALIGN"), Prctl(9, "PR_GET_FPEMU"),
                Prctl(10, "PR_SET_FPEMU"), Prctl(11, "PR_GET_FPEXC"), Prctl(12, "PR_SET_FPEXC"),
                Prctl(19, "PR_GET_ENDIAN"), Prctl(20, "PR_SET_ENDIAN"),
                Prctl(43, "PR_MPX_ENABLE_MANAGEMENT"), Prctl(44, "PR_MPX_DISABLE_MANAGEMENT"),
                Prctl(45, "PR_SET_FP_MODE"), Prctl(46, "PR_GET_FP_MODE"),
                Prctl(50, "PR_SVE_SET_VL"), Prctl(51, "PR_SVE_GET_VL"),
                Prctl(54, "PR_PAC_RESET_KEYS"), Prctl(55, "PR_SET_TAGGED_ADDR_CTRL"),
                Prctl(56, "PR_GET_TAGGED_ADDR_CTRL"), Prctl(60, "PR_PAC_SET_ENABLED_KEYS"),
                Prctl(61, "PR_PAC_GET_ENABLED_KEYS"), Prctl(63, "PR_SME_SET_VL"),
                Prctl(64, "PR_SME_GET_VL"), Prctl(69, "PR_RISCV_V_SET_CONTROL"),
                Prctl(70, "PR_RISCV_V_GET_CONTROL"), Prctl(71, "PR_RISCV_SET_ICACHE_FLUSH_CTX"),
                Prctl(72, "PR_PPC_GET_DEXCR"), Prctl(73, "PR_PPC_SET_DEXCR")
        ],
        invisible("EINVAL on x86-64; a call comes home, where the kernel returns it"),
        &[],
    ),
];
