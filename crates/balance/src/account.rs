//! Records of one process of this home, and of one guest of this node, over time.

use crate::Proc;
use crate::file_use::{Counts, FileUse, Traffic};
use crate::meter::Meter;
use crate::rotation::Share;
use crate::view::DEMAND_FULL;
use armento_gossip::{CpuSet, STANDARD_SPEED, Tick};
use armento_model::{FileRates, Hint, HomePid, NodeName, Pid, Stay};
use std::collections::BTreeMap;

/// A placed program that was never reported is given up after this: when two dozen keepers start at once on a quarter
/// of a processor, it takes seconds until they first report, and they queue for their start (`departures.rs`).
pub(crate) const UNSEEN_MS_MAX: u64 = 20_000;
/// First and longest pause after a refusal: 1 s, doubling to 60 s.
const HOLD_MS: u64 = 1_000;
const HOLD_MS_MAX: u64 = 60_000;
/// A program that was expected to end soon counts as one that computes after this.
const SHORT_MS_MAX: u64 = 50;
/// Averages of a process's demand and calls are updated at intervals of at least this length.
const STEP_MS_MIN: u64 = 400;
/// Process lists sent before a move ended may still name the old node for this long.
const STALE_MS: u64 = 1_500;
/// A guest that arrived more recently counts as full demand: when two dozen start at once their calls wait for a busy
/// home, and they look idle although they are about to compute.
const YOUNG_MS: u64 = 8_000;
/// Limit of the progress that a process can make up: ten minutes of a standard core.
const LAG_US_MAX: i64 = 600_000_000;
/// A program that was started with many others waits no longer than this to start: then its placement is given up.
const BEGINS_MS_MAX: i64 = UNSEEN_MS_MAX as i64;
/// Limit of remembered nodes that have a host for the process; the latest are kept.
const KNOWN_MAX: usize = 32;
/// Share of the old value kept at each step, eighths. PAPER: MOSIX keeps 5 of 8 of a mean load.
const KEEP_EIGHTHS: u64 = 5;
/// What a process did with home's files is remembered for this long after it came home, and twice as long after each
/// further return: a process that now and then works on files does not go to and fro.
const REMEMBER_MS: u64 = 10_000;
const REMEMBER_MS_MAX: u64 = 600_000;
/// Round trips that a process away makes for each read or write of a connection that it makes at home: it polls in between
/// (poll(2), epoll_wait(2)), which the kernel does not count, and those to whom it talks wait for it, too. Measured with an
/// exchange between four ranks of Open MPI: 10,000 reads and writes for each second of CPU time at home, 14.5 s lost for
/// each such second away, with round trips of 0.25 ms.
const WAITS_PER_MESSAGE: u64 = 6;
/// Age until which a program stays that its launcher put here: the others of its kind have begun by then, and reports have
/// shown how much it talks to them (every half second, means of two; `Messages` needs two looks).
const SETTLES_MS: u64 = 2_500;
/// Other nodes on whose files one process works; the first ones are kept.
const HOLDERS_MAX: usize = 8;

/// One of this home's processes, as reported by its keeper.
#[derive(Clone, Debug)]
pub struct Seen {
    pub pid: Pid,
    pub uid: u32,
    pub place: NodeName,
    pub cpu_ms: u64,
    pub rss_kib: u64,
    pub threads: u32,
    /// Share of recent time in which it was runnable, percent.
    pub busy_percent: u8,
    /// What it did with files of its home while it was away, so far.
    pub calls: Counts,
    /// What it does at home that would wait for home if it were away, so far: calls on connections. `None`: nothing.
    pub messages: Option<Counts>,
    /// What it did with files of other nodes.
    pub others: Vec<(NodeName, Counts)>,
    /// Name of its program.
    pub name: String,
    pub age_ms: u64,
    /// `--stay`, `--on`, `--storm` or an administrator: the balancer does not move it.
    pub locked: bool,
    /// A launcher put it here: it is not moved before it is known how much it talks to others.
    pub settles: bool,
    /// It has a child, and did not run lately: it waits for that, as a compiler's driver does.
    pub waits: bool,
    /// CPU features it needs if not all of home's (`--portable`).
    pub needs: Option<CpuSet>,
    pub hint: Option<Hint>,
}

/// One guest of this node, as reported by its host.
#[derive(Clone, Debug)]
pub struct Guest {
    pub home: NodeName,
    pub pid: HomePid,
    pub threads: u32,
    pub busy_percent: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub proc: Proc,
    /// Number of its threads that a sample of this node may have counted as runnable, while it is here.
    pub wanting: u64,
    calls: Counts,
    messages: Counts,
    /// What it did with files of home, while it was away …
    home: Meter,
    /// … and with those of other nodes.
    others: BTreeMap<NodeName, (Counts, Meter)>,
    /// What programs of its name do, until it is known of itself.
    habit: Traffic,
    /// Time for which this is remembered at home.
    remember_ms: u64,
    /// Speed of a core of its place, as last booked.
    core_speed: u64,
    /// CPU time at the last update of the averages.
    cpu_ms: u64,
    /// Time of the last update of the averages.
    at: Tick,
    moved: Option<Tick>,
    hold_ms: u64,
    /// What is known of its group holds until then.
    grouped_until: Tick,
    /// Distance behind equal progress, microseconds of a standard core; `None` before the first booking.
    lag_us: Option<i64>,
    /// Estimated progress since its CPU time was last reported, microseconds of a standard core.
    believed_us: i64,
    /// CPU time reported since then and not booked yet.
    told_ms: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub demand: u64,
    pub wanting: u64,
    at: Tick,
}

/// How long it is remembered that processes share memory.
const GROUP_MS: u64 = 60_000;

impl Account {
    /// `habit`: what programs of its name do with files of their home.
    pub fn open(seen: &Seen, habit: Traffic, now: Tick) -> Account {
        let proc = Proc {
            pid: seen.pid,
            uid: seen.uid,
            place: seen.place.clone(),
            demand: if seen.waits { 0 } else { DEMAND_FULL },
            cpu_ms: seen.cpu_ms,
            rss_kib: seen.rss_kib,
            arrived: Tick(now.0.saturating_sub(seen.age_ms)),
            files: FileUse {
                home: habit,
                others: Vec::new(),
            },
            back_until: None,
            rates: FileRates::default(),
            computes_permille: 1000,
            locked: seen.locked,
            group: None,
            hold: seen.settles.then(|| {
                let left_ms = SETTLES_MS.saturating_sub(seen.age_ms);
                (Stay::TooYoung, now.plus(left_ms))
            }),
            needs: seen.needs.clone(),
            hint: seen.hint,
            lag_ms: 0,
            age_ms: seen.age_ms,
            known: vec![seen.place.clone()],
        };
        let wanting = wanting(seen.busy_percent, seen.threads);
        Account {
            proc,
            wanting,
            calls: seen.calls,
            messages: seen.messages.unwrap_or_default(),
            home: Meter::default(),
            others: BTreeMap::new(),
            habit,
            remember_ms: REMEMBER_MS,
            core_speed: u64::from(STANDARD_SPEED),
            cpu_ms: seen.cpu_ms,
            at: now,
            moved: None,
            hold_ms: 0,
            grouped_until: Tick(0),
            lag_us: None,
            believed_us: 0,
            told_ms: 0,
        }
    }

    /// `home`: this node.
    pub fn follow(&mut self, seen: &Seen, home: &NodeName, now: Tick) {
        let stale = self.moved.is_some_and(|moved| now.since(moved) < STALE_MS);
        if seen.place != self.proc.place && !stale {
            self.comes_to(&seen.place, home, now);
            self.proc.arrived = now;
        }
        self.wanting = wanting(seen.busy_percent, seen.threads);
        self.told_ms += seen.cpu_ms.saturating_sub(self.proc.cpu_ms);
        self.proc.cpu_ms = seen.cpu_ms.max(self.proc.cpu_ms);
        self.proc.rss_kib = seen.rss_kib;
        self.proc.locked = seen.locked;
        self.proc.age_ms = seen.age_ms;
        self.proc.needs.clone_from(&seen.needs);
        let past_ms = now.since(self.at);
        if step(&mut self.proc.demand, &mut self.at, seen.busy_percent, now) {
            self.meter(seen, home, past_ms, now);
        }
        if self.proc.place != *home && now.since(self.proc.arrived) < YOUNG_MS {
            self.proc.demand = DEMAND_FULL;
        }
        if seen.waits {
            self.proc.demand = 0;
        }
    }

    /// What it did with files in `past_ms`.
    fn meter(&mut self, seen: &Seen, home: &NodeName, past_ms: u64, now: Tick) {
        let cpu_ms = seen.cpu_ms.saturating_sub(self.cpu_ms);
        self.cpu_ms = seen.cpu_ms.max(self.cpu_ms);
        let cpu_us = u128::from(cpu_ms) * 1000 * u128::from(self.core_speed);
        let cpu_us = u64::try_from(cpu_us / u128::from(STANDARD_SPEED)).unwrap_or(u64::MAX);
        let is_away = self.proc.place != *home;
        let new = since(seen.calls, std::mem::replace(&mut self.calls, seen.calls));
        let messages = seen.messages.unwrap_or(self.messages);
        let sent = since(messages, std::mem::replace(&mut self.messages, messages));
        if is_away {
            self.home.add(new, cpu_us, past_ms);
        } else if seen.messages.is_some() {
            let waits = sent.waits.saturating_mul(WAITS_PER_MESSAGE);
            self.home.add(Counts { waits, ..sent }, cpu_us, past_ms);
        } else if now.since(self.proc.arrived) > self.remember_ms {
            (self.home, self.habit) = (Meter::default(), Traffic::default());
        }
        for (node, counts) in &seen.others {
            if self.others.len() < HOLDERS_MAX || self.others.contains_key(node) {
                let (before, meter) = self.others.entry(node.clone()).or_default();
                let new = since(*counts, std::mem::replace(before, *counts));
                meter.add(new, cpu_us, past_ms);
            }
        }
        let proc = &mut self.proc;
        proc.files.home = self.home.traffic().unwrap_or(self.habit);
        let others = self.others.iter();
        let others = others.map(|(n, (_, meter))| (n.clone(), meter.traffic().unwrap_or_default()));
        proc.files.others = others.collect();
        proc.rates = match is_away {
            true => self.home.rates(),
            false => FileRates::default(),
        };
        // Of the meter that runs: that of home's files only while it is away.
        let runs = self.others.values().next().map(|(_, meter)| meter);
        let runs = Some(&self.home).filter(|_| is_away).or(runs);
        let known = runs.filter(|meter| meter.traffic().is_some());
        proc.computes_permille = known.map_or(1000, Meter::computes_permille);
    }

    /// What its own calls were, measured while it was away.
    pub fn measured(&self) -> Option<Traffic> {
        self.home.traffic()
    }

    /// Books its progress over a period, estimated from its place, against the average `mean_us` of all. A later report
    /// of its CPU time corrects the estimate.
    pub fn book(&mut self, got: &Share) {
        self.core_speed = got.core_speed;
        // A node may report any speed.
        let standard = |cpu_ms: u64| {
            let us = u128::from(cpu_ms) * u128::from(got.core_speed) * 1000;
            (us / u128::from(STANDARD_SPEED)).min(LAG_US_MAX as u128) as i64
        };
        let lag = match self.lag_us {
            // A new process starts behind by the time that it waited to start.
            None => {
                self.told_ms = 0;
                match self.proc.age_ms as i64 {
                    age_ms if age_ms <= BEGINS_MS_MAX => {
                        got.mean_milli * age_ms - standard(self.proc.cpu_ms)
                    }
                    // This daemon has just started, or the process slept for long: it does not get that time back.
                    _ => 0,
                }
            }
            Some(lag) => {
                self.believed_us += got.own_us;
                lag + got.mean_us - got.own_us
            }
        };
        let told_us = standard(std::mem::take(&mut self.told_ms));
        let lag = if told_us > 0 {
            lag + std::mem::take(&mut self.believed_us) - told_us
        } else {
            lag
        };
        let lag = lag.clamp(-LAG_US_MAX, LAG_US_MAX);
        self.lag_us = Some(lag);
        self.proc.lag_ms = lag / 1000;
    }

    fn comes_to(&mut self, to: &NodeName, home: &NodeName, now: Tick) {
        if to == home && self.proc.place != *home && !self.proc.files.home.is_none() {
            self.remember_ms = (self.remember_ms * 2).min(REMEMBER_MS_MAX);
            self.proc.back_until = Some(now.plus(self.remember_ms));
        }
        self.proc.place = to.clone();
        let known = &mut self.proc.known;
        known.retain(|node| node != to);
        if known.len() >= KNOWN_MAX {
            known.remove(0);
        }
        known.push(to.clone());
    }

    /// It will probably end soon, and does not count; false if it has used more CPU time than that already.
    pub fn stays_short(&mut self) -> bool {
        let short = self.proc.cpu_ms <= SHORT_MS_MAX;
        if short {
            self.proc.demand = 0;
        }
        short
    }

    /// It arrived at `to`.
    pub fn moved(&mut self, to: &NodeName, home: &NodeName, now: Tick) {
        self.comes_to(to, home, now);
        self.proc.arrived = now;
        self.proc.hold = None;
        self.moved = Some(now);
        self.hold_ms = 0;
    }

    /// It shares memory with others, the first of which is `first`. That reason no longer holds it.
    pub fn shares_memory(&mut self, first: Pid, now: Tick) {
        self.proc.group = Some(first);
        self.grouped_until = now.plus(GROUP_MS);
        self.proc.hold = self
            .proc
            .hold
            .filter(|(stay, _)| *stay != Stay::SharedMemory);
    }

    /// It may have given the memory up meanwhile: then it is asked alone once more.
    pub fn forget_group(&mut self, now: Tick) {
        if now >= self.grouped_until {
            self.proc.group = None;
        }
    }

    /// It did not move: it is not moved for a second, twice as long after each further refusal; for a minute if the
    /// reason lies in the process itself.
    pub fn refused(&mut self, stay: Stay, now: Tick) {
        let longer = (self.hold_ms * 2).clamp(HOLD_MS, HOLD_MS_MAX);
        self.hold_ms = if is_lasting(stay) {
            HOLD_MS_MAX
        } else {
            longer
        };
        self.proc.hold = Some((stay, now.plus(self.hold_ms)));
    }
}

impl Visitor {
    pub fn new(now: Tick) -> Visitor {
        Visitor {
            demand: DEMAND_FULL,
            wanting: 0,
            at: now,
        }
    }

    pub fn follow(&mut self, guest: &Guest, now: Tick) {
        self.wanting = wanting(guest.busy_percent, guest.threads);
        step(&mut self.demand, &mut self.at, guest.busy_percent, now);
    }
}

/// PAPER: a node's estimate of its own work rises slowly and falls quickly, so that a short burst does not make it send
/// processes away.
pub(crate) fn smoothed(old: u64, new: u64) -> u64 {
    let keep = if new > old {
        KEEP_EIGHTHS
    } else {
        8 - KEEP_EIGHTHS
    };
    (old * keep + new * (8 - keep)) / 8
}

/// What was added; a process that is reported with less than before has been replaced.
fn since(now: Counts, before: Counts) -> Counts {
    Counts {
        waits: now.waits.saturating_sub(before.waits),
        posts: now.posts.saturating_sub(before.posts),
        sent: now.sent.saturating_sub(before.sent),
        received: now.received.saturating_sub(before.received),
    }
}

/// Updates a demand average; false if the last update was too recent.
fn step(demand: &mut u64, at: &mut Tick, busy_percent: u8, now: Tick) -> bool {
    if now.since(*at) < STEP_MS_MIN {
        return false;
    }
    let new = u64::from(busy_percent) * DEMAND_FULL / 100;
    *demand = (*demand * KEEP_EIGHTHS + new * (8 - KEEP_EIGHTHS))
        .div_ceil(8)
        .min(DEMAND_FULL);
    *at = now;
    true
}

fn wanting(busy_percent: u8, threads: u32) -> u64 {
    if busy_percent >= 50 {
        u64::from(threads.max(1))
    } else {
        0
    }
}

/// Whether a reason lies in the process, independent of the target, and will not pass in seconds.
fn is_lasting(stay: Stay) -> bool {
    use Stay::*;
    matches!(
        stay,
        SharedMemory
            | DeviceMapping
            | Traced
            | OwnFilter
            | IoUring
            | NotDumpable
            | SealedMapping
            | ForeignPidNamespace
            | Privileged
            | ThirtyTwoBit
            | TooManyThreads
    )
}
