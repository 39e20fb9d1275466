//! The descriptors of one process, at their numbers.

use super::error::Step;
use super::open::Opened;
use super::pipes::close_all_but;
use super::sys;
use crate::home::{Home, Kind, Process};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// After: the process has these descriptors, open over an exec, and of others only `keep`: streams, which an exec closes, and
/// memory that is to be mapped.
pub fn put(
    home: &Home,
    index: usize,
    opened: &[Opened],
    (keep, memory): (&[(u8, OwnedFd)], &[RawFd]),
) -> Result<(), (Step, io::Error)> {
    let p = &home.processes[index];
    let step = |e| (Step::Descriptors, e);
    for d in &p.descriptors {
        let from = opened
            .get(d.description as usize)
            .map_or(-1, |o| o.at(d.fd));
        sys::duplicate_to(from, d.fd).map_err(step)?;
    }
    let kept = keep.iter().map(|(_, fd)| fd.as_raw_fd());
    let own: Vec<RawFd> = p
        .descriptors
        .iter()
        .map(|d| d.fd)
        .chain(kept)
        .chain(memory.iter().copied())
        .collect();
    close_all_but(&own).map_err(step)?;
    watches(home, index).map_err(|e| (Step::Epoll, e))?;
    locks(p).map_err(|e| (Step::Locks, e))
}

/// Epoll instances that name descriptors of this process.
fn watches(home: &Home, index: usize) -> io::Result<()> {
    let p = &home.processes[index];
    for (at, d) in home.descriptions.iter().enumerate() {
        let Kind::Epoll { watched, of } = &d.kind else {
            continue;
        };
        let own = p.descriptors.iter().find(|d| d.description as usize == at);
        if let Some(own) = own.filter(|_| *of as usize == index) {
            for w in watched {
                sys::watch(sys::borrow(&own.fd), w.fd, w.events, w.data)?;
            }
        }
    }
    Ok(())
}

/// Behind all closes: a process that closes any descriptor of a file loses its record locks on it (fcntl(2)).
fn locks(p: &Process) -> io::Result<()> {
    for l in &p.locks {
        let (fd, lock) = (sys::borrow(&l.fd), &l.lock);
        sys::lock(fd, libc::F_SETLK, lock.exclusive, lock.start, lock.end)?;
    }
    Ok(())
}
