//! State of one mapping: range, rights, file, and the words of VmFlags.

const AREAS: &str = "crates/migrate/src/image/areas.rs";
const FLAGS: &str = "crates/migrate/src/image/flags.rs";

use crate::Name::{Call, Madvise, Prctl, VmFlag};
use crate::Owner::Mapping;
use crate::{Row, carried, invisible, manual, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "map-range",
        Mapping,
        "range, rights, kind",
        names![
            vm_area_struct: vm_start vm_end vm_page_prot vm_flags __vm_flags
            => VmFlag("rd"), VmFlag("wr"), VmFlag("ex"), VmFlag("sh"), VmFlag("mr"), VmFlag("mw"),
                VmFlag("me"), VmFlag("ms"), VmFlag("ac"), Call("mprotect")
        ],
        carried(AREAS),
        &["maps", "mapsfile", "remaps"],
    ),
    row(
        "map-file",
        Mapping,
        "file and offset of a private mapping",
        names![vm_area_struct: vm_file vm_pgoff],
        carried("crates/migrate/src/image/files.rs"),
        &["maps", "beyond", "mapsfile"],
    ),
    row(
        "map-file-later",
        Mapping,
        "what is written to a privately mapped file later",
        names![],
        manual(
            "docs/manual/differences.md",
            "away, a mapping shows its file as it was when it was mapped or left home, which mmap(2) leaves open",
        ),
        &["laterwrites"],
    ),
    row(
        "map-socket",
        Mapping,
        "a socket of TCP that is mapped to receive (tcp_mmap)",
        names![],
        stays("DeviceMapping", "crates/keeper/src/calls/fork_and_map.rs"),
        &["sockmaps"],
    ),
    row(
        "map-served-file",
        Mapping,
        "a file of a file system that a process of the tree serves (FUSE)",
        names![],
        stays("KernelState", "crates/migrate/src/image/files.rs"),
        &["ownfs"],
    ),
    row(
        "map-shared-file",
        Mapping,
        "a file that is mapped shared and writable",
        names![vm_area_struct: shared],
        stays("SharedMemory", AREAS),
        &["sharing", "every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "map-shared-memory",
        Mapping,
        "memory without a file that processes share; files of /dev/shm",
        names![],
        carried("crates/migrate/src/image/objects.rs"),
        &["common", "crew", "lasting", "semnames"],
    ),
    row(
        "map-memfd",
        Mapping,
        "a memfd that is mapped shared and writable, and not executed",
        names![],
        stays("SharedMemory", "crates/migrate/src/image/objects.rs"),
        &["sharing", "memfds", "jit"],
    ),
    row(
        "map-compiled",
        Mapping,
        "a memfd that is executed at one address and written at another, without a descriptor",
        names![],
        carried("crates/migrate/src/image/objects.rs"),
        &["jit"],
    ),
    row(
        "map-device",
        Mapping,
        "memory of a device",
        names![
            vm_area_struct: pfnmap_track_ctx
            => VmFlag("io"), VmFlag("pf"), VmFlag("mm")
        ],
        stays("DeviceMapping", "crates/migrate/src/image/files.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "map-kernels-own",
        Mapping,
        "vDSO, vvar: not to be expanded or dumped",
        names![=> VmFlag("de")],
        carried("crates/migrate/src/image/vdso.rs"),
        &["clocks"],
    ),
    row(
        "map-grows",
        Mapping,
        "grows down",
        names![=> VmFlag("gd")],
        carried(FLAGS),
        &["remaps", "heap"],
    ),
    row(
        "map-no-reserve",
        Mapping,
        "MAP_NORESERVE",
        names![=> VmFlag("nr")],
        carried(FLAGS),
        &["sparse"],
    ),
    row(
        "map-fork",
        Mapping,
        "what a child gets: nothing, or zeros",
        names![
            => VmFlag("dc"), VmFlag("wf"), Madvise(10, "MADV_DONTFORK"),
                Madvise(11, "MADV_DOFORK"), Madvise(18, "MADV_WIPEONFORK"),
                Madvise(19, "MADV_KEEPONFORK")
        ],
        carried(FLAGS),
        &["advice"],
    ),
    row(
        "map-dump",
        Mapping,
        "left out of core dumps",
        names![
            => VmFlag("dd"), Madvise(16, "MADV_DONTDUMP"), Madvise(17, "MADV_DODUMP")
        ],
        carried(FLAGS),
        &["advice"],
    ),
    row(
        "map-huge-advice",
        Mapping,
        "advice about huge pages",
        names![
            => VmFlag("hg"), VmFlag("nh"), Madvise(14, "MADV_HUGEPAGE"),
                Madvise(15, "MADV_NOHUGEPAGE")
        ],
        carried(FLAGS),
        &["advice", "sparse"],
    ),
    row(
        "map-mergeable",
        Mapping,
        "KSM may merge it",
        names![
            => VmFlag("mg"), Madvise(12, "MADV_MERGEABLE"), Madvise(13, "MADV_UNMERGEABLE")
        ],
        carried(FLAGS),
        &["advice"],
    ),
    row(
        "map-order-advice",
        Mapping,
        "advice about the order of reading",
        names![
            => VmFlag("sr"), VmFlag("rr"), Madvise(0, "MADV_NORMAL"), Madvise(1, "MADV_RANDOM"),
                Madvise(2, "MADV_SEQUENTIAL")
        ],
        carried(FLAGS),
        &["advice"],
    ),
    row(
        "map-locked",
        Mapping,
        "locked, now or when touched",
        names![=> VmFlag("lo"), VmFlag("lf")],
        carried(FLAGS),
        &["advice"],
    ),
    row(
        "map-once",
        Mapping,
        "advice that acts at once and leaves nothing behind",
        names![
            => Madvise(3, "MADV_WILLNEED"), Madvise(4, "MADV_DONTNEED"), Madvise(8, "MADV_FREE"),
                Madvise(9, "MADV_REMOVE"), Madvise(20, "MADV_COLD"), Madvise(21, "MADV_PAGEOUT"),
                Madvise(22, "MADV_POPULATE_READ"), Madvise(23, "MADV_POPULATE_WRITE"),
                Madvise(24, "MADV_DONTNEED_LOCKED"), Madvise(25, "MADV_COLLAPSE"), Call("madvise")
        ],
        carried("crates/migrate/src/source/dirty.rs"),
        &["advice", "memfile"],
    ),
    row(
        "map-poison",
        Mapping,
        "injected memory errors",
        names![=> Madvise(100, "MADV_HWPOISON"), Madvise(101, "MADV_SOFT_OFFLINE")],
        manual("docs/manual/differences.md", "privileged programs only: a body would poison memory of its node's kernel (EPERM there), and a poisoned page does not travel"),
        &[],
    ),
    row(
        "map-guards",
        Mapping,
        "guard regions: pages that fault whatever their rights",
        names![
            => VmFlag("gu"), Madvise(102, "MADV_GUARD_INSTALL"), Madvise(103, "MADV_GUARD_REMOVE")
        ],
        carried("crates/migrate/src/image/flags.rs"),
        &["guards"],
    )
    .since(6, 13),
    row(
        "map-sealed",
        Mapping,
        "sealed by mseal",
        names![=> VmFlag("sl"), Call("mseal")],
        stays("SealedMapping", "crates/keeper/src/moves/eligibility.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    )
    .since(6, 10),
    row(
        "map-droppable",
        Mapping,
        "MAP_DROPPABLE: the kernel may drop its pages (state of the vDSO's getrandom)",
        names![=> VmFlag("dp")],
        manual("docs/manual/differences.md", "that a child gets zeros travels (wf); that the kernel may drop its pages instead of swapping them does not, and VmFlags show it"),
        &["raremodes"],
    )
    .since(6, 11),
    row(
        "map-huge",
        Mapping,
        "MAP_HUGETLB",
        names![=> VmFlag("ht")],
        stays("KernelState", "crates/migrate/src/image/flags.rs"),
        &["hugepool"],
    ),
    row(
        "map-userfault",
        Mapping,
        "memory that a userfaultfd serves, of its own or of another process",
        names![
            vm_area_struct: vm_userfaultfd_ctx
            => VmFlag("um"), VmFlag("uw"), VmFlag("ui"), Call("userfaultfd")
        ],
        stays("KernelState", "crates/migrate/src/image/flags.rs"),
        &["served"],
    ),
    row(
        "map-policy",
        Mapping,
        "memory policy",
        names![
            vm_area_struct: vm_policy
            => Call("mbind"), Call("set_mempolicy_home_node")
        ],
        stays("KernelState", "crates/migrate/src/image/uncarried.rs"),
        &["policies"],
    ),
    row(
        "map-name",
        Mapping,
        "name of anonymous memory ([anon:…] in maps)",
        names![vm_area_struct: anon_name => Prctl(0x5356_4d41, "PR_SET_VMA")],
        carried("crates/migrate/src/image/names.rs"),
        &["raremodes"],
    ),
    row(
        "map-nonlinear",
        Mapping,
        "scattered pages of a file",
        names![=> Call("remap_file_pages")],
        stays("UnsupportedCall", "crates/abi/src/x86_64/memory.rs"),
        &["rarecalls"],
    ),
    row(
        "map-secret",
        Mapping,
        "memory that the kernel itself cannot read",
        names![=> Call("memfd_secret")],
        stays("SharedMemory", AREAS),
        &["raremodes"],
    ),
    row(
        "map-dax",
        Mapping,
        "MAP_SYNC on persistent memory",
        names![=> VmFlag("sf")],
        stays("KernelState", "crates/migrate/src/image/flags.rs"),
        &["raremodes"],
    ),
    row(
        "map-soft-dirty",
        Mapping,
        "soft-dirty bit of a mapping",
        names![=> VmFlag("sd")],
        invisible("marks the mapping as new, which it is; the bits of its pages have a row (mm-soft-dirty)"),
        &[],
    ),
    row(
        "map-of-others",
        Mapping,
        "flags of other architectures",
        names![=> VmFlag("ar"), VmFlag("bt"), VmFlag("mt"), VmFlag("nl")],
        invisible("not on x86-64"),
        &[],
    ),
    row(
        "map-internal",
        Mapping,
        "trees, locks, reverse maps, read-ahead of swap",
        names![
            vm_area_struct: vm_freeptr vm_mm vm_lock_seq anon_vma_chain anon_vma vm_ops
                vm_private_data swap_readahead_info vm_refcnt vm_rcu detached vm_lock
                vmlock_dep_map
        ],
        invisible("bookkeeping of the kernel that holds the memory"),
        &[],
    ),
];
