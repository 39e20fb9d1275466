//! System calls that the standard library does not offer: a signal, and a terminal that returns each key at once.

use armento_model::Pid;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// kill(2).
pub fn signal(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Standard input without line editing and echo, until this value is dropped. Signals of keys (Ctrl-C) stay.
pub struct Keys {
    before: libc::termios,
}

const STDIN: RawFd = 0;

impl Keys {
    pub fn begin() -> io::Result<Keys> {
        // SAFETY: termios is plain data, of which all zeros are a value.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: one termios, which outlives the call.
        if unsafe { libc::tcgetattr(STDIN, &mut before) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut now = before;
        now.c_lflag &= !(libc::ICANON | libc::ECHO);
        // SAFETY: as above.
        if unsafe { libc::tcsetattr(STDIN, libc::TCSANOW, &now) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Keys { before })
    }

    /// Bytes of the keys pressed; empty if none was in this time, `None` at the end of the input.
    pub fn read(&self, wait: Duration) -> io::Result<Option<Vec<u8>>> {
        let mut one = libc::pollfd {
            fd: STDIN,
            events: libc::POLLIN,
            revents: 0,
        };
        let ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one pollfd, which outlives the call.
        if unsafe { libc::poll(&mut one, 1, ms) } <= 0 {
            return Ok(Some(Vec::new()));
        }
        let mut bytes = [0u8; 32];
        // SAFETY: a buffer of that length, which outlives the call.
        let n = unsafe { libc::read(STDIN, bytes.as_mut_ptr().cast(), bytes.len()) };
        match n {
            0 => Ok(None),
            n if n > 0 => Ok(Some(bytes[..n as usize].to_vec())),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: one termios, which outlives the call.
        unsafe { libc::tcsetattr(STDIN, libc::TCSANOW, &self.before) };
    }
}

/// Rows and columns of the terminal on standard output, if it is one.
pub fn terminal_size() -> Option<(usize, usize)> {
    // SAFETY: winsize is plain data, of which all zeros are a value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes one winsize, which outlives the call.
    let done = unsafe { libc::ioctl(1, libc::TIOCGWINSZ, &mut size) };
    (done == 0 && size.ws_row > 0).then_some((size.ws_row.into(), size.ws_col.into()))
}
