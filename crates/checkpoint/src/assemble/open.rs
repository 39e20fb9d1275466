//! Every open file description, made once, at numbers above all that are used.

use super::by_name::{FILE_FLAGS, SETTABLE, reopen};
use super::error::AssembleError;
use super::how::How;
use super::memory;
use super::owner::Owner;
use super::pipes;
use super::put_back;
use super::sys;
use super::watch;
use crate::home::{Description, Home, Kind, Lock, OpenFile, Timer};
use rustix::event::epoll;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FileType, FlockOperation, OFlags, SeekFrom, fcntl_setfl, flock, seek};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Descriptors that are open for a moment only, and some of the caller's.
const SPARE: u64 = 64;

/// What stands for a description at the restart.
pub enum Opened {
    One(OwnedFd),
    /// The caller's standard streams, by the numbers that the description had.
    Streams(Vec<(u8, OwnedFd)>),
}

impl Opened {
    /// What is to become the descriptor of this number.
    pub fn at(&self, fd: i32) -> RawFd {
        match self {
            Opened::One(one) => one.as_raw_fd(),
            Opened::Streams(streams) => {
                let same = streams.iter().find(|(n, _)| i32::from(*n) == fd);
                let any = same.or(streams.first());
                any.map_or(-1, |(_, fd)| fd.as_raw_fd())
            }
        }
    }
}

/// The first number that no process of the tree uses.
fn base(home: &Home) -> i32 {
    let all = home.processes.iter().flat_map(|p| &p.descriptors);
    all.map(|d| d.fd).max().unwrap_or(2).max(2) + 1
}

/// Descriptors that the process must be allowed to have.
pub fn needed(home: &Home) -> u64 {
    // An end of a pair that is not used, and the streams, have numbers too.
    let each = home.descriptions.len() + 2 * home.pairs.len() + home.memory.len() + 3;
    base(home) as u64 + each as u64 + SPARE
}

/// Makes memory that has no file, above all numbers that are used.
pub fn memory(home: &Home, how: &How) -> Result<Vec<OwnedFd>, AssembleError> {
    memory::make_all(home, how, base(home)).map_err(|source| AssembleError::Make {
        what: "memory of memfd_create(2), or that processes share,".into(),
        source,
    })
}

/// Makes all of them. After an error all are closed again.
pub fn all(home: &Home, how: &How, memory: &[OwnedFd]) -> Result<Vec<Opened>, AssembleError> {
    let base = base(home);
    let make = |what: String| move |source: io::Error| AssembleError::Make { what, source };
    let owner = Owner::of(home);
    let mut pipes = pipes::Pipes::new(home);
    let mut unnamed: HashMap<u32, OwnedFd> = HashMap::new();
    let mut opened = Vec::with_capacity(home.descriptions.len());
    for d in &home.descriptions {
        let one = match &d.kind {
            Kind::Outside { stds, .. } => {
                let streams = streams(stds, base).map_err(make(d.to_string()))?;
                opened.push(Opened::Streams(streams));
                continue;
            }
            Kind::Pipe { pipe } => pipes.pipe(*pipe, d),
            Kind::Fifo { pipe, path } => owner.act(|| pipes.fifo(*pipe, path, d)),
            Kind::Socket { pair, end } => pipes.socket(*pair, *end, d),
            Kind::File(file) => self::file(file, d, how, (&owner, &mut unnamed)),
            Kind::Directory { path, dev, ino } => {
                owner.open(path, d.flags, FileType::Directory, Some((*dev, *ino)))
            }
            Kind::Device { path } => owner.open(path, d.flags, FileType::CharacterDevice, None),
            Kind::Memory { memory: number } => match memory.get(*number as usize) {
                Some(made) => reopen(made.as_fd(), d.flags),
                None => Err(io::ErrorKind::InvalidData.into()),
            },
            Kind::Event { count, semaphore } => event(*count, *semaphore),
            Kind::Timer(t) => timer(t, home.taken),
            Kind::Inotify { watches, .. } => owner.act(|| watch::make(watches)),
            Kind::Signals { mask } => sys::signals(*mask),
            Kind::Epoll { .. } => epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Into::into),
        };
        let one = one.and_then(|fd| {
            settle(d, fd.as_fd())?;
            sys::duplicate_above(fd.as_fd(), base)
        });
        opened.push(Opened::One(one.map_err(make(d.to_string()))?));
    }
    Ok(opened)
}

/// The standard streams of the calling process, for what it has to say when a restart fails late.
pub fn callers(home: &Home) -> Vec<(u8, OwnedFd)> {
    let base = base(home);
    let open = (0..3).filter(|n| sys::standard(*n).is_some());
    open.filter_map(|n| streams(&[n], base).ok())
        .flatten()
        .collect()
}

fn streams(stds: &[u8], base: i32) -> io::Result<Vec<(u8, OwnedFd)>> {
    let one = |n: &u8| {
        let own = sys::standard(*n).ok_or(io::ErrorKind::NotFound)?;
        Ok((*n, sys::duplicate_above(own, base)?))
    };
    stds.iter().map(one).collect()
}

/// Offset, status flags and locks.
fn settle(d: &Description, fd: BorrowedFd) -> io::Result<()> {
    if d.flags & libc::O_PATH as u32 != 0 {
        return Ok(());
    }
    match &d.kind {
        // The offset of a directory is the file system's cookie; one that it does not take starts anew.
        Kind::Directory { .. } => drop(seek(fd, SeekFrom::Start(d.offset))),
        Kind::File(_) | Kind::Memory { .. } => drop(seek(fd, SeekFrom::Start(d.offset))?),
        _ => {}
    }
    // Of what was opened by name they are set already.
    let by_name = matches!(
        d.kind,
        Kind::File(_) | Kind::Directory { .. } | Kind::Device { .. }
    );
    if !by_name {
        fcntl_setfl(fd, OFlags::from_bits_retain(d.flags & SETTABLE))?;
    }
    if let Some(Lock { exclusive, .. }) = d.flock {
        let how = match exclusive {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        flock(fd, how)?;
    }
    for l in &d.ofd_locks {
        sys::lock(fd, libc::F_OFD_SETLK, l.exclusive, l.start, l.end)?;
    }
    Ok(())
}

fn file(
    file: &OpenFile,
    d: &Description,
    how: &How,
    (owner, unnamed): (&Owner, &mut HashMap<u32, OwnedFd>),
) -> io::Result<OwnedFd> {
    let (Some(key), Some(contents), true) = (file.kept, how.contents, file.deleted) else {
        let was = Some((file.identity.dev, file.identity.ino));
        let flags = d.flags & !FILE_FLAGS;
        return owner.open(&file.path, flags, FileType::RegularFile, was);
    };
    let made = match unnamed.entry(key) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            new.insert(owner.act(|| put_back::without_name(file, key, contents))?)
        }
    };
    reopen(made.as_fd(), d.flags & !FILE_FLAGS)
}

fn event(count: u64, semaphore: bool) -> io::Result<OwnedFd> {
    let mut flags = EventfdFlags::CLOEXEC;
    flags.set(EventfdFlags::SEMAPHORE, semaphore);
    let fd = eventfd(0, flags)?;
    if count > 0 {
        rustix::io::write(&fd, &count.to_ne_bytes())?;
    }
    Ok(fd)
}

fn timer(t: &Timer, taken: (i64, u32)) -> io::Result<OwnedFd> {
    const ABSOLUTE: u32 = libc::TFD_TIMER_ABSTIME as u32;
    let clock = match t.clock {
        libc::CLOCK_REALTIME => TimerfdClockId::Realtime,
        libc::CLOCK_BOOTTIME => TimerfdClockId::Boottime,
        libc::CLOCK_REALTIME_ALARM => TimerfdClockId::RealtimeAlarm,
        libc::CLOCK_BOOTTIME_ALARM => TimerfdClockId::BoottimeAlarm,
        _ => TimerfdClockId::Monotonic,
    };
    let fd = timerfd_create(clock, TimerfdFlags::CLOEXEC)?;
    if t.left_ns > 0 || t.interval_ns > 0 {
        let calendar = matches!(t.clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM);
        let mut flags = TimerfdTimerFlags::empty();
        let mut value = i128::from(t.left_ns);
        // A time of the calendar stays that time; every other clock counts what was left.
        if calendar && t.flags & ABSOLUTE != 0 {
            value += i128::from(taken.0) * 1_000_000_000 + i128::from(taken.1);
            flags = TimerfdTimerFlags::ABSTIME;
        }
        let time = |ns: i128| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        };
        let new = Itimerspec {
            it_interval: time(t.interval_ns.into()),
            it_value: time(value),
        };
        timerfd_settime(&fd, flags, &new)?;
    }
    if t.ticks > 0 {
        sys::set_ticks(fd.as_fd(), t.ticks)?;
    }
    Ok(fd)
}
