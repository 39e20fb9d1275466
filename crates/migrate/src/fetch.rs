//! The target behind the flip: the program runs, and what it waits for comes first.
//!
//! From: `target.rs`. Facing it: `sweep.rs`.
//!
//! Lock: the books, held from a look at them until the kernel has done what follows, and while what the kernel tells
//! is read. KERNEL: userfaultfd(2): as long as a change of the memory (madvise, munmap, mremap) has not been read of,
//! pages are refused with EAGAIN; once it has been, a page put by older books would be one that the program gave up.

use crate::later::Later;
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::PAGE;
use armento_tracee::pages::Run;
use armento_tracee::slice::Stretch;
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

/// Bytes put at once: who waits for another page waits no longer than for these.
const PUT: usize = 64 << 10;
/// Not the zero page: mincore(2) and the next move take that for one that was only read.
static ZEROS: [u8; PUT] = [0; PUT];
/// Between two tries to put a page into memory that is being changed.
const CHANGING: Duration = Duration::from_micros(20);
/// How often the ear looks whether everything is there, milliseconds.
const LOOK_MS: i32 = 10;

#[derive(Default)]
struct Books {
    later: Later,
    /// Asked for and not here: the source's addresses. As many as threads wait, at most.
    asked: HashSet<u64>,
    /// Empty pages that could not be made while the memory was changing.
    again: Vec<u64>,
}

/// One process whose pages are still coming.
pub struct Fetch {
    uffd: Uffd,
    /// The process itself: see [`Fetch::run`].
    body: OwnedFd,
    books: Mutex<Books>,
    over: AtomicBool,
}

impl Fetch {
    /// `uffd` asks for pages (`Uffd::adopt_asking`); what holds any of `later` is registered with it.
    /// `body`: its pidfd.
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

    /// Receives what is left. After `Ok` all of it is there, and nobody waits for a page any more. After an error
    /// the process was killed: once the descriptor is closed who waits would find zeros, and go on with them.
    pub fn run(self, r: &mut impl Read, w: &mut (impl Write + Send)) -> Result<()> {
        let w = Mutex::new(w);
        let got = std::thread::scope(|s| {
            let hears = std::thread::Builder::new().name("faults".into());
            hears
                .spawn_scoped(s, || self.listen(&w))
                .local("start a thread")?;
            let got = self.receive(r, &w);
            self.over.store(true, Ordering::Release);
            got
        });
        if got.is_err() {
            // One that is gone needs it no more.
            let _ = sys::pidfd_kill(&self.body);
            return got;
        }
        // Who waits is woken, and finds memory as any other.
        drop(self);
        let mut w = w.lock().unwrap_or_else(PoisonError::into_inner);
        // The source gives up its memory when it hears this, or when the connection ends.
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
                // The program changes what it has.
                Holds::Like { .. } => return Err(WireError::Garbled("page by itself").into()),
            }
        }
        Ok(())
    }

    /// `at`: the source's address.
    fn put_part(&self, at: u64, bytes: &[u8]) -> Result<()> {
        // KERNEL: UFFDIO_COPY takes what lies in one mapping; of a range over several it says that there is none.
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
                // Somebody made it, or it is unmapped: nobody needs this one.
                Some(Unput::There | Unput::Nowhere) => {
                    let page = p.here + done;
                    b.later.settle((page, page + PAGE));
                    self.uffd.wake(page);
                }
                Some(Unput::Failed) => return Err(MigrateError::Ended),
            }
        }
    }

    /// Hears what the body's kernel tells until everything is there.
    fn listen(&self, w: &Mutex<&mut (impl Write + Send)>) {
        let mut wants = Vec::new();
        while !self.over.load(Ordering::Acquire) {
            let again = {
                let mut b = self.lock();
                if self.hear(&mut b, &mut wants).is_err() {
                    return;
                }
                !b.again.is_empty()
            };
            for at in wants.drain(..) {
                let at: u64 = at;
                let mut w = w.lock().unwrap_or_else(PoisonError::into_inner);
                // A broken link shows itself to the reader.
                let _ = write_frame(&mut **w, bulk::WANT, &[&at.to_le_bytes()]);
            }
            sys::poll_in(&[self.uffd.raw()], if again { 1 } else { LOOK_MS });
        }
    }

    fn hear(&self, b: &mut Books, wants: &mut Vec<u64>) -> std::io::Result<()> {
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

    /// Somebody waits for the page at `at`.
    fn page(&self, b: &mut Books, at: u64, wants: &mut Vec<u64>) {
        if let Some(source) = b.later.source_of(at) {
            if b.asked.insert(source) {
                wants.push(source);
            }
            return;
        }
        // There never was one.
        match self.uffd.put_zero(at) {
            Some(Unput::Changing) => b.again.push(at),
            Some(_) => self.uffd.wake(at),
            None => {}
        }
    }
}
