//! Watches on files (inotify(7)), with the numbers that they had.

use super::sys;
use crate::home::WatchedFile;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Numbers that are tried one after the other, where the kernel cannot be told the next one.
const NUMBERS_MAX: i32 = 1 << 16;

/// Before: sorted by their numbers.
pub fn make(watches: &[WatchedFile]) -> io::Result<OwnedFd> {
    let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    for w in watches {
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", w.path));
        add(&fd, w).map_err(failed)?;
    }
    // What the making itself has caused.
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&fd, &mut buffer);
    while events.next().is_ok() {}
    rustix::fs::fcntl_setfl(&fd, rustix::fs::OFlags::empty())?;
    Ok(fd)
}

fn add(fd: &OwnedFd, w: &WatchedFile) -> io::Result<()> {
    // Without the right kernel numbers are given in order.
    drop(sys::set_next_watch(fd.as_fd(), w.number));
    for _ in 0..NUMBERS_MAX {
        let mask = WatchFlags::from_bits_retain(w.mask);
        let number = inotify::add_watch(fd, w.path.path(), mask)?;
        if number == w.number {
            return Ok(());
        }
        inotify::remove_watch(fd, number)?;
        if number > w.number {
            break;
        }
    }
    Err(io::Error::other("its number is not to be had"))
}
