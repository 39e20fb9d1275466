//! System calls of the launcher that std does not wrap.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Descriptors that go with a request.
const FILES: usize = 3;
/// A control message of three descriptors, aligned as cmsg(3) asks: 16 bytes of header and 3 × 4, rounded up.
type Control = [u64; 4];

fn check(rc: isize) -> io::Result<usize> {
    usize::try_from(rc).map_err(|_| io::Error::last_os_error())
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Sends `bytes` with three descriptors. KERNEL: unix(7), SCM_RIGHTS.
pub fn send_files(stream: &UnixStream, bytes: &[u8], files: &[OwnedFd; FILES]) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control: Control = [0; 4];
    // SAFETY: the message points to buffers that outlive the call; the control buffer is aligned and as large as its header
    // and three descriptors, which CMSG_DATA lies within; sendmsg does not write to `bytes`.
    let sent = unsafe {
        let data = (FILES * size_of::<i32>()) as u32;
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(data) as usize;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(data) as usize;
        let to = libc::CMSG_DATA(head).cast::<i32>();
        for (i, file) in files.iter().enumerate() {
            to.add(i).write_unaligned(file.as_raw_fd());
        }
        libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    match check(sent)? {
        n if n == bytes.len() => Ok(()),
        _ => Err(bad("the request was cut")),
    }
}

/// Fills `bytes` and returns the three descriptors that came with them; fewer, or half of the bytes, are an error.
pub fn receive_files(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<[OwnedFd; FILES]> {
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control: Control = [0; 4];
    let mut files = Vec::new();
    // SAFETY: the message points to buffers that outlive the call. The kernel writes a control message no longer than the
    // buffer, and each descriptor in it is new and has no other owner.
    let received = unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Control>();
        let flags = libc::MSG_CMSG_CLOEXEC;
        let received = check(libc::recvmsg(stream.as_raw_fd(), &raw mut message, flags))?;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if !head.is_null()
            && (*head).cmsg_level == libc::SOL_SOCKET
            && (*head).cmsg_type == libc::SCM_RIGHTS
        {
            let length = (*head).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            let from = libc::CMSG_DATA(head).cast::<i32>();
            for i in 0..length / size_of::<i32>() {
                files.push(OwnedFd::from_raw_fd(from.add(i).read_unaligned()));
            }
        }
        received
    };
    if received != bytes.len() {
        return Err(bad("the request is incomplete"));
    }
    files
        .try_into()
        .map_err(|_| bad("a request has three files"))
}

/// User and group of the process at the other end of the stream, when it connected. KERNEL: unix(7), SO_PEERCRED.
pub fn peer(stream: &UnixStream) -> io::Result<(u32, u32)> {
    // SAFETY: ucred is plain numbers; the kernel writes at most `length` bytes.
    unsafe {
        let mut found: libc::ucred = zeroed();
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let rc = libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        );
        check(rc as isize)?;
        Ok((found.uid, found.gid))
    }
}

/// Orphans among this process's descendants become its children. KERNEL: prctl(2), PR_SET_CHILD_SUBREAPER.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: plain integers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } as isize).map(drop)
}

/// No signal is blocked and all do what they do by default, whatever this process inherited.
pub fn usual_signals() {
    // SAFETY: the set is initialised before use.
    unsafe {
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: no handler of this process is lost that it needs: it is about to exec. Those that cannot be set fail.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Whether this process ignores `signal`, as under nohup(1).
pub fn ignored(signal: i32) -> bool {
    // SAFETY: a null action changes nothing; the kernel fills the old one.
    unsafe {
        let mut old: libc::sigaction = zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut old) == 0
            && old.sa_sigaction == libc::SIG_IGN
    }
}

extern "C" fn nothing(_: i32) {}

/// Blocks SIGCHLD, but for [`readable_or_child`]: from here on it interrupts that call and [`child_within`] only.
pub fn expect_children() {
    // SAFETY: the handler does nothing; sets and action are initialised before use.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut());
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Waits until the descriptor can be read (true) or a child has changed its state. Before: [`expect_children`].
pub fn readable_or_child(fd: &impl AsRawFd) -> bool {
    wait(Some(fd.as_raw_fd()), None)
}

/// Waits until a child has changed its state, at most so long. Before: [`expect_children`].
pub fn child_within(most: Option<Duration>) {
    wait(None, most);
}

fn wait(fd: Option<i32>, most: Option<Duration>) -> bool {
    let limit = most.map(|d| libc::timespec {
        tv_sec: d.as_secs() as libc::time_t,
        tv_nsec: d.subsec_nanos().into(),
    });
    // SAFETY: one pollfd, a mask and perhaps a time that outlive the call.
    unsafe {
        let mut one = libc::pollfd {
            fd: fd.unwrap_or(-1), // KERNEL: ppoll(2) ignores negative ones
            events: libc::POLLIN,
            revents: 0,
        };
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut none);
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        libc::ppoll(&raw mut one, 1, limit, &raw const none) > 0
    }
}

/// Points descriptors 0, 1 and 2 to the three files.
pub fn become_stdio(files: &[OwnedFd; FILES]) -> io::Result<()> {
    for (n, file) in files.iter().enumerate() {
        // SAFETY: replaces this process's standard descriptors, which std never caches.
        check(unsafe { libc::dup2(file.as_raw_fd(), n as i32) } as isize)?;
    }
    Ok(())
}

/// Sends a signal to all processes of a group.
pub fn kill_group(group: i32, signal: i32) {
    // SAFETY: plain integers; a group that is gone is no error here.
    unsafe { libc::kill(-group, signal) };
}
