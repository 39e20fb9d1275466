//! poll(2) and socket options.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// A peer that acknowledges nothing for this long is considered gone, milliseconds: twice the time that home waits for
/// a host by itself (`dead_ms`). Without this a broken cable is noticed only after a quarter of an hour.
const GONE_MS: i32 = 60_000;
/// Keepalive: on an idle connection the peer's kernel is probed after so many seconds, and again at this interval.
const ASKED_S: i32 = 20;

/// Sends small messages at once, and detects a peer that is gone. KERNEL: tcp(7).
pub fn set_options(sock: &TcpStream) -> io::Result<()> {
    sock.set_nodelay(true)?;
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, ASKED_S),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, ASKED_S),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, GONE_MS),
    ] {
        let at = (&raw const value).cast();
        let len = size_of::<i32>() as libc::socklen_t;
        // SAFETY: a live int, passed with its size.
        let r = unsafe { libc::setsockopt(sock.as_raw_fd(), level, option, at, len) };
        if r != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits until one of `fds` is ready or `until` has passed (`None`: no limit). True if one is ready.
pub fn poll(fds: &mut [libc::pollfd], until: Option<Instant>) -> io::Result<bool> {
    loop {
        let ms = match until {
            None => -1,
            Some(t) => match t.saturating_duration_since(Instant::now()) {
                Duration::ZERO => 0,
                // Rounded up: a wait of 0.4 ms must not spin.
                left => left.as_millis().min(1 << 30) as i32 + 1,
            },
        };
        // SAFETY: `fds` is a valid slice of pollfd for the time of the call.
        let n = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, ms) };
        match n {
            0 if until.is_some_and(|t| Instant::now() < t) => {}
            0.. => return Ok(n > 0),
            _ => {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
        }
    }
}

pub fn pollfd(fd: RawFd, read: bool, write: bool) -> libc::pollfd {
    let mut events = 0;
    if read {
        events |= libc::POLLIN;
    }
    if write {
        events |= libc::POLLOUT;
    }
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}
