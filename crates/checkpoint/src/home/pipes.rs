//! Pipes and FIFOs: whose ends they are, and the bytes that wait in them.

use super::found::Found;
use super::kinds::Kind;
use super::outside::Holders;
use super::process::same;
use super::sys;
use super::table::{Entry, Group};
use super::types::Pipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, tee,
};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

/// Looks at a pipe that changes.
const TRIES: usize = 8;

/// All pipes that have an end in the tree, and what each group of descriptors is.
pub fn find(groups: &[Group], holders: &Holders) -> (Vec<Pipe>, BTreeMap<usize, Found>) {
    let mut ends: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        if group.first().kind() == FileType::Fifo {
            ends.entry(group.first().inode()).or_default().push(at);
        }
    }
    let (mut pipes, mut found) = (Vec::new(), BTreeMap::new());
    for ends in ends.into_values() {
        let all: Vec<&Group> = ends.iter().map(|at| &groups[*at]).collect();
        let of: Vec<&Entry> = all.iter().map(|group| group.first()).collect();
        match one(&all, &of, holders) {
            Ok(pipe) => {
                let number = pipes.len() as u32;
                pipes.push(pipe);
                let kinds = of
                    .iter()
                    .map(|entry| Found::Inside(Box::new(kind(entry, number))));
                found.extend(ends.iter().copied().zip(kinds));
            }
            Err(what) => found.extend(ends.into_iter().map(|at| (at, what.clone()))),
        }
    }
    (pipes, found)
}

/// A FIFO without a name is as good as a pipe.
fn kind(entry: &Entry, pipe: u32) -> Kind {
    let named = !entry.starts("pipe:") && same(entry.link.path(), &proc_path(entry));
    match named {
        true => Kind::Fifo {
            pipe,
            path: entry.link.clone(),
        },
        false => Kind::Pipe { pipe },
    }
}

fn proc_path(entry: &Entry) -> std::path::PathBuf {
    format!("/proc/{}/fd/{}", entry.pid, entry.fd).into()
}

/// The pipe of these ends, or why it is none of the tree alone.
fn one(groups: &[&Group], ends: &[&Entry], holders: &Holders) -> Result<Pipe, Found> {
    if let Some(holder) = holders.of_link(&ends[0].link) {
        return Err(Found::Outside(format!("a pipe to {holder}")));
    }
    let unreadable = |e: io::Error| Found::failed("a pipe", e);
    let end = ends.iter().find(|e| e.reads()).unwrap_or(&ends[0]);
    let copy = end.copy().map_err(unreadable)?;
    let (reader, writer) = (
        ends.iter().any(|e| e.reads()),
        ends.iter().any(|e| e.writes()),
    );
    if !(reader && writer) && other_end(copy.as_fd()).map_err(unreadable)? {
        return Err(match holders.changed(groups) {
            true => Found::Closed,
            false => Found::Outside("a pipe whose other end is outside".into()),
        });
    }
    let capacity = fcntl_getpipe_size(&copy).map_err(|e| unreadable(e.into()))?;
    let waiting = match reader {
        true => peek(&copy, capacity).map_err(unreadable)?,
        false => Vec::new(),
    };
    if !waiting.is_empty() && ends.iter().any(|e| e.has_flag(libc::O_DIRECT)) {
        return Err(Found::no("a pipe of packets (O_DIRECT) with data in it"));
    }
    Ok(Pipe {
        capacity: capacity as u32,
        waiting,
    })
}

/// Whether the end that the tree has not is open somewhere. KERNEL: pipe_poll, fs/pipe.c: POLLHUP without writers, POLLERR
/// without readers.
fn other_end(end: std::os::fd::BorrowedFd) -> io::Result<bool> {
    let mut one = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
    poll(&mut one, Some(&Timespec::default()))?;
    Ok(!one[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// The bytes in a pipe, which stay there. KERNEL: tee(2), which takes them at one moment. Where processes run, others may be
/// in it a moment later: the bytes of any moment will do then.
fn peek(pipe: &OwnedFd, capacity: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..TRIES {
        let before = sys::waiting(pipe.as_fd())?;
        bytes = copy(pipe, capacity)?;
        let after = sys::waiting(pipe.as_fd())?;
        if bytes.len() == before || before != after {
            return Ok(bytes);
        }
    }
    let what = format!("{} bytes could be copied", bytes.len());
    Err(io::Error::other(what))
}

fn copy(pipe: &OwnedFd, capacity: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setpipe_size(&to, capacity)?;
    match tee(pipe, &to, capacity, SpliceFlags::NONBLOCK) {
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(e) => return Err(e.into()),
    }
    drop(to);
    std::fs::File::from(from).read_to_end(&mut bytes)?;
    Ok(bytes)
}
