//! The world that the decisions act upon.
//!
//! | what happens | file |
//! |---|---|
//! | programs start, move, end | `world/life.rs` |
//! | daemons report, speak, decide, admit | `world/daemons.rs` |
//! | nodes crash, slow down, are cut off | `world/faults.rs` |
//! | what must hold at every step | `world/checks.rs` |
//! | what is measured | `world/figures.rs` |

mod checks;
mod daemons;
mod faults;
mod figures;
mod life;

use crate::machine::{Machine, TaskId};
use armento_balance::{Ledger, Policy};
use armento_gossip::{CpuSet, Dice, Packet, Table};
use armento_model::NodeName;
use checks::Checks;
use daemons::{BOOT, cpu};
use faults::{Clock, Members};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

pub use faults::Fault;
pub use figures::{Ages, Traffic};

/// What daemons do how often, microseconds: keepers and hosts report twice a second, a node is sampled and
/// speaks once a second.
const REPORT_US: u64 = 500_000;
const PERIOD_US: u64 = 1_000_000;

/// One node.
#[derive(Clone, Copy, Debug)]
pub struct Rack {
    pub cores: u32,
    /// Of one core, thousandths of a standard core.
    pub speed_milli: u64,
    pub mem_kib: u64,
}

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub home: usize,
    pub start_us: u64,
    /// Of a standard core.
    pub work_ns: u64,
    pub rss_kib: u64,
    /// Its place is chosen at its exec; else it starts at home.
    pub placed: bool,
}

/// What moving costs in this world.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// Work of each end, nanoseconds of a standard core.
    pub end_ns: u64,
    /// Bytes a microsecond.
    pub bandwidth: u64,
    /// Neither here nor there, microseconds.
    pub pause_us: u64,
    /// From one node to another, microseconds.
    pub hop_us: u64,
    /// What a node sends goes out one after another; else as if each had a wire of its own.
    pub one_wire: bool,
    /// The work of moves is done ahead of programs; else it is one task among them. It takes a few time slices at most,
    /// and a kernel lets who has slept run first.
    pub ahead: bool,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            end_ns: 3_000_000,
            bandwidth: 110,
            pause_us: 3_000,
            hop_us: 200,
            one_wire: false,
            ahead: false,
        }
    }
}

#[derive(Debug)]
struct Proc {
    job: Job,
    rss_kib: u64,
    place: usize,
    /// Its key on the machine where it runs; `None` while it stands still.
    running: Option<u64>,
    left_ns: u64,
    born: bool,
    ended_us: Option<u64>,
    flight: Option<usize>,
    /// Counts its flights: what belongs to one that failed comes too late.
    trip: u32,
}

impl Proc {
    fn lives(&self) -> bool {
        self.born && self.ended_us.is_none()
    }
}

/// Work that is no process's own: an end of a flight.
#[derive(Clone, Copy, Debug)]
enum Chore {
    Leave(TaskId, u32),
    Arrive(TaskId, u32),
}

struct Daemon {
    table: Table,
    ledger: Ledger,
    rack: Rack,
    boot: u64,
    clock: Clock,
    up: bool,
    /// Its memory was short when it last spoke.
    short: bool,
    moves: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(TaskId),
    Report(usize),
    Decide(usize),
    Period(usize),
    /// The next end on a machine, if nothing changed since.
    End(usize, u64),
    /// It has travelled, and the other end begins its work.
    Crossed(TaskId, u32),
    Thaw(TaskId, u32),
    Heard(usize, usize),
    Grow(TaskId, u64),
    Fault(usize),
    Over(usize),
    /// The others have noticed by now.
    Noticed(usize),
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From each job's start to its end, microseconds, in the order of the jobs.
    pub took_us: Vec<u64>,
    pub last_end_us: u64,
    pub moves: u64,
    /// Work for moves, nanoseconds of a standard core.
    pub moved_ns: u64,
    pub refused: u64,
    /// Flights that a fault ended; who flew stayed.
    pub failed: u64,
    /// Processes that a crash ended.
    pub lost: u64,
}

pub struct World {
    names: Vec<NodeName>,
    /// Places of nodes in the order of their names.
    ranks: Vec<u32>,
    daemons: Vec<Daemon>,
    machines: Vec<(Machine, u64)>,
    procs: Vec<Proc>,
    /// By node: living processes whose home it is, and all that are there.
    homes: Vec<BTreeSet<TaskId>>,
    here: Vec<BTreeSet<TaskId>>,
    used_kib: Vec<u64>,
    chores: Slots<Chore>,
    letters: Slots<Packet>,
    /// When each node's wire is free again.
    wires_us: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    faults: Vec<Fault>,
    members: Members,
    policy: Policy,
    prices: Prices,
    dice: Dice,
    now: u64,
    count: u64,
    living: usize,
    out: Outcome,
    traffic: Traffic,
    checks: Checks,
    cpu: CpuSet,
}

/// Chores and processes are tasks of machines alike.
const CHORES: usize = 1 << 40;

/// Things with numbers, which are given again.
struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    fn new() -> Slots<T> {
        Slots {
            all: Vec::new(),
            free: Vec::new(),
        }
    }

    fn put(&mut self, thing: T) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[place] = Some(thing);
        place
    }

    fn take(&mut self, place: usize) -> Option<T> {
        let thing = self.all.get_mut(place)?.take()?;
        self.free.push(place);
        Some(thing)
    }
}

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
        let machine = |rack: &Rack| (Machine::new(rack.cores.into(), rack.speed_milli), 0);
        let mut world = World {
            daemons: racks.iter().enumerate().map(daemon).collect(),
            machines: racks.iter().map(machine).collect(),
            names,
            ranks,
            procs: Vec::new(),
            homes: vec![BTreeSet::new(); n],
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
            self.at(phase(self.step_us()), Event::Decide(i));
        }
    }

    /// Native work on a node, so many that never end.
    pub fn background(&mut self, node: usize, tasks: u64) {
        let now = self.now;
        self.machines[node].0.set_foreign(tasks, now);
        self.changed(node);
    }

    /// After: its number.
    pub fn add(&mut self, job: Job) -> usize {
        let task = self.procs.len();
        self.procs.push(Proc {
            job,
            rss_kib: job.rss_kib,
            place: job.home,
            running: None,
            left_ns: job.work_ns,
            born: false,
            ended_us: None,
            flight: None,
            trip: 0,
        });
        self.living += 1;
        self.at(job.start_us, Event::Start(task));
        task
    }

    /// A process takes so much more memory then.
    pub fn grow(&mut self, task: usize, kib: u64, at_us: u64) {
        self.at(at_us, Event::Grow(task, kib));
    }

    pub fn fault(&mut self, fault: Fault, at_us: u64) {
        self.faults.push(fault);
        self.at(at_us, Event::Fault(self.faults.len() - 1));
    }

    /// Until all jobs have ended or so long; what came of it.
    pub fn run(&mut self, until_us: u64) -> Outcome {
        while self.living > 0 && self.now < until_us && self.step() {}
        let took = |p: &Proc| p.ended_us.map_or(u64::MAX, |end| end - p.job.start_us);
        self.out.took_us = self.procs.iter().map(took).collect();
        self.out.clone()
    }

    /// Until then, whether or not there are programs.
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

    /// False when nothing will ever happen.
    fn step(&mut self) -> bool {
        let Some(Reverse((at, _, event))) = self.events.pop() else {
            return false;
        };
        self.now = at;
        self.happen(event);
        self.check_all();
        true
    }

    fn step_us(&self) -> u64 {
        (self.policy.period_ms + 20) * 1000
    }

    fn at(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    fn after(&mut self, us: u64, event: Event) {
        self.at(self.now + us, event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(task) => self.start(task),
            Event::Report(i) => {
                self.report(i);
                self.after(REPORT_US, Event::Report(i));
            }
            Event::Decide(i) => {
                self.decide(i);
                self.after(self.step_us(), Event::Decide(i));
            }
            Event::Period(i) => {
                self.period(i);
                self.after(PERIOD_US, Event::Period(i));
            }
            Event::End(i, version) if self.machines[i].1 == version => self.ends(i),
            Event::End(..) => {}
            Event::Crossed(task, trip) => self.crossed(task, trip),
            Event::Thaw(task, trip) => self.thaw(task, trip),
            Event::Heard(to, letter) => self.hear(to, letter),
            Event::Grow(task, kib) => self.grown(task, kib),
            Event::Fault(f) => self.strike(f),
            Event::Over(f) => self.mend(f),
            Event::Noticed(f) => self.notice(f),
        }
    }

    // --- machines ---

    /// Something began or ended there: the next end is another.
    fn changed(&mut self, i: usize) {
        self.machines[i].1 += 1;
        let version = self.machines[i].1;
        if let Some(at) = self.machines[i].0.next_end() {
            self.at(at.max(self.now), Event::End(i, version));
        }
    }

    fn ends(&mut self, i: usize) {
        self.machines[i].0.advance(self.now);
        while let Some((end, task)) = self.machines[i].0.due() {
            self.machines[i].0.leave(task, end, self.now);
            match task.checked_sub(CHORES) {
                Some(chore) => {
                    if let Some(chore) = self.chores.take(chore) {
                        self.did(chore);
                    }
                }
                None => self.ended(task),
            }
        }
        self.changed(i);
    }

    fn chore(&mut self, node: usize, chore: Chore) {
        let id = CHORES + self.chores.put(chore);
        self.out.moved_ns += self.prices.end_ns;
        let (machine, work) = (&mut self.machines[node].0, self.prices.end_ns);
        if self.prices.ahead {
            machine.enter_ahead(id, work, self.now);
        } else {
            machine.enter(id, work, self.now);
        }
        self.changed(node);
    }
}
