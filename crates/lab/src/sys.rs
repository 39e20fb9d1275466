//! Every system call of the lab that std does not wrap.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use libc::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUTS, MS_BIND,
    MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, MS_REMOUNT, SIGCHLD, SIGCONT, SIGKILL,
    SIGTERM,
};

fn check(rc: libc::c_long) -> io::Result<libc::c_long> {
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc)
    }
}

fn c(s: &OsStr) -> io::Result<CString> {
    CString::new(s.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

pub fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

pub fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: changes only the caller's namespaces; no memory is passed.
    check(unsafe { libc::unshare(flags) }.into()).map(drop)
}

pub fn setns(fd: &impl AsRawFd, flags: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open for the time of the call.
    check(unsafe { libc::setns(fd.as_raw_fd(), flags) }.into()).map(drop)
}

/// `mount(2)`; empty strings stand for null.
pub fn mount(what: &Path, at: &Path, fs: &str, flags: u64, data: &str) -> io::Result<()> {
    let (what, at) = (c(what.as_os_str())?, c(at.as_os_str())?);
    let (fs, data) = (c(fs.as_ref())?, c(data.as_ref())?);
    let or_null = |s: &CString| {
        if s.is_empty() {
            std::ptr::null()
        } else {
            s.as_ptr()
        }
    };
    // SAFETY: all pointers are null or NUL-terminated strings that outlive the call.
    let rc = unsafe {
        libc::mount(
            or_null(&what),
            at.as_ptr(),
            or_null(&fs),
            flags,
            or_null(&data).cast(),
        )
    };
    check(rc.into()).map(drop)
}

/// Makes the current directory the root and drops the old root with all its mounts.
/// Before: the current directory is a mount point, propagation is private.
pub fn pivot_root_here() -> io::Result<()> {
    let dot = c".".as_ptr();
    // SAFETY: static strings. pivot_root(".", ".") stacks the old root on the new
    // one, which the umount then detaches (pivot_root(2), "pivot_root(".", ".")").
    unsafe {
        check(libc::syscall(libc::SYS_pivot_root, dot, dot))?;
        check(libc::umount2(dot, libc::MNT_DETACH).into())?;
        check(libc::chdir(c"/".as_ptr()).into())?;
    }
    Ok(())
}

pub fn sethostname(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length describe `name`.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into()).map(drop)
}

/// The kernel sends `signal` to this process when the thread that started it ends.
pub fn set_parent_death_signal(signal: i32) -> io::Result<()> {
    // SAFETY: plain integers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) }.into()).map(drop)
}

pub fn setsid() {
    // SAFETY: no arguments; fails only when this process already leads a group, which has the same effect.
    unsafe { libc::setsid() };
}

/// CPUs this process may use.
pub fn affinity() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain bits; the kernel fills at most its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return vec![0];
        }
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&i| libc::CPU_ISSET(i, &set))
            .collect()
    }
}

pub fn pin_to(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: as in `affinity`; CPU_SET checks its index.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set).into()).map(drop)
    }
}

pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: on success the kernel returns a new descriptor that has no other owner.
    unsafe {
        let fd = check(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

pub fn pidfd_kill(fd: &OwnedFd, signal: i32) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo is allowed; the descriptor is open.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, none, 0) })
        .map(drop)
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: plain integers; a process that is gone is no error here.
    unsafe { libc::kill(pid, signal) };
}

/// Stops this process until it is continued.
pub fn stop_self() {
    // SAFETY: plain integer.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Signals blocked for as long as this lives; `wait` takes them one by one.
pub struct Signals {
    set: libc::sigset_t,
    old: libc::sigset_t,
}

impl Signals {
    pub fn block(signals: &[i32]) -> Signals {
        // SAFETY: sigset_t is plain bits, initialised by sigemptyset before use.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut old: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &s in signals {
                libc::sigaddset(&mut set, s);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut old);
            Signals { set, old }
        }
    }

    /// The next signal and whether another process sent it (not a terminal, not the kernel).
    pub fn wait(&self) -> (i32, bool) {
        loop {
            // SAFETY: the set was initialised; the kernel fills `info`.
            let (n, code) = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                (libc::sigwaitinfo(&self.set, &mut info), info.si_code)
            };
            if n > 0 {
                return (n, code <= 0);
            }
        }
    }

    /// As `wait`, but waits at most `ms` milliseconds; `None` when nothing came.
    pub fn wait_for(&self, ms: u32) -> Option<i32> {
        let t = libc::timespec {
            tv_sec: i64::from(ms / 1000),
            tv_nsec: i64::from(ms % 1000) * 1_000_000,
        };
        // SAFETY: set and timespec are initialised; a null siginfo is allowed.
        let n = unsafe { libc::sigtimedwait(&self.set, std::ptr::null_mut(), &t) };
        (n > 0).then_some(n)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: `old` was filled by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.old, std::ptr::null_mut()) };
    }
}

/// What happened to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Exit status as a shell counts it: 128 + N when killed by signal N.
    Ended(i32, i32),
    Stopped(i32),
    /// There are children, none of them has changed state.
    Nothing,
    NoChildren,
}

/// State change of child `pid` (-1: any), without blocking.
pub fn wait_child(pid: i32) -> Waited {
    let mut status = 0;
    // SAFETY: the kernel writes one int.
    match unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG | libc::WUNTRACED) } {
        0 => Waited::Nothing,
        p if p < 0 => Waited::NoChildren,
        p if libc::WIFSTOPPED(status) => Waited::Stopped(p),
        p if libc::WIFSIGNALED(status) => Waited::Ended(p, 128 + libc::WTERMSIG(status)),
        p => Waited::Ended(p, libc::WEXITSTATUS(status)),
    }
}

/// Splits the process; `Some(pid)` in the parent, `None` in the child. Before: no other thread runs (the child would
/// inherit their locks held).
pub fn fork() -> io::Result<Option<i32>> {
    // SAFETY: the caller is single-threaded, so the child's memory is consistent.
    let pid = check(unsafe { libc::fork() }.into())?;
    Ok((pid > 0).then_some(pid as i32))
}

/// Ends the child of a fork at once, without running the parent's destructors.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: never returns.
    unsafe { libc::_exit(code) }
}

/// Gives up root permanently.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: pointer and length describe `groups`.
    unsafe {
        check(libc::setgroups(groups.len(), groups.as_ptr()).into())?;
        check(libc::setgid(gid).into())?;
        check(libc::setuid(uid).into())?;
    }
    Ok(())
}

/// Switches one offload of a network interface of the current namespace. `command` is a `ETHTOOL_S…` of
/// linux/ethtool.h.
pub fn ethtool(interface: &str, command: u32, on: bool) -> io::Result<()> {
    #[repr(C)]
    struct Value {
        cmd: u32,
        data: u32,
    }
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // SAFETY: ifreq is plain bytes; its name is cut to fit with a final NUL; ifru_data
    // points to a Value that outlives the call; the socket is closed by OwnedFd.
    unsafe {
        let fd =
            check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        let fd = OwnedFd::from_raw_fd(fd as i32);
        let mut value = Value {
            cmd: command,
            data: on.into(),
        };
        let mut req: libc::ifreq = std::mem::zeroed();
        for (to, from) in req
            .ifr_name
            .iter_mut()
            .take(libc::IFNAMSIZ - 1)
            .zip(interface.bytes())
        {
            *to = from as libc::c_char;
        }
        req.ifr_ifru.ifru_data = (&raw mut value).cast();
        check(libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &mut req).into()).map(drop)
    }
}

fn clock(clock: libc::clockid_t) -> std::time::Duration {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills one timespec; these clocks are always there.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    std::time::Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Processor time of all threads of this process.
pub fn process_cpu() -> std::time::Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of this thread.
pub fn thread_cpu() -> std::time::Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Files of a node are made with ordinary modes, whatever the caller's umask.
pub fn usual_umask() {
    // SAFETY: plain integer, cannot fail.
    unsafe { libc::umask(0o022) };
}

/// Programs started from here on inherit only 0, 1 and 2: a pipe kept open by a background process would hang its
/// reader.
pub fn keep_files_private() {
    let last = libc::c_uint::MAX;
    // SAFETY: only sets close-on-exec; no descriptor is closed under its owner.
    unsafe { libc::syscall(libc::SYS_close_range, 3, last, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Closes inherited descriptors. Before: first act of the process; it owns no descriptor but 0, 1 and 2.
pub fn close_inherited() {
    let last = libc::c_uint::MAX;
    // SAFETY: by the precondition these descriptors are not in use.
    unsafe { libc::syscall(libc::SYS_close_range, 3, last, 0) };
}

/// Points descriptors 0, 1 and 2 to `fd`.
pub fn redirect_stdio(fd: &impl AsRawFd) -> io::Result<()> {
    for n in 0..3 {
        // SAFETY: replaces this process's standard descriptors, which std never caches.
        check(unsafe { libc::dup2(fd.as_raw_fd(), n) }.into())?;
    }
    Ok(())
}

/// Resets a TCP connection: its peer sees RST, readers on this side the end of the stream.
pub fn reset(s: &std::net::TcpStream) -> io::Result<()> {
    // KERNEL: tcp(7), connect(2): AF_UNSPEC dissolves the association; an open one with RST.
    // SAFETY: a sockaddr of zeroes is AF_UNSPEC, and lives as long as the call.
    let rc = unsafe {
        let none: libc::sockaddr = std::mem::zeroed();
        let len = std::mem::size_of_val(&none) as libc::socklen_t;
        libc::connect(s.as_raw_fd(), &raw const none, len)
    };
    check(rc.into()).map(drop)
}
