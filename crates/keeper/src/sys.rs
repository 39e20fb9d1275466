//! The unsafe lines of the keeper: forking it off, giving up what it inherited, the program's exec.

use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicU8, Ordering};

/// In which process `fork_keeper` returns.
pub enum Side {
    /// The program's own process; the number is the keeper's pid.
    Program(i32),
    Keeper,
}

/// Forks a grandchild that init adopts, so that the program never finds a child it does not know.
/// Before: this process has one thread.
pub fn fork_keeper() -> io::Result<Side> {
    let mut fds = [0; 2];
    // SAFETY: the process has one thread, so the children may go on as ordinary programs; pointers are live.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        let first = libc::fork();
        if first < 0 {
            return Err(io::Error::last_os_error());
        }
        if first == 0 {
            let second = libc::fork();
            if second != 0 {
                libc::write(fds[1], (&raw const second).cast(), 4);
                libc::_exit(i32::from(second < 0));
            }
            libc::setsid();
            libc::close(fds[0]);
            libc::close(fds[1]);
            return Ok(Side::Keeper);
        }
        let mut keeper = 0i32;
        libc::close(fds[1]);
        let n = libc::read(fds[0], (&raw mut keeper).cast(), 4);
        libc::close(fds[0]);
        libc::waitpid(first, std::ptr::null_mut(), 0);
        if n != 4 || keeper <= 0 {
            Err(io::Error::other("the keeper could not be forked"))
        } else {
            Ok(Side::Program(keeper))
        }
    }
}

/// Lets go of everything inherited but `keep`: pipes of the shell, the terminal, signal habits.
pub fn give_up_inheritance(keep: &[RawFd]) {
    let fds: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .map(|d| {
            d.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
                .collect()
        })
        .unwrap_or_default();
    // SAFETY: plain numbers and static strings; this fresh process does not use the other descriptors.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for std in 0..3 {
            libc::dup2(null, std);
        }
        for fd in fds
            .into_iter()
            .filter(|fd| *fd > 2 && !keep.contains(fd) && *fd != null)
        {
            libc::close(fd);
        }
        libc::close(null);
        for sig in [
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGTERM,
            libc::SIGPIPE,
            libc::SIGTSTP,
            libc::SIGIO,
        ] {
            libc::signal(sig, libc::SIG_IGN);
        }
        libc::chdir(c"/".as_ptr());
    }
    name_process();
}

/// Where the keeper's own messages go, for the search of a defect.
pub fn log_to(path: &std::path::Path) {
    if let Ok(f) = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
    {
        // SAFETY: duplicating a live descriptor onto standard error.
        unsafe { libc::dup2(f.as_raw_fd(), 2) };
    }
}

/// A panic is a defect of ours, after which the program goes on at home without a keeper. Its standard error is the program's
/// own, so the system's log is told.
pub fn panics_to_syslog() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let pid = std::process::id();
        let text = format!("armento: keeper {pid} failed, and its programs go on at home: {info}");
        if let Ok(text) = std::ffi::CString::new(text.replace(['\n', '\0'], " ")) {
            let to = libc::LOG_USER | libc::LOG_ERR;
            // SAFETY: two strings that end with a zero; the first takes one argument, a string.
            unsafe { libc::syslog(to, c"%s".as_ptr(), text.as_ptr()) };
        }
        print(info);
    }));
}

/// Lets `keeper` trace us although it is no ancestor. KERNEL: Yama, PR_SET_PTRACER.
pub fn allow_tracer(keeper: i32) {
    // SAFETY: plain numbers; the call fails harmlessly without Yama.
    unsafe { libc::prctl(0x5961_6d61, keeper, 0, 0, 0) };
}

/// execvp(3). Returns only on failure.
/// `variable`: name and value, set in the environment before. Before: this process has one thread.
pub fn exec(command: &[OsString], variable: Option<(&CStr, &str)>) -> io::Error {
    let words: Result<Vec<CString>, _> = command
        .iter()
        .map(|w| CString::new(w.clone().into_vec()))
        .collect();
    let variable = variable.map(|(name, value)| CString::new(value).map(|value| (name, value)));
    let (Ok(words), Ok(variable)) = (words, variable.transpose()) else {
        return io::Error::from_raw_os_error(libc::EINVAL);
    };
    let mut argv: Vec<*const libc::c_char> = words.iter().map(|w| w.as_ptr()).collect();
    argv.push(std::ptr::null());
    let found = FOUND.load(Ordering::Relaxed);
    let pipes = if found & PIPES_IGNORED != 0 {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    if let Some((name, value)) = variable {
        // SAFETY: both are live strings, which are copied; this process has one thread, so the environment is not read
        // meanwhile.
        unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
    }
    // SAFETY: argv is a NULL-terminated array of live strings; the rest are plain numbers.
    unsafe {
        libc::signal(libc::SIGPIPE, pipes);
        for fd in (0..3).filter(|fd| found & 1 << fd != 0) {
            libc::close(fd);
        }
        libc::execvp(argv[0], argv.as_ptr());
    }
    io::Error::last_os_error()
}

/// Has the next program of this process inherit a descriptor.
pub fn hand_down(f: &File) -> io::Result<()> {
    // SAFETY: plain numbers on a live descriptor.
    match unsafe { libc::fcntl(f.as_raw_fd(), libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A descriptor that the program before this one handed down. Before: nothing else of this program uses the number.
pub fn handed_down(fd: RawFd) -> io::Result<File> {
    // SAFETY: plain numbers; if it is open, nothing else owns it, so closing it is right.
    unsafe {
        if fd <= 2 || libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) != 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        Ok(File::from_raw_fd(fd))
    }
}

/// execve(2) with this environment, signal mask and dispositions. Returns only on failure, and changes nothing then.
pub fn become_program(path: &CStr, args: &[&CStr]) -> io::Error {
    let mut argv: Vec<*const libc::c_char> = args.iter().map(|a| a.as_ptr()).collect();
    argv.push(std::ptr::null());
    // SAFETY: a live string, and a NULL-terminated array of live strings.
    unsafe { libc::execv(path.as_ptr(), argv.as_ptr()) };
    io::Error::last_os_error()
}

/// The name of a keeper's process, as lists show it. KERNEL: execve(2) has given it the program's.
pub fn name_process() {
    // SAFETY: a static string.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"armento-keeper".as_ptr(), 0, 0, 0) };
}

/// What Rust's start-up changes and an exec'd program would inherit: it ignores SIGPIPE, and opens /dev/null for
/// what is closed of standard input, output and error.
static FOUND: AtomicU8 = AtomicU8::new(0);
/// SIGPIPE was ignored; bits 0 to 2 are descriptors that were closed.
const PIPES_IGNORED: u8 = 1 << 3;

/// Runs before Rust's start-up. ELF: gABI, "Initialization and Termination Functions".
#[used]
// SAFETY: a pointer to a function of the C calling convention is what this section holds.
#[unsafe(link_section = ".init_array")]
static LOOK_FIRST: extern "C" fn() = look_first;

extern "C" fn look_first() {
    let mut found = 0;
    // SAFETY: plain numbers, and a live struct that the kernel fills.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut old);
        if old.sa_sigaction == libc::SIG_IGN {
            found |= PIPES_IGNORED;
        }
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                found |= 1 << fd;
            }
        }
    }
    FOUND.store(found, Ordering::Relaxed);
}

/// Writes if that is possible without waiting. KERNEL: a writable pipe takes PIPE_BUF bytes, pipe(7).
pub fn write_now(fd: &OwnedFd, text: &[u8]) {
    let mut p = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one live pollfd, a live buffer of that length.
    unsafe {
        if libc::poll(&raw mut p, 1, 0) == 1 && p.revents & libc::POLLOUT != 0 {
            libc::write(p.fd, text.as_ptr().cast(), text.len());
        }
    }
}

/// Whether the file has this extended attribute. KERNEL: getxattr(2).
pub fn has_attribute(path: &CStr, name: &CStr) -> bool {
    // SAFETY: two live strings; a size of 0 only asks.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Whether it is open for reading only, through the page cache.
pub fn only_reads(f: &File) -> bool {
    let not_reading = libc::O_ACCMODE | libc::O_DIRECT | libc::O_PATH;
    status_flags(f).is_some_and(|flags| flags & not_reading == libc::O_RDONLY)
}

/// The magic number of its file system. KERNEL: statfs(2).
pub fn file_system(f: &File) -> Option<i64> {
    space(f).map(|s| s.magic)
}

/// A file system and what is left of it.
pub struct Space {
    pub magic: i64,
    /// Bytes that users other than root may still write.
    pub free: u64,
    /// Mounted with `sync`.
    pub synchronous: bool,
}

/// KERNEL: statfs(2), statvfs(3).
pub fn space(f: &File) -> Option<Space> {
    // SAFETY: zeroed structs that the kernel fills; the descriptor is live.
    let (s, v) = unsafe {
        let mut s: libc::statfs = std::mem::zeroed();
        let mut v: libc::statvfs = std::mem::zeroed();
        let fd = f.as_raw_fd();
        let fine = libc::fstatfs(fd, &raw mut s) == 0 && libc::fstatvfs(fd, &raw mut v) == 0;
        fine.then_some((s, v))
    }?;
    Some(Space {
        magic: s.f_type,
        free: s.f_bavail.saturating_mul(s.f_bsize as u64),
        synchronous: v.f_flag & libc::ST_SYNCHRONOUS != 0,
    })
}

/// struct stat as the kernel gives it to programs; empty if it cannot be had. KERNEL: fstat(2).
pub fn stat_bytes(f: &File) -> Vec<u8> {
    let mut stat = vec![0u8; size_of::<libc::stat>()];
    // SAFETY: a live descriptor, and a buffer of the size that the kernel fills.
    match unsafe { libc::syscall(libc::SYS_fstat, f.as_raw_fd(), stat.as_mut_ptr()) } {
        0 => stat,
        _ => Vec::new(),
    }
}

/// The status flags and access mode of a description. KERNEL: fcntl(2), F_GETFL.
pub fn status_flags(f: &File) -> Option<i32> {
    // SAFETY: plain numbers on a live descriptor.
    let flags = unsafe { libc::fcntl(f.as_raw_fd(), libc::F_GETFL) };
    (flags >= 0).then_some(flags)
}

/// Whether the file system counts what this user or group writes, so that EDQUOT may come. A quota can be switched on without
/// an option of its mount. KERNEL: quotactl(2), quotactl_fd(2) (Linux 5.14): ESRCH where none is on, ENOSYS where there can be
/// none.
pub fn counts_quota(f: &File) -> bool {
    const Q_GETQUOTA: u32 = 0x80_0007;
    /// struct if_dqblk has 72 bytes.
    const DQBLK: usize = 72;
    // SAFETY: no arguments.
    let ids = unsafe { [libc::geteuid(), libc::getegid()] };
    (0u32..).zip(ids).any(|(kind, id)| {
        let mut found = [0u64; DQBLK / 8];
        let command = Q_GETQUOTA << 8 | kind;
        // SAFETY: a live descriptor, and a buffer of the size that the kernel fills.
        let r = unsafe {
            libc::syscall(
                libc::SYS_quotactl_fd,
                f.as_raw_fd(),
                command,
                id,
                found.as_mut_ptr(),
            )
        };
        let e = std::io::Error::last_os_error().raw_os_error();
        r == 0 || !matches!(e, Some(libc::ESRCH | libc::ENOSYS | libc::EOPNOTSUPP))
    })
}

/// Whether its writes can be forbidden, now or later. KERNEL: fcntl(2), F_GET_SEALS: EINVAL where there are none; a file
/// of tmpfs has F_SEAL_SEAL from its beginning.
pub fn may_be_sealed(f: &File) -> bool {
    // SAFETY: plain numbers on a live descriptor.
    let seals = unsafe { libc::fcntl(f.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals != libc::F_SEAL_SEAL
}

/// Whether the file has the attribute S of chattr(1). KERNEL: ioctl_iflags(2).
pub fn is_synchronous(f: &File) -> bool {
    const FS_SYNC_FL: libc::c_long = 8;
    let mut flags: libc::c_long = 0;
    armento_tracee::sys::ioctl(f.as_raw_fd(), libc::FS_IOC_GETFLAGS, &mut flags).is_ok()
        && flags & FS_SYNC_FL != 0
}

/// Whether two descriptors (process, number) are the same open file description. When in doubt, yes. KERNEL: kcmp(2),
/// KCMP_FILE.
pub fn same_description(a: (i32, i32), b: (i32, i32)) -> bool {
    // SAFETY: plain numbers.
    let r = unsafe { libc::syscall(libc::SYS_kcmp, a.0, b.0, 0, a.1, b.1) };
    r <= 0
}

/// Whether two processes have one table of descriptors, or one working directory. A process that cannot be asked has its
/// own. KERNEL: kcmp(2), KCMP_FILES, KCMP_FS.
pub fn share_files(a: i32, b: i32) -> bool {
    const KCMP_FILES: i32 = 2;
    const KCMP_FS: i32 = 3;
    // SAFETY: plain numbers.
    let same = |what: i32| unsafe { libc::syscall(libc::SYS_kcmp, a, b, what, 0, 0) == 0 };
    same(KCMP_FILES) || same(KCMP_FS)
}

pub fn uid() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::getuid() }
}

/// A limit of CPU time is counted where the time is used: at home only.
pub fn cpu_limited(pid: i32) -> bool {
    armento_tracee::sys::limit(pid, libc::RLIMIT_CPU)
        .is_some_and(|(soft, _)| soft != libc::RLIM_INFINITY)
}

/// Niceness of a thread. KERNEL: sys_getpriority says 20 less it, which is never negative.
pub fn nice(tid: i32) -> Option<i32> {
    // SAFETY: no pointers.
    let r = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) };
    (r >= 1).then(|| 20 - r as i32)
}

/// Bytes of a set of processors: for 8192 of them. KERNEL: NR_CPUS of Debian's kernels.
const PROCESSORS: usize = 1024;

/// The processors on which a thread may run, as a set of bits. Empty if that cannot be read.
pub fn processors(tid: i32) -> Vec<u8> {
    let mut set = vec![0u8; PROCESSORS];
    // SAFETY: the kernel writes at most so many bytes into the buffer.
    let got = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            tid,
            set.len(),
            set.as_mut_ptr(),
        )
    };
    set.truncate(usize::try_from(got).unwrap_or(0));
    set
}

/// If refused, nothing changes.
pub fn set_processors(tid: i32, set: &[u8]) {
    if !set.is_empty() {
        // SAFETY: the kernel reads so many bytes of the buffer.
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, set.len(), set.as_ptr()) };
    }
}

/// KERNEL: ioprio_set(2): `which` for one thread.
const IOPRIO_WHO_PROCESS: i32 = 1;

pub fn io_priority(tid: i32) -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, tid) as i32 }
}

/// If refused, nothing changes.
pub fn set_io_priority(tid: i32, priority: i32) {
    if priority >= 0 {
        // SAFETY: no memory is passed.
        unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, tid, priority) };
    }
}

/// A system call of this process, as the kernel answers it: negative for an error.
#[cfg(test)]
pub fn own_call(nr: i64, args: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: tests pass numbers, and addresses of memory that they own.
    let r = unsafe { libc::syscall(nr, a, b, c, d, e, f) };
    match r {
        -1 => -i64::from(
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        ),
        r => r,
    }
}
