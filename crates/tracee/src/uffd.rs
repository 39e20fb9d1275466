//! userfaultfd: what a process writes is noted, and its pages are made from outside.
//!
//! KERNEL: userfaultfd(2) with UFFD_FEATURE_WP_ASYNC (6.7): armed pages take one cheap fault at their next
//! write, which clears the mark; nobody has to answer.

use crate::pages::Run;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A userfaultfd that lives in another process's address space but is driven from here.
pub struct Uffd(OwnedFd);

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Protect {
    start: u64,
    len: u64,
    mode: u64,
}

#[repr(C)]
struct Range {
    start: u64,
    len: u64,
}

#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    done: i64,
}

const UFFD_API: u64 = 0xaa;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
const UFFDIO_COPY: u64 = 0xc028_aa03;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const MODE_MISSING: u64 = 1 << 0;
const MODE_WP: u64 = 1 << 1;
/// UFFD_USER_MODE_ONLY: the flag that lets ordinary users create one.
pub const USER_MODE_ONLY: u64 = 1;

impl Uffd {
    /// `fd` was made by the tracee with userfaultfd(O_CLOEXEC | USER_MODE_ONLY).
    pub fn adopt(fd: OwnedFd) -> io::Result<Uffd> {
        let features = FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC;
        let mut a = Api {
            api: UFFD_API,
            features,
            ioctls: 0,
        };
        sys::ioctl(fd.as_raw_fd(), UFFDIO_API, &mut a)?;
        Ok(Uffd(fd))
    }

    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Pages of `run`, a whole mapping, can be armed from now on. Of a part the kernel would make a mapping of its
    /// own, and mremap(2) of what the program takes for one mapping says EFAULT when it is several.
    pub fn watch(&self, run: Run) -> io::Result<()> {
        self.register(run, MODE_WP)
    }

    /// Before: watched. Notes the next write to each page of `run`.
    pub fn arm(&self, run: Run) -> io::Result<()> {
        let mut p = Protect {
            start: run.0,
            len: run.1 - run.0,
            mode: 1,
        };
        sys::ioctl(self.raw(), UFFDIO_WRITEPROTECT, &mut p).map(drop)
    }

    /// Until [`Uffd::filled`], pages of `run` that are not there come by [`Uffd::fill`] alone: who touches one
    /// waits, and nobody may run.
    pub fn begin_filling(&self, run: Run) -> io::Result<()> {
        self.register(run, MODE_MISSING)
    }

    /// `run` is memory as any other again.
    pub fn filled(&self, run: Run) -> io::Result<()> {
        let mut r = Range {
            start: run.0,
            len: run.1 - run.0,
        };
        sys::ioctl(self.raw(), UFFDIO_UNREGISTER, &mut r).map(drop)
    }

    /// Makes pages of `bytes` at `at`, as many as are not there: one that is ends it. Unlike a write from
    /// outside it need not empty the page first, nor walk the page tables twice. Returns the bytes made.
    pub fn fill(&self, at: u64, bytes: &[u8]) -> usize {
        let mut c = Copy {
            to: at,
            from: bytes.as_ptr() as u64,
            len: bytes.len() as u64,
            mode: 0,
            done: 0,
        };
        match sys::ioctl(self.raw(), UFFDIO_COPY, &mut c) {
            Ok(_) => bytes.len(),
            // -EEXIST and the like if not even the first could be made.
            Err(_) => usize::try_from(c.done).unwrap_or(0),
        }
    }

    fn register(&self, run: Run, mode: u64) -> io::Result<()> {
        let mut r = Register {
            start: run.0,
            len: run.1 - run.0,
            mode,
            ioctls: 0,
        };
        sys::ioctl(self.raw(), UFFDIO_REGISTER, &mut r).map(drop)
    }
}
