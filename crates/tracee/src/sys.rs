//! Every unsafe line of this crate: thin, checked wrappers over the kernel's calls.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

pub use libc::user_regs_struct as UserRegs;

fn check(r: i64) -> io::Result<i64> {
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(r)
    }
}

/// KERNEL: ptrace(2); the raw call, so that PEEK requests need no errno dance.
pub fn ptrace(req: u32, tid: i32, addr: u64, data: u64) -> io::Result<i64> {
    // SAFETY: addr and data are plain numbers or point to live buffers of the wrappers below.
    check(unsafe { libc::syscall(libc::SYS_ptrace, req as i64, tid as i64, addr, data) })
}

/// A ptrace request that fills `buf`.
pub fn ptrace_out<T>(req: u32, tid: i32, addr: u64, buf: &mut T) -> io::Result<i64> {
    ptrace(req, tid, addr, std::ptr::from_mut(buf) as u64)
}

/// A ptrace request that reads `buf`.
pub fn ptrace_in<T>(req: u32, tid: i32, addr: u64, buf: &T) -> io::Result<i64> {
    ptrace(req, tid, addr, std::ptr::from_ref(buf) as u64)
}

/// GETREGSET and SETREGSET: returns how many bytes the kernel used.
pub fn regset(req: u32, tid: i32, kind: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut iov = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    ptrace_out(req, tid, kind, &mut iov)?;
    Ok(iov.iov_len)
}

pub fn zeroed_regs() -> UserRegs {
    // SAFETY: a struct of integers; all zero is a valid value.
    unsafe { std::mem::zeroed() }
}

/// waitpid(2) with the raw status. `Ok(None)` when WNOHANG found nothing.
pub fn waitpid(pid: i32, flags: i32) -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is live.
        let r = unsafe { libc::waitpid(pid, &mut status, flags) };
        if r > 0 {
            return Ok(Some((r, status)));
        }
        if r == 0 {
            return Ok(None);
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// Waits until a traced thread has something to report, without consuming the report. Returns whether it is the
/// thread's end.
pub fn ends(tid: i32) -> io::Result<bool> {
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
    loop {
        // SAFETY: siginfo_t is plain data, and live.
        let (r, code) = unsafe {
            let mut i: libc::siginfo_t = std::mem::zeroed();
            (
                libc::waitid(libc::P_PID, tid as u32, &mut i, flags),
                i.si_code,
            )
        };
        if r == 0 {
            let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];
            return Ok(ends.contains(&code));
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// Copies from another process; returns how many bytes were readable.
pub fn vm_read(pid: i32, addr: u64, buf: &mut [u8]) -> io::Result<usize> {
    let l = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    let r = libc::iovec {
        iov_base: addr as *mut _,
        iov_len: buf.len(),
    };
    // SAFETY: the local iovec covers `buf`; the kernel checks the remote one.
    check(unsafe { libc::process_vm_readv(pid, &l, 1, &r, 1, 0) } as i64).map(|n| n as usize)
}

/// Copies to another process; returns how many bytes were writable.
pub fn vm_write(pid: i32, addr: u64, buf: &[u8]) -> io::Result<usize> {
    let l = libc::iovec {
        iov_base: buf.as_ptr() as *mut _,
        iov_len: buf.len(),
    };
    let r = libc::iovec {
        iov_base: addr as *mut _,
        iov_len: buf.len(),
    };
    // SAFETY: the local iovec covers `buf` and is only read; the kernel checks the remote one.
    check(unsafe { libc::process_vm_writev(pid, &l, 1, &r, 1, 0) } as i64).map(|n| n as usize)
}

/// Reads many remote ranges into one buffer, in order. KERNEL: process_vm_readv(2), at most 1024 ranges.
pub fn vm_read_many(pid: i32, ranges: &[(u64, usize)], buf: &mut [u8]) -> io::Result<usize> {
    let total: usize = ranges.iter().map(|r| r.1).sum();
    assert!(total <= buf.len() && ranges.len() <= 1024);
    let l = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: total,
    };
    let r: Vec<libc::iovec> = ranges
        .iter()
        .map(|&(a, n)| libc::iovec {
            iov_base: a as *mut _,
            iov_len: n,
        })
        .collect();
    // SAFETY: the local iovec covers `total` bytes of `buf`; the kernel checks the remote ones.
    check(unsafe { libc::process_vm_readv(pid, &l, 1, r.as_ptr(), r.len() as u64, 0) } as i64)
        .map(|n| n as usize)
}

/// Writes each part to its remote address, in order.
pub fn vm_write_many(pid: i32, parts: &[(u64, &[u8])]) -> io::Result<usize> {
    assert!(parts.len() <= 1024);
    let iov = |base: u64, len| libc::iovec {
        iov_base: base as *mut _,
        iov_len: len,
    };
    let here: Vec<_> = parts
        .iter()
        .map(|p| iov(p.1.as_ptr() as u64, p.1.len()))
        .collect();
    let there: Vec<_> = parts.iter().map(|p| iov(p.0, p.1.len())).collect();
    let n = parts.len() as u64;
    // SAFETY: the local vectors are slices, only read; the kernel checks the remote ones.
    check(unsafe { libc::process_vm_writev(pid, here.as_ptr(), n, there.as_ptr(), n, 0) } as i64)
        .map(|n| n as usize)
}

pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the new descriptor is ours alone.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: just returned by the kernel, not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Sends SIGKILL to the process for which this was opened, even if its pid was reused since. KERNEL:
/// pidfd_send_signal(2), 5.1.
pub fn pidfd_kill(process: &OwnedFd) -> io::Result<()> {
    let (fd, none) = (process.as_raw_fd(), std::ptr::null::<u8>());
    // SAFETY: a live descriptor; no siginfo is given.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGKILL, none, 0) })
        .map(drop)
}

/// The wait status of a process that has ended and was waited for. `None`: it was not, or the kernel is older than
/// 6.15. KERNEL: include/uapi/linux/pidfd.h, PIDFD_GET_INFO, PIDFD_INFO_EXIT.
pub fn pidfd_exit(process: &OwnedFd) -> Option<i32> {
    const PIDFD_GET_INFO: libc::c_ulong = 0xC040_FF0B;
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    #[repr(C)]
    struct PidfdInfo {
        mask: u64,
        cgroup: u64,
        numbers: [u32; 11],
        exit_code: i32,
    }
    let mut info = PidfdInfo {
        mask: PIDFD_INFO_EXIT,
        cgroup: 0,
        numbers: [0; 11],
        exit_code: 0,
    };
    // SAFETY: the number of the call has the size of this struct, which lives here.
    let got = unsafe { libc::ioctl(process.as_raw_fd(), PIDFD_GET_INFO, &mut info) };
    (got == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// The thread, in home's numbering, that a descriptor's signals are directed at. KERNEL: fcntl(2), F_GETOWN_EX.
pub fn owner_thread(fd: RawFd) -> Option<i32> {
    const F_GETOWN_EX: i32 = 16;
    const F_OWNER_TID: i32 = 0;
    let mut owner = [-1i32; 2];
    // SAFETY: struct f_owner_ex is two ints, which live here.
    let got = unsafe { libc::fcntl(fd, F_GETOWN_EX, owner.as_mut_ptr()) };
    (got == 0 && owner[0] == F_OWNER_TID && owner[1] > 0).then_some(owner[1])
}

/// A duplicate of descriptor `fd` of process `pid`. KERNEL: pidfd_getfd(2), 5.6; needs ptrace rights.
pub fn steal_fd(pid: i32, fd: i32) -> io::Result<OwnedFd> {
    let p = pidfd_open(pid)?;
    // SAFETY: plain numbers.
    let got = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, p.as_raw_fd(), fd, 0) })?;
    // SAFETY: just returned by the kernel, not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(got as RawFd) })
}

/// Whether the error means that this process or the machine has no descriptors or memory left.
pub fn is_short(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
    )
}

/// The origin of a signal: `si_code`.
pub fn siginfo_code(info: &SigInfo) -> i32 {
    i32::from_le_bytes(info[8..12].try_into().unwrap_or_default())
}

/// ioctl(2) with a struct of plain data.
pub fn ioctl<T>(fd: RawFd, req: u64, arg: &mut T) -> io::Result<i64> {
    // SAFETY: callers pass the struct that `req` is defined for.
    check(unsafe { libc::ioctl(fd, req, std::ptr::from_mut(arg)) } as i64)
}

/// SO_RCVLOWAT of a socket.
pub fn receive_low(fd: RawFd) -> io::Result<i32> {
    socket_option(fd, libc::SO_RCVLOWAT).map(|[low, ..]| low)
}

/// An option of SOL_SOCKET: an int, or a struct timeval (four words).
fn socket_option(fd: RawFd, option: i32) -> io::Result<[i32; 4]> {
    let mut value = [0i32; 4];
    let mut len = size_of_val(&value) as libc::socklen_t;
    let at = value.as_mut_ptr().cast();
    // SAFETY: `at` and `len` describe live memory.
    let r = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, at, &mut len) };
    check(r.into()).map(|_| value)
}

/// Whether it is a SOCK_STREAM socket.
pub fn is_stream(fd: RawFd) -> bool {
    socket_option(fd, libc::SO_TYPE).is_ok_and(|[kind, ..]| kind == libc::SOCK_STREAM)
}

/// Whether it has a timeout for sending. KERNEL: socket(7), SO_SNDTIMEO.
pub fn limits_sends(fd: RawFd) -> bool {
    socket_option(fd, libc::SO_SNDTIMEO).is_ok_and(|time| time != [0; 4])
}

/// Whether it has a timeout for receiving. KERNEL: socket(7), SO_RCVTIMEO.
pub fn limits_receives(fd: RawFd) -> bool {
    socket_option(fd, libc::SO_RCVTIMEO).is_ok_and(|time| time != [0; 4])
}

/// Number of malloc arenas in our processes. By default each thread gets an arena of its own, with 64 MiB of addresses
/// and its unused memory; our threads live for one move and allocate little. mallopt(3), M_ARENA_MAX.
const ARENAS_MAX: i32 = 2;

/// Free bytes at the end of an arena above which it returns memory to the kernel. This is malloc's default, but setting
/// it fixes it: otherwise it becomes twice the largest block ever freed, and malloc_trim(3) does not trim the end of
/// any arena but the first (glibc 2.36: 3 MiB in a host, from its first large move on). mallopt(3), M_TRIM_THRESHOLD.
const FREE_END_MAX: i32 = 128 << 10;

/// Makes malloc keep little free memory. Before: no thread was started.
pub fn frugal_malloc() {
    #[cfg(target_env = "gnu")]
    // SAFETY: plain numbers; only the allocator's own settings change.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_END_MAX)
    };
    // Creates the second arena now rather than later, so that memory use is constant from the start. If no thread can
    // be started, it is not created.
    let first = std::thread::Builder::new().spawn(|| std::hint::black_box(vec![0u8; 64]).len());
    let _ = first.map(std::thread::JoinHandle::join);
}

/// Returns to the kernel what a move freed between blocks in use: the process may never move again. malloc_trim(3).
pub fn give_back() {
    trim();
    FREED.store(true, Ordering::Relaxed);
}

/// Repeats [`give_back`] a moment later: threads that took part in a move end after it, and free their memory then.
pub fn give_back_rest() {
    if FREED.swap(false, Ordering::Relaxed) {
        trim();
    }
}

static FREED: AtomicBool = AtomicBool::new(false);

fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a plain number; only free memory is released.
    unsafe {
        libc::malloc_trim(0)
    };
}

pub fn is_terminal(fd: RawFd) -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::isatty(fd) == 1 }
}

/// F_GETFL.
pub fn status_flags(fd: RawFd) -> io::Result<i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::fcntl(fd, libc::F_GETFL) } as i64).map(|f| f as i32)
}

/// ioctl(2) with a number as argument.
pub fn ioctl_val(fd: RawFd, req: u64, arg: u64) -> io::Result<i64> {
    // SAFETY: no pointer is passed.
    check(unsafe { libc::ioctl(fd, req, arg) } as i64)
}

/// tgkill(2) to a thread of another process.
pub fn tgkill(tgid: i32, tid: i32, sig: i32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::syscall(libc::SYS_tgkill, tgid, tid, sig) }).map(|_| ())
}

pub fn kill(pid: i32, sig: i32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::kill(pid, sig) } as i64).map(|_| ())
}

/// A `siginfo_t` as raw bytes: 128 on x86-64.
pub type SigInfo = [u8; 128];

/// rt_sigqueueinfo(2), or rt_tgsigqueueinfo(2) when `tid` is given.
/// The kernel accepts only negative si_code other than SI_TKILL from outsiders.
pub fn sigqueue(tgid: i32, tid: Option<i32>, sig: i32, info: &SigInfo) -> io::Result<()> {
    let p = info.as_ptr();
    // SAFETY: `info` is 128 live bytes, the size of siginfo_t.
    let r = unsafe {
        match tid {
            Some(t) => libc::syscall(libc::SYS_rt_tgsigqueueinfo, tgid, t, sig, p),
            None => libc::syscall(libc::SYS_rt_sigqueueinfo, tgid, sig, p),
        }
    };
    check(r).map(|_| ())
}

/// get_robust_list(2) of another thread: head and length.
pub fn robust_list(tid: i32) -> io::Result<(u64, u64)> {
    let (mut head, mut len) = (0u64, 0u64);
    // SAFETY: two live u64s.
    check(unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &mut head, &mut len) })?;
    Ok((head, len))
}

/// Do two processes share one address space? KERNEL: kcmp(2) KCMP_VM.
pub fn same_mm(a: i32, b: i32) -> io::Result<bool> {
    // SAFETY: plain numbers.
    check(unsafe { libc::syscall(libc::SYS_kcmp, a, b, 1, 0, 0) }).map(|r| r == 0)
}

pub fn clock_ns(clock: i32) -> io::Result<u64> {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is live.
    check(unsafe { libc::clock_gettime(clock, &mut ts) } as i64)?;
    Ok(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// How often the calling thread gave up the processor because it waited for something.
pub fn waits() -> i64 {
    // SAFETY: all zeros are a valid rusage.
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `u` is live.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut u) };
    u.ru_nvcsw
}

/// A memory file of `size` sparse bytes. `exec` keeps it mappable as code.
pub fn memfd(name: &str, size: u64) -> io::Result<File> {
    let name =
        std::ffi::CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `name` is NUL-terminated and live.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) } as i64)?;
    // SAFETY: just returned by the kernel.
    let f = unsafe { File::from_raw_fd(fd as RawFd) };
    f.set_len(size)?;
    Ok(f)
}

/// The parts of a file that hold data. KERNEL: lseek(2), SEEK_DATA and SEEK_HOLE.
pub fn extents(fd: RawFd) -> io::Result<Vec<(u64, u64)>> {
    let seek = |from: i64, what: i32| -> io::Result<Option<i64>> {
        // SAFETY: numbers only.
        match check(unsafe { libc::lseek(fd, from, what) }) {
            Ok(at) => Ok(Some(at)),
            // Nothing after `from`.
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            Err(e) => Err(e),
        }
    };
    let (mut at, mut all) = (0, Vec::new());
    while let Some(start) = seek(at, libc::SEEK_DATA)? {
        at = seek(start, libc::SEEK_HOLE)?.unwrap_or(start);
        if at <= start {
            break;
        }
        all.push((start as u64, at as u64));
    }
    Ok(all)
}

/// A shared mapping that other threads and another process write too.
pub struct SharedMap {
    base: *mut u8,
    len: usize,
}

// SAFETY: access goes through atomics and volatile copies below; the mapping lives as long as the value.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    pub fn new(f: &File, len: usize) -> io::Result<SharedMap> {
        // SAFETY: a fresh mapping, address chosen by the kernel.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                f.as_raw_fd(),
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMap {
            base: p.cast(),
            len,
        })
    }

    pub fn write(&self, off: usize, data: &[u8]) {
        assert!(off.checked_add(data.len()).is_some_and(|e| e <= self.len));
        // SAFETY: inside the mapping; the peer is a waiting deputy that reads only after `u32_store`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.base.add(off), data.len()) }
    }

    pub fn read(&self, off: usize, buf: &mut [u8]) {
        assert!(off.checked_add(buf.len()).is_some_and(|e| e <= self.len));
        // SAFETY: inside the mapping; the bytes are plain data.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(off), buf.as_mut_ptr(), buf.len()) }
    }

    pub fn u64(&self, off: usize) -> u64 {
        let mut b = [0; 8];
        self.read(off, &mut b);
        u64::from_le_bytes(b)
    }

    pub fn set_u64(&self, off: usize, v: u64) {
        self.write(off, &v.to_le_bytes());
    }

    pub fn atomic(&self, off: usize) -> &std::sync::atomic::AtomicU32 {
        assert!(off.is_multiple_of(4) && off + 4 <= self.len);
        // SAFETY: aligned, inside the mapping, which outlives the reference.
        unsafe { &*self.base.add(off).cast() }
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: our own mapping, no reference outlives self.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// Waits while `*word == val`, at most `ms` milliseconds (0: without limit). Shared between processes.
pub fn futex_wait(word: &std::sync::atomic::AtomicU32, val: u32, ms: u64) {
    let ts = libc::timespec {
        tv_sec: (ms / 1000) as i64,
        tv_nsec: (ms % 1000 * 1_000_000) as i64,
    };
    let t = if ms == 0 { std::ptr::null() } else { &ts };
    // SAFETY: the word is live; spurious returns are expected by all callers.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            val,
            t,
            0,
            0,
        )
    };
}

pub fn futex_wake(word: &std::sync::atomic::AtomicU32) {
    // SAFETY: the word is live.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            i32::MAX,
            0,
            0,
            0,
        )
    };
}

/// Opens a signalfd for SIGCHLD and blocks it in the calling thread (and those it starts later).
pub fn sigchld_fd() -> io::Result<OwnedFd> {
    // SAFETY: a zeroed sigset filled by sigemptyset; all pointers live.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        let fd = check(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as i64)?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the descriptor is ours.
    unsafe {
        let fd = check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as i64)?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Waits until one of the descriptors is readable or `ms` passed (-1: without limit).
pub fn poll_in(fds: &[RawFd], ms: i32) -> Vec<bool> {
    let mut p: Vec<libc::pollfd> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: the array is live and its length given.
    unsafe { libc::poll(p.as_mut_ptr(), p.len() as u64, ms) };
    p.iter().map(|p| p.revents != 0).collect()
}

/// Bytes of struct sched_attr as sched_setattr(2) first had it.
pub const SCHED_ATTR: usize = 48;

/// How a thread is scheduled; 0 is the calling one.
pub fn sched_attr(tid: i32) -> io::Result<[u8; SCHED_ATTR]> {
    let mut attr = [0u8; SCHED_ATTR];
    // SAFETY: the kernel writes at most the bytes of `attr` that it is given.
    let got = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            tid,
            attr.as_mut_ptr(),
            SCHED_ATTR,
            0,
        )
    };
    check(got).map(|_| attr)
}

/// If refused (EPERM, EINVAL), nothing changes.
pub fn set_sched_attr(tid: i32, attr: &[u8; SCHED_ATTR]) -> io::Result<()> {
    // SAFETY: `attr` is a live struct sched_attr, with its size in it.
    let got = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, attr.as_ptr(), 0) };
    check(got).map(|_| ())
}

/// Empties a signalfd or eventfd.
pub fn drain(fd: RawFd) {
    let mut b = [0u8; 2048];
    // SAFETY: a live buffer; the descriptors are non-blocking.
    while unsafe { libc::read(fd, b.as_mut_ptr().cast(), b.len()) } > 0 {}
}

pub fn poke(fd: RawFd) {
    // SAFETY: eight live bytes.
    unsafe { libc::write(fd, 1u64.to_ne_bytes().as_ptr().cast(), 8) };
}

// The code that runs inside other processes. Position independent, no stack, no red zone, only
// registers that belong to us while we hold the thread. r15 is the only input.
//
//   +0    batch   r15 → {count, …64}, then entries {nr, a0..a5, ret} of 64 bytes; ends in int3
//   gate  one `syscall; int3` for a single call
//   loop  the deputy: r15 → its slot (offsets in region.rs). A clone's child takes its own slot from r14,
//         which it inherits: the parent's slot may hold the next call before the child runs.
std::arch::global_asm!(
    r#"
    .pushsection .rodata.armento_blob, "a"
    .balign 64
    .globl armento_blob
armento_blob:
    mov r14, [r15]
    lea r13, [r15 + 64]
1:  test r14, r14
    jz 2f
    mov rax, [r13]
    mov rdi, [r13 + 8]
    mov rsi, [r13 + 16]
    mov rdx, [r13 + 24]
    mov r10, [r13 + 32]
    mov r8, [r13 + 40]
    mov r9, [r13 + 48]
    syscall
    mov [r13 + 56], rax
    add r13, 64
    dec r14
    jmp 1b
2:  int3
    .globl armento_blob_gate
armento_blob_gate:
    syscall
    int3
    .globl armento_blob_loop
armento_blob_loop:
3:  xor eax, eax
    xchg eax, [r15]
    cmp eax, 1
    je 4f
    mov rdi, r15
    xor esi, esi
    xor edx, edx
    xor r10d, r10d
    mov eax, 202
    .globl armento_blob_idle
armento_blob_idle:
    syscall
    jmp 3b
4:  cmp qword ptr [r15 + 80], 0
    je 5f
    mov edi, 2
    lea rsi, [r15 + 96]
    xor edx, edx
    mov r10d, 8
    mov eax, 14
    syscall
5:  mov r14, [r15 + 72]
    mov rax, [r15 + 8]
    mov rdi, [r15 + 16]
    mov rsi, [r15 + 24]
    mov rdx, [r15 + 32]
    mov r10, [r15 + 40]
    mov r8, [r15 + 48]
    mov r9, [r15 + 56]
    .globl armento_blob_call
armento_blob_call:
    syscall
    .globl armento_blob_after
armento_blob_after:
    test rax, rax
    jnz 6f
    test r14, r14
    jz 6f
    mov r15, r14
    jmp 3b
6:  mov [r15 + 64], rax
    cmp qword ptr [r15 + 80], 0
    je 7f
    mov edi, 2
    lea rsi, [r15 + 104]
    xor edx, edx
    mov r10d, 8
    mov eax, 14
    syscall
7:  mov eax, 1
    xchg eax, [r15 + 4]
    cmp dword ptr [r15 + 112], 0
    je 3b
    lea rdi, [r15 + 4]
    mov esi, 1
    mov edx, 1
    mov eax, 202
    syscall
    jmp 3b
    .globl armento_blob_end
armento_blob_end:
    .popsection
"#
);

unsafe extern "C" {
    static armento_blob: u8;
    static armento_blob_gate: u8;
    static armento_blob_loop: u8;
    static armento_blob_idle: u8;
    static armento_blob_call: u8;
    static armento_blob_after: u8;
    static armento_blob_end: u8;
}

/// The injected code and the offsets of its labels.
pub struct Blob {
    pub code: &'static [u8],
    pub gate: u64,
    pub deputy: u64,
    /// Address of the idle wait's `syscall`.
    pub idle: u64,
    /// Address of the forwarded call's `syscall`.
    pub call: u64,
    /// The instruction after it.
    pub after: u64,
}

pub fn blob() -> Blob {
    // SAFETY: labels of the assembly above, in one section, in this order.
    unsafe {
        let start = &raw const armento_blob;
        let off = |p: *const u8| p as u64 - start as u64;
        Blob {
            code: std::slice::from_raw_parts(start, off(&raw const armento_blob_end) as usize),
            gate: off(&raw const armento_blob_gate),
            deputy: off(&raw const armento_blob_loop),
            idle: off(&raw const armento_blob_idle),
            call: off(&raw const armento_blob_call),
            after: off(&raw const armento_blob_after),
        }
    }
}

/// Soft and hard limit of a process.
pub fn limit(pid: i32, resource: u32) -> Option<(u64, u64)> {
    let mut l = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a live struct.
    let r = unsafe { libc::prlimit64(pid, resource as _, std::ptr::null(), &mut l) };
    (r == 0).then_some((l.rlim_cur, l.rlim_max))
}

/// Raises this process's descriptor limit to the most that it may have. Returns that limit.
pub fn all_descriptors() -> u64 {
    let me = std::process::id() as i32;
    let Some((soft, hard)) = limit(me, libc::RLIMIT_NOFILE) else {
        return 0;
    };
    let all = libc::rlimit64 {
        rlim_cur: hard,
        rlim_max: hard,
    };
    // SAFETY: a live struct; only our own limit changes.
    match unsafe { libc::setrlimit64(libc::RLIMIT_NOFILE, &all) } {
        0 => hard,
        _ => soft,
    }
}

/// Limits that a body's memory depends on: stack, data, address space, locked memory.
pub fn limits(pid: i32) -> Vec<(u32, u64, u64)> {
    [
        libc::RLIMIT_STACK,
        libc::RLIMIT_DATA,
        libc::RLIMIT_AS,
        libc::RLIMIT_MEMLOCK,
    ]
    .into_iter()
    .filter_map(|r| limit(pid, r).map(|(soft, hard)| (r, soft, hard)))
    .collect()
}
