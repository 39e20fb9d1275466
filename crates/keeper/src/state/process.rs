//! One process of the tree: what it always has, and its state with what it has only there.
//!
//! ```text
//! BeforeExec      ── exec ────────────► AtExec
//! AtExec          ── placed at home ──► AtHome
//! AtExec, AtHome  ── moves ───────────► Away
//! Away            ── another host ────► Away
//! Away            ── comes home ──────► AtHome
//! any             ── exec ────────────► AtExec, or AtHome if it is untraced
//! ```

mod signals;
mod staying;
#[cfg(test)]
mod tests;

use super::away::Away;
use super::deputies::Deputies;
use super::home_hold::HomeHold;
use super::loading::Loading;
use super::pins::Pins;
use super::safe::{Safe, Safety};
use super::stay_reason::StayReason;
use super::usage::UsageSummary;
use crate::cpu_time::CpuAccounts;
use crate::deputy::{Common, Deputy, HostLink};
use armento_migrate::stop_threads::Halted;
use armento_model::{Pid, Tid};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where a process is, for other threads.
#[derive(Clone)]
pub enum Place {
    Home,
    Away(Arc<HostLink>),
}

/// The state of a process.
enum State {
    /// At home, still our own program, about to become the user's.
    BeforeExec,
    AtExec(AtExec),
    /// At home, where it runs; or it is on its way out, until it is handed over.
    AtHome,
    Away(Box<Away>),
}

/// At home, in a PTRACE_EVENT_EXEC stop, waiting for its placement; or on its way from there to its entry point.
struct AtExec {
    /// It is the program that `run` was given, and nothing of it has run yet.
    unbegun: bool,
    /// Present while it runs to its entry point.
    loading: Option<Loading>,
    /// Its thread, from one visit to the tracer thread to the next. None while it loads or is looked at for a move.
    standing: Option<Halted>,
}

/// What outlasts the keeper's program of a process at home.
#[derive(Serialize, Deserialize)]
pub struct HandedProcess {
    pid: Pid,
    pins: Pins,
    moves: u64,
    #[serde(with = "crate::instants")]
    born: Instant,
    usage: UsageSummary,
    calls: u64,
    bytes_sent: u64,
    bytes_received: u64,
}

pub struct Process {
    pub pid: Pid,
    state: State,
    pub common: Common,
    pub pins: Pins,
    hold: HomeHold,
    moves: u64,
    stay_reason: Option<StayReason>,
    /// Since when it has wanted to run.
    born: Instant,
    pub usage: UsageSummary,
    /// Present if it is to go on when its node is lost.
    pub safe: Option<Safe>,
    /// It began from a checkpoint that was made under another kernel: its vDSO is not home's, and it needs a host.
    pub begun_elsewhere: bool,
}

impl Process {
    /// A process that runs at home.
    pub fn new(cpu: &Arc<CpuAccounts>, pid: Pid, pinned: bool, safe: Option<Safety>) -> Process {
        cpu.begin(pid);
        let safe = safe.map(Safe::new);
        let common = Common {
            breaking: Arc::default(),
            coming_home: Arc::default(),
            calls: Arc::default(),
            bytes_sent: Arc::default(),
            bytes_received: Arc::default(),
            signalfds: Arc::default(),
            limits: Arc::default(),
            mapped: Arc::default(),
            shares_files: Arc::default(),
            record: safe.as_ref().map(|s| s.record.clone()),
            cpu: cpu.clone(),
        };
        Process {
            pid,
            state: State::AtHome,
            common,
            pins: Pins::new(pinned),
            hold: HomeHold::new(),
            moves: 0,
            stay_reason: None,
            born: Instant::now(),
            usage: UsageSummary::new(pid),
            safe,
            begun_elsewhere: false,
        }
    }

    /// What is to be handed over of it. Before: it runs at home.
    pub fn handed(&self) -> HandedProcess {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        HandedProcess {
            pid: self.pid,
            pins: self.pins,
            moves: self.moves,
            born: self.born,
            usage: self.usage.clone(),
            calls: count(&self.common.calls),
            bytes_sent: count(&self.common.bytes_sent),
            bytes_received: count(&self.common.bytes_received),
        }
    }

    /// One that the program before this one kept, and that runs at home.
    pub fn take_over(cpu: &Arc<CpuAccounts>, was: HandedProcess, safe: Option<Safety>) -> Process {
        let new = Process::new(cpu, was.pid, false, safe);
        let set = |n: &AtomicU64, to| n.store(to, Ordering::Relaxed);
        set(&new.common.calls, was.calls);
        set(&new.common.bytes_sent, was.bytes_sent);
        set(&new.common.bytes_received, was.bytes_received);
        Process {
            pins: was.pins,
            moves: was.moves,
            born: was.born,
            usage: was.usage,
            ..new
        }
    }

    pub fn born_at(self, born: Instant) -> Process {
        Process { born, ..self }
    }

    pub fn child_of(mut self, parent: Pid) -> Process {
        self.usage.ppid = parent;
        self
    }

    pub fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// Whether its body makes calls again that a lost one had made.
    pub fn replays(&self) -> bool {
        self.safe.as_ref().is_some_and(|s| s.record.replays())
    }

    pub fn away(&self) -> Option<&Away> {
        match &self.state {
            State::Away(a) => Some(a),
            _ => None,
        }
    }

    pub fn away_mut(&mut self) -> Option<&mut Away> {
        match &mut self.state {
            State::Away(a) => Some(a),
            _ => None,
        }
    }

    pub fn is_away(&self) -> bool {
        self.away().is_some()
    }

    pub fn link(&self) -> Option<&Arc<HostLink>> {
        self.away().map(Away::link)
    }

    /// Whether its body is at this host.
    pub fn is_at(&self, link: &Arc<HostLink>) -> bool {
        self.link().is_some_and(|l| Arc::ptr_eq(l, link))
    }

    pub fn place(&self) -> Place {
        self.link()
            .map_or(Place::Home, |link| Place::Away(link.clone()))
    }

    /// Its deputies; none at home.
    pub fn deputies(&self) -> impl Iterator<Item = &Arc<Deputy>> {
        self.away().into_iter().flat_map(|a| a.deputies().values())
    }

    pub fn deputy(&self, tid: Tid) -> Option<&Arc<Deputy>> {
        self.away()?.deputies().get(&tid)
    }

    /// The threads of its deputies; none at home.
    pub fn deputy_tids(&self) -> Vec<Tid> {
        self.deputies().map(|d| d.tid).collect()
    }

    /// It has made a thread, whose deputy this is: nothing else of its stay changes.
    pub fn add_deputy(&mut self, d: &Arc<Deputy>) {
        self.away_mut().into_iter().for_each(|a| a.add_deputy(d));
    }

    /// Its deputies that were stopped to become the program again.
    pub fn take_halted(&mut self) -> Vec<Halted> {
        self.away_mut()
            .map_or_else(Vec::new, |a| std::mem::take(&mut a.halted))
    }

    pub fn is_before_exec(&self) -> bool {
        matches!(self.state, State::BeforeExec)
    }

    /// Whether it waits for its placement.
    pub fn is_at_exec(&self) -> bool {
        matches!(self.state, State::AtExec(_))
    }

    /// Whether it waits for its placement, is the program that `run` was given, and nothing of it has run yet.
    pub fn is_unbegun(&self) -> bool {
        matches!(self.state, State::AtExec(AtExec { unbegun: true, .. }))
    }

    /// Its thread stands still, if it waits for its placement.
    pub fn stand(&mut self, halted: Halted) {
        if let State::AtExec(e) = &mut self.state {
            e.standing = Some(halted);
        }
    }

    /// Whether it waits for its placement and stands still.
    pub fn stands_at_exec(&self) -> bool {
        matches!(&self.state, State::AtExec(e) if e.standing.is_some())
    }

    /// The thread of a program that stands still, to resume it.
    pub fn take_standing(&mut self) -> Option<Halted> {
        match &mut self.state {
            State::AtExec(e) => e.standing.take(),
            _ => None,
        }
    }

    /// The run of a program that waits for its placement to its entry point.
    pub fn loading(&mut self) -> Option<&mut Loading> {
        match &mut self.state {
            State::AtExec(e) => e.loading.as_mut(),
            _ => None,
        }
    }

    /// It runs to its entry point from now on, if it waits for its placement.
    pub fn begin_loading(&mut self, loading: Loading) {
        if let State::AtExec(e) = &mut self.state {
            e.loading = Some(loading);
        }
    }

    /// It runs to its entry point no more.
    pub fn end_loading(&mut self) -> Option<Loading> {
        match &mut self.state {
            State::AtExec(e) => e.loading.take(),
            _ => None,
        }
    }

    /// It is our own program, seized, and will exec the user's.
    pub fn begin_before_exec(&mut self) {
        self.state = State::BeforeExec;
    }

    /// It has exec'd and waits for its placement.
    pub fn enter_exec_stop(&mut self, deputies: &Deputies) {
        let at_exec = AtExec {
            unbegun: self.is_before_exec(),
            loading: None,
            standing: None,
        };
        self.replace_image(State::AtExec(at_exec), deputies);
    }

    /// It has exec'd untraced and runs.
    pub fn exec_untraced(&mut self, deputies: &Deputies) {
        self.replace_image(State::AtHome, deputies);
    }

    /// What a move kept back for the body is for the new program.
    fn replace_image(&mut self, state: State, deputies: &Deputies) {
        self.close_deputies(deputies);
        self.queue_held_here();
        self.return_to(state);
        self.begun_elsewhere = false;
        self.stay_reason = None;
    }

    /// It has its place: home, where it goes on.
    pub fn leave_exec_stop(&mut self) {
        if self.is_at_exec() {
            self.state = State::AtHome;
        }
    }

    /// Its body runs on another node from now on.
    pub fn become_away(&mut self, away: Away) {
        self.state = State::Away(Box::new(away));
        self.safe.iter_mut().for_each(Safe::forget);
        self.pins.place_changed();
    }

    /// Its body runs at another host from now on. Returns since when it had stood still; `None`: it has none.
    pub fn go_to(&mut self, link: &Arc<HostLink>) -> Option<Option<Instant>> {
        let froze = self.away_mut()?.go_to(link);
        self.safe.iter_mut().for_each(Safe::recovered);
        self.pins.place_changed();
        self.usage.end_stay();
        Some(froze)
    }

    /// Its deputies are the program again. They are returned, still to be closed.
    pub fn come_home(&mut self, deputies: &Deputies) -> Vec<Arc<Deputy>> {
        self.queue_held_here();
        let left = self.leave_deputies(deputies);
        self.return_to(State::AtHome);
        left
    }

    /// It is at home, in `state`.
    fn return_to(&mut self, state: State) {
        if self.is_away() {
            self.usage.end_stay();
        }
        self.state = state;
        self.safe.iter_mut().for_each(Safe::forget);
        self.pins.place_changed();
        self.common.coming_home.store(false, Ordering::Release);
        self.common.breaking.store(false, Ordering::Release);
    }

    fn leave_deputies(&mut self, deputies: &Deputies) -> Vec<Arc<Deputy>> {
        self.away_mut()
            .map_or_else(Vec::new, |a| a.leave_deputies(deputies))
    }

    /// Every deputy is gone.
    pub fn close_deputies(&mut self, deputies: &Deputies) {
        self.leave_deputies(deputies).iter().for_each(|d| d.close());
    }
}
