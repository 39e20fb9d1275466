//! System calls that no safe crate of this tree offers.

use armento_model::Pid;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

fn check(r: i64) -> io::Result<i64> {
    match r {
        -1 => Err(io::Error::last_os_error()),
        r => Ok(r),
    }
}

/// Words in memory that is shared with all processes forked from here; zero at first, never given back.
pub fn shared_words(count: usize) -> io::Result<&'static [AtomicU32]> {
    let size = count * size_of::<AtomicU32>();
    let (rights, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping of `size` zero bytes, which is never unmapped; atomics may be shared, and zero is one.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), size, rights, kind, -1, 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(std::slice::from_raw_parts(at.cast(), count))
    }
}

/// Waits while the word has this value, at most so long; may return early. KERNEL: futex(2), shared between processes.
pub fn wait(word: &AtomicU32, value: u32, at_most: Duration) {
    let time = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: at_most.subsec_nanos().into(),
    };
    // SAFETY: the word and the time live; the kernel reads them.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const time,
        );
    }
}

pub fn wake(word: &AtomicU32) {
    // SAFETY: the word lives; the kernel only uses its address.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Forks; 0 in the child. With `pid` the child gets this number. KERNEL: clone(2), clone3 with set_tid, Linux 5.5.
/// Before: the calling process has one thread, so the child may do whatever it could.
pub fn fork(pid: Option<Pid>) -> io::Result<Pid> {
    let wanted = pid.unwrap_or(0);
    // SAFETY: clone_args is plain integers, of which zero is a value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.exit_signal = libc::SIGCHLD as u64;
    if pid.is_some() {
        args.set_tid = &raw const wanted as u64;
        args.set_tid_size = 1;
    }
    // SAFETY: as fork(2): no flags, a copy of the stack; the arguments live.
    let child =
        check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) });
    child.map(|c| c as Pid)
}

/// Ends this process without a word to anything that is shared with its parent.
pub fn exit(code: i32) -> ! {
    // SAFETY: no memory is touched.
    unsafe { libc::_exit(code) }
}

pub fn exec(path: &CString, argv: &[CString], environment: &[CString]) -> io::Error {
    let list = |of: &[CString]| -> Vec<*const libc::c_char> {
        let words = of.iter().map(|w| w.as_ptr());
        words.chain([std::ptr::null()]).collect()
    };
    let (argv, environment) = (list(argv), list(environment));
    // SAFETY: both lists end with null and live until the call returns.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Duplicates a descriptor to this number, open over an exec. KERNEL: dup2(2).
pub fn duplicate_to(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: numbers of descriptors; what `to` was is closed, which the caller means.
    check(unsafe { libc::dup2(from, to) }.into()).map(drop)
}

/// Duplicates a descriptor to a free number not below `least`.
pub fn duplicate_above(from: BorrowedFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the new descriptor has no other owner.
    unsafe {
        let fd = check(libc::fcntl(from.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least).into())?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// The same, open over an exec.
pub fn duplicate_above_over_exec(from: BorrowedFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the new descriptor has no other owner.
    unsafe {
        let fd = check(libc::fcntl(from.as_raw_fd(), libc::F_DUPFD, least).into())?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// A standard stream of this process, if it is open.
pub fn standard(number: u8) -> Option<BorrowedFd<'static>> {
    let fd = RawFd::from(number);
    // SAFETY: F_GETFD reads; 0, 1 and 2 are not closed while processes are assembled.
    unsafe { (libc::fcntl(fd, libc::F_GETFD) >= 0).then(|| BorrowedFd::borrow_raw(fd)) }
}

/// Closes all descriptors from `first` to `last`. KERNEL: close_range(2), Linux 5.9.
pub fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the caller starts another program next, or ends.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(drop)
}

pub fn set_limit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit64 {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: the kernel reads one rlimit64.
    check(unsafe { libc::setrlimit64(resource, &raw const limit) }.into()).map(drop)
}

pub fn limit(resource: u32) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit64.
    check(unsafe { libc::getrlimit64(resource, &raw mut limit) }.into())?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// User and groups of this process, all of them. KERNEL: the system calls, since a process with one thread needs no more.
pub fn become_user(uids: [u32; 3], gids: [u32; 3], groups: &[u32]) -> io::Result<()> {
    // SAFETY: the kernel reads `groups.len()` numbers; the rest are numbers.
    unsafe {
        let count = groups.len();
        check(libc::syscall(libc::SYS_setgroups, count, groups.as_ptr()))?;
        check(libc::syscall(
            libc::SYS_setresgid,
            gids[0],
            gids[1],
            gids[2],
        ))?;
        check(libc::syscall(
            libc::SYS_setresuid,
            uids[0],
            uids[1],
            uids[2],
        ))?;
    }
    Ok(())
}

/// Does something with the files that a user may use: without root's powers over files. KERNEL: setfsuid(2); capabilities(7),
/// "Effect of user ID changes on capabilities". Before: this thread is root's.
pub fn with_files_of<T>(
    (uid, gid, groups): (u32, u32, &[u32]),
    what: impl FnOnce() -> T,
) -> io::Result<T> {
    let own = rustix::process::getgroups()?;
    let own: Vec<u32> = own.iter().map(|g| g.as_raw()).collect();
    let set_groups = |all: &[u32]| {
        // SAFETY: the kernel reads so many numbers.
        check(unsafe { libc::syscall(libc::SYS_setgroups, all.len(), all.as_ptr()) })
    };
    set_groups(groups)?;
    // SAFETY: numbers only. They tell the value before and no error: asked with one that is none, the value now.
    let is_user = unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX) as u32 == uid
    };
    let done = is_user.then(what);
    // SAFETY: numbers only.
    unsafe {
        libc::setfsuid(0);
        libc::setfsgid(rustix::process::getegid().as_raw());
    }
    set_groups(&own)?;
    done.ok_or_else(|| io::ErrorKind::PermissionDenied.into())
}

pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: numbers only.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }.into()).map(drop)
}

pub fn nice() -> i32 {
    // SAFETY: numbers only. An error would read as -1, which is a niceness too.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

pub fn set_personality(persona: u32) {
    // SAFETY: a number; it takes effect for programs that are started later.
    unsafe { libc::personality(persona.into()) };
}

pub fn set_no_new_privs() -> io::Result<()> {
    // SAFETY: numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into()).map(drop)
}

/// A lock of fcntl(2) on bytes `start` to `end`; `command` is F_SETLK or F_OFD_SETLK.
pub fn lock(
    fd: BorrowedFd,
    command: i32,
    exclusive: bool,
    start: u64,
    end: Option<u64>,
) -> io::Result<()> {
    // SAFETY: flock is plain integers, of which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = match exclusive {
        true => libc::F_WRLCK,
        false => libc::F_RDLCK,
    } as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    let wrong = |_| io::Error::from_raw_os_error(libc::EINVAL);
    lock.l_start = start.try_into().map_err(wrong)?;
    // Length 0: to the end of the file.
    let length = end.map_or(0, |end| end.saturating_sub(start).saturating_add(1));
    lock.l_len = length.try_into().map_err(wrong)?;
    // SAFETY: the kernel reads one flock.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), command, &raw const lock) }.into()).map(drop)
}

/// signalfd(2) of the signals in `mask`. KERNEL: the mask has eight bytes.
pub fn signals(mask: u64) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads eight bytes; the new descriptor has no other owner.
    unsafe {
        let at = &raw const mask;
        let fd = check(libc::syscall(
            libc::SYS_signalfd4,
            -1,
            at,
            8,
            libc::SFD_CLOEXEC,
        ))?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Expirations of a timerfd that were not read yet. KERNEL: include/uapi/linux/timerfd.h; needs CONFIG_CHECKPOINT_RESTORE.
pub fn set_ticks(timer: BorrowedFd, ticks: u64) -> io::Result<()> {
    const TFD_IOC_SET_TICKS: libc::Ioctl = 0x4008_5400;
    // SAFETY: the kernel reads one u64.
    let r = unsafe { libc::ioctl(timer.as_raw_fd(), TFD_IOC_SET_TICKS, &raw const ticks) };
    check(r.into()).map(drop)
}

/// The number that the next watch of an inotify instance gets. KERNEL: include/uapi/linux/inotify.h; needs
/// CONFIG_CHECKPOINT_RESTORE.
pub fn set_next_watch(inotify: BorrowedFd, number: i32) -> io::Result<()> {
    const INOTIFY_IOC_SETNEXTWD: libc::Ioctl = 0x4004_4900;
    // SAFETY: the kernel takes a number.
    let r = unsafe { libc::ioctl(inotify.as_raw_fd(), INOTIFY_IOC_SETNEXTWD, number) };
    check(r.into()).map(drop)
}

pub fn watch(epoll: BorrowedFd, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: the kernel reads one epoll_event.
    let r = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    check(r.into()).map(drop)
}

/// A descriptor of this process, by its number.
pub fn borrow(fd: &RawFd) -> BorrowedFd<'_> {
    // SAFETY: the caller put it there, and closes nothing meanwhile.
    unsafe { BorrowedFd::borrow_raw(*fd) }
}

/// Rust's start code ignores SIGPIPE; a program begins with what the kernel gives it.
pub fn default_sigpipe() {
    // SAFETY: SIG_DFL is no function of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Blocks signals for this thread.
pub fn block(signals: &[i32]) {
    // SAFETY: sets of signals live on the stack; numbers are signals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for s in signals {
            libc::sigaddset(&raw mut set, *s);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

pub fn unblock(signal: i32) {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Waits for one of these blocked signals: its number, and whether a process sent it.
pub fn next_signal(signals: &[i32]) -> io::Result<(i32, bool)> {
    // SAFETY: sets and siginfo live on the stack.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for s in signals {
            libc::sigaddset(&raw mut set, *s);
        }
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let signal = check(libc::sigwaitinfo(&raw const set, &raw mut info).into())?;
        Ok((signal as i32, info.si_code <= 0))
    }
}

/// Ends this process as this signal ends one.
pub fn die_of(signal: i32) -> ! {
    // SAFETY: the default action of a signal that ends a process; no core of this one.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        unblock(signal);
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}
