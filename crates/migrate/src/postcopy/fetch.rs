//! The target after the flip (post-copy): the program runs, and the pages it waits for come first.
//!
//! From: `migrate/src/target.rs`. Facing it: `push.rs`.
//!
//! Lock: the books, held from a lookup in them until the kernel has done what follows from it, and while events of the
//! kernel are read. KERNEL: userfaultfd(2): while a change of the memory (madvise, munmap, mremap) has not been read,
//! filling pages fails with EAGAIN; once it has been read, a page filled according to older books would be one that the
//! program gave up.

use crate::pages::Later;
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::PAGE;
use armento_tracee::pages::Run;
use armento_tracee::sched_slice::Stretch;
use armento_tracee::sys;
use armento_tracee::uffd::{Asked, Uffd, Unput};
use armento_wire::codec::Grow;
use armento_wire::pages::{self, Holds, Part};
use armento_wire::{WireError, bulk, read_frame, write_frame};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes filled at once: bounds how long a thread waits that needs another page.
const PUT: usize = 64 << 10;
/// Not the zero page: mincore(2) and the next move treat a zero page as one that was only read.
static ZEROS: [u8; PUT] = [0; PUT];
/// Delay between two attempts to fill a page in memory that is being changed.
const CHANGING: Duration = Duration::from_micros(20);
/// Interval at which the event reader checks whether everything has arrived, milliseconds.
const LOOK_MS: i32 = 10;

#[derive(Default)]
struct Books {
    later: Later,
    /// Requested and not received: addresses at the source. At most one for each waiting thread.
    asked: HashSet<u64>,
    /// Zero pages that could not be filled while the memory was changing.
    again: Vec<u64>,
}

/// One process whose pages are still arriving.
pub struct Fetch {
    uffd: Uffd,
    /// A pidfd of the process: see [`Fetch::run`].
    body: OwnedFd,
    books: Mutex<Books>,
    over: AtomicBool,
}

impl Fetch {
    /// `uffd` reports missing pages (`Uffd::adopt_asking`); every mapping that holds any of `later` is registered with
    /// it. `body`: the pidfd of the process.
    pub fn new(uffd: Uffd, body: OwnedFd, later: &[Run]) -> Fetch {
        Fetch {
            uffd,
            body,
            books: Mutex::new(Books {
                later: Later::new(later),
                ..Books::default()
            }),
            over: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives the remaining pages. After `Ok` all have arrived, and no thread waits for a page any more. After an
    /// error the process was killed: once the descriptor is closed, waiting threads would read zeros and go on with
    /// them.
    pub fn run(self, r: &mut impl Read, w: &mut (impl Write + Send)) -> Result<()> {
        let w = Mutex::new(w);
        let got = std::thread::scope(|s| {
            let reader = std::thread::Builder::new().name("faults".into());
            reader
                .spawn_scoped(s, || self.read_events(&w))
                .local("start a thread")?;
            let got = self.receive(r, &w);
            self.over.store(true, Ordering::Release);
            got
        });
        if got.is_err() {
            // A process that is gone needs no kill.
            let _ = sys::pidfd_kill(&self.body);
            return got;
        }
        // Waiting threads are woken, and find ordinary memory.
        drop(self);
        let mut w = w.lock().unwrap_or_else(PoisonError::into_inner);
        // The source frees its memory when it receives this, or when the connection ends.
        let _ = write_frame(&mut **w, bulk::WHOLE, &[]);
        Ok(())
    }

    fn receive(&self, r: &mut impl Read, w: &Mutex<&mut (impl Write + Send)>) -> Result<()> {
        let (mut buf, mut grow) = (Vec::new(), Grow::default());
        let stretch = Stretch::begin();
        loop {
            match read_frame(r, &mut buf)? {
                bulk::PAGES => {
                    stretch.breathe();
                    let (parts, bytes) = pages::decode(&buf, &mut grow)?;
                    self.put(&parts, bytes)?;
                    let mut w = w.lock().unwrap_or_else(PoisonError::into_inner);
                    let n = buf.len() as u64;
                    write_frame(&mut **w, bulk::TAKEN, &[&n.to_le_bytes()])?;
                }
                bulk::LAST => break,
                _ => return Err(WireError::Garbled("page").into()),
            }
        }
        match self.lock().later.left() {
            0 => Ok(()),
            n => {
                let why = format!("{n} bytes of its memory did not come");
                Err(MigrateError::Stays(Stay::TargetFailed, why))
            }
        }
    }

    fn put(&self, parts: &[Part], mut rest: &[u8]) -> Result<()> {
        for p in parts {
            let bytes;
            match p.holds {
                Holds::Bytes => {
                    (bytes, rest) = rest.split_at(p.len);
                    for (i, part) in bytes.chunks(PUT).enumerate() {
                        self.put_part(p.at + (i * PUT) as u64, part)?;
                    }
                }
                Holds::Zeros => {
                    for at in (0..p.len).step_by(PUT) {
                        let n = (p.len - at).min(PUT);
                        self.put_part(p.at + at as u64, &ZEROS[..n])?;
                    }
                }
                // The program may have changed the pages that it has.
                Holds::Like { .. } => return Err(WireError::Garbled("page by itself").into()),
            }
        }
        Ok(())
    }

    /// `at`: the address at the source.
    fn put_part(&self, at: u64, bytes: &[u8]) -> Result<()> {
        // KERNEL: UFFDIO_COPY works within one mapping; for a range over several it returns ENOENT.
        let mut most = PUT as u64;
        loop {
            let mut b = self.lock();
            let pieces = b.later.pieces((at, at + bytes.len() as u64));
            let Some(p) = pieces.first().copied() else {
                for page in (at..at + bytes.len() as u64).step_by(PAGE as usize) {
                    b.asked.remove(&page);
                }
                return Ok(());
            };
            let from = (p.source - at) as usize;
            let len = p.len.min(most);
            let (done, why) = self.uffd.put(p.here, &bytes[from..from + len as usize]);
            let done = done as u64;
            b.later.settle((p.here, p.here + done));
            match why {
                None => most = PUT as u64,
                Some(Unput::Nowhere) if len > PAGE => most = (len / 2).next_multiple_of(PAGE),
                Some(Unput::Changing) => {
                    drop(b);
                    std::thread::sleep(CHANGING);
                }
                // The page exists already or is unmapped: this copy is not needed.
                Some(Unput::There | Unput::Nowhere) => {
                    let page = p.here + done;
                    b.later.settle((page, page + PAGE));
                    self.uffd.wake(page);
                }
                Some(Unput::Failed) => return Err(MigrateError::Ended),
            }
        }
    }

    /// Reads the events of the process's userfaultfd until everything has arrived.
    fn read_events(&self, w: &Mutex<&mut (impl Write + Send)>) {
        let mut wants = Vec::new();
        while !self.over.load(Ordering::Acquire) {
            let again = {
                let mut b = self.lock();
                if self.read_event(&mut b, &mut wants).is_err() {
                    return;
                }
                !b.again.is_empty()
            };
            for at in wants.drain(..) {
                let at: u64 = at;
                let mut w = w.lock().unwrap_or_else(PoisonError::into_inner);
                // The receiving side detects a broken link.
                let _ = write_frame(&mut **w, bulk::WANT, &[&at.to_le_bytes()]);
            }
            sys::poll_in(&[self.uffd.raw()], if again { 1 } else { LOOK_MS });
        }
    }

    fn read_event(&self, b: &mut Books, wants: &mut Vec<u64>) -> std::io::Result<()> {
        for at in std::mem::take(&mut b.again) {
            self.page(b, at, wants);
        }
        while let Some(asked) = self.uffd.asked()? {
            match asked {
                Asked::Page(at) => self.page(b, at, wants),
                Asked::Gone(run) => b.later.settle(run),
                Asked::Moved { from, to, len } => b.later.moved(from, to, len),
                Asked::Other => {}
            }
        }
        Ok(())
    }

    /// A thread waits for the page at `at`.
    fn page(&self, b: &mut Books, at: u64, wants: &mut Vec<u64>) {
        if let Some(source) = b.later.source_of(at) {
            if b.asked.insert(source) {
                wants.push(source);
            }
            return;
        }
        // The source has no such page: fill it with zeros.
        match self.uffd.put_zero(at) {
            Some(Unput::Changing) => b.again.push(at),
            Some(_) => self.uffd.wake(at),
            None => {}
        }
    }
}
