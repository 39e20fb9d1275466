//! Memory of the process, and futexes.

use crate::Cond::{All, Bits, Not, Null};
use crate::row::{Otherwise, Row, body, body_if, come, host};

/// MAP_ANONYMOUS, type MAP_PRIVATE, no MAP_HUGETLB.
const PRIVATE: crate::Cond = Bits {
    arg: 3,
    mask: 0x4_002f,
    value: 0x22,
};

/// FUTEX_WAIT is the only operation with a relative timeout, which a move must shorten.
const TIMED: crate::Cond = All(&[
    Bits {
        arg: 1,
        mask: 0x7f,
        value: 0,
    },
    Not(&Null { arg: 3 }),
]);
const UNTIMED: crate::Cond = Not(&TIMED);

const NUMA: &str = "memory policy names nodes of this machine";
const PKEY: &str = "protection keys do not travel";
const SHM: &str = "System V shared memory has its home here";

pub const ROWS: &[Row] = &[
    body_if(
        9,
        "mmap",
        &PRIVATE,
        "the memory is private and anonymous, without huge pages",
        Otherwise::Host,
        &[],
    )
    .note("files are mapped by the host; writable shared mappings come home"),
    body(10, "mprotect"),
    body(11, "munmap"),
    body(12, "brk"),
    body(25, "mremap"),
    body(26, "msync"),
    host(27, "mincore", &[])
        .note("answers for the node the body runs on, once all pages have come there"),
    body(28, "madvise"),
    come(29, "shmget", SHM),
    come(30, "shmat", SHM),
    come(31, "shmctl", SHM),
    come(67, "shmdt", SHM),
    body(149, "mlock").note("locks memory of the node the body runs on"),
    body(150, "munlock"),
    come(
        151,
        "mlockall",
        "the limit of locked memory is home's; a process that uses MCL_FUTURE stays home",
    ),
    body(152, "munlockall"),
    body_if(
        202,
        "futex",
        &UNTIMED,
        "it is not FUTEX_WAIT with a timeout",
        Otherwise::Host,
        &[],
    )
    .block()
    .note("that timeout is relative, and a move must shorten it"),
    come(216, "remap_file_pages", "scatters pages of a file mapping"),
    come(237, "mbind", NUMA),
    come(238, "set_mempolicy", NUMA),
    come(239, "get_mempolicy", NUMA),
    come(256, "migrate_pages", NUMA),
    body(273, "set_robust_list"),
    body_if(
        274,
        "get_robust_list",
        &Bits {
            arg: 0,
            mask: u32::MAX,
            value: 0,
        },
        "it asks for the calling thread's own",
        Otherwise::ComeHome,
        &[],
    ),
    come(279, "move_pages", NUMA),
    come(
        310,
        "process_vm_readv",
        "reads the memory of another process",
    ),
    come(
        311,
        "process_vm_writev",
        "writes the memory of another process",
    ),
    come(
        323,
        "userfaultfd",
        "bodies page through it; such programs stay home",
    ),
    body(324, "membarrier").note("a registration holds on the node it was made on"),
    body(325, "mlock2").note("locks memory of the node the body runs on"),
    come(329, "pkey_mprotect", PKEY),
    come(330, "pkey_alloc", PKEY),
    come(331, "pkey_free", PKEY),
    body(334, "rseq"),
    come(440, "process_madvise", "works on another process"),
    come(
        447,
        "memfd_secret",
        "its pages can not be read to move them",
    ),
    come(448, "process_mrelease", "works on another process"),
    body(449, "futex_waitv").note("timeout is absolute"),
    come(450, "set_mempolicy_home_node", NUMA),
    come(453, "map_shadow_stack", "shadow stacks do not travel"),
    body(454, "futex_wake"),
    body(455, "futex_wait").note("timeout is absolute"),
    body(456, "futex_requeue"),
    come(462, "mseal", "sealed mappings can not be rebuilt"),
];
