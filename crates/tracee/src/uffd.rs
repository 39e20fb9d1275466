//! userfaultfd: tracks what a process writes, and fills its pages from outside.
//!
//! KERNEL: userfaultfd(2) with UFFD_FEATURE_WP_ASYNC (6.7): a write-protected page takes one cheap fault at its next
//! write, which clears the mark; no process has to answer. A second kind ([`Uffd::adopt_asking`]) reports which pages
//! threads wait for.

use crate::PAGE;
use crate::pages::Run;
use crate::sys;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A userfaultfd that lives in another process's address space but is driven from here.
pub struct Uffd(File);

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

/// `struct uffd_msg`, 32 bytes: the event, then its numbers.
pub const MESSAGE: usize = 32;

/// An event that is read from the userfaultfd of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A thread waits for the page of this address.
    Page(u64),
    /// Given up (madvise) or unmapped: empty or unmapped from now on.
    Gone(Run),
    /// The memory at the first address is now at the second.
    Moved {
        from: u64,
        to: u64,
        len: u64,
    },
    Other,
}

/// Why pages could not be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unput {
    /// The mappings are about to change: read the pending events first.
    Changing,
    /// The page exists already.
    There,
    /// The mapping does not exist any more.
    Nowhere,
    /// The process is gone, or the kernel has no memory.
    Failed,
}

const UFFD_API: u64 = 0xaa;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
const UFFDIO_COPY: u64 = 0xc028_aa03;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
const UFFDIO_WAKE: u64 = 0x8010_aa02;
const UFFDIO_ZEROPAGE: u64 = 0xc020_aa04;
const EVENT_PAGEFAULT: u8 = 0x12;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;
const FEATURE_EVENT_REMAP: u64 = 1 << 2;
const FEATURE_EVENT_REMOVE: u64 = 1 << 3;
const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const MODE_MISSING: u64 = 1 << 0;
const MODE_WP: u64 = 1 << 1;
/// UFFD_USER_MODE_ONLY: the flag that lets ordinary users create one.
pub const USER_MODE_ONLY: u64 = 1;
/// The device whose owner may create userfaultfds that also handle faults in the kernel. KERNEL: 6.1, userfaultfd(2).
pub const DEVICE: &str = "/dev/userfaultfd";
/// USERFAULTFD_IOC_NEW on it.
pub const DEVICE_NEW: u64 = 0xaa00;

impl Uffd {
    /// `fd` was made by the tracee with userfaultfd(O_CLOEXEC | USER_MODE_ONLY).
    pub fn adopt(fd: OwnedFd) -> io::Result<Uffd> {
        with(
            fd,
            FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC,
        )
    }

    /// `fd` was created such that it also handles faults in the kernel and does not block. It reports missing pages.
    pub fn adopt_asking(fd: OwnedFd) -> io::Result<Uffd> {
        with(
            fd,
            FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP,
        )
    }

    /// The next event, if there is one; [`sys::poll_in`] waits for more.
    pub fn asked(&self) -> io::Result<Option<Asked>> {
        let mut raw = [0u8; MESSAGE];
        match (&self.0).read(&mut raw) {
            Ok(MESSAGE) => Ok(Some(decode(&raw))),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Fills pages at `at` with `bytes`. Returns how many bytes were filled, and why not more.
    pub fn put(&self, at: u64, bytes: &[u8]) -> (usize, Option<Unput>) {
        let mut c = Copy {
            to: at,
            from: bytes.as_ptr() as u64,
            len: bytes.len() as u64,
            mode: 0,
            done: 0,
        };
        match sys::ioctl(self.raw(), UFFDIO_COPY, &mut c) {
            Ok(_) => (bytes.len(), None),
            // -EEXIST and the like if not even the first page could be filled.
            Err(e) => (usize::try_from(c.done).unwrap_or(0), Some(unput(&e))),
        }
    }

    /// Fills a page with zeros.
    pub fn put_zero(&self, at: u64) -> Option<Unput> {
        #[repr(C)]
        struct Zero {
            start: u64,
            len: u64,
            mode: u64,
            done: i64,
        }
        let mut z = Zero {
            start: at,
            len: PAGE,
            mode: 0,
            done: 0,
        };
        let r = sys::ioctl(self.raw(), UFFDIO_ZEROPAGE, &mut z);
        r.err().map(|e| unput(&e))
    }

    /// Wakes threads that wait for a page which exists by now.
    pub fn wake(&self, at: u64) {
        let mut r = Range {
            start: at,
            len: PAGE,
        };
        // No thread waits where nothing is registered.
        let _ = sys::ioctl(self.raw(), UFFDIO_WAKE, &mut r);
    }

    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Registers `run`, a whole mapping, for write protection. Registering a part would make the kernel split the
    /// mapping, and mremap(2) of what the program considers one mapping returns EFAULT if it is several.
    pub fn watch(&self, run: Run) -> io::Result<()> {
        self.register(run, MODE_WP)
    }

    /// Before: registered. Write-protects `run`, so that the next write to each page is noted.
    pub fn arm(&self, run: Run) -> io::Result<()> {
        let mut p = Protect {
            start: run.0,
            len: run.1 - run.0,
            mode: 1,
        };
        sys::ioctl(self.raw(), UFFDIO_WRITEPROTECT, &mut p).map(drop)
    }

    /// Until [`Uffd::filled`], missing pages of `run` are filled only by [`Uffd::fill`]: a thread that touches one
    /// waits, so no thread of the process may run.
    pub fn begin_filling(&self, run: Run) -> io::Result<()> {
        self.register(run, MODE_MISSING)
    }

    /// Makes `run` ordinary memory again.
    pub fn filled(&self, run: Run) -> io::Result<()> {
        let mut r = Range {
            start: run.0,
            len: run.1 - run.0,
        };
        sys::ioctl(self.raw(), UFFDIO_UNREGISTER, &mut r).map(drop)
    }

    /// Fills missing pages at `at` with `bytes`, up to the first page that exists. Unlike a write from outside it need
    /// not clear the page first, nor walk the page tables twice. Returns the bytes filled.
    pub fn fill(&self, at: u64, bytes: &[u8]) -> usize {
        self.put(at, bytes).0
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

fn with(fd: OwnedFd, features: u64) -> io::Result<Uffd> {
    let mut a = Api {
        api: UFFD_API,
        features,
        ioctls: 0,
    };
    sys::ioctl(fd.as_raw_fd(), UFFDIO_API, &mut a)?;
    Ok(Uffd(fd.into()))
}

fn unput(e: &io::Error) -> Unput {
    match e.raw_os_error() {
        Some(libc::EAGAIN) => Unput::Changing,
        Some(libc::EEXIST) => Unput::There,
        Some(libc::ENOENT | libc::EINVAL) => Unput::Nowhere,
        _ => Unput::Failed,
    }
}

fn decode(raw: &[u8; MESSAGE]) -> Asked {
    let word = |i: usize| u64::from_le_bytes(raw[i..i + 8].try_into().unwrap_or_default());
    match raw[0] {
        // After the flags.
        EVENT_PAGEFAULT => Asked::Page(word(16) & !(PAGE - 1)),
        EVENT_REMAP => Asked::Moved {
            from: word(8),
            to: word(16),
            len: word(24),
        },
        EVENT_REMOVE | EVENT_UNMAP => Asked::Gone((word(8), word(16))),
        _ => Asked::Other,
    }
}
