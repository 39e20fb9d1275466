//! The guest table: every body and its threads, as the tracer thread has them. No other thread touches it.

use super::process::{FOR_MOVE, GuestThread, Process};
use super::shared::Shared;
use super::siginfo_cookies::SiginfoCookies;
use crate::inject::ForeignVdso;
use armento_client::api::CpuSet;
use armento_migrate::image::Area;
use armento_migrate::stop_threads::Halted;
use armento_model::{HomePid, HomeTid, MoveId, Pid, Tid};
use armento_sense::Withheld;
use armento_tracee::cpu_demand::Demand;
use armento_tracee::inject::Allowlist;
use armento_tracee::pages::Run;
use armento_tracee::region::Code;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::Stopped;
use armento_tracee::uffd::Uffd;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

pub struct GuestTable {
    pub shared: Arc<Shared>,
    pub code: Code,
    /// It stands still for as long as there is a host.
    pub zygote: Stopped,
    pub bodies: BTreeMap<HomePid, Body>,
    pub cookies: SiginfoCookies,
    /// Signals that came before their process or thread: home knows a child as soon as its deputy is born.
    pub early: VecDeque<EarlySignals>,
    /// CPU time withheld by quotas, for the demand of the bodies.
    pub withheld: Withheld,
}

pub struct TracedThread {
    pub thread: Arc<GuestThread>,
    /// In a ptrace stop that does not end by itself.
    pub halted: Option<Halted>,
    /// Home was asked for the default action of the signal it stopped at.
    pub asking: bool,
}

impl TracedThread {
    /// A thread that was just made and stands still.
    pub fn stopped(thread: Arc<GuestThread>, stop: Stopped) -> TracedThread {
        let halted = Some(Halted {
            thread: stop,
            signal: None,
        });
        TracedThread {
            thread,
            halted,
            asking: false,
        }
    }
}

/// A thread that has called vfork and stands still.
pub struct VforkParent {
    pub pid: HomePid,
    pub tid: HomeTid,
    pub thread: Stopped,
}

pub struct Body {
    pub pid: HomePid,
    /// As this node numbers it.
    pub here: Pid,
    pub proc: Arc<Process>,
    pub threads: BTreeMap<HomeTid, TracedThread>,
    pub uffd: Option<Arc<Uffd>>,
    /// Memory whose pages come by `uffd` alone, until it is complete.
    pub filling: Vec<Run>,
    /// A move waits until every thread is halted.
    pub freezer: Option<Freezer>,
    /// Home's kernel stopped the process (job control).
    pub stopped: bool,
    /// A vfork child: this thread waits for its exec or end.
    pub releases: Option<VforkParent>,
    /// Built but not thawed, or frozen and handed over: its exit is not reported.
    pub quiet: bool,
    /// Pages of it are sent to where it runs now: its memory must stay.
    pub serving: bool,
    /// The move that brought it; none when it was forked here.
    pub mv: Option<MoveId>,
    /// Share of its time, of late, in which a thread of it wanted a processor, percent.
    pub busy_percent: u8,
    /// When it came, or was made here.
    pub came: Instant,
    /// CPU it had used here at the last report, and when that was.
    pub reported: (u64, Instant),
    pub demand: Demand,
    /// Name that its threads are made with, before their own is restored.
    pub name: String,
    /// What it may use of a processor.
    pub needs: CpuSet,
    /// Its home's kernel has another vDSO than this one.
    pub vdso: Option<ForeignVdso>,
    /// Layout as last built.
    pub areas: Vec<Area>,
}

/// A move that waits for a freeze.
pub struct Freezer {
    pub tx: Sender<()>,
    /// These are stopped first.
    pub first: Vec<Tid>,
    /// The others were interrupted, too.
    pub others: bool,
}

impl Body {
    /// A body that was just made, with its first thread.
    pub fn new(pid: HomePid, first: TracedThread) -> Body {
        Body {
            pid,
            here: first.thread.here,
            proc: first.thread.proc.clone(),
            threads: [(pid.leader(), first)].into(),
            uffd: None,
            filling: Vec::new(),
            freezer: None,
            stopped: false,
            releases: None,
            quiet: false,
            serving: false,
            mv: None,
            busy_percent: 100,
            came: Instant::now(),
            reported: (0, Instant::now()),
            demand: Demand::default(),
            name: String::new(),
            needs: CpuSet::default(),
            vdso: None,
            areas: Vec::new(),
        }
    }

    /// Every thread of it is halted, for a move: one that stands still for another reason goes on by itself.
    pub fn still(&self) -> bool {
        self.proc.freezes(FOR_MOVE) && self.threads.values().all(|t| t.halted.is_some())
    }
}

/// Recently arrived guests keep the fast reporting interval for so long: decisions are made about them.
const YOUNG: Duration = Duration::from_secs(5);

/// Signals for a process or thread that is not born here yet.
#[derive(Default)]
pub struct EarlySignals {
    pub id: HomeTid,
    pub list: Vec<SigInfo>,
    /// How many came: home waits until all were acknowledged, kept or not.
    pub count: u64,
}

/// Early signals kept for one newborn, and newborns that may have some: one that never comes leaves them.
pub const EARLY_MAX: usize = 64;

impl GuestTable {
    pub fn has_young(&self) -> bool {
        self.bodies.values().any(|b| b.came.elapsed() < YOUNG)
    }

    pub fn allowlist(&self) -> Arc<dyn Allowlist> {
        self.shared.injected.clone()
    }

    /// The body that a thread of this node belongs to, and home's number of the thread.
    pub fn thread(&mut self, here: Tid) -> Option<(&mut Body, HomeTid)> {
        let thread = self.shared.threads.here(here)?;
        Some((self.bodies.get_mut(&thread.pid)?, thread.tid))
    }
}
