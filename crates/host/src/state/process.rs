//! A process and its threads, as the host's threads see them that serve their calls. What only the tracer thread knows is
//! in `guests.rs`.

use super::call::CallState;
use super::cpu_account::CpuAccount;
use super::descriptors::Descriptors;
use super::direct::Direct;
use super::names::Base;
use super::pending_pages::PendingPages;
use super::process_sockets::ProcessSockets;
use super::readahead::ReadAhead;
use super::stack_growth;
use crate::sync::lock;
use armento_abi::Mem;
use armento_migrate::image::Cpu;
use armento_migrate::source::SentBefore;
use armento_model::{CpuTime, FileCounts, HomePid, HomeTid, Pid, Tid};
use armento_tracee::notify::Notice;
use armento_tracee::{cpu, sys};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// State of one process that its threads share.
#[derive(Default)]
pub struct Process {
    /// As this node numbers it.
    pub here: Pid,
    pub cpu: Mutex<CpuAccount>,
    /// Why it must not run (`FOR_MOVE`, `DISCONNECTED`, `THROTTLE`): nothing new is forwarded either.
    freezing: AtomicU8,
    /// Forks, mappings and the like under way: the freeze waits for them.
    pub specials: AtomicU32,
    pub forwarded: AtomicU64,
    /// Signals of home's that this body acknowledged.
    pub signals_received: AtomicU64,
    /// Signals queued at the body so far.
    pub signals_queued: AtomicU64,
    /// The host's own writes into its memory hold this for reading; re-arming the tracking of pages holds it for writing.
    /// A page that is pinned for a write has its mark already: armed before the bytes arrive, it would never be marked
    /// again, and the write would be lost in a move.
    pub writes: RwLock<()>,
    /// Grows when a file mapping begins and when it ends: it changes the memory at home as well.
    pub mapped: AtomicU64,
    pub readahead: Mutex<ReadAhead<WaitingRead>>,
    /// Calls on files that were answered here.
    pub files: Mutex<FileCounts>,
    /// What home has said of its descriptors.
    pub descriptors: Mutex<Descriptors>,
    /// Files of shared mounts that it has open on this node.
    pub direct: Mutex<Direct>,
    /// Connections of it that go directly to another host.
    pub sockets: ProcessSockets,
    /// Held for reading while a call of it is taken up, from the look at its connections until it is answered or sent.
    pub taking_up: RwLock<()>,
    /// Where its relative paths begin, as home has said.
    pub base: Mutex<KnownBase>,
    /// Overruns of each timer's signal that was delivered last; those not named had none.
    pub overruns: Mutex<BTreeMap<i32, i32>>,
    /// Signals that it reads from descriptors: home must know which of them a thread blocks.
    pub signalfds: AtomicU64,
    /// It has, or had, a timer of CPU time: home's kernel does not know of it.
    pub cpu_timer: AtomicBool,
    /// It runs here, in memory of its own: it was thawed, or forked here, and is no child by vfork.
    pub live: AtomicBool,
    /// Hash of the arguments and environment that home was sent.
    pub cmdline: AtomicU64,
    /// exit_group was called: home knows, nothing moves any more.
    pub exiting: AtomicBool,
    /// A move has tracked what it writes: its marks may be left.
    pub tracked: AtomicBool,
    pub pending_pages: PendingPages,
    /// What its last checkpoint has sent; the next one sends what was written since.
    pub sent_before: Mutex<Option<SentBefore>>,
}

#[derive(Default)]
pub struct KnownBase {
    pub base: Option<Base>,
    /// Number of the last call that changed it: what home says about an earlier one is void.
    pub moved: u32,
}

/// A move has begun its freeze.
pub const FOR_MOVE: u8 = 1;
/// Home was silent for too long: the process might have been declared dead there.
pub const DISCONNECTED: u8 = 2;
/// It writes faster than it can be sent.
pub const THROTTLE: u8 = 4;

impl Process {
    pub fn new(here: Pid) -> Arc<Process> {
        Arc::new(Process {
            here,
            ..Process::default()
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

    /// CPU that the process used away, up to now.
    pub fn cpu_away(&self) -> CpuTime {
        lock(&self.cpu).away(cpu::process(self.here))
    }

    /// Before: frozen.
    pub fn cpu_travels(&self) -> Cpu {
        lock(&self.cpu).travels(cpu::process(self.here))
    }

    /// Its relative paths begin elsewhere from the call with this number on.
    pub fn forget_base(&self, number: u32) {
        *lock(&self.base) = KnownBase {
            base: None,
            moved: number,
        };
    }

    /// The process is gone from here: nothing is read ahead for it, and no file is open.
    pub fn forget_files(&self) {
        drop(lock(&self.direct).take_all());
        // Out of the lock first: a waiter holds the process, too.
        let old = std::mem::take(&mut *lock(&self.readahead));
        drop(old);
    }
}

/// One guest thread.
pub struct GuestThread {
    /// Home's number.
    pub tid: HomeTid,
    /// This node's number.
    pub here: Tid,
    /// Home's number of its process.
    pub pid: HomePid,
    pub proc: Arc<Process>,
    pub cpu: Mutex<CpuAccount>,
    pub call: Mutex<CallState>,
}

impl GuestThread {
    pub fn new(pid: HomePid, tid: HomeTid, here: Tid, proc: Arc<Process>) -> Arc<GuestThread> {
        Arc::new(GuestThread {
            tid,
            here,
            pid,
            proc,
            cpu: Mutex::default(),
            call: Mutex::default(),
        })
    }

    pub fn cpu_away(&self) -> CpuTime {
        lock(&self.cpu).away(cpu::thread(self.here))
    }

    /// Before: frozen.
    pub fn cpu_travels(&self) -> Cpu {
        lock(&self.cpu).travels(cpu::thread(self.here))
    }

    /// Writes into the guest's memory as its own protections allow; true when all of it was written.
    pub fn write(&self, addr: u64, data: &[u8]) -> bool {
        let _quiet = self.proc.writes.read().unwrap_or_else(|e| e.into_inner());
        let wrote = || matches!(sys::vm_write(self.here, addr, data), Ok(n) if n == data.len());
        wrote() || stack_growth::reach(self.here, addr, data.len()) && wrote()
    }

    /// As much as is there; returns the bytes read.
    fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        let got = sys::vm_read(self.here, addr, buf).unwrap_or(0);
        if got < buf.len() && stack_growth::reach(self.here, addr, buf.len()) {
            return sys::vm_read(self.here, addr, buf).unwrap_or(0);
        }
        got
    }
}

/// Memory of a guest, as its own protections allow.
pub struct BodyMem<'a>(pub &'a GuestThread);

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
pub struct Special(Arc<Process>);

impl Special {
    /// `None`: a freeze has begun, which no longer waits for it.
    pub fn begin(p: &Arc<Process>) -> Option<Special> {
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

/// A read that waits for bytes that are read ahead.
pub struct WaitingRead {
    pub thread: Arc<GuestThread>,
    pub notice: Notice,
    pub _special: Special,
}
