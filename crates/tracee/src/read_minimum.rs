//! The minimum number of bytes for which a read of another process's descriptor waits (VMIN, SO_RCVLOWAT).

use crate::sys;
use armento_model::Pid;
use std::os::fd::AsRawFd;

/// struct termios of the kernel (asm-generic/termbits.h): four words of flags, the line, 19 characters.
const LEN: usize = 36;
const LFLAG: usize = 12;
const CC: usize = 17;

/// The minimum if it is above one: termios(3), MIN > 0 and TIME == 0; socket(7), SO_RCVLOWAT. `None`: the read returns
/// with any data.
pub fn of(pid: Pid, fd: i32) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    let name = link.to_string_lossy();
    let terminal = ["/dev/pts/", "/dev/tty", "/dev/console"];
    let terminal = terminal.iter().any(|t| name.starts_with(t));
    if !terminal && !name.starts_with("socket:") {
        return None;
    }
    let own = sys::steal_fd(pid, fd).ok()?;
    if sys::status_flags(own.as_raw_fd()).ok()? & libc::O_NONBLOCK != 0 {
        return None;
    }
    if !terminal {
        let low = sys::receive_low(own.as_raw_fd()).ok()?;
        return u64::try_from(low).ok().filter(|n| *n > 1);
    }
    let mut raw = [0u8; LEN];
    sys::ioctl(own.as_raw_fd(), libc::TCGETS, &mut raw).ok()?;
    many(&raw)
}

fn many(raw: &[u8; LEN]) -> Option<u64> {
    let lines = raw[LFLAG] & libc::ICANON as u8 != 0;
    let (min, time) = (raw[CC + libc::VMIN], raw[CC + libc::VTIME]);
    (!lines && time == 0 && min > 1).then_some(min.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmin_counts_only_without_vtime() {
        let check = |lflag: u8, min, time, want| {
            let mut raw = [0; LEN];
            raw[LFLAG] = lflag;
            (raw[CC + libc::VMIN], raw[CC + libc::VTIME]) = (min, time);
            assert_eq!(many(&raw), want, "{lflag} {min} {time}");
        };
        check(0, 5, 0, Some(5));
        check(libc::ICANON as u8, 5, 0, None);
        check(0, 1, 0, None);
        check(0, 0, 3, None);
        check(0, 5, 3, None);
    }
}
