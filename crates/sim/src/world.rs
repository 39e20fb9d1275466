//! The simulated world on which the decisions act.
//!
//! | what happens | file |
//! |---|---|
//! | programs start, move, end | `world/life.rs`, on machines `world/works.rs` |
//! | programs copy files of their home | `world/copies.rs` |
//! | daemons report, send loads, decide, admit | `world/daemons.rs` |
//! | nodes crash, slow down, are cut off | `world/faults.rs` |
//! | the state at one moment | `world/state.rs`, of `world/things.rs` |
//! | invariants at every step | `world/checks.rs` |
//! | measurements | `world/figures.rs` |

mod checks;
mod clock;
mod copies;
mod copying;
mod daemons;
mod faults;
mod figures;
mod life;
mod members;
mod slots;
mod state;
mod things;
mod works;

use crate::machine::{Machine, TaskId};
use armento_balance::Policy;
use armento_gossip::Dice;
use armento_model::NodeName;
use daemons::{BOOT, cpu};
use members::Members;
use state::Checks;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use copying::Progress;
use slots::Slots;
use things::{Daemon, Event, Proc};

pub use copying::Copying;
pub use figures::Ages;
pub use state::World;
pub use things::{Fault, Job, Outcome, Prices, Rack, Traffic};

/// Intervals of daemons' actions, microseconds: keepers and hosts report twice a second where a guest arrived recently,
/// else once; a node is sampled and sends its load once a second.
const REPORT_US: u64 = 500_000;
const REPORT_CALM_US: u64 = 1_000_000;
const CALM_AFTER_US: u64 = 5_000_000;
const PERIOD_US: u64 = 1_000_000;

impl World {
    pub fn new(racks: &[Rack], policy: Policy, prices: Prices, seed: u64) -> World {
        let n = racks.len();
        let name = |i: usize| format!("n{}", i + 1).parse().expect("a plain name");
        let names: Vec<NodeName> = (0..n).map(name).collect();
        let mut by_name: Vec<usize> = (0..n).collect();
        by_name.sort_by_key(|&i| &names[i]);
        let mut ranks = vec![0; n];
        (0..n).for_each(|rank| ranks[by_name[rank]] = rank as u32);
        let dice = Dice::seeded(seed);
        // Each started at a moment of its own.
        let boot = |i: usize| BOOT + i as u64 * 1000;
        let daemon = |(i, rack): (usize, &Rack)| Daemon::new(i, &names, *rack, boot(i));
        let machine = |rack: &Rack| {
            let left = rack
                .speed_milli
                .saturating_sub(prices.rest_milli / u64::from(rack.cores.max(1)));
            (Machine::new(rack.cores.into(), left.max(1)), 0)
        };
        let mut world = World {
            daemons: racks.iter().enumerate().map(daemon).collect(),
            machines: racks.iter().map(machine).collect(),
            name_bytes: names.iter().map(|n| n.as_str().len() as u8).collect(),
            names,
            ranks,
            procs: Vec::new(),
            homes: vec![BTreeSet::new(); n],
            starting: vec![0; n],
            here: vec![BTreeSet::new(); n],
            used_kib: vec![0; n],
            chores: Slots::new(),
            letters: Slots::new(),
            wires_us: vec![0; n],
            events: BinaryHeap::new(),
            faults: Vec::new(),
            members: Members::new(n),
            policy,
            prices,
            dice: dice.clone(),
            now: 0,
            count: 0,
            living: 0,
            out: Outcome::default(),
            traffic: Traffic::default(),
            checks: Checks::default(),
            cpu: cpu(),
            told: false,
        };
        world.wake_all(dice);
        world
    }

    fn wake_all(&mut self, mut dice: Dice) {
        for i in 0..self.names.len() {
            // Nodes do not act in step.
            let mut phase = |of: u64| dice.below(of as usize) as u64;
            let (period, report) = (phase(PERIOD_US), phase(REPORT_US));
            self.at(period, Event::Period(i));
            self.at(report, Event::Report(i));
            self.at(phase(self.step_us(i)), Event::Decide(i));
        }
    }

    /// Native work on a node: so many tasks that never end.
    pub fn background(&mut self, node: usize, tasks: u64) {
        let now = self.now;
        self.machines[node].0.set_foreign(tasks, now);
        self.changed(node);
    }

    /// After: returns its number.
    pub fn add(&mut self, job: Job) -> usize {
        if job.copy.is_some() {
            self.tell_round_trips();
        }
        let task = self.procs.len();
        self.procs.push(Proc {
            job,
            rss_kib: job.rss_kib,
            place: job.home,
            came_us: self.now,
            running: None,
            left_ns: World::part_ns(&job),
            copying: Progress::new(job.copy.is_some()),
            stands: false,
            born: false,
            ended_us: None,
            lost: false,
            flight: None,
            known: BTreeSet::from([job.home]),
            trip: 0,
        });
        self.living += 1;
        self.at(job.start_us, Event::Start(task));
        task
    }

    /// A process takes so much more memory at that time.
    pub fn grow(&mut self, task: usize, kib: u64, at_us: u64) {
        self.at(at_us, Event::Grow(task, kib));
    }

    pub fn fault(&mut self, fault: Fault, at_us: u64) {
        self.faults.push(fault);
        self.at(at_us, Event::Fault(self.faults.len() - 1));
    }

    /// Runs until all jobs have ended or until that time; returns the outcome.
    pub fn run(&mut self, until_us: u64) -> Outcome {
        while self.living > 0 && self.now < until_us && self.step() {}
        let took = |p: &Proc| {
            let end = p.ended_us.filter(|_| !p.lost);
            end.map_or(u64::MAX, |end| end - p.job.start_us)
        };
        self.out.took_us = self.procs.iter().map(took).collect();
        self.out.clone()
    }

    /// Runs until that time, whether or not there are programs.
    pub fn pass(&mut self, until_us: u64) {
        let before = |world: &World| {
            let next = world.events.peek();
            next.is_some_and(|Reverse((at, _, _))| *at <= until_us)
        };
        while before(self) && self.step() {}
        self.now = self.now.max(until_us);
    }

    pub fn now_us(&self) -> u64 {
        self.now
    }

    /// False when there are no more events.
    fn step(&mut self) -> bool {
        let Some(Reverse((at, _, event))) = self.events.pop() else {
            return false;
        };
        self.now = at;
        self.happen(event);
        self.check_all();
        true
    }

    /// As daemons do (`noded/src/policy/act.rs`), but the end of a process triggers no immediate decision.
    fn step_us(&self, home: usize) -> u64 {
        let youngest = self.homes[home].last();
        let age_us = youngest.map_or(0, |p| self.now.saturating_sub(self.procs[*p].job.start_us));
        let flying = self.daemons[home].ledger.flying();
        (self.policy.pause_ms(age_us / 1000, flying) + 20) * 1000
    }

    fn report_us(&self, home: usize) -> u64 {
        let since = |p: &TaskId| self.now.saturating_sub(self.procs[*p].came_us);
        let mut ours = self.homes[home].iter();
        match ours.any(|p| since(p) < CALM_AFTER_US) {
            true => REPORT_US,
            false => REPORT_CALM_US,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(task) => self.start(task),
            Event::Report(i) => {
                self.report(i);
                self.after(self.report_us(i), Event::Report(i));
            }
            Event::Decide(i) => {
                self.decide(i);
                self.after(self.step_us(i), Event::Decide(i));
            }
            Event::Period(i) => {
                self.period(i);
                self.after(PERIOD_US, Event::Period(i));
            }
            Event::End(i, version) if self.machines[i].1 == version => self.ends(i),
            Event::End(..) => {}
            Event::Crossed(task, trip) => self.crossed(task, trip),
            Event::Thaw(task, trip) => self.thaw(task, trip),
            Event::Waited(task) => self.waited(task),
            Event::Heard(to, letter) => self.receive(to, letter),
            Event::Grow(task, kib) => self.grown(task, kib),
            Event::Fault(f) => self.strike(f),
            Event::Over(f) => self.mend(f),
            Event::Noticed(f) => self.notice(f),
        }
    }
}
