//! State of an address space as a whole.

const MM: &str = "crates/migrate/src/image/mm.rs";
const AREAS: &str = "crates/migrate/src/image/areas.rs";

use crate::Name::{Call, Proc, Status};
use crate::Owner::{AddressSpace, Thread};
use crate::{Row, at_home, carried, invisible, manual, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "mm-bounds",
        AddressSpace,
        "bounds of code, data, heap, stack, arguments, environment",
        names![
            mm_struct: start_code end_code start_data end_data start_brk brk start_stack
                arg_start arg_end env_start env_end arg_lock
            => Call("brk")
        ],
        carried(MM),
        &["heap", "procself", "selflinks"],
    ),
    row(
        "mm-auxv",
        AddressSpace,
        "auxiliary vector",
        names![mm_struct: saved_auxv => Proc("auxv")],
        carried(MM),
        &["procself"],
    ),
    row(
        "mm-program",
        AddressSpace,
        "program file, and that it cannot be written meanwhile (ETXTBSY)",
        names![mm_struct: exe_file binfmt => Proc("exe")],
        at_home("crates/keeper/src/moves/hollow.rs"),
        &["procself", "selflinks"],
    ),
    row(
        "mm-map",
        AddressSpace,
        "the list of mappings and where new ones are put",
        names![
            mm_struct: mm_mt mmap_base mmap_legacy_base mmap_compat_base mmap_compat_legacy_base
                task_size map_count get_unmapped_area
            => Proc("maps"), Proc("map_files"), Proc("smaps"), Proc("smaps_rollup"), Call("mmap"),
                Call("munmap"), Call("mremap")
        ],
        carried(AREAS),
        &["mapsfile", "maps", "remaps"],
    ),
    row(
        "mm-contents",
        AddressSpace,
        "contents of memory",
        names![mm_struct: pgd => Proc("mem"), Proc("pagemap"), Call("mincore")],
        carried("crates/migrate/src/source/send_pages.rs"),
        &["patterns", "alike", "sparse", "memfile"],
    ),
    row(
        "mm-sizes",
        AddressSpace,
        "sizes: mapped, resident, of data, code, stack, page tables",
        names![
            mm_struct: total_vm data_vm exec_vm stack_vm rss_stat pgtables_bytes
            => Status("VmSize"), Status("VmData"), Status("VmStk"), Status("VmExe"),
                Status("VmLib"), Status("VmRSS"), Status("RssAnon"), Status("RssFile"),
                Status("RssShmem"), Status("VmPTE"), Status("VmSwap"), Proc("statm")
        ],
        carried(AREAS),
        &["statfiles", "mapsfile"],
    ),
    row(
        "mm-locked",
        AddressSpace,
        "memory that is locked now",
        names![
            mm_struct: locked_vm
            => Status("VmLck"), Call("mlock"), Call("mlock2"), Call("munlock"), Call("mlockall"),
                Call("munlockall")
        ],
        carried("crates/migrate/src/image/flags.rs"),
        &["advice", "rlimits"],
    ),
    row(
        "mm-locked-to-come",
        AddressSpace,
        "memory to come is locked (MCL_FUTURE)",
        names![mm_struct: def_flags],
        stays(
            "UnsupportedCall",
            "crates/keeper/src/deputy/region_setup.rs",
        ),
        &["advice"],
    ),
    row(
        "mm-pinned",
        AddressSpace,
        "pages that a device or a registered buffer holds (RDMA, AF_XDP, VFIO)",
        names![mm_struct: pinned_vm => Status("VmPin")],
        stays("KernelState", "crates/keeper/src/moves/eligibility.rs"),
        &["pinned_memory_is_read"],
    ),
    row(
        "mm-huge-pages",
        AddressSpace,
        "pages of hugetlbfs",
        names![mm_struct: hugetlb_usage => Status("HugetlbPages")],
        stays("KernelState", "crates/migrate/src/image/flags.rs"),
        &["hugepool"],
    ),
    row(
        "mm-membarrier",
        AddressSpace,
        "registrations of membarrier",
        names![mm_struct: membarrier_state => Call("membarrier")],
        carried("crates/migrate/src/image/membarrier.rs"),
        &["registrations"],
    ),
    row(
        "mm-aio",
        AddressSpace,
        "contexts of kernel AIO",
        names![
            mm_struct: ioctx_lock ioctx_table
            => Call("io_setup"), Call("io_submit"), Call("io_getevents")
        ],
        stays("SharedMemory", AREAS),
        &["aio"],
    ),
    row(
        "mm-segments",
        AddressSpace,
        "the local descriptor table",
        names![mm_struct: context => Call("modify_ldt")],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["raremodes"],
    ),
    row(
        "mm-vdso",
        AddressSpace,
        "the vDSO and its data pages",
        names![],
        carried("crates/migrate/src/image/vdso.rs"),
        &["clocks", "every_guest_behaves_natively_between_all_kernels"],
    ),
    row(
        "mm-ksm",
        AddressSpace,
        "pages that KSM has merged",
        names![
            mm_struct: ksm_merging_pages ksm_rmap_items ksm_zero_pages
            => Proc("ksm_merging_pages"), Proc("ksm_stat")
        ],
        at_home("crates/abi/src/procfs.rs"),
        &["advice"],
    ),
    row(
        "mm-mempolicy-of-thread",
        Thread,
        "memory policy of a thread",
        names![
            task_struct: mempolicy il_prev il_weight
            => Call("set_mempolicy"), Call("get_mempolicy"), Call("migrate_pages"),
                Call("move_pages"), Proc("numa_maps")
        ],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["policies"],
    ),
    row(
        "mm-protection-keys",
        AddressSpace,
        "protection keys that are allocated, and the key of each mapping",
        names![=> Call("pkey_alloc"), Call("pkey_free"), Call("pkey_mprotect")],
        stays("KernelState", "crates/keeper/src/moves/eligibility.rs"),
        &["raremodes"],
    ),
    row(
        "mm-system-v",
        AddressSpace,
        "attached segments of System V memory",
        names![
            task_struct: sysvshm
            => Call("shmat"), Call("shmdt"), Call("shmget"), Call("shmctl")
        ],
        carried("crates/migrate/src/image/objects.rs"),
        &["segments", "lasting"],
    ),
    row(
        "mm-shared",
        AddressSpace,
        "address space that two processes share (clone without CLONE_THREAD)",
        names![mm_struct: mm_users],
        stays("Busy", "crates/keeper/src/moves/eligibility.rs"),
        &["clones", "spawns"],
    ),
    row(
        "mm-transparent-huge-pages",
        AddressSpace,
        "transparent huge pages",
        names![mm_struct: flags],
        invisible("how a kernel maps memory is internal to it; PR_SET_THP_DISABLE has a row"),
        &[],
    ),
    row(
        "mm-soft-dirty",
        AddressSpace,
        "soft-dirty bits of the page tables, cleared through clear_refs",
        names![=> Proc("clear_refs")],
        manual(
            "docs/manual/differences.md",
            "a program that tracks its own writes by soft-dirty (CRIU's trackers, some garbage collectors) finds all pages written after a move",
        ),
        &[],
    ),
    row(
        "mm-locks-of-memory",
        AddressSpace,
        "writes to guest memory of virtual machines, notifiers of devices",
        names![mm_struct: notifier_subscriptions iommu_mm pasid],
        stays("DeviceMapping", "crates/migrate/src/image/files.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "mm-reference-of-node",
        AddressSpace,
        "how much memory is granted",
        names![=> Call("mlockall with a limit")],
        manual(
            "docs/manual/calls.md",
            "locks memory of the node the body runs on",
        ),
        &["advice"],
    ),
    row(
        "mm-internal",
        AddressSpace,
        "locks, reference counts, TLB and futex bookkeeping",
        names![
            mm_struct: mm_count page_table_lock mmap_lock mmlist vma_writer_wait mm_lock_seq
                futex_hash_lock futex_phash futex_phash_new futex_batches futex_rcu futex_atomic
                futex_ref futex_unique_id write_protect_seq owner user_ns tlb_flush_pending
                tlb_flush_batched async_put_work mm_id lru_gen pmd_huge_pte delayed_drop
        ],
        invisible("bookkeeping of the kernel that holds the memory"),
        &[],
    ),
];
