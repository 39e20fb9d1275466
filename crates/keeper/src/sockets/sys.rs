//! Calls on copies of sockets that no crate of this tree offers.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// An option that is an int. KERNEL: getsockopt(2).
pub fn option(socket: &OwnedFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value: i32 = 0;
    let mut len = size_of::<i32>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes to a live int.
    match unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, &raw mut len) } {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a limit of time is set. KERNEL: socket(7), SO_RCVTIMEO and SO_SNDTIMEO: a struct timeval.
pub fn has_time_limit(socket: &OwnedFd, name: i32) -> bool {
    let mut value = [0i64; 2];
    let mut len = size_of_val(&value) as libc::socklen_t;
    let at = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes to live memory.
    let r =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, at, &raw mut len) };
    r != 0 || value != [0; 2]
}

/// The name of the upper protocol of a TCP socket, such as TLS; empty: none. KERNEL: TCP_ULP, Documentation/networking/tls.rst.
pub fn has_upper_protocol(socket: &OwnedFd) -> bool {
    let mut name = [0u8; 16];
    let mut len = name.len() as libc::socklen_t;
    let at = name.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes to live memory.
    let r = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_ULP,
            at,
            &raw mut len,
        )
    };
    r == 0 && len > 0 && name[0] != 0
}

fn amount(socket: &OwnedFd, request: libc::Ioctl) -> io::Result<usize> {
    let mut n: i32 = 0;
    // SAFETY: the kernel writes one int.
    match unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut n) } {
        0 => Ok(n.max(0) as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes that can be read. KERNEL: FIONREAD, tcp(7), unix(7).
pub fn received(socket: &OwnedFd) -> io::Result<usize> {
    amount(socket, libc::FIONREAD as libc::Ioctl)
}

/// Bytes that a TCP socket has not sent for the first time. KERNEL: SIOCOUTQNSD, include/uapi/linux/sockios.h.
pub fn unsent(socket: &OwnedFd) -> io::Result<usize> {
    const SIOCOUTQNSD: libc::Ioctl = 0x894b;
    amount(socket, SIOCOUTQNSD)
}

/// Bytes that a TCP socket has sent, each once, and received so far. KERNEL: struct tcp_info, include/uapi/linux/tcp.h: tcpi_bytes_received at
/// 128, tcpi_bytes_sent at 200, tcpi_bytes_retrans at 208 (Linux 4.19).
pub fn transferred(socket: &OwnedFd) -> io::Result<(u64, u64)> {
    let mut info = [0u8; 216];
    let mut len = info.len() as libc::socklen_t;
    let at = info.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes to live memory.
    let r = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            at,
            &raw mut len,
        )
    };
    if r != 0 || (len as usize) < info.len() {
        return Err(io::Error::last_os_error());
    }
    let word = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().unwrap_or_default());
    Ok((word(200).saturating_sub(word(208)), word(128)))
}

/// Events of a socket, without waiting.
pub fn events(socket: &OwnedFd, wanted: i16, wait_ms: i32) -> io::Result<i16> {
    let mut one = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: wanted,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    match unsafe { libc::poll(&raw mut one, 1, wait_ms) } {
        n if n >= 0 => Ok(one.revents),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Receives without waiting. Returns the bytes' number and the flags of the message: MSG_CTRUNC where descriptors are among
/// it, which stay out. KERNEL: recvmsg(2).
pub fn receive(socket: &OwnedFd, bytes: &mut [u8], flags: i32) -> io::Result<(usize, i32)> {
    let mut piece = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: plain data; all zeros is a message without name and ancillary data.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = &raw mut piece;
    head.msg_iovlen = 1;
    // SAFETY: the message leads to live memory.
    let n = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut head,
            flags | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC,
        )
    };
    match usize::try_from(n) {
        Ok(n) => Ok((n, head.msg_flags)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Sends without waiting and without SIGPIPE.
pub fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: live bytes, passed with their length.
    let n = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Ends both directions. KERNEL: shutdown(2).
pub fn shut_down(socket: &OwnedFd) {
    // SAFETY: plain numbers.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}
