//! poll(2).

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Waits until one of `fds` is ready or `until` has passed (`None`: for ever). True when one is ready.
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
