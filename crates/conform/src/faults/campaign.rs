//! A campaign: programs run one after the other, several at once, while nodes fail; what they ended with is counted.
//!
//! ```text
//! seed ──► lives (a program, how it is run, its faults) ──► armento run …
//!     └──► node faults (daemons, nodes, cables, disks)  ──► n1, n2, n3
//! ```
//! From: `run.rs`, `safe/run.rs`. Next: `farm.rs`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::Args;
use crate::faults::farm::Farm;
use crate::faults::plan::{DEAD_MS, Fault, NODES, NodeFault, What};
use crate::sys;

pub const SCHEMA: &str = "armento.faults/1";
/// A fault before a program started, or not noticed yet, counts for this long.
const AFTER: Duration = Duration::from_millis(2 * DEAD_MS);
/// Bodies without a home end after `dead_ms`, and homes wait 30 s for a host: then no process is left.
const LEFT_MAX: Duration = Duration::from_secs(45);

/// The result of a program.
pub struct Ended {
    pub moves: u64,
    /// Failpoints passed, on both sides, with their counts.
    pub points: BTreeMap<String, u64>,
    /// Faults that took effect.
    pub met: Vec<Fault>,
    pub died: bool,
    /// What else is counted of it.
    pub told: Vec<String>,
    /// What is wrong with that.
    pub wrong: Option<String>,
}

/// What a campaign runs.
pub trait Lives: Sync {
    /// Runs one. `deadly`: whether something has happened since that moment that may kill programs.
    fn live(&self, number: u64, deadly: &dyn Fn(Instant) -> bool) -> Result<Ended>;
    /// The `n`th faults of nodes, which come at once: the delay after those before; node and fault.
    fn node_faults(&self, n: u64) -> (u64, Vec<(usize, NodeFault)>);
    /// Names of its programs, as the kernel has them (comm).
    fn names(&self) -> Vec<&'static str>;
    /// Whether one with this number is to be run; an error: there is something wrong with the campaign.
    fn begins(&self, number: u64) -> Result<bool>;
    fn is_done(&self, sum: &Sum) -> bool;
    /// The command that runs it again.
    fn command(&self) -> String;
    /// Where evidence is kept.
    fn keep(&self) -> &Path;
    /// What the report has beside.
    fn report(&self, sum: &Sum) -> (String, Option<Value>);
}

#[derive(Default)]
pub struct Sum {
    pub moves: u64,
    pub lives: u64,
    pub died: u64,
    pub points: BTreeMap<String, u64>,
    pub faults: BTreeMap<String, u64>,
    pub told: BTreeMap<String, u64>,
    pub wrong: Vec<Value>,
    broken: Option<String>,
}

pub struct Campaign<'a> {
    args: &'a Args,
    farm: &'a Farm,
    lives: &'a dyn Lives,
    sum: Mutex<Sum>,
    next: AtomicU64,
    over: AtomicBool,
    /// When a node last had a deadly fault, and whether that goes on.
    deadly: Mutex<Option<Instant>>,
}

/// Runs the campaign on a farm that is up; the farm is taken down.
pub fn campaign(args: &Args, farm: &Farm, lives: &dyn Lives) -> Result<i32> {
    let campaign = Campaign {
        args,
        farm,
        lives,
        sum: Mutex::default(),
        next: AtomicU64::new(args.life.unwrap_or(0)),
        over: AtomicBool::new(false),
        deadly: Mutex::new(None),
    };
    let started = Instant::now();
    std::thread::scope(|s| {
        if args.life.is_none() {
            s.spawn(|| campaign.node_faults());
        }
        let jobs = if args.life.is_some() { 1 } else { args.jobs };
        let lives: Vec<_> = (0..jobs).map(|_| s.spawn(|| campaign.lives())).collect();
        for l in lives {
            // A panic of the campaign is no verdict.
            if l.join().is_err() {
                campaign.broke("a thread of the campaign panicked".into());
            }
        }
        campaign.over.store(true, Ordering::Release);
    });
    if !sys::interrupted() {
        campaign.left();
    }
    campaign.cables();
    if args.keep {
        eprintln!("kept the lab {}", farm.name);
    } else {
        farm.down()?;
    }
    campaign.finish(started.elapsed())
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Campaign<'_> {
    fn broke(&self, why: String) {
        lock(&self.sum).broken.get_or_insert(why);
        self.over.store(true, Ordering::Release);
    }

    fn ends(&self) -> bool {
        self.over.load(Ordering::Acquire)
            || sys::interrupted()
            || self.lives.is_done(&lock(&self.sum))
    }

    fn lives(&self) {
        while !self.ends() {
            let n = self.next.fetch_add(1, Ordering::AcqRel);
            if self.args.life.is_none() {
                match self.lives.begins(n) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(e) => return self.broke(e.to_string()),
                }
            }
            let deadly = |since: Instant| {
                let last = *lock(&self.deadly);
                last.is_some_and(|at| at + AFTER > since)
            };
            match self.lives.live(n, &deadly) {
                Ok(ended) => self.take(n, ended),
                Err(e) => return self.broke(format!("life {n}: {e:#}")),
            }
            if self.args.life.is_some() {
                return;
            }
        }
    }

    fn take(&self, number: u64, ended: Ended) {
        let mut sum = lock(&self.sum);
        sum.lives += 1;
        sum.moves += ended.moves;
        sum.died += u64::from(ended.died);
        for (name, n) in ended.points {
            *sum.points.entry(name).or_default() += n;
        }
        for what in ended.told {
            *sum.told.entry(what).or_default() += 1;
        }
        for f in &ended.met {
            let side = if f.home { "keeper" } else { "host" };
            let what = match f.what {
                What::Stall { .. } => "stalled",
                what if what.deadly() => "deadly",
                _ => "short",
            };
            *sum.faults
                .entry(format!("{side} {} {what}", f.file()))
                .or_default() += 1;
        }
        if let Some(wrong) = ended.wrong {
            let repeat = format!("{} --life {number}", self.lives.command());
            eprintln!("WRONG: life {number}: {wrong}; repeat: {repeat}");
            let kept = self.lives.keep().join(number.to_string());
            sum.wrong
                .push(json!({"life": number, "wrong": wrong, "repeat": repeat, "kept": kept}));
        }
    }

    fn node_faults(&self) {
        for n in 0.. {
            let (wait, faults) = self.lives.node_faults(n);
            let until = Instant::now() + Duration::from_millis(wait);
            while Instant::now() < until {
                if self.ends() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // While it goes on, and for a while after: when it is noticed is unknown.
            let deadly = faults.iter().any(|(_, what)| what.deadly());
            if deadly {
                *lock(&self.deadly) = Some(Instant::now() + Duration::from_secs(30));
            }
            if let Err(e) = self.apply(&faults) {
                return self.broke(format!("{e:#}"));
            }
            if deadly {
                *lock(&self.deadly) = Some(Instant::now());
            }
            for (_, what) in faults {
                let key = format!(
                    "{}{}",
                    what.name(),
                    if what.deadly() { " deadly" } else { "" }
                );
                *lock(&self.sum).faults.entry(key).or_default() += 1;
            }
        }
    }

    /// All at once.
    fn apply(&self, faults: &[(usize, NodeFault)]) -> Result<()> {
        std::thread::scope(|s| {
            let one = |(node, what): &(usize, NodeFault)| {
                let (node, what) = (*node, *what);
                let apply = move || self.farm.apply(node, what);
                (node, what, s.spawn(apply))
            };
            let all: Vec<_> = faults.iter().map(one).collect();
            for (node, what, done) in all {
                let done = done.join();
                let done = done.unwrap_or_else(|_| Err(anyhow!("a thread panicked")));
                done.with_context(|| format!("{what:?} at n{}", node + 1))?;
            }
            Ok(())
        })
    }

    /// Counts the faults of the proxies: those of homes, and those between hosts.
    fn cables(&self) {
        for node in 0..NODES {
            let line = if node == 0 { "home" } else { "hosts" };
            for (fault, n) in self.farm.cut(node) {
                let key = format!("cable of {line} {fault}");
                *lock(&self.sum).faults.entry(key).or_default() += n;
            }
        }
    }

    /// Checks that no process of any program is left.
    fn left(&self) {
        let until = Instant::now() + LEFT_MAX;
        loop {
            let left = self.running();
            if left.is_empty() {
                return;
            }
            if Instant::now() > until {
                let what = format!("left running: {}", left.join(", "));
                eprintln!("WRONG: {what}");
                let repeat = self.lives.command();
                lock(&self.sum)
                    .wrong
                    .push(json!({"wrong": what, "repeat": repeat}));
                return;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Processes of our programs that still run, with the folder of the life (and so its number), what they wait in,
    /// and what the threads of their tracer do.
    fn running(&self) -> Vec<String> {
        let names = self.lives.names().join(",");
        let script = format!(
            "for p in $(ps -o pid,stat -C {names} h | awk '$2 !~ /^Z/ {{ print $1 }}'); do \
             echo $p $(readlink /proc/$p/cwd) $(grep -E '^(State|PPid|TracerPid)' /proc/$p/status) \
             in $(cat /proc/$p/wchan) $(cat /proc/$p/syscall) \
             of $(for t in /proc/$(awk '/^TracerPid/ {{ print $2 }}' /proc/$p/status)/task/*; do \
             cat $t/comm $t/wchan; echo; done 2>/dev/null | paste -sd' '); done"
        );
        let mut all = Vec::new();
        for node in 0..NODES {
            let found = self.farm.shell(node, &script).output();
            let text = found.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
            let text = text.unwrap_or_default();
            all.extend(text.lines().map(|l| format!("n{} {}", node + 1, l.trim())));
        }
        all
    }

    fn finish(self, took: Duration) -> Result<i32> {
        let sum = self
            .sum
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout().lock();
        let (line, beside) = self.lives.report(&sum);
        if self.args.json {
            let mut all = json!({
                "schema": SCHEMA, "seed": self.args.seed, "moves": sum.moves, "lives": sum.lives, "died": sum.died,
                "seconds": took.as_secs(), "faults": sum.faults, "points": sum.points, "wrong": sum.wrong,
                "broken": sum.broken, "interrupted": sys::interrupted(),
            });
            if let Some(safe) = beside {
                all["safe"] = safe;
            }
            writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        } else {
            for (what, n) in sum.faults.iter().chain(&sum.told) {
                writeln!(out, "{n:>6}  {what}")?;
            }
            writeln!(
                out,
                "{line}; {} s; {} wrong (seed {})",
                took.as_secs(),
                sum.wrong.len(),
                self.args.seed
            )?;
            if !sum.wrong.is_empty() {
                writeln!(out, "kept in {}", self.lives.keep().display())?;
            }
        }
        if let Some(why) = sum.broken {
            bail!("the campaign could not go on: {why}");
        }
        Ok(match (sys::interrupted(), sum.wrong.is_empty()) {
            (true, _) => 130,
            (false, true) => 0,
            (false, false) => 1,
        })
    }
}
