//! Reading and writing descriptors.

use crate::Arg::{Fd, In, InOut, InSome, IovIn, IovOut, Out, Val};
use crate::Len::{Const, Ret};
use crate::row::{Row, come, home};

const OFFSET: crate::Arg = InOut(Const(8));
const AIO: &str = "the kernel would write to the body's memory later";

// Reads and writes of sockets are `eintr`: with SO_RCVTIMEO or SO_SNDTIMEO a stop ends them with EINTR. KERNEL:
// sock_intr_errno. preadv2 and pwritev2 work on sockets, too: with the offset -1.
pub const ROWS: &[Row] = &[
    home(0, "read", &[Fd, Out(Ret(2)), Val]).eintr(),
    home(1, "write", &[Fd, InSome(2), Val]).eintr().posts(),
    home(17, "pread64", &[Fd, Out(Ret(2)), Val, Val]),
    home(18, "pwrite64", &[Fd, InSome(2), Val, Val]).posts(),
    home(19, "readv", &[Fd, IovOut, Val]).eintr(),
    home(20, "writev", &[Fd, IovIn, Val]).eintr().posts(),
    home(40, "sendfile", &[Fd, Fd, OFFSET, Val]).eintr(),
    home(187, "readahead", &[Fd, Val, Val]),
    come(206, "io_setup", AIO),
    come(207, "io_destroy", AIO),
    come(208, "io_getevents", AIO).eintr(),
    come(209, "io_submit", AIO),
    come(210, "io_cancel", AIO),
    home(221, "fadvise64", &[Fd, Val, Val, Val]),
    home(275, "splice", &[Fd, OFFSET, Fd, OFFSET, Val, Val]).eintr(),
    home(276, "tee", &[Fd, Fd, Val, Val]),
    home(277, "sync_file_range", &[Fd, Val, Val, Val]),
    come(278, "vmsplice", "the pipe would keep the body's pages"),
    // KERNEL: hugetlbfs_fallocate, and shmem_fallocate of older kernels, return EINTR when stopped.
    home(285, "fallocate", &[Fd, Val, Val, Val]).eintr(),
    home(295, "preadv", &[Fd, IovOut, Val, Val, Val]),
    home(296, "pwritev", &[Fd, IovIn, Val, Val, Val]).posts(),
    home(326, "copy_file_range", &[Fd, OFFSET, Fd, OFFSET, Val, Val]),
    home(327, "preadv2", &[Fd, IovOut, Val, Val, Val, Val]).eintr(),
    home(328, "pwritev2", &[Fd, IovIn, Val, Val, Val, Val]).eintr(),
    come(333, "io_pgetevents", AIO).eintr(),
    come(
        425,
        "io_uring_setup",
        "rings are memory shared with the kernel",
    ),
    come(
        426,
        "io_uring_enter",
        "rings are memory shared with the kernel",
    ),
    come(
        427,
        "io_uring_register",
        "rings are memory shared with the kernel",
    ),
    home(451, "cachestat", &[Fd, In(Const(16)), Out(Const(40)), Val]),
];
