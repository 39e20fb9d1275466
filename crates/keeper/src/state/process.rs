//! One process of the tree, at home or away.

use crate::cpu_time::CpuAccounts;
use crate::deputy::Common;
use crate::deputy::Deputy;
use crate::deputy::HostLink;
use crate::state::deputies::Deputies;
use crate::state::flood::FIRST_REALTIME;
use crate::state::flood::Flood;
use crate::state::flood::WAIT_MAX;
use crate::state::flood::is_behind;
use crate::state::flood::signal_number;
use crate::state::stay_reason::StayReason;
use crate::state::usage::UsageSummary;
use armento_migrate::image::timers::hold;
use armento_model::Pid;
use armento_model::Tid;
use armento_tracee::region::Region;
use armento_tracee::sys;
use armento_tracee::sys::SigInfo;
use armento_wire::talk::ToHost;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
/// How often a process stays for that. Most never ask, and some always have a signal waiting.
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
    pub told: u64,
    /// … of which it had had so many when it last asked for an exec.
    pub heard: u64,
    /// How many signals it has just now.
    pub flood: Flood,
    /// How often an exec was turned back for that.
    pub waited: u32,
    /// Signals that came during a move.
    pub held: Vec<(Option<Tid>, SigInfo)>,
    /// How often it may still stay away for a timer's sake when it should come home.
    pub patience: u32,
    /// Stopped by job control, as its parent sees.
    pub stopped: bool,
    /// When the source of the move under way began to freeze it.
    pub froze: Option<Instant>,
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
    pub kept: Option<StayReason>,
    pub locked: bool,
    /// A person put it where it is: it stays there until they give it back, it begins another program, or a call needs
    /// it at home.
    pub put: bool,
    /// Its user wants it at home and free of our hand: a debugger is to have it.
    pub tied: bool,
    /// How often it was to come home to dump core.
    pub dumps: u32,
    pub born: Instant,
    pub hold_until: Option<Instant>,
    pub hold: Duration,
    pub seen: UsageSummary,
}

impl Process {
    pub fn new(cpu: &Arc<CpuAccounts>, pid: Pid, locked: bool) -> Process {
        cpu.begin(pid);
        let common = Common {
            breaking: Arc::default(),
            coming: Arc::default(),
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
            told: 0,
            heard: 0,
            flood: Flood::default(),
            waited: 0,
            held: Vec::new(),
            patience: PATIENCE,
            stopped: false,
            froze: None,
            sent_back: Instant::now(),
            at_exec: false,
            before_exec: false,
            unbegun: false,
            ignored: 0,
            nice: BTreeMap::new(),
            moves: 0,
            kept: None,
            locked,
            put: false,
            tied: false,
            dumps: 0,
            born: Instant::now(),
            hold_until: None,
            hold: HOLD_MIN,
            seen: UsageSummary::new(pid),
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
            l.tell(&ToHost::Signal {
                pid: self.pid,
                tid,
                info: armento_wire::talk::Signal(info.to_vec()),
            });
            self.told += 1;
        }
    }

    /// Does its body still have to hear signals of ours? An exec waits for that; not for ever.
    pub fn owed_signals(&mut self) -> bool {
        if self.told <= self.heard {
            return false;
        }
        self.waited += 1;
        if self.waited == EXEC_WAITS {
            let lost = self.told - self.heard;
            eprintln!(
                "process {}: {lost} signals were not confirmed before its exec",
                self.pid
            );
        }
        self.waited < EXEC_WAITS
    }

    /// It has a new body, which had no signal from us yet.
    pub fn now_at(&mut self, link: &Arc<HostLink>) {
        self.place = Place::Away(link.clone());
        self.put = false;
        self.unbegun = false;
        (self.told, self.heard, self.waited) = (0, 0, 0);
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
            d.own_slice();
            deputies.remove(*tid);
        }
        all.into_values().collect()
    }

    pub fn held_back(&self) -> bool {
        self.hold_until.is_some_and(|t| Instant::now() < t)
    }

    /// A call brought it home: keep it there a while.
    pub fn hold_home(&mut self, why: StayReason, storm: Option<Duration>) {
        self.kept = Some(why);
        self.hold_until = Some(Instant::now() + storm.unwrap_or(self.hold));
        self.hold = (self.hold * 2).min(HOLD_MAX);
    }

    /// Must a signal wait, because its host is behind or others wait already?
    pub fn backs_up(&self) -> bool {
        !self.held.is_empty() || self.link().is_some_and(|l| is_behind(l))
    }

    /// Before: [`Process::backs_up`].
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
