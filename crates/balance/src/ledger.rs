//! The books of one node: built from reports, they produce a [`View`].
//!
//! Good decisions require that nothing is counted twice. Another node's reported load contains the work that this home
//! sent there before the report, and not what it sent since. So the ledger stores the history of this home's work on
//! each node, and subtracts what was this home's at the time of the report.

mod out;

use crate::account::{Account, UNSEEN_MS_MAX, Visitor, smoothed};
use crate::cost::{need_kib, price_ms};
use crate::durations::Durations;
use crate::file_use::Traffic;
use crate::habits::Habits;
use crate::load_history::{PAST_MS_MAX, Past};
use crate::load_totals::Sums;
use crate::rotation::{power_milli, shares};
use crate::view::DEMAND_FULL;
use crate::windowed_min::Steady;
use crate::{Flight, Fresh, Guest, Move, Policy, Seen, View};
use armento_gossip::Tick;
use armento_model::{HomePid, NodeName, Pid, Stay};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// A move without a reported end is given up after this: longer than the 30 s after which home declares a host dead.
const FLIGHT_MS_MAX: u64 = 40_000;
/// An admitted guest that does not appear is given up after this.
const EXPECT_MS_MAX: u64 = 5_000;
/// A longer time without booking is not made up for: the daemon was not running, and where processes ran is unknown.
const STEP_MS_MAX: u64 = 2_000;
/// The budget for rotations accumulates for at most this time.
const TURNS_MS_MAX: u64 = 10_000;
/// The farm's own work on a node counts for at most this, hundredths of a process: keepers that serve calls all the
/// time work for the processes that make these calls.
const UPKEEP_MAX: u64 = DEMAND_FULL / 2;
/// Limits of entries: processes beyond are not balanced, guests beyond not expected. Enough for ten processes of one
/// home on each node of the largest farm.
const PROCS_MAX: usize = 131_072;
const FLIGHTS_MAX: usize = 1024;

/// Departures that are stored: memory that a node has freed since its last report.
const FREED_MAX: usize = 4096;
/// Programs that use less are no measure for others, milliseconds.
const TYPICAL_MS_MIN: u64 = 20;
/// So many must have ended, one each in this time; the mean is that of about so many.
const TYPICAL_MIN: u64 = 4;
const TYPICAL_FOR_MS: u64 = 30_000;
const TYPICAL_OF: u64 = 16;

/// A process of this home left a node, or ended there.
#[derive(Clone, Debug)]
struct Freed {
    node: NodeName,
    at: Tick,
    kib: u64,
}

#[derive(Clone, Debug)]
struct Expected {
    home: NodeName,
    pid: HomePid,
    need_kib: u64,
    since: Tick,
}

/// What one node knows in addition to the load vector. It receives reports; [`Ledger::view`] returns the result.
///
/// A daemon's round, once a second (`sampler` and `vector` are those of `sense` and `gossip`):
///
/// ```text
/// ledger.sampled(sample.runnable, now)           after observe() and guests(), whenever reported
/// entry.load = ledger.load(); vector.set_own(entry, now); vector.tick(now); vector.send(…)
/// view = ledger.view(vector.view(now), open, now); ledger.progress(&view, &policy, now)
/// for order in decide(&view, &policy, now) { ledger.moving(&order, &policy, now); … }
/// ```
///
/// and between: `placing` after each [`crate::place`], `moved` or `stayed` for each flight's end,
/// `expect` after each [`crate::admit`], `ended` when a keeper's session ends.
#[derive(Clone, Debug)]
pub struct Ledger {
    me: NodeName,
    accounts: BTreeMap<Pid, Account>,
    flights: BTreeMap<Pid, Flight>,
    ours: Sums,
    visitors: BTreeMap<(NodeName, HomePid), Visitor>,
    expected: Vec<Expected>,
    /// Oldest first.
    freed: VecDeque<Freed>,
    past: Past,
    /// What programs do with files of this home, by name.
    habits: Habits,
    /// Round trips to other nodes, microseconds.
    rtts_us: HashMap<NodeName, u64>,
    /// Work of other homes at each node, as far as it is certain.
    others: HashMap<NodeName, Steady>,
    /// Work here that belongs neither to guests nor to this home's processes, hundredths, smoothed.
    background: u64,
    /// Overhead of the farm on this node, hundredths of a process.
    upkeep: Steady,
    /// … as a share of its power, smoothed, percent.
    busy_percent: u64,
    /// Programs that will probably use little CPU time.
    short: HashSet<Pid>,
    placements: u64,
    /// CPU time of programs that have ended.
    durations: Durations,
    /// Mean CPU time of those that were not short, milliseconds; how many there were, and when the last one ended.
    typical: (u64, u64, Tick),
    decided_last: Option<Tick>,
    ended_last: Option<Tick>,
    /// Time of the last booking of progress.
    booked_last: Option<Tick>,
    /// Budget for rotations, microseconds of a standard core.
    turns_us: u64,
    /// Highest power that this home's processes have used since it last had none, thousandths of a standard core.
    power_milli: u64,
}

impl Ledger {
    pub fn new(me: NodeName) -> Ledger {
        Ledger {
            me,
            accounts: BTreeMap::new(),
            flights: BTreeMap::new(),
            ours: Sums::default(),
            visitors: BTreeMap::new(),
            expected: Vec::new(),
            freed: VecDeque::new(),
            past: Past::default(),
            habits: Habits::default(),
            rtts_us: HashMap::new(),
            others: HashMap::new(),
            background: 0,
            upkeep: Steady::new(0, Tick(0)),
            busy_percent: 0,
            short: HashSet::new(),
            placements: 0,
            durations: Durations::default(),
            typical: (0, 0, Tick(0)),
            decided_last: None,
            ended_last: None,
            booked_last: None,
            turns_us: 0,
            power_milli: 0,
        }
    }

    // --- reports of this home's keepers ---

    /// All living processes of this home, from the newest report of every keeper. A missing process has ended.
    pub fn observe(&mut self, procs: &[Seen], now: Tick) {
        let alive: HashSet<Pid> = procs.iter().map(|seen| seen.pid).collect();
        let dead = self.accounts.keys().filter(|pid| !alive.contains(pid));
        for pid in dead.copied().collect::<Vec<Pid>>() {
            self.close(pid, now);
            self.land(pid);
        }
        for seen in procs {
            if let Some(account) = self.accounts.get_mut(&seen.pid) {
                let before = account.proc.place.clone();
                account.follow(seen, &self.me, now);
                if seen.place != self.me
                    && let Some(traffic) = account.measured()
                {
                    self.habits.learn(&seen.name, traffic, now);
                }
                if account.proc.place != before {
                    let kib = account.proc.rss_kib;
                    self.frees(before, kib, now);
                }
            } else if self.accounts.len() < PROCS_MAX {
                let habit = self.habits.of(&seen.name, now);
                let account = Account::open(seen, habit, now);
                self.accounts.insert(seen.pid, account);
            }
            self.look_at_short(seen);
            self.recount(seen.pid);
        }
        let arrived = |flight: &&Flight| {
            let account = self.accounts.get(&flight.pid);
            account.is_some_and(|account| account.proc.place == flight.to)
        };
        let arrived = self.flights.values().filter(arrived);
        for pid in arrived.map(|flight| flight.pid).collect::<Vec<Pid>>() {
            self.land(pid);
        }
        self.note(now);
    }

    /// One of this home's processes ended, known before the next [`Ledger::observe`]. False: it was not known, or did not
    /// count.
    pub fn ended(&mut self, pid: Pid, now: Tick) -> bool {
        let counted = self.ours.counts(pid);
        self.close(pid, now);
        self.land(pid);
        self.note(now);
        counted
    }

    /// A program of this home has ended, or its process runs another one.
    pub fn ran(&mut self, uid: u32, program: &str, cpu_ms: u64, now: Tick) {
        self.durations.ended(uid, program, cpu_ms);
        if cpu_ms < TYPICAL_MS_MIN {
            return;
        }
        let (mean, count, last) = self.typical;
        let (mean, count) = match now.since(last) <= TYPICAL_FOR_MS {
            true => (mean, count),
            false => (0, 0),
        };
        let of = (count + 1).min(TYPICAL_OF);
        self.typical = ((mean * (of - 1) + cpu_ms) / of, count + 1, now);
    }

    /// CPU time of programs that have ended lately, if there were several.
    fn typical_ms(&self, now: Tick) -> Option<u64> {
        let (mean, count, last) = self.typical;
        (count >= TYPICAL_MIN && now.since(last) <= TYPICAL_FOR_MS).then_some(mean)
    }

    /// CPU time that a program will probably use, if it ended before.
    pub fn expected_ms(&self, uid: u32, program: &str) -> Option<u64> {
        self.durations.expected_ms(uid, program)
    }

    /// A fresh program was ordered to start at `to`, this node or another.
    pub fn placing(&mut self, pid: Pid, to: &NodeName, fresh: &Fresh, now: Tick) {
        self.placements += 1;
        self.short.remove(&pid);
        self.fly(
            Flight {
                pid,
                to: to.clone(),
                need_kib: fresh.need_kib,
                since: now,
            },
            now,
        );
    }

    /// A process has started a program, for which it will probably wait: it does not count until it computes.
    pub fn waits(&mut self, pid: Pid) {
        self.placing_quiet(pid);
        if let Some(account) = self.accounts.get_mut(&pid)
            && !account.stays_short()
        {
            self.short.remove(&pid);
        }
        self.recount(pid);
    }

    /// A fresh program starts at home because it will probably use little CPU time: it does not count before it has used
    /// more.
    pub fn placing_short(&mut self, pid: Pid) {
        self.placements += 1;
        self.placing_quiet(pid);
    }

    fn placing_quiet(&mut self, pid: Pid) {
        self.land(pid);
        if self.short.len() >= FLIGHTS_MAX {
            // Left over from keepers that were killed.
            self.short.clear();
        }
        self.short.insert(pid);
    }

    /// The policy ordered a move.
    pub fn moving(&mut self, order: &Move, policy: &Policy, now: Tick) {
        let price = self
            .accounts
            .get(&order.pid)
            .map_or(0, |a| price_ms(&a.proc, &order.to, &self.me, policy));
        self.turns_us = self.turns_us.saturating_sub(price as u64 * 1000);
        self.decided_last = Some(now);
        self.flies_to(order.pid, &order.to, now);
    }

    /// Books the progress of each process of this home since the last call, as `view` shows it, and the budget for
    /// making progress equal.
    pub fn progress(&mut self, view: &View, policy: &Policy, now: Tick) {
        let past_ms = self
            .booked_last
            .map_or(0, |last| now.since(last))
            .min(STEP_MS_MAX);
        self.booked_last = Some(now);
        for share in shares(view, policy, past_ms) {
            if let Some(account) = self.accounts.get_mut(&share.pid) {
                account.book(&share);
            }
        }
        // Thousandths of a core times milliseconds: microseconds of a core. Processes that have begun may rotate at
        // once.
        let power = power_milli(view, policy);
        let of = |ms: u64| power * ms * policy.turns_permille / 1000;
        let fresh =
            power.saturating_sub(self.power_milli) * TURNS_MS_MAX * policy.turns_permille / 1000;
        self.power_milli = self.power_milli.max(power);
        if view.procs.is_empty() {
            self.power_milli = 0;
        }
        self.turns_us = (self.turns_us + of(past_ms) + fresh).min(of(TURNS_MS_MAX));
    }

    /// A user or a storm ordered a move: it is counted, but is not a decision of the policy.
    pub fn flies_to(&mut self, pid: Pid, to: &NodeName, now: Tick) {
        let rss_kib = self
            .accounts
            .get(&pid)
            .map_or(0, |account| account.proc.rss_kib);
        self.fly(
            Flight {
                pid,
                to: to.clone(),
                need_kib: need_kib(rss_kib),
                since: now,
            },
            now,
        );
    }

    /// A move or placement succeeded.
    pub fn moved(&mut self, pid: Pid, to: &NodeName, now: Tick) {
        // It is counted there already: count it once more only if all its data is known, because it is never
        // subtracted.
        self.flights.remove(&pid);
        if let Some(account) = self.accounts.get_mut(&pid) {
            let before = (account.proc.place.clone(), account.proc.rss_kib);
            account.moved(to, &self.me, now);
            if before.0 != *to {
                self.frees(before.0, before.1, now);
            }
        }
        self.recount(pid);
        self.note(now);
    }

    /// A move or placement did not happen. The process is not moved for a second, twice as long after each further
    /// refusal; for a minute if the reason lies in the process itself.
    pub fn stayed(&mut self, pid: Pid, stay: Stay, now: Tick) {
        self.land(pid);
        if let Some(account) = self.accounts.get_mut(&pid) {
            account.refused(stay, now);
        }
        self.note(now);
    }

    /// A move did not happen because these processes share memory. From now on they are moved together.
    pub fn share_memory(&mut self, members: &[Pid], now: Tick) {
        let Some(first) = members.iter().min() else {
            return;
        };
        for pid in members {
            if let Some(account) = self.accounts.get_mut(pid) {
                account.shares_memory(*first, now);
            }
        }
        self.note(now);
    }

    /// Whether it moves only together with others.
    pub fn is_grouped(&self, pid: Pid) -> bool {
        let account = self.accounts.get(&pid);
        account.is_some_and(|account| account.proc.group.is_some())
    }

    /// Where it is on its way to, or has just arrived.
    pub fn bound_for(&self, pid: Pid) -> Option<&NodeName> {
        self.flights.get(&pid).map(|flight| &flight.to)
    }

    // --- reports of this node's hosts and sampler ---

    /// All guests that are here now.
    pub fn guests(&mut self, guests: &[Guest], now: Tick) {
        let mut before = std::mem::take(&mut self.visitors);
        for guest in guests.iter().take(PROCS_MAX) {
            let key = (guest.home.clone(), guest.pid);
            let mut visitor = before.remove(&key).unwrap_or_else(|| Visitor::new(now));
            visitor.follow(guest, now);
            self.visitors.insert(key, visitor);
        }
        let visitors = &self.visitors;
        self.expected
            .retain(|e| !visitors.contains_key(&(e.home.clone(), e.pid)));
    }

    /// A guest was admitted and will arrive.
    pub fn expect(&mut self, home: &NodeName, pid: HomePid, rss_kib: u64, now: Tick) {
        self.unexpect(home, pid);
        if self.expected.len() < FLIGHTS_MAX && !self.visitors.contains_key(&(home.clone(), pid)) {
            let need_kib = need_kib(rss_kib);
            self.expected.push(Expected {
                home: home.clone(),
                pid,
                need_kib,
                since: now,
            });
        }
    }

    /// An admitted guest will not arrive.
    pub fn unexpect(&mut self, home: &NodeName, pid: HomePid) {
        self.expected.retain(|e| e.home != *home || e.pid != pid);
    }

    /// Threads of all kinds found runnable on this node, once a period.
    pub fn sampled(&mut self, runnable: u32, now: Tick) {
        self.expire(now);
        let at_home = |account: &&Account| account.proc.place == self.me;
        let ours: u64 = self
            .accounts
            .values()
            .filter(at_home)
            .map(|a| a.wanting)
            .sum();
        let guests: u64 = self.visitors.values().map(|visitor| visitor.wanting).sum();
        // An admitted guest may have arrived already, and still be counted as expected.
        let known = ours + guests + self.expected.len() as u64;
        let rest = u64::from(runnable).saturating_sub(known) * DEMAND_FULL;
        self.background = smoothed(self.background, rest);
    }

    /// Round trips to other nodes, as far as they were measured, microseconds: all that are known.
    pub fn round_trips(&mut self, rtts_us: HashMap<NodeName, u64>) {
        self.rtts_us = rtts_us;
    }

    /// What programs of this name do with files of this home when they are away; nothing if that is unknown.
    pub fn habit(&self, name: &str, now: Tick) -> Traffic {
        self.habits.of(name, now)
    }

    /// What this node's daemon and keepers have used recently, thousandths of a core of which `share_permille` are this
    /// node's. Only a load that lasts some seconds counts: many programs that start use everything for a moment.
    pub fn upkeep(&mut self, used_milli: u64, share_permille: u32, now: Tick) {
        let work = used_milli * DEMAND_FULL / u64::from(share_permille.max(1));
        self.upkeep.set(work.min(UPKEEP_MAX), now);
        let percent = (used_milli * 100 / u64::from(share_permille.max(1))).min(100);
        self.busy_percent = (self.busy_percent + percent).div_ceil(2);
    }

    // --- internal bookkeeping ---

    fn look_at_short(&mut self, seen: &Seen) {
        if !self.short.contains(&seen.pid) {
            return;
        }
        let account = self.accounts.get_mut(&seen.pid);
        if !account.is_some_and(Account::stays_short) {
            self.short.remove(&seen.pid);
        }
    }

    /// It has ended.
    fn close(&mut self, pid: Pid, now: Tick) {
        self.short.remove(&pid);
        let Some(account) = self.accounts.remove(&pid) else {
            return;
        };
        self.ended_last = Some(now);
        self.frees(account.proc.place, account.proc.rss_kib, now);
    }

    fn frees(&mut self, node: NodeName, kib: u64, now: Tick) {
        if self.freed.len() >= FREED_MAX {
            self.freed.pop_front();
        }
        self.freed.push_back(Freed { node, at: now, kib });
    }

    /// Updates the node where it counts: where it is, or the target of its move.
    fn recount(&mut self, pid: Pid) {
        let to = self.flights.get(&pid).map(|flight| &flight.to);
        let proc = self.accounts.get(&pid).map(|account| &account.proc);
        let counts = match (proc, to) {
            (Some(proc), to) => Some((to.unwrap_or(&proc.place), proc.demand)),
            (None, to) => to.map(|to| (to, DEMAND_FULL)),
        };
        self.ours.set(pid, counts);
    }

    fn fly(&mut self, flight: Flight, now: Tick) {
        let pid = flight.pid;
        self.flights.remove(&pid);
        let account = self.accounts.get(&pid);
        let there = account.is_some_and(|a| a.proc.place == flight.to);
        if !there && self.flights.len() < FLIGHTS_MAX {
            self.flights.insert(pid, flight);
        }
        self.recount(pid);
        self.note(now);
    }

    fn land(&mut self, pid: Pid) {
        self.flights.remove(&pid);
        self.recount(pid);
    }

    fn expire(&mut self, now: Tick) {
        let accounts = self.accounts.values_mut();
        accounts.for_each(|account| account.forget_group(now));
        self.expected
            .retain(|e| now.since(e.since) <= EXPECT_MS_MAX);
        let old = |freed: &Freed| now.since(freed.at) > PAST_MS_MAX;
        while self.freed.front().is_some_and(old) {
            self.freed.pop_front();
        }
        let limit = |pid: &Pid| {
            if self.accounts.contains_key(pid) {
                FLIGHT_MS_MAX
            } else {
                UNSEEN_MS_MAX
            }
        };
        let each = self.flights.values();
        let lost = each.filter(|flight| now.since(flight.since) > limit(&flight.pid));
        let lost: Vec<Pid> = lost.map(|flight| flight.pid).collect();
        lost.iter().for_each(|pid| self.land(*pid));
        if !lost.is_empty() {
            self.note(now);
        }
    }

    fn note(&mut self, now: Tick) {
        self.past.note(self.ours.changes(), now);
    }
}
