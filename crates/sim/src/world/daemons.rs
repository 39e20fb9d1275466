//! Daemons: they report, send and receive loads, decide, admit.

use super::clock::Clock;
use super::state::World;
use super::things::{Daemon, Event, Rack};
use super::works::CHORES;
use crate::machine::TaskId;
use armento_balance::{Guest, Ledger, Move, Need, Seen, View, admit, decide};
use armento_gossip::{CpuSet, Entry, Known, Table, Tick};
use armento_model::{HomePid, NodeName, Stay, Users};

/// As long as real ones, because bytes are counted.
const VERSION: &str = "0.1.0";
pub(super) const BOOT: u64 = 1_795_300_000_000;

/// The features of a real processor.
pub(super) fn cpu() -> CpuSet {
    CpuSet {
        vendor: "AuthenticAMD".into(),
        flags: [0x7ed8_3203; 9],
        xcr0: 0xe7,
        xsave_bytes: 2440,
    }
}

impl Daemon {
    pub fn new(i: usize, names: &[NodeName], rack: Rack, boot: u64) -> Daemon {
        Daemon {
            table: Table::new(i as u32, boot, names.len()),
            ledger: Ledger::new(names[i].clone()),
            rack,
            boot,
            clock: Clock::default(),
            up: true,
            short: false,
            born: false,
            moves: 0,
        }
    }
}

impl World {
    pub(super) fn index(&self, name: &NodeName) -> usize {
        index(name)
    }

    /// A node's own clock.
    pub(super) fn tick(&self, i: usize) -> Tick {
        self.daemons[i].clock.at(self.now)
    }

    pub(super) fn view(&mut self, i: usize) -> View {
        let now = self.tick(i);
        let known = self.known(i, now);
        let open = self.members.open_to(i);
        let ledger = &mut self.daemons[i].ledger;
        ledger.view(known, |name| open(index(name)), now)
    }

    /// The nodes that a decision considers: this one first, the others by name.
    fn known(&self, i: usize, now: Tick) -> Vec<Known> {
        let Daemon { table, ledger, .. } = &self.daemons[i];
        let also = ledger.places().map(|name| index(name) as u32);
        let mut window = table.window(ledger.window(self.names.len()), also, now);
        window.sort_unstable_by_key(|&id| (id as usize != i, self.ranks[id as usize]));
        let known = |id: u32| table.known(id, &self.names[id as usize], now);
        window.into_iter().filter_map(known).collect()
    }

    /// Reports of keepers and hosts.
    pub(super) fn report(&mut self, i: usize) {
        if !self.daemons[i].up {
            return;
        }
        self.look_at_copies(i);
        let now = self.tick(i);
        let seen = self.homes[i].iter().map(|&task| self.seen(task));
        let seen: Vec<Seen> = seen.collect();
        let guests: Vec<Guest> = self.guests(i).map(|task| self.guest(task)).collect();
        self.daemons[i].ledger.observe(&seen, now);
        self.daemons[i].ledger.guests(&guests, now);
    }

    fn guests(&self, i: usize) -> impl Iterator<Item = TaskId> {
        let here = self.here[i].iter().copied();
        here.filter(move |&task| self.procs[task].job.home != i)
    }

    fn seen(&self, task: TaskId) -> Seen {
        let p = &self.procs[task];
        let left = p
            .running
            .map_or(p.left_ns, |key| self.machines[p.place].0.left(task, key));
        let left = left + p.copying.parts_left * World::part_ns(&p.job);
        Seen {
            pid: World::pid(task),
            uid: 0,
            place: self.names[p.place].clone(),
            cpu_ms: (p.job.work_ns - left.min(p.job.work_ns)) / 1_000_000,
            rss_kib: p.rss_kib,
            threads: 1,
            busy_percent: p.copying.busy_percent,
            calls: p.copying.calls,
            messages: None,
            settles: false,
            others: Vec::new(),
            name: match p.job.copy {
                Some(_) => "copy".into(),
                None => String::new(),
            },
            age_ms: (self.now - p.job.start_us) / 1000,
            locked: false,
            waits: false,
            needs: None,
            hint: None,
        }
    }

    fn guest(&self, task: TaskId) -> Guest {
        Guest {
            home: self.names[self.procs[task].job.home].clone(),
            pid: HomePid::of_home(World::pid(task)),
            threads: 1,
            busy_percent: self.procs[task].copying.busy_percent,
        }
    }

    // --- the load vector ---

    pub(super) fn period(&mut self, i: usize) {
        if !self.daemons[i].up {
            return;
        }
        let now = self.tick(i);
        // A keeper reports a new process at once: it is not counted as native work.
        if std::mem::take(&mut self.daemons[i].born) {
            self.report(i);
        }
        // As a sampler does: work for moves belongs to no process.
        let runnable = self.machines[i].0.runnable_below(CHORES) as u32;
        let daemon = &mut self.daemons[i];
        daemon.ledger.sampled(runnable, now);
        daemon.table.tick(now);
        self.send_load(i, runnable);
        self.traffic.periods += 1;
    }

    fn send_load(&mut self, i: usize, runnable: u32) {
        let now = self.tick(i);
        let guests = self.guests(i).count() as u32;
        let free_kib = self.free_kib(i);
        let daemon = &mut self.daemons[i];
        let mut entry = Entry::new(self.names[i].clone(), daemon.boot);
        entry.load = daemon.ledger.load();
        (entry.runnable, entry.guests) = (runnable, guests);
        (entry.mem_total_kib, entry.mem_free_kib) = (daemon.rack.mem_kib, free_kib);
        entry.speed = (daemon.rack.speed_milli * 10) as u32;
        // Slow nodes are shares of a standard core, as in a lab: CPU times are those of one.
        entry.share_permille = daemon.rack.speed_milli.clamp(1, 1000) as u32;
        entry.cores = daemon.rack.cores;
        entry.cpu.clone_from(&self.cpu);
        entry.version = VERSION.into();
        daemon.table.set_own(entry, now);
        daemon.short = free_kib < self.policy.reserve_kib(daemon.rack.mem_kib);
        let peers = self.members.peers(i);
        for place in daemon.table.peers_to_tell(&mut self.dice, peers.len()) {
            let to = peers.at(place);
            let name_bytes = |id: u32| usize::from(self.name_bytes[id as usize]);
            let packet = daemon.table.packet(to as u32, now, name_bytes);
            self.traffic.count(&packet);
            let letter = self.letters.put(packet);
            let at = self.now + self.prices.hop_us;
            self.count += 1;
            let event = (at, self.count, Event::Heard(to, letter));
            self.events.push(std::cmp::Reverse(event));
        }
    }

    pub(super) fn free_kib(&self, i: usize) -> u64 {
        let total = self.daemons[i].rack.mem_kib;
        total.saturating_sub(self.used_kib[i])
    }

    /// Memory runs short there: others are informed before its next period.
    pub(super) fn send_if_short(&mut self, i: usize) {
        let daemon = &self.daemons[i];
        let short = self.free_kib(i) < self.policy.reserve_kib(daemon.rack.mem_kib);
        if short && !daemon.short && daemon.up {
            self.send_at_once(i);
        }
    }

    /// Sends its load at once, to more than one node.
    pub(super) fn send_at_once(&mut self, i: usize) {
        self.daemons[i].table.urge();
        let runnable = self.machines[i].0.runnable_below(CHORES) as u32;
        self.send_load(i, runnable);
    }

    pub(super) fn receive(&mut self, to: usize, letter: usize) {
        let Some(packet) = self.letters.take(letter) else {
            return;
        };
        if self.is_linked(packet.from() as usize, to) {
            let now = self.tick(to);
            self.daemons[to].table.receive(packet, now);
        }
    }

    // --- decisions ---

    pub(super) fn decide(&mut self, i: usize) {
        if !self.daemons[i].up || self.daemons[i].ledger.procs() == 0 {
            return;
        }
        let now = self.tick(i);
        let view = self.view(i);
        self.daemons[i].ledger.progress(&view, &self.policy, now);
        for chosen in decide(&view, &self.policy, now) {
            self.order(i, &chosen);
        }
    }

    fn order(&mut self, home: usize, chosen: &Move) {
        let now = self.tick(home);
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

    pub(super) fn admitted(&mut self, home: usize, task: TaskId, to: usize) -> Result<(), Stay> {
        let place = self.procs[task].place;
        if !self.is_linked(home, place) || !self.is_linked(place, to) || !self.is_linked(home, to) {
            return Err(Stay::LinkLost);
        }
        if to == home {
            return Ok(());
        }
        let now = self.tick(to);
        let rss_kib = self.procs[task].rss_kib;
        let need = Need {
            rss_kib,
            ..Need::default()
        };
        let daemon = &mut self.daemons[to];
        let own = daemon.table.known(to as u32, &self.names[to], now);
        let view = daemon.ledger.own_view(own, Users::all(), now);
        admit(&view, &self.policy, &need)?;
        let from = self.names[home].clone();
        let pid = HomePid::of_home(World::pid(task));
        daemon.ledger.expect(&from, pid, rss_kib, now);
        Ok(())
    }
}

fn index(name: &NodeName) -> usize {
    name.as_str()[1..].parse::<usize>().map_or(0, |n| n - 1)
}
