//! Pipes, FIFOs and socket pairs, with what waits in them.

use super::by_name::{reopen, try_open};
use super::sys;
use crate::home::{Bytes, Description, Home, Pair, Pipe};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What was made so far. Its own descriptors are closed when all descriptions are open.
pub struct Pipes<'a> {
    home: &'a Home,
    pipes: HashMap<u32, Ends>,
    pairs: HashMap<u32, [OwnedFd; 2]>,
}

/// A pipe; of a FIFO both ends are one.
struct Ends {
    reader: OwnedFd,
    writer: OwnedFd,
    /// Whether the reader, the writer is a description of the tree already.
    used: [bool; 2],
}

impl<'a> Pipes<'a> {
    pub fn new(home: &'a Home) -> Pipes<'a> {
        Pipes {
            home,
            pipes: HashMap::new(),
            pairs: HashMap::new(),
        }
    }

    fn recorded(&self, pipe: u32) -> io::Result<&'a Pipe> {
        let found = self.home.pipes.get(pipe as usize);
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub fn pipe(&mut self, pipe: u32, d: &Description) -> io::Result<OwnedFd> {
        let recorded = self.recorded(pipe)?;
        let made = match self.pipes.entry(pipe) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(new) => {
                let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                fill(writer.as_fd(), recorded)?;
                new.insert(Ends {
                    reader,
                    writer,
                    used: [false; 2],
                })
            }
        };
        let (end, used) = match d.reads() {
            true => (&made.reader, &mut made.used[0]),
            false => (&made.writer, &mut made.used[1]),
        };
        let both = d.reads() && d.writes();
        let first = !std::mem::replace(used, true);
        if first && !both {
            return end.try_clone();
        }
        // One more description of an end. O_DIRECT is set afterwards: no open of a pipe takes it.
        reopen(end.as_fd(), d.flags & !(libc::O_DIRECT as u32))
    }

    pub fn fifo(&mut self, pipe: u32, path: &Bytes, d: &Description) -> io::Result<OwnedFd> {
        let recorded = self.recorded(pipe)?;
        let nonblocking = libc::O_NONBLOCK as u32;
        if let Entry::Vacant(new) = self.pipes.entry(pipe) {
            // KERNEL: fifo(7): on Linux an open for both never waits; now no other open waits either.
            let both = try_open(path, libc::O_RDWR as u32 | nonblocking)?;
            fill(both.as_fd(), recorded)?;
            new.insert(Ends {
                reader: both.try_clone()?,
                writer: both,
                used: [true; 2],
            });
        }
        try_open(path, d.flags | nonblocking)
    }

    /// A socket cannot be opened again; each end is one description.
    pub fn socket(&mut self, pair: u32, end: u8, d: &Description) -> io::Result<OwnedFd> {
        let recorded = self.home.pairs.get(pair as usize);
        let recorded = recorded.ok_or(io::ErrorKind::InvalidData)?;
        let made = match self.pairs.entry(pair) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(new) => new.insert(self::pair(recorded)?),
        };
        let nonblocking = OFlags::from_bits_retain(d.flags & libc::O_NONBLOCK as u32);
        let own = &made[usize::from(end & 1)];
        fcntl_setfl(own, nonblocking)?;
        own.try_clone()
    }
}

/// Size and content of a new pipe.
fn fill(writer: BorrowedFd, recorded: &Pipe) -> io::Result<()> {
    if recorded.capacity > 0 {
        // KERNEL: a user's pipes may be refused more than 64 KiB each (pipe(7), pipe-user-pages-soft); what waits may fit.
        match fcntl_setpipe_size(writer, recorded.capacity as usize) {
            Err(Errno::PERM) => {}
            other => drop(other?),
        }
    }
    let mut left = &recorded.waiting[..];
    while !left.is_empty() {
        let n = rustix::io::write(writer, left)?;
        left = &left[n..];
    }
    Ok(())
}

fn pair(recorded: &Pair) -> io::Result<[OwnedFd; 2]> {
    let sort = SocketType::from_raw(recorded.sort);
    let (one, other) = socketpair(AddressFamily::UNIX, sort, SocketFlags::CLOEXEC, None)?;
    let ends = [one, other];
    for (end, waiting) in recorded.waiting.iter().enumerate() {
        let mut left = &waiting.0[..];
        while !left.is_empty() {
            let n = send(&ends[1 - end], left, SendFlags::DONTWAIT)?;
            left = &left[n..];
        }
    }
    Ok(ends)
}

/// All descriptors of a process, put to their numbers.
pub fn close_all_but(fds: &[i32]) -> io::Result<()> {
    let mut fds: Vec<u32> = fds.iter().map(|fd| *fd as u32).collect();
    fds.sort_unstable();
    let mut next = 0;
    for fd in fds {
        if fd > next {
            sys::close_range(next, fd - 1)?;
        }
        next = fd + 1;
    }
    sys::close_range(next, u32::MAX)
}
