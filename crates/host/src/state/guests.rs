//! The hand's world at a host: every body, and what its threads report.

use crate::inject::vdso::Foreign;
use crate::state::shared::{Cell, FOR_MOVE, Proc, Shared};
use crate::state::siginfo_cookies::Veils;
use crate::threads::futex_waits;
use crate::threads::sigtimedwait;
use crate::threads::stops;
use armento_client::api::CpuSet;
use armento_migrate::stop::Halted;
use armento_model::{MoveId, Pid, Tid};
use armento_sense::Withheld;
use armento_tracee::demand::Demand;
use armento_tracee::hand::World;
use armento_tracee::pages::Run;
use armento_tracee::region::Code;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::{Status, Stop};
use armento_tracee::uffd::Uffd;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

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
    pub freezer: Option<Freezer>,
    /// Home's kernel stopped the process (job control).
    pub stopped: bool,
    /// A vfork child: this thread of that process waits for our exec or end.
    pub releases: Option<(Pid, Tid)>,
    /// Built but not thawed, or frozen and handed over: its end is nobody's news.
    pub quiet: bool,
    /// Pages of it are sent to where it runs now: its memory must stay.
    pub serving: bool,
    /// The move that brought it; none when it was forked here.
    pub mv: Option<MoveId>,
    /// Share of its time, of late, in which a thread of it wanted a processor, percent.
    pub busy_percent: u8,
    /// When it came, or was made here.
    pub came: Instant,
    /// CPU it had used here at the last look, and when that was.
    pub looked: (u64, Instant),
    pub demand: Demand,
    /// What its threads are called when they are made, before they are dressed.
    pub name: String,
    /// What it may use of a processor.
    pub needs: CpuSet,
    /// Its home's kernel has another vDSO than this one.
    pub vdso: Option<Foreign>,
    /// Layout as last built.
    pub areas: Vec<armento_migrate::image::Area>,
}

/// Whoever waits for a freeze.
pub struct Freezer {
    pub tx: Sender<()>,
    /// These are stopped first.
    pub first: Vec<Tid>,
    /// The others have been told, too.
    pub told: bool,
}

impl Body {
    /// Every thread of it is halted, for a move: one that stands still for another reason goes on by itself.
    pub fn still(&self) -> bool {
        self.proc.freezes(FOR_MOVE) && self.threads.values().all(|t| t.halted.is_some())
    }
}

/// A safety net only.
const TURN_MAX: Duration = Duration::from_secs(10);

/// Of somebody who came so lately others hear more often: decisions are made about him.
const YOUNG: Duration = Duration::from_secs(5);

pub struct Zoo {
    pub sh: Option<Arc<Shared>>,
    pub code: Code,
    pub zygote: i32,
    pub bodies: BTreeMap<Pid, Body>,
    pub veils: Veils,
    /// Signals that came before their process or thread: home knows a child as soon as its deputy is born.
    pub early: VecDeque<Early>,
    pub over: bool,
    /// Read by whoever looks what the bodies want.
    pub withheld: Withheld,
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

    pub fn has_young(&self) -> bool {
        self.bodies.values().any(|b| b.came.elapsed() < YOUNG)
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
            Status::Exited(code) => stops::ended(self, tid, code, None),
            Status::Killed(sig) => stops::ended(self, tid, 0, Some(sig)),
            Status::Stopped(Stop::Signal(sig)) => stops::at_signal(self, tid, sig),
            Status::Stopped(Stop::Trap | Stop::Group(_)) => stops::at_trap(self, tid),
            Status::Stopped(Stop::Call) => {
                let cell = self.sh().cell(tid);
                if !cell.is_some_and(|c| futex_waits::at_call(self, &c)) {
                    sigtimedwait::at_call(self, tid);
                }
            }
            Status::Stopped(Stop::Event(_)) => drop(armento_tracee::trace::resume(tid, 0)),
            Status::Continued => {}
        }
    }

    fn turn(&mut self) -> bool {
        !self.over
    }

    /// Nothing here changes but by a report or a job.
    fn pause(&self) -> Duration {
        TURN_MAX
    }
}
