//! The only unsafe code of the command line: a command that alone reacts to the terminal's signals; the socket of a
//! context; what the processes of MFS need to become a user and to mount.

use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEYS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Runs a command to its end. Ctrl-C and Ctrl-\ reach only the command, as with system(3).
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    // SAFETY: signal(2) with a constant disposition touches no memory of this process.
    let before = KEYS.map(|sig| unsafe { libc::signal(sig, libc::SIG_IGN) });
    let restore = move || {
        for (sig, was) in KEYS.into_iter().zip(before) {
            // SAFETY: `was` is the kernel's previous disposition of this signal; signal(2) may be called after a fork.
            unsafe { libc::signal(sig, was) };
        }
        Ok(())
    };
    // SAFETY: `restore` calls signal(2) alone and allocates nothing.
    let status = unsafe { command.pre_exec(restore) }.status();
    restore()?;
    status
}

/// The control socket of every session of this process from now on. Before: this process has one thread.
pub fn set_socket(path: &Path) {
    // SAFETY: no other thread reads the environment.
    unsafe { std::env::set_var("ARMENTO_SOCKET", path) };
}

/// Set by the handler of [`end_by_flag`].
static TOLD: AtomicBool = AtomicBool::new(false);

extern "C" fn told(_: libc::c_int) {
    TOLD.store(true, Ordering::Relaxed);
}

/// From now on SIGTERM and SIGHUP do not end this process: [`is_told_to_end`] tells of them. Children have the default.
pub fn end_by_flag() {
    let handler = told as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for sig in [libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores into an atomic, which is safe in a handler.
        unsafe { libc::signal(sig, handler) };
    }
}

pub fn is_told_to_end() -> bool {
    TOLD.load(Ordering::Relaxed)
}

/// SIGTERM to a child that was not waited for, so its pid is still its own.
pub fn end(child: &Child) {
    // SAFETY: no memory involved.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

/// The user of this process.
pub fn uid() -> u32 {
    // SAFETY: cannot fail, no memory involved.
    unsafe { libc::geteuid() }
}

fn done(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Before: this process has one thread.
pub fn enter_mount_namespace(namespace: &File) -> io::Result<()> {
    // SAFETY: a valid descriptor, no memory involved.
    done(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS) })
}

/// Takes a mount away at once; what is open there stays open.
pub fn unmount_lazily(point: &Path) -> io::Result<()> {
    let point = CString::new(point.as_os_str().as_bytes())?;
    // SAFETY: a string with its zero.
    done(unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) })
}

pub fn set_umask(mask: libc::mode_t) {
    // SAFETY: cannot fail, no memory involved.
    unsafe { libc::umask(mask) };
}

/// A directory that all users search, whatever our umask.
pub fn make_public(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o755))
}

pub fn make_private(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o600))
}

/// The daemon is spared when memory runs out; what it starts is as others are. KERNEL: proc_pid_oom_score_adj(5); raising
/// it needs no privilege.
pub fn be_ordinary_to_oom() {
    let file = "/proc/self/oom_score_adj";
    let spared = fs::read_to_string(file).is_ok_and(|score| score.starts_with('-'));
    if spared {
        // Without /proc it stays spared.
        let _ = fs::write(file, "0");
    }
}

/// Becomes that user for good, if it is another. After: no capability is left, unless the user is root.
/// Before: this process has one thread.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: cannot fail, no memory involved.
    if unsafe { libc::geteuid() } != 0 {
        // The daemon is this user's and sets no other.
        return Ok(());
    }
    // SAFETY: so many numbers are read.
    done(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: no memory involved.
    done(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: no memory involved. KERNEL: capabilities(7): from 0 to others clears all sets but the bounding set.
    done(unsafe { libc::setresuid(uid, uid, uid) })
}

/// The signals that ask a process to end, for one that waits for them.
pub struct Ending(libc::sigset_t);

const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

impl Ending {
    /// From now on, in this thread and those that it starts, they wait.
    pub fn block() -> Ending {
        // SAFETY: all zeros are a valid set, which sigemptyset(3) sets again.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: a set of ours; the numbers are valid, so that none of these fails.
        unsafe {
            libc::sigemptyset(&raw mut set);
            for signal in ENDING {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        Ending(set)
    }

    /// Waits for one of them, for so long at most.
    pub fn wait_for(&self, time: Duration) {
        let time = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: a set and a time that are read. An interruption, by a debugger, ends the wait early.
        unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const time) };
    }

    /// Waits for one of them.
    pub fn wait(&self) {
        // SAFETY: a set that is read; what came is not asked for.
        while unsafe { libc::sigwaitinfo(&raw const self.0, std::ptr::null_mut()) } < 0 {}
    }
}

/// One of [`ENDING`] to this process.
pub fn end_ourselves() {
    // SAFETY: no memory involved.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
}
