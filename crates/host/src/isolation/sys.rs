//! The unsafe lines of isolation: the host's user, the guests' namespaces, their guard and zygote.
//!
//! From: `namespaces.rs`, `privileges.rs`, `host/src/start.rs`. Next: `host/src/inject/zygote.rs`, which finds the zygote.

use crate::sys::check;
use armento_tracee::region::BASE;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Becomes `uid` for good (when root) and stays traceable by itself. No program that it or a guest would exec has more
/// rights, and no memory goes to this node's handler of core dumps, which is root's.
/// KERNEL: core(5): a limit of 1 stops a handler behind a pipe, too, and 0 does not.
pub fn become_user(uid: u32, procs_max: u64) -> io::Result<()> {
    let most = libc::rlimit64 {
        rlim_cur: procs_max,
        rlim_max: procs_max,
    };
    let one = libc::rlimit64 {
        rlim_cur: 1,
        rlim_max: 1,
    };
    // SAFETY: plain numbers.
    unsafe {
        if libc::geteuid() == 0 && uid != 0 {
            check(libc::setgroups(0, std::ptr::null()).into())?;
            check(libc::setresgid(uid, uid, uid).into())?;
            // The user runs nothing else: the limit counts the guests of one tree.
            if procs_max != 0 {
                check(libc::setrlimit64(libc::RLIMIT_NPROC, &most).into())?;
            }
            check(libc::setresuid(uid, uid, uid).into())?;
        }
        check(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0).into())?;
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        // A lower limit is as good.
        libc::setrlimit64(libc::RLIMIT_CORE, &one);
    }
    Ok(())
}

pub fn euid() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() }
}

fn pair(kind: i32) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: two live ints; the descriptors are ours.
    unsafe {
        check(
            libc::socketpair(
                libc::AF_UNIX,
                kind | libc::SOCK_CLOEXEC,
                0,
                fds.as_mut_ptr(),
            )
            .into(),
        )?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// The guest's namespaces with their first process.
pub struct Guests {
    /// As this node numbers it.
    pub guard: i32,
    /// When the last copy of this closes, the guard ends every guest.
    pub alive: OwnedFd,
    /// Our end of the socket by which bodies receive descriptors; theirs is descriptor 0.
    pub pass: OwnedFd,
}

/// All kinds of namespaces that guests live in.
pub const NEW: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// Makes namespaces of these kinds for a moment, one of users among them, and uses a right that it gives.
/// Before: this process has one thread, and takes its children's ends.
pub fn try_namespaces(kinds: i32) -> io::Result<()> {
    // SAFETY: fork without a new stack; the child only makes system calls and never returns.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, kinds | libc::SIGCHLD, 0, 0, 0, 0) })?;
    if pid == 0 {
        // SAFETY: plain numbers in a child of our own. AppArmor lets the namespace be made, and gives no rights in it.
        unsafe {
            let failed = libc::unshare(libc::CLONE_NEWUTS) != 0;
            libc::_exit(if failed { *libc::__errno_location() } else { 0 });
        }
    }
    ended_with(pid as i32)
}

/// Runs `what` in a child. Before: this process has one thread.
pub fn in_child(what: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: fork of a process with one thread; the child never returns.
    let pid = check(i64::from(unsafe { libc::fork() }))?;
    if pid == 0 {
        let errno = what()
            .err()
            .map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO));
        // SAFETY: plain number.
        unsafe { libc::_exit(errno) };
    }
    ended_with(pid as i32)
}

/// A child of ours whose exit code is an errno.
fn ended_with(pid: i32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: one live int; the child is ours and ends at once.
    check(i64::from(unsafe { libc::waitpid(pid, &mut status, 0) }))?;
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        errno if libc::WIFEXITED(status) => Err(io::Error::from_raw_os_error(errno)),
        _ => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}

/// Starts the guard (pid 1 of new namespaces), which forks the zygote.
/// Before: this process has one thread. `ahead_ns`: what to add to this node's monotonic clock (0: no time namespace).
pub fn start_guests(region: &File, len: u64, ahead_ns: i64) -> io::Result<Guests> {
    let (alive, guard_alive) = pair(libc::SOCK_STREAM)?;
    let (pass, body_pass) = pair(libc::SOCK_STREAM)?;
    let (uid, gid) = (euid(), region_gid());
    // SAFETY: fork without a new stack; the child only makes system calls and never returns.
    let pid =
        check(unsafe { libc::syscall(libc::SYS_clone, NEW | libc::SIGCHLD, 0, 0, 0, 0) })? as i32;
    if pid == 0 {
        // The parent's ends must close in the child, or it would keep itself alive.
        // SAFETY: the child's own copies of descriptors; it never returns to their owners.
        unsafe {
            libc::close(alive.as_raw_fd());
            libc::close(pass.as_raw_fd());
            guard(
                guard_alive.as_raw_fd(),
                body_pass.as_raw_fd(),
                region.as_raw_fd(),
                len,
                ahead_ns,
            )
        }
    }
    drop(guard_alive);
    let ready = (|| {
        std::fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
        std::fs::write(format!("/proc/{pid}/uid_map"), format!("0 {uid} 1"))?;
        std::fs::write(format!("/proc/{pid}/gid_map"), format!("0 {gid} 1"))?;
        send_byte(alive.as_raw_fd())?;
        await_steps(alive.as_raw_fd())
    })();
    if let Err(e) = ready {
        // SAFETY: our own child.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        return Err(e);
    }
    Ok(Guests {
        guard: pid,
        alive,
        pass,
    })
}

/// What the guard does before there is a guest, in this order. When one fails there is no guest.
const STEPS: [&str; 8] = [
    "close this node's descriptors",
    "leave this node's session",
    "continue home's clock",
    "leave this node's mounts",
    "make an empty file system",
    "make it the root",
    "let go of this node's files",
    "make the first guest",
];

/// Reads the guard's report: how many of [`STEPS`] are done, and why the next failed.
fn await_steps(alive: RawFd) -> io::Result<()> {
    let mut report = [0u32; 2];
    // SAFETY: eight live bytes.
    let n = unsafe { libc::read(alive, report.as_mut_ptr().cast(), 8) };
    let what = match report {
        _ if n != 8 => "end the guests' guard".to_owned(),
        [done, _] if done as usize >= STEPS.len() => return Ok(()),
        [done, why] => {
            let why = io::Error::from_raw_os_error(why as i32);
            format!("{}: {why}", STEPS[done as usize])
        }
    };
    let why = format!("the walls around guests cannot be built here, so none runs: {what}");
    Err(io::Error::other(why))
}

fn region_gid() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::getegid() }
}

fn send_byte(fd: RawFd) -> io::Result<()> {
    // SAFETY: one live byte.
    check(unsafe { libc::write(fd, b"g".as_ptr().cast(), 1) } as i64).map(drop)
}

/// Pid 1 of the guests: makes the zygote, then waits for the host's end and ends everything.
///
/// # Safety
/// Runs in a fresh single-threaded child; only system calls, no allocation.
unsafe fn guard(alive: RawFd, pass: RawFd, region: RawFd, len: u64, ahead_ns: i64) -> ! {
    // SAFETY: all pointers below are to live locals or static strings.
    unsafe {
        let mut b = 0u8;
        if libc::read(alive, (&raw mut b).cast(), 1) != 1 {
            libc::_exit(1);
        }
        libc::prctl(libc::PR_SET_NAME, c"armento-guard".as_ptr(), 0, 0, 0);
        // A parent that ignores SIGCHLD has no zombies: pids come free at once.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        let mut report = [0u32; 2];
        let isolated = isolate([alive, pass, region], ahead_ns, &mut report[0]);
        let child = if isolated { libc::fork() } else { -1 };
        if child == 0 {
            zygote(pass, region, len);
        }
        if child > 0 {
            report[0] += 1;
        } else {
            report[1] = *libc::__errno_location() as u32;
        }
        libc::write(alive, report.as_ptr().cast(), 8);
        if child < 0 {
            libc::_exit(1);
        }
        libc::close(pass);
        libc::close(region);
        let mut p = libc::pollfd {
            fd: alive,
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            libc::poll(&mut p, 1, -1);
            if libc::read(alive, (&raw mut b).cast(), 1) <= 0 {
                break;
            }
        }
        libc::kill(-1, libc::SIGKILL);
        while libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL) > 0 {}
        libc::_exit(0);
    }
}

/// [`STEPS`] up to the first guest; `done` counts them. False: the next failed, errno has the reason.
unsafe fn isolate(keep: [RawFd; 3], ahead_ns: i64, done: &mut u32) -> bool {
    // SAFETY: see `guard`.
    unsafe {
        let mut step = |good: bool| {
            *done += u32::from(good);
            good
        };
        // Limits of what guests could make of namespaces of their own; not every node lets us set them.
        no_namespaces();
        // This node's memory runs out: guests go first. KERNEL: proc_pid_oom_score_adj(5); raising it needs no privilege.
        let fd = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY);
        libc::write(fd, c"1000".as_ptr().cast(), 4);
        libc::close(fd);
        step(keep_only(keep))
            && step(libc::setsid() >= 0)
            && step(ahead_ns == 0 || shift_clock(ahead_ns))
            && empty_root(&mut step)
    }
}

/// Closes the other descriptors of the host: its links, its log, its files.
unsafe fn keep_only(mut keep: [RawFd; 3]) -> bool {
    // SAFETY: plain numbers; see `guard`.
    unsafe {
        keep.sort_unstable();
        let mut from = 0u32;
        for fd in keep.map(|fd| fd as u32).into_iter().chain([u32::MAX]) {
            if from < fd && libc::syscall(libc::SYS_close_range, from, fd - 1, 0) != 0 {
                return false;
            }
            from = fd.saturating_add(1);
        }
        true
    }
}

/// A guest that got past the filter could make no namespace in which it has rights.
/// KERNEL: namespaces(7), /proc/sys/user: these count in the user namespace of the process that opens them.
unsafe fn no_namespaces() {
    // SAFETY: static paths and bytes; see `guard`.
    unsafe {
        for path in [
            c"/proc/sys/user/max_user_namespaces",
            c"/proc/sys/user/max_net_namespaces",
            c"/proc/sys/user/max_pid_namespaces",
            c"/proc/sys/user/max_ipc_namespaces",
            c"/proc/sys/user/max_uts_namespaces",
            c"/proc/sys/user/max_mnt_namespaces",
            c"/proc/sys/user/max_cgroup_namespaces",
        ] {
            let fd = libc::open(path.as_ptr(), libc::O_WRONLY);
            if fd >= 0 {
                libc::write(fd, c"0".as_ptr().cast(), 1);
                libc::close(fd);
            }
        }
    }
}

/// KERNEL: time_namespaces(7): children made from now on see the clocks moved.
unsafe fn shift_clock(ahead_ns: i64) -> bool {
    // SAFETY: a live buffer on the stack and static paths; see `guard`.
    unsafe {
        if libc::unshare(0x80) != 0 {
            return false;
        }
        let fd = libc::open(c"/proc/self/timens_offsets".as_ptr(), libc::O_WRONLY);
        let mut text = [0u8; 128];
        let (s, ns) = (
            ahead_ns.div_euclid(1_000_000_000),
            ahead_ns.rem_euclid(1_000_000_000),
        );
        let n = libc::snprintf(
            text.as_mut_ptr().cast(),
            text.len(),
            c"monotonic %lld %lld\nboottime %lld %lld\n".as_ptr(),
            s,
            ns,
            s,
            ns,
        );
        let wrote = libc::write(fd, text.as_ptr().cast(), n as usize);
        libc::close(fd);
        wrote == n as isize
    }
}

/// An empty, read-only file system as root, and no way to the old one.
unsafe fn empty_root(step: &mut impl FnMut(bool) -> bool) -> bool {
    // SAFETY: static strings; see `guard`.
    unsafe {
        let (none, here) = (c"none".as_ptr(), c".".as_ptr());
        let alone = libc::MS_REC | libc::MS_PRIVATE;
        let empty = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let nothing = std::ptr::null();
        let (proc, tmpfs) = (c"/proc".as_ptr(), c"tmpfs".as_ptr());
        let size = c"size=4k,nr_inodes=2,mode=0555".as_ptr();
        step(libc::mount(none, c"/".as_ptr(), nothing, alone, nothing.cast()) == 0)
            && step(
                libc::mount(none, proc, tmpfs, empty, size.cast()) == 0 && libc::chdir(proc) == 0,
            )
            // KERNEL: pivot_root(2): with "." twice the old root lies over the new one.
            && step(libc::syscall(libc::SYS_pivot_root, here, here) == 0)
            && step(
                libc::umount2(here, libc::MNT_DETACH) == 0 && libc::chdir(c"/".as_ptr()) == 0,
            )
    }
}

/// The stopped ancestor of all bodies: nothing but the region, and descriptor 0.
unsafe fn zygote(pass: RawFd, region: RawFd, len: u64) -> ! {
    // SAFETY: a fixed mapping at an address that nothing uses; see `guard`.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"armento-zygote".as_ptr(), 0, 0, 0);
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
        let p = libc::mmap(BASE as *mut _, len as usize, prot, flags, region, 0);
        if p as u64 != BASE {
            libc::_exit(2);
        }
        libc::dup2(pass, 0);
        libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0);
        // Not through the C library: it refuses its own two signals, which it makes its children ignore.
        let default = [0u64; 4];
        for s in 1..65 {
            let none = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, s, default.as_ptr(), none, 8);
        }
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        keep_only_restore();
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        loop {
            libc::pause();
        }
    }
}

/// Bodies need CAP_CHECKPOINT_RESTORE (set_tid) in their own, empty user namespace and nothing else.
unsafe fn keep_only_restore() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    // _LINUX_CAPABILITY_VERSION_3; CAP_CHECKPOINT_RESTORE is number 40: bit 8 of the second word.
    let h = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let data: [u32; 6] = [0, 0, 0, 1 << 8, 1 << 8, 0];
    // SAFETY: two live structs of the layout capset(2) wants.
    unsafe { libc::syscall(libc::SYS_capset, &h, data.as_ptr()) };
}
