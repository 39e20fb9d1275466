//! The world that the decisions act upon.

use crate::machine::{Machine, TaskId};
use armento_balance::{Fresh, Guest, Ledger, Move, Need, Policy, Seen, View, admit, decide, place};
use armento_gossip::{Dice, Entry, Message, Tick, Vector};
use armento_model::{NodeName, Pid, Stay, Users};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            end_ns: 3_000_000,
            bandwidth: 110,
            pause_us: 3_000,
            hop_us: 200,
        }
    }
}

#[derive(Debug)]
struct Proc {
    job: Job,
    place: usize,
    /// Its key on the machine where it runs; `None` while it stands still.
    running: Option<u64>,
    left_ns: u64,
    ended_us: Option<u64>,
    flight: Option<usize>,
}

/// Work that is no process's own.
#[derive(Clone, Copy, Debug)]
enum Chore {
    Leave(TaskId),
    Arrive(TaskId),
}

struct Daemon {
    vector: Vector,
    ledger: Ledger,
    rack: Rack,
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
    Crossed(TaskId),
    Thaw(TaskId),
    Heard(usize, usize),
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
}

pub struct World {
    names: Vec<NodeName>,
    daemons: Vec<Daemon>,
    machines: Vec<(Machine, u64)>,
    procs: Vec<Proc>,
    chores: Vec<(usize, Chore)>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    letters: Vec<Option<Message>>,
    policy: Policy,
    prices: Prices,
    dice: Dice,
    now: u64,
    count: u64,
    living: usize,
    out: Outcome,
}

/// Chores and processes are tasks of machines alike.
const CHORES: usize = 1 << 40;

impl World {
    pub fn new(racks: &[Rack], policy: Policy, prices: Prices, seed: u64) -> World {
        let name = |i: usize| format!("n{}", i + 1).parse().expect("a plain name");
        let names: Vec<NodeName> = (0..racks.len()).map(name).collect();
        let mut dice = Dice::seeded(seed);
        let daemon = |(name, rack): (&NodeName, &Rack)| Daemon {
            vector: Vector::new(name.clone(), 1),
            ledger: Ledger::new(name.clone()),
            rack: *rack,
            moves: 0,
        };
        let machine = |rack: &Rack| (Machine::new(rack.cores.into(), rack.speed_milli), 0);
        let mut world = World {
            daemons: names.iter().zip(racks).map(daemon).collect(),
            machines: racks.iter().map(machine).collect(),
            names,
            procs: Vec::new(),
            chores: Vec::new(),
            events: BinaryHeap::new(),
            letters: Vec::new(),
            policy,
            prices,
            dice: dice.clone(),
            now: 0,
            count: 0,
            living: 0,
            out: Outcome::default(),
        };
        for i in 0..racks.len() {
            // Nodes do not act in step.
            let mut phase = |of: u64| dice.below(of as usize) as u64;
            let (period, report) = (phase(PERIOD_US), phase(REPORT_US));
            world.at(period, Event::Period(i));
            world.at(report, Event::Report(i));
            world.at(phase(world.step_us()), Event::Decide(i));
        }
        world
    }

    /// Native work on a node, so many that never end.
    pub fn background(&mut self, node: usize, tasks: u64) {
        let now = self.now;
        self.machines[node].0.set_foreign(tasks, now);
        self.changed(node);
    }

    pub fn add(&mut self, job: Job) {
        let task = self.procs.len();
        self.procs.push(Proc {
            job,
            place: job.home,
            running: None,
            left_ns: job.work_ns,
            ended_us: None,
            flight: None,
        });
        self.living += 1;
        self.at(job.start_us, Event::Start(task));
    }

    /// Until all jobs have ended or so long; what came of it.
    pub fn run(&mut self, until_us: u64) -> Outcome {
        while self.living > 0 && self.now < until_us {
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                break;
            };
            self.now = at;
            self.happen(event);
        }
        let took = |p: &Proc| p.ended_us.map_or(u64::MAX, |end| end - p.job.start_us);
        self.out.took_us = self.procs.iter().map(took).collect();
        self.out.clone()
    }

    /// How many run on each node, or go there.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.names.len()];
        for p in self.procs.iter().filter(|p| p.ended_us.is_none()) {
            counts[p.flight.unwrap_or(p.place)] += 1;
        }
        counts
    }

    fn step_us(&self) -> u64 {
        (self.policy.period_ms + 20) * 1000
    }

    fn tick(&self) -> Tick {
        Tick(self.now / 1000)
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
            Event::Crossed(task) => {
                if let Some(to) = self.procs[task].flight {
                    self.chore(to, Chore::Arrive(task));
                }
            }
            Event::Thaw(task) => self.thaw(task),
            Event::Heard(to, letter) => {
                let now = self.tick();
                if let Some(message) = self.letters[letter].take() {
                    self.daemons[to].vector.receive(message, now);
                }
            }
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
                Some(chore) => self.did(self.chores[chore].1),
                None => self.ended(task),
            }
        }
        self.changed(i);
    }

    fn enter(&mut self, task: TaskId) {
        let (place, left) = (self.procs[task].place, self.procs[task].left_ns);
        let key = self.machines[place].0.enter(task, left, self.now);
        self.procs[task].running = Some(key);
        self.changed(place);
    }

    fn stop(&mut self, task: TaskId) {
        let place = self.procs[task].place;
        if let Some(key) = self.procs[task].running.take() {
            self.procs[task].left_ns = self.machines[place].0.leave(task, key, self.now);
            self.changed(place);
        }
    }

    fn chore(&mut self, node: usize, chore: Chore) {
        let id = CHORES + self.chores.len();
        self.chores.push((node, chore));
        self.out.moved_ns += self.prices.end_ns;
        self.machines[node]
            .0
            .enter(id, self.prices.end_ns, self.now);
        self.changed(node);
    }

    // --- the life of a process ---

    fn pid(task: TaskId) -> Pid {
        task as Pid + 100
    }

    fn start(&mut self, task: TaskId) {
        let job = self.procs[task].job;
        let now = self.tick();
        if job.placed {
            let fresh = Fresh::default();
            let view = self.view(job.home);
            if let Some(to) = place(&view, &self.policy, &fresh) {
                self.daemons[job.home]
                    .ledger
                    .placing(World::pid(task), &to, &fresh, now);
                let to = self.index(&to);
                if to != job.home {
                    // It waits for its place at its exec.
                    self.fly(task, to);
                    return;
                }
            }
        }
        self.enter(task);
    }

    fn ended(&mut self, task: TaskId) {
        let home = self.procs[task].job.home;
        self.procs[task].running = None;
        self.procs[task].ended_us = Some(self.now);
        self.procs[task].flight = None;
        self.living -= 1;
        self.out.last_end_us = self.now;
        let now = self.tick();
        self.daemons[home].ledger.ended(World::pid(task), now);
        self.decide(home);
    }

    fn fly(&mut self, task: TaskId, to: usize) {
        self.procs[task].flight = Some(to);
        self.chore(self.procs[task].place, Chore::Leave(task));
    }

    /// Work for a move is done.
    fn did(&mut self, chore: Chore) {
        match chore {
            Chore::Leave(task) if self.procs[task].ended_us.is_none() => {
                let bytes = self.procs[task].job.rss_kib * 1024;
                let wire = self.prices.hop_us + bytes / self.prices.bandwidth;
                self.after(wire, Event::Crossed(task));
            }
            Chore::Arrive(task) if self.procs[task].ended_us.is_none() => {
                self.stop(task);
                self.after(self.prices.pause_us, Event::Thaw(task));
            }
            Chore::Leave(_) | Chore::Arrive(_) => {}
        }
    }

    fn thaw(&mut self, task: TaskId) {
        let now = self.tick();
        let proc = &mut self.procs[task];
        let Some(to) = proc.flight.take() else { return };
        proc.place = to;
        let (home, name) = (proc.job.home, self.names[to].clone());
        self.daemons[home]
            .ledger
            .moved(World::pid(task), &name, now);
        self.daemons[home].moves += 1;
        self.out.moves += 1;
        self.enter(task);
    }

    // --- daemons ---

    fn index(&self, name: &NodeName) -> usize {
        name.as_str()[1..].parse::<usize>().map_or(0, |n| n - 1)
    }

    fn view(&mut self, i: usize) -> View {
        let now = self.tick();
        let daemon = &mut self.daemons[i];
        let known = daemon.vector.view(now);
        daemon.ledger.view(known, |_| Users::everybody(), now)
    }

    /// What keepers and hosts say.
    fn report(&mut self, i: usize) {
        let now = self.tick();
        let mut seen = Vec::new();
        let mut guests = Vec::new();
        for (task, p) in self.procs.iter().enumerate() {
            let born = p.job.start_us <= self.now && p.ended_us.is_none();
            if !born {
                continue;
            }
            if p.job.home == i {
                let left = p
                    .running
                    .map_or(p.left_ns, |key| self.machines[p.place].0.left(key));
                seen.push(Seen {
                    pid: World::pid(task),
                    uid: 0,
                    place: self.names[p.place].clone(),
                    cpu_ms: (p.job.work_ns - left.min(p.job.work_ns)) / 1_000_000,
                    rss_kib: p.job.rss_kib,
                    threads: 1,
                    busy_percent: 100,
                    forwarded: 0,
                    age_ms: (self.now - p.job.start_us) / 1000,
                    locked: false,
                    needs: None,
                });
            }
            if p.place == i && p.job.home != i {
                guests.push(Guest {
                    home: self.names[p.job.home].clone(),
                    pid: World::pid(task),
                    threads: 1,
                    busy_percent: 100,
                });
            }
        }
        self.daemons[i].ledger.observe(&seen, now);
        self.daemons[i].ledger.guests(&guests, now);
    }

    fn period(&mut self, i: usize) {
        let now = self.tick();
        // As a sampler does: what is done for those who move is nobody's work.
        let runnable = self.machines[i].0.runnable_below(CHORES) as u32;
        let peers: Vec<NodeName> = self
            .names
            .iter()
            .filter(|n| **n != self.names[i])
            .cloned()
            .collect();
        let daemon = &mut self.daemons[i];
        daemon.ledger.sampled(runnable, now);
        let mut entry = Entry::new(self.names[i].clone(), 1);
        entry.load = daemon.ledger.load();
        entry.runnable = runnable;
        (entry.mem_total_kib, entry.mem_free_kib) = (daemon.rack.mem_kib, daemon.rack.mem_kib);
        entry.speed = (daemon.rack.speed_milli * 10) as u32;
        entry.cores = daemon.rack.cores;
        daemon.vector.set_own(entry, now);
        daemon.vector.tick(now);
        let sent = daemon.vector.send(now, &mut self.dice, &peers);
        for (to, message) in sent {
            let to = self.index(&to);
            self.letters.push(Some(message));
            self.after(self.prices.hop_us, Event::Heard(to, self.letters.len() - 1));
        }
    }

    fn decide(&mut self, i: usize) {
        let now = self.tick();
        let view = self.view(i);
        if view.procs.is_empty() {
            return;
        }
        self.daemons[i].ledger.progress(&view, &self.policy, now);
        for chosen in decide(&view, &self.policy, now) {
            self.order(i, &chosen);
        }
    }

    fn order(&mut self, home: usize, chosen: &Move) {
        let now = self.tick();
        let task = (chosen.pid - 100) as usize;
        let to = self.index(&chosen.to);
        let busy = self.procs[task].ended_us.is_some() || self.procs[task].flight.is_some();
        if busy || self.procs[task].running.is_none() {
            return;
        }
        self.daemons[home].ledger.moving(chosen, &self.policy, now);
        if let Err(stay) = self.admitted(home, task, to) {
            self.out.refused += 1;
            self.daemons[home].ledger.stayed(chosen.pid, stay, now);
            return;
        }
        self.fly(task, to);
    }

    fn admitted(&mut self, home: usize, task: TaskId, to: usize) -> Result<(), Stay> {
        if to == home {
            return Ok(());
        }
        let now = self.tick();
        let rss_kib = self.procs[task].job.rss_kib;
        let need = Need {
            rss_kib,
            ..Need::default()
        };
        let view = self.view(to);
        admit(&view, &self.policy, &need)?;
        let from = self.names[home].clone();
        self.daemons[to]
            .ledger
            .expect(&from, World::pid(task), rss_kib, now);
        Ok(())
    }
}
