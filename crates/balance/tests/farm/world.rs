//! The simulated world on which decisions act: nodes that share their processors fairly, programs that compute, moves
//! that take a while. Virtual time, seeded; a failure prints what happened.

use armento_balance::{Fresh, Guest, Kind, Ledger, Need, Policy, Seen, View, admit, decide, place};
use armento_gossip::{Dice, Entry, Message, Tick, Vector};
use armento_model::{HomePid, NodeName, Stay, Users};

const STEP_MS: u64 = 50;
/// Intervals of the daemons' activities (`client::api`: reports about twice a second; one sample a second).
const REPORT_MS: u64 = 500;
const SAMPLE_MS: u64 = 1000;
const DECIDE_MS: u64 = 250;
/// Time from order to arrival, and the part of it in which the program is frozen.
const MOVE_MS: u64 = 200;
const PAUSE_MS: u64 = 15;

/// A program to start.
#[derive(Clone, Debug)]
pub struct Job {
    /// Work on a core of speed 10000.
    pub work_ms: u64,
    /// Placed at its exec stop; else it starts at home.
    pub placed: bool,
    pub locked: bool,
    /// Its keeper refuses every move.
    pub refuses: bool,
}

impl Job {
    pub fn of(work_ms: u64) -> Job {
        Job {
            work_ms,
            placed: true,
            locked: false,
            refuses: false,
        }
    }
}

#[derive(Debug)]
struct Running {
    pid: i32,
    home: usize,
    place: usize,
    job: Job,
    began: u64,
    left_us: u64,
    cpu_us: u64,
    /// The target of its move and the arrival time.
    flight: Option<(usize, u64)>,
}

struct NodeSim {
    vector: Vector,
    ledger: Ledger,
    speed: u64,
    offset: u64,
    background: (u32, u64),
    cut: bool,
}

pub struct Farm {
    nodes: Vec<NodeSim>,
    names: Vec<NodeName>,
    policy: Policy,
    running: Vec<Running>,
    now: u64,
    dice: Dice,
    next_pid: i32,
    moves: usize,
    refusals: usize,
    last_end: u64,
    log: Vec<String>,
}

impl Farm {
    pub fn new(speeds: &[u64], kind: Kind, seed: u64) -> Farm {
        let names: Vec<NodeName> = (1..=speeds.len())
            .map(|i| format!("n{i}").parse().unwrap())
            .collect();
        let mut dice = Dice::seeded(seed);
        let node = |(name, &speed): (&NodeName, &u64)| NodeSim {
            vector: Vector::new(name.clone(), 1),
            ledger: Ledger::new(name.clone()),
            speed,
            // Nodes do not act at the same time.
            offset: dice.below(20) as u64 * STEP_MS,
            background: (0, 0),
            cut: false,
        };
        let nodes = names.iter().zip(speeds).map(node).collect();
        let policy = Policy::of(kind);
        Farm {
            nodes,
            names,
            policy,
            running: Vec::new(),
            now: 0,
            dice,
            next_pid: 100,
            moves: 0,
            refusals: 0,
            last_end: 0,
            log: vec![format!("seed {seed}")],
        }
    }

    // --- actions and observations of tests ---

    pub fn for_ms(&mut self, ms: u64) {
        (0..ms / STEP_MS).for_each(|_| self.step());
    }

    /// `threads` of foreign work on a node, `percent` of the time.
    pub fn background(&mut self, node: usize, threads: u32, percent: u64) {
        self.nodes[node].background = (threads, percent);
    }

    pub fn cut(&mut self, node: usize) {
        self.nodes[node].cut = true;
    }

    pub fn mend(&mut self, node: usize) {
        self.nodes[node].cut = false;
    }

    pub fn start(&mut self, home: usize, count: usize, job: Job) {
        for _ in 0..count {
            let pid = self.next_pid;
            self.next_pid += 1;
            let mut at = home;
            if job.placed {
                let now = Tick(self.now);
                let view = self.view_of(home);
                let fresh = Fresh::default();
                if let Some(to) = place(&view, &self.policy, &fresh) {
                    self.nodes[home].ledger.placing(pid, &to, &fresh, now);
                    at = self.index(&to);
                }
            }
            let left_us = job.work_ms * 1000;
            let flight = (at != home).then_some((at, self.now + MOVE_MS));
            let (place, began) = (home, self.now);
            self.running.push(Running {
                pid,
                home,
                place,
                job: job.clone(),
                began,
                left_us,
                cpu_us: 0,
                flight,
            });
        }
    }

    pub fn now_ms(&self) -> u64 {
        self.now
    }

    pub fn unfinished(&self) -> usize {
        self.running.len()
    }

    /// Programs on each node.
    pub fn counts(&self) -> Vec<usize> {
        let on = |i| self.running.iter().filter(|r| r.place == i).count();
        (0..self.nodes.len()).map(on).collect()
    }

    /// Moves ordered by the policy and done.
    pub fn moves(&self) -> usize {
        self.moves
    }

    pub fn refusals(&self) -> usize {
        self.refusals
    }

    pub fn last_end_ms(&self) -> u64 {
        self.last_end
    }

    pub fn log(&self) -> String {
        format!("\n{}\n{:?}", self.log.join("\n"), self.counts())
    }

    // --- the simulation ---

    pub fn step(&mut self) {
        self.now += STEP_MS;
        self.compute();
        self.land();
        for i in 0..self.nodes.len() {
            let at = self.now + self.nodes[i].offset;
            if at.is_multiple_of(REPORT_MS) {
                self.report(i);
            }
            if at.is_multiple_of(SAMPLE_MS) {
                self.sample_and_send(i);
            }
            if at.is_multiple_of(DECIDE_MS) {
                self.act(i);
            }
        }
    }

    fn compute(&mut self) {
        let mut sharing: Vec<u64> = self.counts().into_iter().map(|n| n as u64).collect();
        for (i, node) in self.nodes.iter().enumerate() {
            sharing[i] = sharing[i] * 100 + u64::from(node.background.0) * node.background.1;
        }
        for r in &mut self.running {
            let lost = if r.flight.is_some() {
                PAUSE_MS * STEP_MS / MOVE_MS
            } else {
                0
            };
            let share_us = (STEP_MS - lost) * 1000 * 100 / sharing[r.place].max(100);
            r.cpu_us += share_us;
            r.left_us = r
                .left_us
                .saturating_sub(share_us * self.nodes[r.place].speed / 10_000);
        }
        let before = self.running.len();
        self.running.retain(|r| r.left_us > 0);
        if self.running.len() < before {
            self.last_end = self.now;
        }
    }

    fn land(&mut self) {
        let now = self.now;
        for r in &mut self.running {
            if let Some((to, _)) = r.flight.take_if(|(_, at)| *at <= now) {
                r.place = to;
                self.nodes[r.home]
                    .ledger
                    .moved(r.pid, &self.names[to], Tick(now));
            }
        }
    }

    fn report(&mut self, i: usize) {
        let now = Tick(self.now);
        let seen = |r: &Running| Seen {
            pid: r.pid,
            uid: 1000,
            place: self.names[r.place].clone(),
            cpu_ms: r.cpu_us / 1000,
            rss_kib: 5_000,
            threads: 1,
            busy_percent: 100,
            calls: Default::default(),
            messages: None,
            settles: false,
            others: Vec::new(),
            name: String::new(),
            age_ms: self.now - r.began,
            locked: r.job.locked,
            waits: false,
            needs: None,
            hint: None,
        };
        let ours: Vec<Seen> = self
            .running
            .iter()
            .filter(|r| r.home == i)
            .map(seen)
            .collect();
        let here = self.running.iter().filter(|r| r.place == i && r.home != i);
        let guest = |r: &Running| Guest {
            home: self.names[r.home].clone(),
            pid: HomePid::of_home(r.pid),
            threads: 1,
            busy_percent: 100,
        };
        let guests: Vec<Guest> = here.map(guest).collect();
        self.nodes[i].ledger.observe(&ours, now);
        self.nodes[i].ledger.guests(&guests, now);
    }

    fn entry_of(&self, i: usize) -> Entry {
        let mut entry = Entry::new(self.names[i].clone(), 1);
        entry.speed = self.nodes[i].speed as u32;
        entry.load = self.nodes[i].ledger.load();
        entry.guests = self
            .running
            .iter()
            .filter(|r| r.place == i && r.home != i)
            .count() as u32;
        (entry.mem_total_kib, entry.mem_free_kib) = (4 << 20, 3 << 20);
        entry
    }

    fn sample_and_send(&mut self, i: usize) {
        let now = Tick(self.now);
        let (threads, percent) = self.nodes[i].background;
        let foreign = if (self.dice.below(100) as u64) < percent {
            threads
        } else {
            0
        };
        let ours = self.running.iter().filter(|r| r.place == i).count() as u32;
        self.nodes[i].ledger.sampled(ours + foreign, now);
        let entry = self.entry_of(i);
        let node = &mut self.nodes[i];
        node.vector.set_own(entry, now);
        node.vector.tick(now);
        if node.cut {
            return;
        }
        let peers: Vec<NodeName> = self
            .names
            .iter()
            .filter(|n| **n != self.names[i])
            .cloned()
            .collect();
        let sent: Vec<(NodeName, Message)> = node.vector.send(now, &mut self.dice, &peers);
        for (to, message) in sent {
            let to = self.index(&to);
            if !self.nodes[to].cut {
                self.nodes[to].vector.receive(message, now);
            }
        }
    }

    fn view_of(&mut self, i: usize) -> View {
        let now = Tick(self.now);
        let node = &mut self.nodes[i];
        node.ledger
            .view(node.vector.view(now), |_| Users::all(), now)
    }

    fn act(&mut self, i: usize) {
        let now = Tick(self.now);
        let view = self.view_of(i);
        for order in decide(&view, &self.policy, now) {
            let at = self
                .running
                .iter()
                .position(|r| r.pid == order.pid)
                .filter(|&at| {
                    self.running[at].home == i && self.names[self.running[at].place] == order.from
                });
            // It has ended since the last report.
            let Some(at) = at else { continue };
            assert!(
                !self.running[at].job.locked,
                "a locked process was ordered to move"
            );
            assert!(self.running[at].flight.is_none(), "moved while it moves");
            self.nodes[i].ledger.moving(&order, &self.policy, now);
            let to = self.index(&order.to);
            let need = Need {
                rss_kib: 5_000,
                cpu: None,
                load_there: view.load_at(&order.from),
            };
            let admitted = if to == i {
                Ok(())
            } else {
                self.admitted(to, &need)
            };
            let refused = admitted
                .err()
                .or(self.running[at].job.refuses.then_some(Stay::Busy));
            if let Some(stay) = refused {
                self.refusals += 1;
                self.log.push(format!(
                    "{} ms: {} {}>{} {}",
                    self.now,
                    order.pid,
                    order.from,
                    order.to,
                    stay.code()
                ));
                self.nodes[i].ledger.stayed(order.pid, stay, now);
                continue;
            }
            if to != i {
                let home = self.names[i].clone();
                self.nodes[to]
                    .ledger
                    .expect(&home, HomePid::of_home(order.pid), 5_000, now);
            }
            self.moves += 1;
            self.log.push(format!(
                "{} ms: {} {}>{}",
                self.now, order.pid, order.from, order.to
            ));
            self.running[at].flight = Some((to, self.now + MOVE_MS));
        }
    }

    fn admitted(&mut self, to: usize, need: &Need) -> Result<(), Stay> {
        if self.nodes[to].cut {
            return Err(Stay::LinkLost);
        }
        admit(&self.view_of(to), &self.policy, need)
    }

    fn index(&self, name: &NodeName) -> usize {
        self.names.iter().position(|n| n == name).unwrap()
    }
}
