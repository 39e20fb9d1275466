//! The stay of a process on another node: its host, its deputies, and what its body was told.
//!
//! From: `process.rs`. Next: `keeper/src/deputy/thread.rs`.

use super::body_signals::BodySignals;
use super::deputies::Deputies;
use super::flood::is_behind;
use crate::deputy::{Deputy, HostLink};
use armento_migrate::stop_threads::Halted;
use armento_model::{HomePid, HomeTid, Pid, Tid};
use armento_tracee::region::Region;
use armento_tracee::sys::SigInfo;
use armento_wire::talk::{Signal, ToHost};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// How often a process stays away because a timer's signal waits (`keeper/src/signals/timers.rs`). Most programs never
/// ask for overruns, and some always have a signal waiting.
const TIMER_STAYS: u32 = 5;

/// What a process has only while its body runs on another node.
pub struct Away {
    link: Arc<HostLink>,
    /// Code and slots of the deputies, mapped into the process at home.
    region: Arc<Region>,
    deputies: BTreeMap<Tid, Arc<Deputy>>,
    pub signals: BodySignals,
    /// The stopped deputies, on the way home.
    pub halted: Vec<Halted>,
    /// Stopped by job control, as its parent sees.
    stopped: bool,
    /// When the source of the move under way began to freeze the body.
    froze_at: Option<Instant>,
    /// Dispositions to ignore that the next exec must inherit.
    ignored: u64,
    /// Niceness that the host was told of each thread; 0 before.
    nice: BTreeMap<Tid, i32>,
    /// How often it may still stay away for a timer's sake when it should come home.
    timer_stays: u32,
    /// How often it was to come home to dump core.
    dumps: u32,
}

impl Away {
    pub fn new(link: Arc<HostLink>, region: Arc<Region>, ignored: u64) -> Away {
        Away {
            link,
            region,
            deputies: BTreeMap::new(),
            signals: BodySignals::default(),
            halted: Vec::new(),
            stopped: false,
            froze_at: None,
            ignored,
            nice: BTreeMap::new(),
            timer_stays: TIMER_STAYS,
            dumps: 0,
        }
    }

    pub fn link(&self) -> &Arc<HostLink> {
        &self.link
    }

    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub fn deputies(&self) -> &BTreeMap<Tid, Arc<Deputy>> {
        &self.deputies
    }

    pub fn add_deputy(&mut self, d: &Arc<Deputy>) {
        self.deputies.insert(d.tid, d.clone());
    }

    pub fn remove_deputy(&mut self, tid: Tid) {
        self.deputies.remove(&tid);
    }

    /// A new body was built, which was told nothing yet.
    pub fn begin_body(&mut self) {
        self.signals.begin_body();
        self.nice.clear();
        self.timer_stays = TIMER_STAYS;
    }

    /// The body runs at another host from now on. Returns since when it had stood still.
    pub fn go_to(&mut self, link: &Arc<HostLink>) -> Option<Instant> {
        self.deputies.values().for_each(|d| d.set_link(link));
        self.link = link.clone();
        self.begin_body();
        self.froze_at.take()
    }

    /// Its deputies are found no more, and are scheduled as the program.
    pub fn leave_deputies(&mut self, all: &Deputies) -> Vec<Arc<Deputy>> {
        let left = std::mem::take(&mut self.deputies);
        for (tid, d) in &left {
            d.restore_slice();
            all.remove(*tid);
        }
        left.into_values().collect()
    }

    /// Sends a signal to the body.
    pub fn pass_on(&mut self, pid: Pid, tid: Option<Tid>, info: &SigInfo) {
        self.link.send(&ToHost::Signal {
            pid: HomePid::of_home(pid),
            tid: tid.map(HomeTid::of_home),
            info: Signal(info.to_vec()),
        });
        self.signals.count_sent();
    }

    /// Whether a signal must wait, because the host is behind or others wait already.
    pub fn must_wait(&self) -> bool {
        !self.signals.held().is_empty() || is_behind(&self.link)
    }

    /// Signals wait and the host has caught up.
    pub fn takes_backlog(&self) -> bool {
        !self.signals.held().is_empty() && !is_behind(&self.link)
    }

    /// The source of a move freezes the body now.
    pub fn freeze(&mut self) {
        self.froze_at = Some(Instant::now());
    }

    pub fn frozen_since(&self) -> Option<Instant> {
        self.froze_at
    }

    /// A move begins. One that failed may have left its freeze.
    pub fn forget_freeze(&mut self) {
        self.froze_at = None;
    }

    /// Home's kernel has stopped it by job control.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A deputy goes on. True: SIGCONT has ended a stop of job control.
    pub fn end_stop(&mut self) -> bool {
        std::mem::take(&mut self.stopped)
    }

    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The body asks for an exec, having received so many signals. Returns which dispositions to ignore differ from the
    /// deputy's.
    pub fn prepare_exec(&mut self, ignored: u64, received: u64) -> u64 {
        self.signals.acknowledge(received);
        std::mem::replace(&mut self.ignored, ignored) ^ ignored
    }

    /// Threads whose niceness is not what the host was told last; it is told now. KERNEL: a thread has its own,
    /// getpriority(2).
    pub fn renice(&mut self, now: BTreeMap<Tid, i32>) -> Vec<(HomeTid, i32)> {
        let before = std::mem::replace(&mut self.nice, now);
        let known = |tid: &Tid| before.get(tid).copied().unwrap_or(0);
        self.nice
            .iter()
            .filter(|(tid, nice)| known(tid) != **nice)
            .map(|(tid, nice)| (HomeTid::of_home(*tid), *nice))
            .collect()
    }

    /// A timer's signal waits: whether it stays away for that once more.
    pub fn stay_for_timer(&mut self) -> bool {
        let may = self.timer_stays > 0;
        self.timer_stays = self.timer_stays.saturating_sub(1);
        may
    }

    /// It is to dump core at home: whether that is tried once more.
    pub fn try_dump(&mut self, tries: u32) -> bool {
        let may = self.dumps < tries;
        self.dumps += u32::from(may);
        may
    }
}
