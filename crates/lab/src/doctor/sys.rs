//! The doctor's probes: each tries one kernel feature and undoes it.

use crate::sys::{Waited, exit_now, fork, wait_child};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// linux/sched.h; libc has it for some targets only.
pub const CLONE_NEWTIME: i32 = 0x80;

/// linux/userfaultfd.h
pub const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xaa;

fn check(rc: libc::c_long) -> io::Result<libc::c_long> {
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc)
    }
}

/// A probe takes milliseconds; one that hangs is a result, too.
const PROBE_MAX: Duration = Duration::from_secs(10);

/// Runs `probe` in a child and returns its exit code. Before: the process has one thread, as `fork` requires.
pub fn in_child(probe: impl FnOnce() -> i32) -> io::Result<i32> {
    let Some(pid) = fork()? else {
        exit_now(probe())
    };
    let end = Instant::now() + PROBE_MAX;
    loop {
        match wait_child(pid) {
            Waited::Ended(_, code) => return Ok(code),
            Waited::NoChildren => return Err(io::Error::from(io::ErrorKind::NotFound)),
            Waited::Stopped(_) | Waited::Nothing => std::thread::sleep(Duration::from_millis(1)),
        }
        if Instant::now() > end {
            crate::sys::kill(pid, libc::SIGKILL); // reaped by this process's parent
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
    }
}

/// As `in_child`, for probes that return 0 or an error number.
pub fn errno_of(probe: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let code = in_child(|| {
        probe()
            .err()
            .map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO))
    })?;
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(code))
    }
}

pub fn can_unshare(flags: i32) -> io::Result<()> {
    errno_of(|| crate::sys::unshare(flags))
}

pub fn seccomp_notify() -> io::Result<()> {
    const SECCOMP_GET_NOTIF_SIZES: libc::c_long = 3;
    let mut sizes = [0u16; 3];
    // SAFETY: the kernel writes three u16, struct seccomp_notif_sizes.
    check(unsafe { libc::syscall(libc::SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &mut sizes) })
        .map(drop)
}

/// Features of userfaultfd for an ordinary user.
pub fn userfaultfd_features() -> io::Result<u64> {
    #[repr(C)]
    struct Api {
        api: u64,
        features: u64,
        ioctls: u64,
    }
    const UFFDIO_API: libc::c_ulong = 0xc018_aa3f; // _IOWR(0xAA, 0x3F, struct uffdio_api)
    let mut api = Api {
        api: UFFD_API,
        features: 0,
        ioctls: 0,
    };
    // SAFETY: the descriptor is fresh and owned; the ioctl reads and writes one Api.
    unsafe {
        let fd = check(libc::syscall(
            libc::SYS_userfaultfd,
            libc::O_CLOEXEC | UFFD_USER_MODE_ONLY,
        ))?;
        let fd = OwnedFd::from_raw_fd(fd as i32);
        check(libc::ioctl(fd.as_raw_fd(), UFFDIO_API, &mut api).into())?;
    }
    Ok(api.features)
}

pub fn pagemap_scan() -> io::Result<()> {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610; // _IOWR('f', 16, struct pm_scan_arg)
    const PAGE_IS_PRESENT: u64 = 1 << 3;
    let file = std::fs::File::open("/proc/self/pagemap")?;
    let mut region = [0u64; 3]; // struct page_region: start, end, categories
    let page = (&raw const region as u64) & !4095;
    // size flags start end walk_end vec vec_len max_pages inverted mask anyof return_mask
    let mut arg = [
        96,
        0,
        page,
        page + 4096,
        0,
        &raw mut region as u64,
        1,
        0,
        0,
        PAGE_IS_PRESENT,
        0,
        PAGE_IS_PRESENT,
    ];
    // SAFETY: struct pm_scan_arg is twelve u64; the one region it may write outlives the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &mut arg) }.into()).map(drop)
}

pub fn pidfd_getfd() -> io::Result<()> {
    let file = std::fs::File::open("/dev/null")?;
    let me = crate::sys::pidfd(std::process::id() as i32)?;
    // SAFETY: both descriptors are open; the new one is owned at once.
    unsafe {
        let fd = check(libc::syscall(
            libc::SYS_pidfd_getfd,
            me.as_raw_fd(),
            file.as_raw_fd(),
            0,
        ))?;
        drop(OwnedFd::from_raw_fd(fd as i32));
    }
    Ok(())
}

/// In a user and pid namespace of its own, as hosts do it.
pub fn clone3_set_tid() -> io::Result<()> {
    errno_of(|| {
        crate::sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID)?;
        errno_of(|| {
            const WANTED: libc::pid_t = 4711;
            // SAFETY: clone_args is plain integers; set_tid points to one pid_t that outlives
            // the call; without CLONE_VM the child has a copy of everything and only exits.
            unsafe {
                let wanted = WANTED;
                let mut args: libc::clone_args = std::mem::zeroed();
                args.exit_signal = libc::SIGCHLD as u64;
                args.set_tid = &raw const wanted as u64;
                args.set_tid_size = 1;
                let got = check(libc::syscall(
                    libc::SYS_clone3,
                    &args,
                    size_of::<libc::clone_args>(),
                ))?;
                if got == 0 {
                    exit_now(0);
                }
                if got == libc::c_long::from(WANTED) {
                    Ok(())
                } else {
                    Err(io::Error::from_raw_os_error(libc::EIO))
                }
            }
        })
    })
}

/// KERNEL: with a vDSO mapped already, a kernel that has the request returns EEXIST.
pub fn map_vdso() -> io::Result<()> {
    const ARCH_MAP_VDSO_64: libc::c_long = 0x2003;
    errno_of(|| {
        // SAFETY: at most maps a second vDSO in a child that exits next.
        match check(unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_MAP_VDSO_64, 0) }) {
            Err(e) if e.raw_os_error() != Some(libc::EEXIST) => Err(e),
            _ => Ok(()),
        }
    })
}

/// Asks for the size of struct prctl_mm_map, which is known only where PR_SET_MM_MAP works.
pub fn set_mm() -> io::Result<()> {
    const PR_SET_MM_MAP_SIZE: libc::c_ulong = 15;
    let mut size = 0u32;
    // SAFETY: the kernel writes one u32.
    check(unsafe { libc::prctl(libc::PR_SET_MM, PR_SET_MM_MAP_SIZE, &mut size, 0, 0) }.into())
        .map(drop)
}

/// Largest extended state of this processor, bytes; `None` on other processors.
pub fn xsave_size() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    {
        // Leaf 0xD: the register state; ECX is its size with everything enabled.
        let top = std::arch::x86_64::__cpuid(0).eax;
        (top >= 0xd).then(|| std::arch::x86_64::__cpuid_count(0xd, 0).ecx)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// How far the clock may be off, microseconds; `None` when it is not synchronised.
pub fn clock_error_us() -> Option<i64> {
    // SAFETY: timex is plain integers; modes 0 only reads.
    let (state, t) = unsafe {
        let mut t: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut t), t)
    };
    (state >= 0 && t.status & libc::STA_UNSYNC == 0).then_some(t.maxerror)
}
