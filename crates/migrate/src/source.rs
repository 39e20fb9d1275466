//! The source: writes what [`crate::target`] reads.
//!
//! From: `keeper/src/moves/out.rs` (home) or `host/src/moves/depart.rs` (body). Next: `target.rs`.
//!
//! Offer, then pre-copy rounds while the process runs, then (frozen by the owner) the rest. For a process that writes
//! faster than the link carries, most comes after the flip: `postcopy/push.rs`.

use crate::failpoint::point;
use crate::image::areas::{self, Survey};
use crate::image::flags::{self, ZEROS_MAX};
use crate::image::{
    Accept, Area, Head, Kind, Layout, State, ThreadState, files_of, handlers, thread,
};
use crate::pages::{Pack, Rest, Unsent, Watch};
use crate::phase::Failpoint;
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::pages::{self, Backing, Pagemap, Run};
use armento_tracee::sched_slice::Patient;
use armento_tracee::uffd::Uffd;
use armento_tracee::{PAGE, status, sys};
use armento_wire::bulk;
use armento_wire::talk::{self, FileKey};
use armento_wire::{read_frame, write_frame};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Duration, Instant};

/// Bytes of pages in one frame: read, examined and sent while they are in the nearest caches. With four times as many
/// the same gigabytes take a fifth more of the processor (docs/measurements/bulk.md).
const BLOCK: usize = 128 << 10;
/// Size of a huge page on x86-64.
const HUGE_PAGE: u64 = 2 << 20;
/// process_vm_readv takes at most IOV_MAX ranges.
const RANGES: usize = 1024;
/// Pre-copy ends with a round whose sending, until the target had written its pages, took no longer than this: what was
/// written meanwhile takes as long again, in the pause (goal: 10 ms).
const ENOUGH: Duration = Duration::from_millis(3);
/// … or no longer than this, if it sent little: next to a program that computes, the answer alone takes until the
/// kernel's next tick (10 ms with HZ=100).
const TICK: Duration = Duration::from_millis(10);
/// A process that writes so little that rounds take no longer than this (because reading gigabytes takes time) is not
/// throttled: throttling would be more noticeable than a pause as long.
const BEARABLE: Duration = Duration::from_millis(5);
/// Pre-copy also ends after so many rounds, or when a round is no shorter than this share of the one before: a program
/// that writes faster than the link carries never converges.
const ROUNDS_MAX: u32 = 12;
const SHRINKS: f64 = 0.9;
/// What the process writes during a round that gives pages up at the target is given up in the next. Giving up is some
/// 20 times as fast as sending (Linux 6.18: 40 ms a GiB), so that a few rounds end below …
const DROPS_MAX: usize = 8;
/// … this much, which is given up in the pause.
const DROP_ENOUGH: u64 = 4 << 20;
/// If less than this was written since the last round, it is sent in the pause: a millisecond.
const LATE_MIN: u64 = 1 << 20;
/// If a program writes less than this during a round, all of it is sent in the pause, however long a round takes, as on
/// a full machine: two milliseconds of a gigabit link. Pages that come after the flip are lost if their connection is
/// lost, and the program with them.
const OWED_MIN: u64 = 256 << 10;
/// Runs in one message.
const DROP_RUNS: usize = 8192;

/// The source's own descriptor of a file.
pub type Opened<'a> = dyn FnMut(&FileKey) -> Option<File> + 'a;

/// What a source passes of its process before the freeze.
pub struct Job<'a, R: Read, W: Write> {
    /// The pid on this node.
    pub pid: i32,
    /// Taken over by the part that sends pages after the flip.
    pub r: Option<&'a mut R>,
    pub w: &'a mut W,
    /// Pages sent so far.
    pub sent: Vec<Run>,
    watch: Watch,
    /// Sent, and lost at the target: these count as never sent.
    lost: Vec<Run>,
    /// What the target has mapped.
    offered: Vec<Area>,
    /// Files that the target was asked about.
    pub(crate) told: BTreeSet<FileKey>,
    /// Whether pages may come after the flip.
    postcopy: bool,
    /// The target needs the vDSO that the process started with …
    wants_vdso: bool,
    /// … which is this, if the process has a redirected one here; else it is read from the process.
    pub vdso: Option<Arc<[u8]>>,
    /// Those that will come after the flip, round by round: their earlier copies are given up at the target.
    pub given_up: Vec<Vec<Run>>,
    pub unsent: Unsent,
    pub bytes: u64,
    /// Bytes of memory read, uncompressed.
    read: u64,
    pub(crate) block: Block,
    pub(crate) pack: Pack,
    map: Option<Pagemap>,
    /// Present while the process runs.
    patient: Option<Patient>,
    /// Throttles the process until the returned value is dropped: for targets that accept no pages after the flip.
    pub throttle: Option<Slow<'a>>,
    /// Held from the start of throttling until the freeze: what the process writes meanwhile adds to its pause.
    slowed: Option<Box<dyn Throttle>>,
}

type Slow<'a> = Box<dyn FnOnce() -> Box<dyn Throttle> + 'a>;

/// Throttles a process until this is dropped.
pub trait Throttle {
    /// Throttles more, because its rounds do not get shorter. False: already at the limit.
    fn harder(&self) -> bool;
}

/// A round that was not shorter than the one before.
#[derive(Clone, Copy, Default)]
struct Stuck {
    /// Time of the sending.
    sending: Duration,
    /// Bytes sent.
    bytes: u64,
}

#[derive(Default)]
pub(crate) struct Block {
    runs: Vec<(u64, usize)>,
    len: usize,
    pub(crate) buf: Vec<u8>,
}

impl<'a, R: Read, W: Write> Job<'a, R, W> {
    pub fn new(pid: i32, r: &'a mut R, w: &'a mut W) -> Self {
        Job {
            pid,
            r: Some(r),
            w,
            sent: Vec::new(),
            watch: Watch::default(),
            lost: Vec::new(),
            offered: Vec::new(),
            told: BTreeSet::new(),
            postcopy: false,
            wants_vdso: false,
            vdso: None,
            given_up: Vec::new(),
            unsent: Unsent::default(),
            bytes: 0,
            read: 0,
            block: Block {
                buf: vec![0; BLOCK],
                ..Block::default()
            },
            pack: Pack::default(),
            map: None,
            patient: None,
            throttle: None,
            slowed: None,
        }
    }

    /// Offers the process. After `Ok` the target holds an empty body with the same layout.
    pub fn offer(&mut self, head: &Head, files: &mut Opened) -> Result<Accept> {
        write_frame(self.w, bulk::OFFER, &[&talk::encode(head)])?;
        self.offered.clone_from(&head.areas);
        point(Failpoint::SourceOffered);
        let mut buf = Vec::new();
        match self.read_answer(&mut buf)? {
            bulk::ACCEPT => {}
            bulk::DECLINE => {
                let (stay, why): (Stay, String) = talk::decode(&buf, "refusal")?;
                return Err(MigrateError::Declined(stay, why));
            }
            _ => return Err(armento_wire::WireError::Garbled("answer to an offer").into()),
        }
        let accept: Accept = talk::decode(&buf, "answer to an offer")?;
        self.postcopy = accept.postcopy;
        self.wants_vdso = accept.vdso;
        self.told = files_of(&head.areas).into_iter().collect();
        self.carry(&accept.files, files)?;
        Ok(accept)
    }

    pub(crate) fn read_answer(&mut self, buf: &mut Vec<u8>) -> Result<u8> {
        let r = self.r.as_mut().ok_or(MigrateError::Ended)?;
        Ok(read_frame(&mut **r, buf)?)
    }

    /// Sends pages in rounds while the process runs, until little is left to send. Only what the target has mapped
    /// since the offer: the process may have mapped more in the meantime. `writes`: read-locked by code that writes
    /// into the process from outside. `ARMENTO_STOPCOPY` leaves everything to the pause.
    pub fn precopy(&mut self, uffd: &Uffd, now: &Survey, writes: &RwLock<()>) -> Result<()> {
        point(Failpoint::SourceCopying);
        if std::env::var_os("ARMENTO_STOPCOPY").is_some() {
            return Err(MigrateError::Stays(Stay::Busy, "a bench's wish".into()));
        }
        self.patient = Some(Patient::begin());
        let mut watch = std::mem::take(&mut self.watch);
        let r = self.rounds(&mut watch, uffd, now, writes);
        // Kept even after a failed attempt: its marks exist.
        self.watch = watch;
        self.patient = None;
        r
    }

    fn rounds(
        &mut self,
        watch: &mut Watch,
        uffd: &Uffd,
        now: &Survey,
        writes: &RwLock<()>,
    ) -> Result<()> {
        let map = Pagemap::open(self.pid).of_process("open its page map")?;
        let both = areas::in_both(&self.offered, &now.areas);
        // A target that is still creating its process would look like a slow link.
        self.sync()?;
        self.pack.begin(plain(&both));
        // Writes of other processes into shared memory are not tracked: it is sent at the end.
        let own = both
            .iter()
            .filter(|a| !matches!(a.kind, Kind::Shared { .. }));
        for (runs, backing) in neighbours(own) {
            let kernel = (&map, uffd, writes);
            watch.begin(kernel, &runs, backing, &mut |runs| self.runs(runs))?;
        }
        self.sync()?;
        let mut stuck = self.converge(&both, (watch, &map), writes)?;
        if !self.postcopy
            && stuck.is_some_and(|s| s.sending > BEARABLE)
            && let Some(throttle) = self.throttle.take()
        {
            let slow = throttle();
            loop {
                stuck = self.converge(&both, (watch, &map), writes)?;
                if stuck.is_none_or(|s| s.sending <= BEARABLE) || !slow.harder() {
                    break;
                }
            }
            self.slowed = Some(slow);
        }
        if self.postcopy && forced() {
            self.give_up_all()?;
        }
        if self.postcopy && stuck.is_some_and(|s| s.bytes >= OWED_MIN) {
            self.give_up(watch, &map, writes)?;
        }
        Ok(())
    }

    /// Rounds, until one is short, or they do not get shorter: then returns the last one.
    fn converge(
        &mut self,
        both: &[Area],
        (watch, map): (&Watch, &Pagemap),
        writes: &RwLock<()>,
    ) -> Result<Option<Stuck>> {
        let mut last = f64::INFINITY;
        let mut stuck = Stuck::default();
        for _ in 1..ROUNDS_MAX {
            let (begun, before) = (Instant::now(), self.read);
            self.pack.begin(plain(both));
            // The time of scanning does not shrink with the amount written, and the last scan, of a frozen process,
            // does not write-protect anything.
            let mut sending = Duration::ZERO;
            watch.round(map, writes, &mut |_, runs| {
                let begun = Instant::now();
                let sent = if runs.is_empty() {
                    Ok(())
                } else {
                    self.runs(runs)
                };
                sending += begun.elapsed();
                self.breathe();
                sent
            })?;
            let begun_sync = Instant::now();
            self.sync()?;
            sending += begun_sync.elapsed();
            point(Failpoint::SourceRound);
            let took = begun.elapsed();
            let bytes = self.read - before;
            let little = sending <= TICK && bytes < LATE_MIN;
            if sending <= ENOUGH || little {
                return Ok(None);
            }
            stuck = Stuck { sending, bytes };
            if took.as_secs_f64() > last * SHRINKS {
                break;
            }
            last = took.as_secs_f64();
        }
        Ok(Some(stuck))
    }

    /// Everything comes after the flip: requested by a test.
    fn give_up_all(&mut self) -> Result<()> {
        let waits = pages::both(&self.sent, &can_wait(&self.offered));
        for part in waits.chunks(DROP_RUNS) {
            write_frame(self.w, bulk::DROP, &[&talk::encode(&part.to_vec())])?;
        }
        self.given_up.push(waits);
        self.sync()
    }

    /// What was written since the last round comes after the flip. The target's old copies of it are given up.
    fn give_up(&mut self, watch: &Watch, map: &Pagemap, writes: &RwLock<()>) -> Result<()> {
        let can = can_wait(&self.offered);
        for _ in 0..DROPS_MAX {
            let mut waits = Vec::new();
            watch.round(map, writes, &mut |backing, runs| match backing {
                Backing::Memory => {
                    waits.extend(pages::both(runs, &can));
                    self.runs(&pages::minus(runs, &can))
                }
                Backing::File => self.runs(runs),
            })?;
            let waits = pages::union(waits, &[]);
            for part in waits.chunks(DROP_RUNS) {
                write_frame(self.w, bulk::DROP, &[&talk::encode(&part.to_vec())])?;
            }
            self.sync()?;
            point(Failpoint::SourceGivenUp);
            let bytes = pages::total(&waits);
            self.given_up.push(waits);
            if bytes < DROP_ENOUGH {
                break;
            }
        }
        Ok(())
    }

    /// Called when the process is frozen: nothing throttles it any more.
    pub fn stands(&mut self) {
        self.slowed = None;
    }

    /// Waits until the target has written all pages. Sockets hold megabytes: what they hold at the freeze would add to
    /// the pause.
    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.pack.begin(Vec::new());
        write_frame(self.w, bulk::SYNC, &[])?;
        let mut buf = Vec::new();
        match self.read_answer(&mut buf)? {
            bulk::SYNCED => {
                // A range that the process unmapped may be unmapped there before we notice. If it is mapped again in
                // the end, it counts as not sent.
                let mut lost: Vec<Run> = talk::decode(&buf, "answer to a round")?;
                lost.retain(|r| r.0 < r.1);
                if !lost.is_empty() {
                    lost.append(&mut self.lost);
                    self.lost = pages::union(lost, &[]);
                    self.sent = pages::minus(&self.sent, &self.lost);
                }
                Ok(())
            }
            _ => Err(armento_wire::WireError::Garbled("answer to a round").into()),
        }
    }

    /// Before: frozen. Sends the layout, and every page not sent or written since. Adds to `state` what the source knows of
    /// its memory. `tracked`: pre-copy's records are still valid. `used`: ranges still in use by other processes here,
    /// which cannot come later.
    pub fn dirty(
        &mut self,
        survey: &Survey,
        state: &mut State,
        tracked: bool,
        used: &[Run],
    ) -> Result<()> {
        if !tracked {
            self.watch.forget();
            self.given_up.clear();
        }
        if self.wants_vdso {
            if self.vdso.is_none() && handlers::return_into_vdso(self.pid, state, &survey.areas) {
                let why = "a signal's handler interrupted it in the vDSO".into();
                return Err(MigrateError::Stays(Stay::Busy, why));
            }
            state.vdso = self.vdso_of(state)?;
        }
        point(Failpoint::SourceCopied);
        let map = Pagemap::open(self.pid).of_process("open its page map")?;
        let mut rest = self
            .watch
            .rest(&map, (&self.offered, survey), (&self.sent, &self.lost))?;
        state.guards = std::mem::take(&mut rest.guards);
        let used = [used, &touched(state)].concat();
        let later = self.later(survey, &mut rest, &used);
        if status::read(self.pid).is_ok_and(|s| s.rss_kib <= ZEROS_KIB) {
            state.zeros = zeros(&map, &survey.areas)?;
        }
        let layout = Layout {
            areas: survey.areas.clone(),
            dropped: pages::both(&self.sent, &rest.empty),
            later,
        };
        point(Failpoint::SourceFrozen);
        write_frame(self.w, bulk::LAYOUT, &[&talk::encode(&layout)])?;
        point(Failpoint::SourceLaidOut);
        self.pack.begin(plain(&survey.areas));
        self.runs(&rest.todo)?;
        self.flush()
    }

    /// Sends the state, after which the target has everything that it needs.
    pub fn state(&mut self, state: State) -> Result<()> {
        write_frame(self.w, bulk::STATE, &[&talk::encode(&state)])?;
        write_frame(self.w, bulk::END, &[])?;
        point(Failpoint::SourceSent);
        Ok(())
    }

    /// The image of the vDSO that the process started with.
    fn vdso_of(&self, state: &State) -> Result<Vec<u8>> {
        match (&self.vdso, state.mm.vdso) {
            (Some(image), _) => Ok(image.to_vec()),
            (None, Some(place)) => place.read(self.pid),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Announces whole huge pages in `runs`, so that the target creates huge pages too.
    fn huge(&mut self, runs: &[Run]) {
        let whole = |r: &Run| (r.0.next_multiple_of(HUGE_PAGE), r.1 / HUGE_PAGE * HUGE_PAGE);
        for run in runs.iter().map(whole).filter(|r| r.0 < r.1) {
            let map = match &self.map {
                Some(m) => m,
                None => match Pagemap::open(self.pid) {
                    Ok(m) => self.map.insert(m),
                    Err(_) => return,
                },
            };
            for found in map.huge(run).unwrap_or_default() {
                self.pack.is_huge(found);
            }
        }
    }

    /// Takes what comes after the flip out of `rest`: what was given up at the target and still exists, and what was
    /// written since, if it is much.
    fn later(&mut self, survey: &Survey, rest: &mut Rest, used: &[Run]) -> Vec<Run> {
        if self.given_up.is_empty() {
            return Vec::new();
        }
        let used = pages::union(used.to_vec(), &[]);
        let can = pages::minus(
            &can_wait(&areas::in_both(&self.offered, &survey.areas)),
            &used,
        );
        let fresh = pages::both(&rest.todo, &can);
        let fresh = match pages::total(&fresh) {
            n if n < LATE_MIN => Vec::new(),
            _ => fresh,
        };
        let mut order = vec![fresh.clone()];
        order.extend(std::mem::take(&mut self.given_up).into_iter().rev());
        let order = order.concat();
        let given_up = pages::minus(&pages::union(order.clone(), &[]), &rest.empty);
        let known = |runs: &[Run]| {
            let there: Vec<Run> = survey.areas.iter().map(Area::run).collect();
            pages::both(runs, &pages::union(there, &[]))
        };
        // What is sent now, because it was written again or may not wait.
        let now = pages::union(
            pages::minus(&rest.todo, &fresh),
            &known(&pages::minus(&given_up, &can)),
        );
        let later = pages::minus(&pages::both(&given_up, &can), &now);
        rest.empty = pages::union(std::mem::take(&mut rest.empty), &fresh);
        rest.todo = now;
        self.unsent = Unsent::new(&later, order);
        later
    }

    /// Sends these pages at once. Returns the bytes on the link; an error if they cannot be read.
    pub fn now(&mut self, runs: &[Run]) -> Result<u64> {
        let (read, sent) = (self.read, self.bytes);
        // The program runs, so no earlier page is certain to be unchanged at the target.
        self.pack.begin(Vec::new());
        self.put(runs)?;
        self.flush()?;
        if self.read - read < pages::total(runs) {
            // It was killed or changed here: missing pages would be missing there for good.
            return Err(MigrateError::Ended);
        }
        Ok(self.bytes - sent)
    }

    fn runs(&mut self, runs: &[Run]) -> Result<()> {
        self.huge(runs);
        self.put(runs)?;
        self.sent = pages::union(std::mem::take(&mut self.sent), runs);
        self.breathe();
        Ok(())
    }

    fn put(&mut self, runs: &[Run]) -> Result<()> {
        for &(mut at, end) in runs {
            while at < end {
                let room = BLOCK - self.block.len;
                let n = ((end - at) as usize).min(room);
                self.block.runs.push((at, n));
                self.block.len += n;
                at += n as u64;
                if self.block.len == BLOCK || self.block.runs.len() == RANGES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let b = &mut self.block;
        if b.len == 0 {
            return Ok(());
        }
        let begun = Instant::now();
        let got = sys::vm_read_many(self.pid, &b.runs, &mut b.buf);
        if !matches!(got, Ok(n) if n == b.len) {
            one_by_one(self.pid, b);
        }
        self.read += b.len as u64;
        let bytes = &mut b.buf[..b.len];
        self.bytes += self.pack.send(self.w, &b.runs, bytes, begun)?;
        b.runs.clear();
        b.len = 0;
        self.breathe();
        Ok(())
    }

    /// Gives way to the process while it runs.
    fn breathe(&self) {
        if let Some(p) = &self.patient {
            p.breathe();
        }
    }
}

/// Adjacent areas, in order, that can be scanned as one.
fn neighbours<'a>(areas: impl Iterator<Item = &'a Area>) -> Vec<(Vec<Run>, Backing)> {
    let mut all: Vec<(Vec<Run>, Backing)> = Vec::new();
    for a in areas {
        match all.last_mut() {
            Some((runs, backing))
                if *backing == a.backing() && runs.last().is_some_and(|r| r.1 == a.start) =>
            {
                runs.push(a.run());
            }
            _ => all.push((vec![a.run()], a.backing())),
        }
    }
    all
}

/// Memory that is private to the process.
fn plain(areas: &[Area]) -> Vec<Run> {
    let own = areas.iter().filter(|a| a.backing() == Backing::Memory);
    pages::union(own.map(Area::run).collect(), &[])
}

/// For a process with more memory than this, KiB, zero pages are not looked for: that takes time in proportion to its
/// size, 5 to 20 ns a page.
const ZEROS_KIB: u64 = 32 << 10;

/// Pages of memory that were read and never written: mincore(2) shows them. At most as many as a target creates.
fn zeros(map: &Pagemap, areas: &[Area]) -> Result<Vec<Run>> {
    let mut all = Vec::new();
    for a in areas.iter().filter(|a| a.kind == Kind::Anon) {
        let left = ZEROS_MAX.saturating_sub(pages::total(&all));
        all.extend(
            map.zeros(a.run(), left / PAGE)
                .of_process("read its page map")?,
        );
    }
    Ok(all)
}

/// Skips pages that were unmapped meanwhile (only before the freeze) or lie beyond the end of their file; everything
/// readable after them is still sent.
fn one_by_one(pid: i32, b: &mut Block) {
    let mem = std::fs::File::open(format!("/proc/{pid}/mem")).ok();
    let mut runs = Vec::new();
    let mut len = 0;
    for &(addr, n) in &b.runs {
        let end = addr + n as u64;
        let mut at = addr;
        while at < end {
            let want = (end - at) as usize;
            let got = force_read(&mem, pid, at, &mut b.buf[len..len + want]);
            if got > 0 {
                runs.push((at, got));
                len += got;
                at += got as u64;
            } else {
                at = (at & !(PAGE - 1)) + PAGE;
            }
        }
    }
    b.runs = runs;
    b.len = len;
}

/// Reads also what the process itself may not read (PROT_NONE): /proc/PID/mem ignores protections.
fn force_read(mem: &Option<std::fs::File>, pid: i32, at: u64, buf: &mut [u8]) -> usize {
    match sys::vm_read(pid, at, buf) {
        Ok(n) if n > 0 => n,
        _ => mem
            .as_ref()
            .and_then(|f| f.read_at(buf, at).ok())
            .unwrap_or(0),
    }
}

/// Pages that a thread needs within its first hundred instructions: what its kernel writes as it goes on (rseq), its
/// stack, and what its segment base points to.
fn touched(state: &State) -> Vec<Run> {
    let page = |at: u64| {
        let start = at & !(PAGE - 1);
        (start, start.saturating_add(PAGE))
    };
    let of = |t: &ThreadState| {
        let regs = thread::from_words(&t.regs);
        let (sp, fs) = regs.map_or((0, 0), |r| (r.rsp, r.fs_base));
        [t.rseq.0, t.clear_tid, t.robust.0, sp, fs].map(page)
    };
    state.threads.iter().flat_map(of).collect()
}

/// Whether a test makes all memory come after the flip, also of a process that hardly writes.
fn forced() -> bool {
    static FORCED: OnceLock<bool> = OnceLock::new();
    *FORCED.get_or_init(|| std::env::var_os("ARMENTO_POSTCOPY").is_some())
}

/// Memory whose pages a target can fetch while the program runs. A stack is excluded: it grows automatically, and is
/// small.
fn can_wait(areas: &[Area]) -> Vec<Run> {
    // Locked memory must be there before it runs.
    let free = |a: &&Area| flags::lock_calls(std::slice::from_ref(*a)).is_empty();
    let plain = areas.iter().filter(|a| a.kind == Kind::Anon).filter(free);
    pages::union(plain.map(Area::run).collect(), &[])
}
