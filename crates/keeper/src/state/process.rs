//! One process of the tree, at home or away.

use super::deputies::Deputies;
use super::flood::{FIRST_REALTIME, Flood, WAIT_MAX, is_behind, signal_number};
use super::stay_reason::StayReason;
use super::usage::UsageSummary;
use crate::cpu_time::CpuAccounts;
use crate::deputy::{Common, Deputy, HostLink};
use armento_migrate::image::timers::hold;
use armento_model::{HomePid, HomeTid, Pid, Tid};
use armento_tracee::region::Region;
use armento_tracee::sys::{self, SigInfo};
use armento_wire::talk::ToHost;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a process stays away because a timer's signal waits (`keeper/src/signals/timers.rs`). Most programs never
/// ask for overruns, and some always have a signal waiting.
pub const PATIENCE: u32 = 5;
/// First hold after a call brought a process home; doubles up to the second.
pub const HOLD_MIN: Duration = Duration::from_secs(1);

const HOLD_MAX: Duration = Duration::from_secs(60);

/// Each time an exec is turned back for a signal takes a round trip: half a second and more in all.
const EXEC_WAITS: u32 = 10_000;

#[derive(Clone)]
pub enum Place {
    Home,
    Away(Arc<HostLink>),
}

pub struct Process {
    pub pid: Pid,
    pub place: Place,
    pub region: Option<Arc<Region>>,
    pub threads: BTreeMap<Tid, Arc<Deputy>>,
    pub common: Common,
    /// Signals sent to the present body.
    pub sent: u64,
    /// So many of them it had acknowledged when it last asked for an exec.
    pub acknowledged: u64,
    /// Counts the signals that come just now.
    pub flood: Flood,
    /// How often an exec was turned back for that.
    pub exec_retries: u32,
    /// Signals that came during a move.
    pub held: Vec<(Option<Tid>, SigInfo)>,
    /// How often it may still stay away for a timer's sake when it should come home.
    pub patience: u32,
    /// Stopped by job control, as its parent sees.
    pub stopped: bool,
    /// When the source of the move under way began to freeze it.
    pub froze_at: Option<Instant>,
    /// When it was last sent to the node that the user named.
    pub sent_back: Instant,
    /// In a PTRACE_EVENT_EXEC stop, waiting for its placement.
    pub at_exec: bool,
    /// Still our own program, about to become the user's.
    pub before_exec: bool,
    /// It is the program that `run` was given, and nothing of it has run yet.
    pub unbegun: bool,
    /// Dispositions to ignore that the next exec must inherit.
    pub ignored: u64,
    /// Niceness that the host was told of each thread; 0 before.
    pub nice: BTreeMap<Tid, i32>,
    pub moves: u64,
    pub stay_reason: Option<StayReason>,
    pub pinned: bool,
    /// A person put it where it is: it stays there until they give it back, it begins another program, or a call needs
    /// it at home.
    pub placed_by_user: bool,
    /// Its user wants it at home and not seized: a debugger is to have it.
    pub held_for_debugger: bool,
    /// How often it was to come home to dump core.
    pub dumps: u32,
    pub born: Instant,
    pub hold_until: Option<Instant>,
    pub next_hold: Duration,
    pub usage: UsageSummary,
}

impl Process {
    pub fn new(cpu: &Arc<CpuAccounts>, pid: Pid, pinned: bool) -> Process {
        cpu.begin(pid);
        let common = Common {
            breaking: Arc::default(),
            coming_home: Arc::default(),
            calls: Arc::default(),
            signalfds: Arc::default(),
            limits: Arc::default(),
            mapped: Arc::default(),
            cpu: cpu.clone(),
        };
        Process {
            pid,
            place: Place::Home,
            region: None,
            threads: BTreeMap::new(),
            common,
            sent: 0,
            acknowledged: 0,
            flood: Flood::default(),
            exec_retries: 0,
            held: Vec::new(),
            patience: PATIENCE,
            stopped: false,
            froze_at: None,
            sent_back: Instant::now(),
            at_exec: false,
            before_exec: false,
            unbegun: false,
            ignored: 0,
            nice: BTreeMap::new(),
            moves: 0,
            stay_reason: None,
            pinned,
            placed_by_user: false,
            held_for_debugger: false,
            dumps: 0,
            born: Instant::now(),
            hold_until: None,
            next_hold: HOLD_MIN,
            usage: UsageSummary::new(pid),
        }
    }

    pub fn link(&self) -> Option<&Arc<HostLink>> {
        match &self.place {
            Place::Away(l) => Some(l),
            Place::Home => None,
        }
    }

    /// Sends a signal to its body.
    pub fn pass_on(&mut self, tid: Option<Tid>, info: &SigInfo) {
        if let Some(l) = self.link() {
            l.send(&ToHost::Signal {
                pid: HomePid::of_home(self.pid),
                tid: tid.map(HomeTid::of_home),
                info: armento_wire::talk::Signal(info.to_vec()),
            });
            self.sent += 1;
        }
    }

    /// Whether its body still has to acknowledge signals of ours. An exec waits for that; not for ever.
    pub fn has_unacknowledged_signals(&mut self) -> bool {
        if self.sent <= self.acknowledged {
            return false;
        }
        self.exec_retries += 1;
        if self.exec_retries == EXEC_WAITS {
            let lost = self.sent - self.acknowledged;
            eprintln!(
                "process {}: {lost} signals were not confirmed before its exec",
                self.pid
            );
        }
        self.exec_retries < EXEC_WAITS
    }

    /// It has a new body, which had no signal from us yet.
    pub fn now_at(&mut self, link: &Arc<HostLink>) {
        self.place = Place::Away(link.clone());
        self.placed_by_user = false;
        self.unbegun = false;
        (self.sent, self.acknowledged, self.exec_retries) = (0, 0, 0);
        self.nice.clear();
        self.patience = PATIENCE;
    }

    /// Every deputy is gone or about to become the program again.
    pub fn close_deputies(&mut self, deputies: &Deputies) {
        self.leave_deputies(deputies).iter().for_each(|d| d.close());
    }

    /// The same but for their end: they are found no more, and they are scheduled as the program.
    pub fn leave_deputies(&mut self, deputies: &Deputies) -> Vec<Arc<Deputy>> {
        let all = std::mem::take(&mut self.threads);
        for (tid, d) in &all {
            d.restore_slice();
            deputies.remove(*tid);
        }
        all.into_values().collect()
    }

    pub fn held_after_call(&self) -> bool {
        self.hold_until.is_some_and(|t| Instant::now() < t)
    }

    /// A call brought it home: keep it there a while.
    pub fn hold_home(&mut self, why: StayReason, storm: Option<Duration>) {
        self.stay_reason = Some(why);
        self.hold_until = Some(Instant::now() + storm.unwrap_or(self.next_hold));
        self.next_hold = (self.next_hold * 2).min(HOLD_MAX);
    }

    /// Whether a signal must wait, because its host is behind or others wait already.
    pub fn must_wait(&self) -> bool {
        !self.held.is_empty() || self.link().is_some_and(|l| is_behind(l))
    }

    /// Before: [`Process::must_wait`].
    pub fn wait(&mut self, to: Option<Tid>, info: &SigInfo) {
        let same = |(t, i): &(Option<Tid>, SigInfo)| *t == to && i[..4] == info[..4];
        let queues = signal_number(info) >= FIRST_REALTIME;
        if self.held.len() < WAIT_MAX && (queues || !self.held.iter().any(same)) {
            hold(&mut self.held, to, info);
        }
    }

    /// Home's kernel queues the signals that a move kept back.
    pub fn queue_held_here(&mut self) {
        for (_, info) in std::mem::take(&mut self.held) {
            send_again(self.pid, &info);
        }
    }
}

/// Sends a signal that was taken from a process to it again.
fn send_again(pid: Pid, info: &SigInfo) {
    let sig = i32::from(info[0]);
    // KERNEL: rt_sigqueueinfo refuses others what kill(2) and the kernel say (si_code >= 0, SI_TKILL).
    if sys::sigqueue(pid, None, sig, info).is_err() {
        let _ = sys::kill(pid, sig);
    }
}
