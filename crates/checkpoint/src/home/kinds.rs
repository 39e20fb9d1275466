//! Open file descriptions: what a descriptor leads to.

use super::values::{Bytes, Identity, Lock};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An open file description (open(2)): shared by the descriptors that are duplicates of each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    pub kind: Kind,
    /// Access mode and status flags as F_GETFL has them, without O_CLOEXEC.
    pub flags: u32,
    pub offset: u64,
    /// flock(2).
    pub flock: Option<Lock>,
    /// Record locks of the open file description (F_OFD_SETLK).
    pub ofd_locks: Vec<Lock>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    File(OpenFile),
    Directory {
        path: Bytes,
        dev: u64,
        ino: u64,
    },
    /// A device that has no state of its own: null, zero, full, random, urandom, /dev/tty.
    Device {
        path: Bytes,
    },
    /// An object outside the tree. A restart takes the standard stream of the same number of its caller.
    Outside {
        /// Which of the root's descriptors 0, 1 and 2 are this description, in order; never empty.
        stds: Vec<u8>,
        /// For people: "the terminal /dev/pts/3".
        was: String,
    },
    /// An end of a pipe; the access mode of the flags says which.
    Pipe {
        pipe: u32,
    },
    Fifo {
        pipe: u32,
        path: Bytes,
    },
    /// An end of [`super::Pair`].
    Socket {
        pair: u32,
        end: u8,
    },
    /// memfd_create(2): an index in [`super::Home::memory`].
    Memory {
        memory: u32,
    },
    /// eventfd(2).
    Event {
        count: u64,
        semaphore: bool,
    },
    /// timerfd_create(2).
    Timer(Timer),
    /// signalfd(2).
    Signals {
        mask: u64,
    },
    /// inotify(7).
    Inotify {
        watches: Vec<WatchedFile>,
        /// Events waited that were not read: they are not kept.
        waiting: bool,
    },
    /// epoll(7).
    Epoll {
        watched: Vec<Watched>,
        /// Index of the process whose descriptors are named in it.
        of: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    pub path: Bytes,
    pub identity: Identity,
    /// It had no name any more: it is made anew from the content that is kept.
    pub deleted: bool,
    /// The key under which its content is kept in the checkpoint.
    pub kept: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    pub clock: i32,
    /// Flags of timerfd_settime(2).
    pub flags: u32,
    /// Expirations that were not read yet.
    pub ticks: u64,
    /// Nanoseconds until it expires; 0: it does not run.
    pub left_ns: u64,
    pub interval_ns: u64,
}

/// An entry of an epoll instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    pub fd: i32,
    pub events: u32,
    pub data: u64,
}

/// A watch of an inotify instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedFile {
    /// The watch descriptor.
    pub number: i32,
    pub path: Bytes,
    /// Events, IN_EXCL_UNLINK and IN_ONESHOT.
    pub mask: u32,
}

/// One line, for people.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::File(file) if file.deleted => {
                write!(f, "{} (deleted), at byte {}", file.path, self.offset)
            }
            Kind::File(file) => write!(f, "{}, at byte {}", file.path, self.offset),
            Kind::Directory { path, .. } => write!(f, "the directory {path}"),
            Kind::Device { path } => path.fmt(f),
            Kind::Outside { was, .. } => write!(f, "{was}, outside: given anew at a restart"),
            Kind::Pipe { pipe } => write!(f, "pipe {pipe}, {}", self.end()),
            Kind::Fifo { path, .. } => write!(f, "the FIFO {path}, {}", self.end()),
            Kind::Socket { pair, end } => write!(f, "socket pair {pair}, end {end}"),
            Kind::Memory { memory } => {
                write!(f, "memory {memory} (memfd), at byte {}", self.offset)
            }
            Kind::Event { count, .. } => write!(f, "an eventfd, count {count}"),
            Kind::Timer(_) => f.write_str("a timerfd"),
            Kind::Signals { .. } => f.write_str("a signalfd"),
            Kind::Inotify { watches, .. } => {
                write!(f, "an inotify of {}", watches.len())
            }
            Kind::Epoll { watched, .. } => write!(f, "an epoll of {}", watched.len()),
        }
    }
}

impl Description {
    fn end(&self) -> &'static str {
        match self.flags as i32 & libc::O_ACCMODE {
            libc::O_RDONLY => "its reading end",
            libc::O_WRONLY => "its writing end",
            _ => "both ends",
        }
    }

    pub fn reads(&self) -> bool {
        self.flags as i32 & libc::O_ACCMODE != libc::O_WRONLY
    }

    pub fn writes(&self) -> bool {
        self.flags as i32 & libc::O_ACCMODE != libc::O_RDONLY
    }
}
