//! What the threads of a host share.
//!
//! Lock order: `cells` before `Cell::st`, accounts of CPU time; the way home last. Nobody holds one while waiting for the hand.

use crate::calls::cpu_time::Account;
use crate::calls::partial_io::Whole;
use crate::calls::readahead::Ahead;
use crate::files::cache::Cache;
use crate::home::link::Home;
use crate::inject::allowed_calls::Open;
use crate::state::drain::Shut;
use crate::state::guests::Zoo;
use crate::state::outgoing_moves::Turns;
use crate::state::stack_growth;
use crate::threads::futex_waits::FutexWait;
use armento_abi::{Mem, Plan};
use armento_client::api::HostStart;
use armento_migrate::MigrateError;
use armento_migrate::image::objects::{Object, ObjectId};
use armento_model::{MoveId, Pid, Tid};
use armento_tracee::hand::Hand;
use armento_tracee::notify::Listener;
use armento_tracee::sys as tsys;
use armento_wire::call::{self, Call};
use armento_wire::talk::{self, FileKey, TALK, ToHome, ToHost};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is a defect of ours; the data stays usable for the others.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// State of one process that its threads' cells share.
#[derive(Default)]
pub struct Proc {
    /// As this node numbers it.
    pub here: Pid,
    pub cpu: Mutex<Account>,
    /// Why it must not run (`FOR_MOVE`, `ALONE`, `BRAKE`): nothing new is forwarded either.
    pub freezing: AtomicU8,
    /// Forks, mappings and the like under way: the freeze waits for them.
    pub specials: AtomicU32,
    pub forwarded: AtomicU64,
    /// Signals that home sent to this body.
    pub heard: AtomicU64,
    /// Signals queued at the body so far.
    pub signals: AtomicU64,
    /// Our own writes into its memory hold this for reading; whoever re-arms the tracking of pages holds it
    /// for writing. A page that is pinned for a write has its mark already: armed before the bytes arrive,
    /// it would never be marked again, and the write would be lost in a move.
    pub writes: RwLock<()>,
    /// Grows when a file mapping begins and when it ends: it changes the memory at home as well.
    pub mapped: AtomicU64,
    /// What it reads ahead.
    pub ahead: Mutex<Ahead>,
    /// Overruns of each timer's signal that was delivered last; those not named had none.
    pub overruns: Mutex<BTreeMap<i32, i32>>,
    /// Signals that it reads from descriptors: home must know which of them a thread blocks.
    pub signalfds: AtomicU64,
    /// It has, or had, a timer of CPU time: home's kernel does not know of it.
    pub cpu_timer: AtomicBool,
    /// It runs here, in memory of its own: it was thawed, or forked here, and is no child by vfork.
    pub live: AtomicBool,
    /// What of its arguments and environment home was told, hashed.
    pub words: AtomicU64,
    /// exit_group was called: home knows, nothing moves any more.
    pub exiting: AtomicBool,
    /// A move has watched what it writes: its marks may be left.
    pub watched: AtomicBool,
    /// Pages of it are still coming from where it was.
    pub coming: Coming,
}

/// Whether a process has all its pages; those who need it whole wait here.
#[derive(Default)]
pub struct Coming {
    some: Mutex<bool>,
    all: Condvar,
}

impl Coming {
    pub fn set(&self, some: bool) {
        *lock(&self.some) = some;
        self.all.notify_all();
    }

    pub fn any(&self) -> bool {
        *lock(&self.some)
    }

    /// False when they are not all there after `max`.
    pub fn wait(&self, max: Duration) -> bool {
        let some = lock(&self.some);
        let all = self.all.wait_timeout_while(some, max, |some| *some);
        !all.unwrap_or_else(|e| e.into_inner()).1.timed_out()
    }
}

/// A move has begun its freeze.
pub const FOR_MOVE: u8 = 1;
/// Home has not been heard for too long: it might have been declared dead there.
pub const ALONE: u8 = 2;
/// It writes faster than it can be sent.
pub const BRAKE: u8 = 4;

impl Proc {
    pub fn new(here: Pid) -> Arc<Proc> {
        Arc::new(Proc {
            here,
            ..Proc::default()
        })
    }

    pub fn frozen(&self) -> bool {
        self.freezing.load(Ordering::SeqCst) != 0
    }

    /// Must it not run for this reason?
    pub fn freezes(&self, why: u8) -> bool {
        self.freezing.load(Ordering::SeqCst) & why != 0
    }

    /// Sets or clears one of the reasons.
    pub fn freeze(&self, why: u8, on: bool) {
        if on {
            self.freezing.fetch_or(why, Ordering::SeqCst);
        } else {
            self.freezing.fetch_and(!why, Ordering::SeqCst);
        }
    }
}

/// One guest thread, as the threads that serve it see it.
pub struct Cell {
    pub tid: Tid,
    pub here: Tid,
    pub pid: Pid,
    pub proc: Arc<Proc>,
    pub cpu: Mutex<Account>,
    pub st: Mutex<CellState>,
}

#[derive(Default)]
pub struct CellState {
    pub waiting: Option<Waiting>,
    pub seq: u32,
    /// When the call under way was sent home.
    pub sent: Option<Instant>,
    /// Time spent, since the last look, waiting for calls that home answered at once.
    pub asked_ns: u64,
    /// What `Proc::signals` was at the last call.
    pub signals: u64,
    /// The kernel will issue this call again after an interruption without handler.
    pub again: Option<i32>,
    /// … and the thread slept in it already.
    pub slept: bool,
    /// … and has put, or got, so many bytes.
    pub written: u64,
    /// The interrupted call lives in the deputy's restart block.
    pub at_deputy: bool,
    /// The call under way waits under this mask instead of the thread's own.
    pub wait_mask: Option<u64>,
    /// The thread has that mask itself, until a signal that it lets in is delivered; this is its own.
    pub lifted: Option<u64>,
    /// In a sigtimedwait that is led to its end: where its siginfo goes, and whether it has begun.
    pub sigwait: Option<(u64, bool)>,
    pub futex_wait: FutexWait,
}

/// Why a thread waits in its notification.
pub enum Waiting {
    /// For the deputy.
    Call {
        id: u64,
        seq: u32,
        plan: Box<Plan>,
        fix: Fix,
    },
    /// For the process to come home or move; it is issued again afterwards.
    Parked { id: u64 },
    /// For a fork, mapping or exit of ours.
    Special,
}

/// What to do with a reply beside handing it on.
pub enum Fix {
    None,
    /// Add what the process, or the thread, used away to a struct rusage or tms at this address.
    Rusage(u64),
    ThreadRusage(u64),
    Times(u64),
    /// timer_getoverrun: what was delivered here counts, not what the deputy took.
    Overrun(i32),
    /// timer_delete: a signal of this timer that waits here is void.
    TimerGone(i32),
    /// recv with MSG_WAITALL, and what puts bytes: less than that may be no end.
    Whole(Whole),
    /// Set the same limit for the body: resource, soft, hard.
    Limit(u32, u64, u64),
    /// Then run the call at the body as well (SIGCHLD's disposition).
    Through,
}

/// Both halves of a connection.
pub type Pair = (armento_link::Reader, armento_link::Writer);

pub struct Shared {
    pub start: HostStart,
    /// How far home's CLOCK_MONOTONIC is ahead of this node's, nanoseconds.
    pub clock_ahead: i64,
    /// What we show to other hosts: that of `start`, renewed.
    pub identity: Mutex<armento_link::Identity>,
    pub listener: Listener,
    pub hand: Hand<Zoo>,
    pub cells: RwLock<Cells>,
    /// Threads that make calls of ours just now.
    pub open: Arc<Open>,
    pub home: Arc<Home>,
    pub files: Mutex<HashMap<FileKey, Arc<File>>>,
    /// Most of them: each is a descriptor.
    pub files_max: usize,
    /// Forks under way, of guests that are not there yet.
    pub forking: Arc<AtomicU64>,
    /// Files of memory that stand for what processes of the tree share.
    pub objects: Mutex<HashMap<ObjectId, Object>>,
    /// … which other hosts of the same user may have as well.
    pub cache: Cache,
    /// Answers awaited by our own threads, by sequence number.
    pub answers: Mutex<HashMap<u32, Sender<ToHost>>>,
    pub next: AtomicU32,
    /// Sources and keepers that look for each other.
    pub meetings: Mutex<HashMap<MoveId, Sender<Pair>>>,
    pub turns: Turns,
    pub shut: Shut,
    /// Held by who tells home arguments and environments.
    pub telling: Mutex<()>,
    /// Bodies' end of descriptor passing.
    pub pass: OwnedFd,
    /// How bodies get a userfaultfd that serves their kernel's faults, too.
    pub asking: Asking,
    /// Readable when a guest has come or gone: the daemon is to hear of it soon.
    pub changed: OwnedFd,
    /// … and so is home.
    pub nudge: Nudge,
}

/// Ends a wait before its time.
#[derive(Default)]
pub struct Nudge(Mutex<bool>, Condvar);

impl Nudge {
    fn now(&self) {
        *lock(&self.0) = true;
        self.1.notify_all();
    }

    /// So long; `least` if somebody nudges.
    pub fn wait(&self, least: Duration, most: Duration) {
        let began = Instant::now();
        let nudged = lock(&self.0);
        let waits = self.1.wait_timeout_while(nudged, most, |nudged| !*nudged);
        let (mut nudged, _) = waits.unwrap_or_else(|e| e.into_inner());
        if std::mem::take(&mut *nudged) {
            drop(nudged);
            std::thread::sleep(least.saturating_sub(began.elapsed()));
        }
    }
}

pub enum Asking {
    /// From this device, which whoever started us may open.
    Device(File),
    /// From the call itself: vm.unprivileged_userfaultfd is 1.
    Call,
    /// Not at all: nothing comes behind a flip.
    No,
}

#[derive(Default)]
pub struct Cells {
    pub here: HashMap<Tid, Arc<Cell>>,
    pub home: HashMap<Tid, Arc<Cell>>,
}

impl Shared {
    /// Somebody came or went.
    pub fn has_changed(&self) {
        tsys::poke(self.changed.as_raw_fd());
        self.nudge.now();
    }

    pub fn knows(&self, key: &FileKey) -> bool {
        lock(&self.files).contains_key(key)
    }

    /// Is there room for the copy of another file beside `coming`? Its process stays, or comes home, where there is none.
    pub fn has_file_room(&self, coming: usize) -> bool {
        lock(&self.files).len() + coming < self.files_max
    }

    /// The first threads of all bodies.
    pub fn leaders(&self) -> Vec<Arc<Cell>> {
        let cells = self.cells.read().unwrap_or_else(|e| e.into_inner());
        let all = cells.home.values().filter(|c| c.tid == c.pid);
        all.cloned().collect()
    }

    /// How many threads all bodies have.
    pub fn threads(&self) -> u64 {
        let cells = self.cells.read().unwrap_or_else(|e| e.into_inner());
        cells.here.len() as u64
    }

    pub fn cell(&self, here: Tid) -> Option<Arc<Cell>> {
        self.cells
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .here
            .get(&here)
            .cloned()
    }

    pub fn cell_of(&self, home: Tid) -> Option<Arc<Cell>> {
        self.cells
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .home
            .get(&home)
            .cloned()
    }

    pub fn enter(&self, cell: &Arc<Cell>) {
        let mut c = self.cells.write().unwrap_or_else(|e| e.into_inner());
        c.here.insert(cell.here, cell.clone());
        c.home.insert(cell.tid, cell.clone());
    }

    pub fn leave(&self, cell: &Arc<Cell>) {
        let mut c = self.cells.write().unwrap_or_else(|e| e.into_inner());
        c.here.remove(&cell.here);
        // A newer body of the same number may have come meanwhile.
        if c.home.get(&cell.tid).is_some_and(|o| Arc::ptr_eq(o, cell)) {
            c.home.remove(&cell.tid);
        }
    }

    pub fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Says something to home, as soon as there is a way. Without one for too long we end.
    pub fn tell(&self, m: &ToHome) {
        let _ = self.home.session.send(TALK, &[&talk::encode(m)]);
    }

    pub fn send_call(&self, c: &Call) {
        let head = call::call_head(c);
        let _ = self.home.session.send(call::CALL, &[&head, &c.packed.data]);
    }

    /// Asks home something and waits for its answer, at most 30 seconds.
    pub fn ask(&self, build: impl FnOnce(u32) -> ToHome) -> Option<ToHost> {
        self.ask_stream(build)?
            .recv_timeout(std::time::Duration::from_secs(30))
            .ok()
    }

    pub fn ask_stream(
        &self,
        build: impl FnOnce(u32) -> ToHome,
    ) -> Option<std::sync::mpsc::Receiver<ToHost>> {
        let seq = self.number();
        let (tx, rx) = std::sync::mpsc::channel();
        lock(&self.answers).insert(seq, tx);
        self.tell(&build(seq));
        Some(rx)
    }
}

impl Cell {
    /// Writes into the guest's memory as its own protections allow; true when all of it was written.
    pub fn write(&self, addr: u64, data: &[u8]) -> bool {
        let _quiet = self.proc.writes.read().unwrap_or_else(|e| e.into_inner());
        let wrote = || matches!(tsys::vm_write(self.here, addr, data), Ok(n) if n == data.len());
        wrote() || stack_growth::reach(self.here, addr, data.len()) && wrote()
    }

    /// As much as is there; returns the bytes read.
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        let got = tsys::vm_read(self.here, addr, buf).unwrap_or(0);
        if got < buf.len() && stack_growth::reach(self.here, addr, buf.len()) {
            return tsys::vm_read(self.here, addr, buf).unwrap_or(0);
        }
        got
    }
}

/// Memory of a guest, as its own protections allow.
pub struct BodyMem<'a>(pub &'a Cell);

impl Mem for BodyMem<'_> {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), armento_abi::Fault> {
        if self.0.read(addr, buf) == buf.len() {
            Ok(())
        } else {
            Err(armento_abi::Fault)
        }
    }

    fn read_some(&mut self, addr: u64, buf: &mut [u8]) -> usize {
        self.0.read(addr, buf)
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), armento_abi::Fault> {
        if self.0.write(addr, data) {
            Ok(())
        } else {
            Err(armento_abi::Fault)
        }
    }
}

/// Counts a special operation for as long as it lives.
pub struct Special(pub Arc<Proc>);

impl Special {
    /// `None`: a freeze has begun, which no longer waits for us.
    pub fn begin(p: &Arc<Proc>) -> Option<Special> {
        p.specials.fetch_add(1, Ordering::SeqCst);
        let s = Special(p.clone());
        (!p.frozen()).then_some(s)
    }
}

impl Drop for Special {
    fn drop(&mut self) {
        self.0.specials.fetch_sub(1, Ordering::AcqRel);
    }
}

pub fn says(e: &MigrateError) -> (armento_model::Stay, String) {
    (e.stay(), e.to_string())
}
