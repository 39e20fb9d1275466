//! flock(2), users and their numbers, niceness, the kernel's release, the time of day.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes the lock of `file` without waiting; false when another process holds it. The kernel gives
/// it back when the file is closed, by whatever end.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: a valid descriptor, no memory involved.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        e => Err(e),
    }
}

/// Takes the lock of `file`, waiting for it.
pub fn lock(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: a valid descriptor, no memory involved.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => {}
            e => return Err(e),
        }
    }
}

/// The least round trip of a connection in the last minutes, microseconds; 0 before there is one. KERNEL: tcp(7), TCP_INFO;
/// `tcpi_min_rtt` since 4.6, over a window of `net.ipv4.tcp_min_rtt_wlen`.
pub fn rtt_us(socket: &std::net::TcpStream) -> io::Result<u64> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let at = (&raw mut info).cast();
    // SAFETY: a valid descriptor; the kernel writes at most `len` bytes to `info`.
    let r = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            at,
            &mut len,
        )
    };
    if r != 0 {
        return Err(io::Error::last_os_error());
    }
    // An older kernel writes less, and a connection that has sent nothing has no least.
    Ok(match info.tcpi_min_rtt {
        0 | u32::MAX => u64::from(info.tcpi_rtt),
        least => u64::from(least),
    })
}

/// Niceness of a daemon. Forty programs of one home left its daemon a fortieth of the node, too little to send any of
/// them away. KERNEL: sched(7), each step is a tenth of a processor, so that ten are nine times the weight; and it is a
/// thread's own (setpriority(2), "C library/kernel differences").
const PROMPT: i32 = -10;

/// What it was before.
static ORDINARY: OnceLock<i32> = OnceLock::new();

/// This thread, and those that it starts, come before ordinary programs from now on, as far as we may.
pub fn be_prompt() {
    let before = nice();
    if before > PROMPT && set_nice(PROMPT) {
        let _ = ORDINARY.set(before);
    }
}

/// [`stay_in_memory`] took the limit back.
static LOCKED: AtomicBool = AtomicBool::new(false);

/// Bytes that a process without rights may lock. KERNEL: linux/resource.h, MLOCK_LIMIT, since 5.16.
const LOCKED_MAX: libc::rlim_t = 8 << 20;

/// What is mapped of this process, its code above all, stays in memory once it was used, where its limit of locked memory
/// allows all of it: when guests take what is left, the kernel gives up pages of programs first, and a daemon that reads its
/// own again from the disk answers too late to count as alive. Hosts inherit the limit, and guests must not lock all of this
/// node: then it is the usual one. KERNEL: mlockall(2); neither fork nor exec inherits what is locked.
pub fn stay_in_memory() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes the struct.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    if known && limit.rlim_cur == libc::RLIM_INFINITY {
        let what = libc::MCL_CURRENT | libc::MCL_ONFAULT;
        let usual = libc::rlimit {
            rlim_cur: LOCKED_MAX,
            rlim_max: LOCKED_MAX,
        };
        // SAFETY: a struct that is read. Without what is locked the daemon runs all the same.
        unsafe {
            libc::mlockall(what);
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const usual);
        }
        LOCKED.store(true, Ordering::Relaxed);
    }
}

/// The limit that [`stay_in_memory`] took back is given again, for the program that this process becomes.
pub fn lock_memory_again() {
    if !LOCKED.load(Ordering::Relaxed) {
        return;
    }
    let all = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a struct that is read. Without the right to raise it the program runs all the same.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const all) };
}

/// Whether that child has ended and is no more: its end is collected here, or was before.
pub fn is_reaped(pid: i32) -> bool {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) != 0 }
}

/// What is started in `f` is no more than ordinary programs are.
pub fn as_others<T>(f: impl FnOnce() -> T) -> T {
    let Some(ordinary) = ORDINARY.get() else {
        return f();
    };
    set_nice(*ordinary);
    let done = f();
    set_nice(PROMPT);
    done
}

/// This thread's.
fn nice() -> i32 {
    // SAFETY: no memory involved. It cannot fail for the caller itself, so that -1 is a niceness.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// This thread's; false where it may not be lowered so far.
fn set_nice(nice: i32) -> bool {
    // SAFETY: no memory involved.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0 }
}

/// As the kernel tells it to this process (its personality may ask for an older one).
pub fn kernel_release() -> String {
    // SAFETY: all zeros are valid arrays of characters.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the struct, each field with its zero; it cannot fail otherwise.
    if unsafe { libc::uname(&raw mut name) } != 0 {
        return String::new();
    }
    let release = name.release.iter().take_while(|c| **c != 0);
    release.map(|c| char::from(c.cast_unsigned())).collect()
}

/// Of this boot of the kernel, random(4); empty if it cannot be read.
pub fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Bytes that are free for users on the file system of `path`, statvfs(3).
pub fn free_bytes(path: &std::path::Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeros are a valid struct of numbers.
    let mut all: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero; the kernel writes the struct.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut all) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(all.f_bavail.saturating_mul(all.f_frsize))
}

pub fn euid() -> u32 {
    // SAFETY: cannot fail, no memory involved.
    unsafe { libc::geteuid() }
}

/// The number of a user of this machine; `None` also when that cannot be found out now. getent(1) asks what the
/// machine's nsswitch.conf(5) names, with libraries of its own: this program is linked statically.
pub fn uid_of(name: &str) -> Option<u32> {
    let mut ask = std::process::Command::new("getent");
    let said = ask.args(["passwd", "--", name]).output().ok()?;
    let line = String::from_utf8(said.stdout).ok()?;
    // name:password:uid:…, passwd(5); getent takes a number for a name, too.
    let mut parts = line.split(':');
    (parts.next()? == name).then(|| parts.nth(1)?.parse().ok())?
}

/// The name of a user of this machine, by its number; `None` also when that cannot be found out now.
pub fn name_of(uid: u32) -> Option<String> {
    let mut ask = std::process::Command::new("getent");
    let said = ask.args(["passwd", "--", &uid.to_string()]).output().ok()?;
    let line = String::from_utf8(said.stdout).ok()?;
    let mut parts = line.split(':');
    let name = parts.next()?;
    // A name of digits is no number.
    (parts.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
}

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub gid: u32,
    /// All groups, that one among them.
    pub groups: Vec<u32>,
}

/// A user by its number; `None` also when that cannot be found out now.
pub fn user_of(uid: u32) -> Option<User> {
    let getent = |database: &str, key: &str| {
        let mut ask = std::process::Command::new("getent");
        let said = ask.args([database, "--", key]).output().ok()?;
        String::from_utf8(said.stdout).ok()
    };
    let line = getent("passwd", &uid.to_string())?;
    let mut parts = line.split(':');
    let name = parts.next()?.to_owned();
    // A name of digits is no number.
    if parts.nth(1)?.parse() != Ok(uid) {
        return None;
    }
    let gid: u32 = parts.next()?.parse().ok()?;
    // name gid gid …, without the first of its groups.
    let more = getent("initgroups", &name)?;
    let more = more.split_whitespace().skip(1).map(str::parse);
    let mut groups = vec![gid];
    for group in more {
        let group = group.ok()?;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Some(User { name, gid, groups })
}

/// A process that cannot become another one.
pub struct PidFd(OwnedFd);

impl PidFd {
    pub fn open(pid: i32) -> io::Result<PidFd> {
        // SAFETY: no memory involved.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).map_err(io::Error::other)?;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the kernel has just made for us.
        Ok(PidFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a descriptor that is open; without a siginfo the kernel reads no memory.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, 0) };
        if sent == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// The niceness of a thread of this machine.
pub fn niceness_of(tid: i32) -> io::Result<i32> {
    let tid = u32::try_from(tid).map_err(io::Error::other)?;
    // SAFETY: the address of this thread's errno; -1 is a niceness, too, so that it tells them apart.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: no memory involved.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, tid) };
    let error = io::Error::last_os_error();
    match (nice, error.raw_os_error()) {
        (-1, Some(e)) if e != 0 => Err(error),
        _ => Ok(nice),
    }
}

/// Gives a thread of this machine another niceness.
pub fn renice(tid: i32, nice: i32) -> io::Result<()> {
    let tid = u32::try_from(tid).map_err(io::Error::other)?;
    // SAFETY: no memory involved.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Asks a process to end.
/// Before: the caller has made sure that `pid` is the one it means.
pub fn terminate(pid: i32) {
    if pid > 1 {
        // SAFETY: no memory involved; one process, not a group.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

/// Kills a process.
/// Before: the caller has made sure that `pid` is the one it means.
pub fn kill(pid: i32) {
    if pid > 1 {
        // SAFETY: no memory involved; one process, not a group.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_numbers() {
        assert_eq!(uid_of("root"), Some(0));
        assert_eq!(name_of(0).as_deref(), Some("root"));
        assert_eq!(name_of(4_000_000_000), None);
        for nobody in ["no such user", "0", "", "--help", "root:x"] {
            assert_eq!(uid_of(nobody), None, "{nobody}");
        }
    }

    #[test]
    fn users_have_groups() {
        let root = user_of(0).expect("root");
        assert_eq!((root.name.as_str(), root.gid), ("root", 0));
        assert!(root.groups.starts_with(&[0]));
        assert_eq!(user_of(4_000_000_000), None);
    }

    #[test]
    fn children_of_a_prompt_daemon_have_the_ordinary_niceness() {
        // A thread's own: the others of this test keep theirs.
        let test = || {
            let before = nice();
            be_prompt();
            let may = euid() == 0;
            assert_eq!(nice(), if may { before.min(PROMPT) } else { before });
            let child = as_others(|| std::process::Command::new("nice").output());
            let told = String::from_utf8(child.unwrap().stdout).unwrap();
            assert_eq!(told.trim(), before.to_string());
            assert_eq!(nice(), if may { before.min(PROMPT) } else { before });
        };
        std::thread::spawn(test).join().unwrap();
    }
}
