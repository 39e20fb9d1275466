//! The hand's world at a host: every body, and what its threads report.

use crate::bodies;
use crate::shared::{Cell, Proc, Shared};
use armento_migrate::stop::Halted;
use armento_model::{Pid, Tid};
use armento_tracee::demand::Demand;
use armento_tracee::hand::World;
use armento_tracee::pages::Run;
use armento_tracee::region::Code;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::{Status, Stop};
use armento_tracee::uffd::Uffd;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;

pub struct Th {
    pub cell: Arc<Cell>,
    /// In a ptrace stop that nobody ends by itself.
    pub halted: Option<Halted>,
    /// Home was asked for the default action of the signal it stopped at.
    pub asking: bool,
}

pub struct Body {
    pub pid: Pid,
    pub here: i32,
    pub proc: Arc<Proc>,
    pub threads: BTreeMap<Tid, Th>,
    pub uffd: Option<Arc<Uffd>>,
    /// Memory whose pages come by `uffd` alone, until it is complete.
    pub filling: Vec<Run>,
    /// Somebody waits until every thread is halted.
    pub freezer: Option<Sender<()>>,
    /// Home's kernel stopped the process (job control).
    pub stopped: bool,
    /// A vfork child: this thread of that process waits for our exec or end.
    pub releases: Option<(Pid, Tid)>,
    /// Built but not thawed, or frozen and handed over: its end is nobody's news.
    pub quiet: bool,
    /// Share of its time, of late, in which a thread of it wanted a processor, percent.
    pub busy_percent: u8,
    /// CPU it had used here at the last look, and when that was.
    pub looked: (u64, std::time::Instant),
    pub demand: Demand,
    /// How far its stack may grow, bytes.
    pub stack: u64,
    /// Layout as last built.
    pub areas: Vec<armento_migrate::image::Area>,
}

/// A signal from home cannot be queued with its own siginfo: the kernel wipes the sender's pid when it
/// comes from an outer pid namespace, and lets nobody else say what only the kernel says. So it travels
/// under a number in si_errno and gets its face back when it is taken. Bounded: a signal that is
/// dropped as a duplicate leaves one behind.
#[derive(Default)]
pub struct Veils {
    next: i32,
    kept: HashMap<i32, SigInfo>,
}

const VEILS_MAX: usize = 4096;
/// A negative si_code that nothing else uses, for those that an outsider may not say.
const VEIL: i32 = -7717;
/// Numbers begin here: above any errno.
const FIRST: i32 = 1 << 20;

fn word(info: &SigInfo, at: usize) -> i32 {
    i32::from_le_bytes(info[at..at + 4].try_into().unwrap_or_default())
}

impl Veils {
    /// A copy that an outsider may queue.
    pub fn veil(&mut self, info: &SigInfo) -> SigInfo {
        if self.kept.len() >= VEILS_MAX {
            let half = self.next.wrapping_sub(VEILS_MAX as i32 / 2);
            self.kept.retain(|k, _| *k > half);
        }
        self.next = self.next.max(FIRST).wrapping_add(1).max(FIRST);
        self.kept.insert(self.next, *info);
        let mut out = *info;
        out[4..8].copy_from_slice(&self.next.to_le_bytes());
        let code = word(info, 8);
        if code >= 0 || code == libc::SI_TKILL {
            out[8..12].copy_from_slice(&VEIL.to_le_bytes());
        }
        out
    }

    /// What it really is; `None` when it was not veiled.
    pub fn lift(&mut self, info: &SigInfo) -> Option<SigInfo> {
        if word(info, 4) < FIRST {
            return None;
        }
        let real = self.kept.remove(&word(info, 4));
        Some(real.unwrap_or_else(|| {
            // Its face was lost (bounded): it was a plain kill.
            let mut plain: SigInfo = [0; 128];
            plain[..4].copy_from_slice(&info[..4]);
            plain
        }))
    }
}

pub struct Zoo {
    pub sh: Option<Arc<Shared>>,
    pub code: Code,
    pub zygote: i32,
    pub bodies: BTreeMap<Pid, Body>,
    pub veils: Veils,
    /// Signals that came before their process or thread: home knows a child as soon as its deputy is born.
    pub early: VecDeque<Early>,
    pub over: bool,
}

/// Signals for somebody who is not born here yet.
#[derive(Default)]
pub struct Early {
    pub id: Tid,
    pub list: Vec<SigInfo>,
    /// How many came: home waits until all were heard, kept or not.
    pub told: u64,
}

/// Early signals kept for one newborn, and newborns that may have some: one that never comes leaves them.
pub const EARLY_MAX: usize = 64;

impl Zoo {
    /// The shared part exists as soon as the zygote has a listener.
    pub fn sh(&self) -> Arc<Shared> {
        self.sh.clone().unwrap_or_else(|| std::process::abort())
    }

    pub fn passage(&self) -> Arc<dyn armento_tracee::inject::Passage> {
        self.sh().open.clone()
    }

    pub fn thread(&mut self, here: Tid) -> Option<(&mut Body, Tid)> {
        let cell = self.sh().cell(here)?;
        Some((self.bodies.get_mut(&cell.pid)?, cell.tid))
    }
}

impl World for Zoo {
    fn report(&mut self, tid: Tid, status: Status) {
        match status {
            Status::Exited(code) => bodies::ended(self, tid, code, None),
            Status::Killed(sig) => bodies::ended(self, tid, 0, Some(sig)),
            Status::Stopped(Stop::Signal(sig)) => bodies::at_signal(self, tid, sig),
            Status::Stopped(Stop::Trap | Stop::Group(_)) => bodies::at_trap(self, tid),
            Status::Stopped(Stop::Call) => bodies::at_call(self, tid),
            Status::Stopped(Stop::Event(_)) => drop(armento_tracee::trace::resume(tid, 0)),
            Status::Continued => {}
        }
    }

    fn turn(&mut self) -> bool {
        !self.over
    }
}
