//! `armento conform --faults`: programs are moved around while keepers, hosts, daemons, nodes and links break.
//!
//! ```text
//! seed ──► lives (a program in a storm, its faults) ──► n1: armento run --storm … tally
//!     └──► node faults (daemons, nodes, cables)     ──► n1, n2, n3
//! ```
//! The criteria: each program ends with everything that a native run writes, or was killed by a deadly fault and has
//! written a beginning of that; it counts its own calls, and reports one that was made twice or was lost; it ends
//! within the limits; and no process of it is left. Next: `plan.rs`, `life.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::Args;
use crate::farm;
use crate::faults::farm::Farm;
use crate::faults::life::{Ended, FILES, ROUNDS, Stage};
use crate::faults::plan::{DEAD_MS, Life, NodeFault, What, node_fault};
use crate::guests;
use crate::sys;

pub const SCHEMA: &str = "armento.faults/1";
const PROGRAM: &str = "tally";
/// A fault before a program started, or not noticed yet, counts for this long.
const AFTER: Duration = Duration::from_millis(2 * DEAD_MS);
/// Bodies without a home end after `dead_ms`, and homes wait 30 s for a host: then no process is left.
const LEFT_MAX: Duration = Duration::from_secs(45);
/// Limit of programs that a campaign may start for each move to make: far more than it needs.
const LIVES_PER_MOVE: u64 = 4;

#[derive(Default)]
struct Sum {
    moves: u64,
    lives: u64,
    died: u64,
    points: BTreeMap<String, u64>,
    faults: BTreeMap<String, u64>,
    wrong: Vec<serde_json::Value>,
    broken: Option<String>,
}

struct Campaign<'a> {
    args: &'a Args,
    stage: Stage<'a>,
    sum: Mutex<Sum>,
    next: AtomicU64,
    over: AtomicBool,
    /// When a node last had a deadly fault, and whether that goes on.
    deadly: Mutex<Option<Instant>>,
}

pub fn run(args: &Args) -> Result<i32> {
    sys::catch_interrupts();
    ensure!(
        sys::is_root(),
        "a fault campaign raises a lab, which needs root; nothing was run\nhint: use sudo"
    );
    let armento = farm::armento(args.armento.as_deref())?;
    let program = program()?;
    let native = native(&program)?;
    let keep = std::env::temp_dir().join(format!("armento-faults-{}", std::process::id()));
    let farm = Farm::up(&armento, args.seed)?;
    let campaign = Campaign {
        args,
        stage: Stage {
            farm: &farm,
            program: &program,
            native: &native,
            keep: &keep,
        },
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

/// The program that is moved around, where all users can run it.
fn program() -> Result<PathBuf> {
    let guests = guests::select(&[PROGRAM.into()], false)?;
    let guest = guests.first().context("the program of the campaign")?;
    match guest.how {
        crate::guests::How::Source { file, source } => guests::compiled(PROGRAM, file, source),
        _ => bail!("the program of the campaign is no source"),
    }
}

fn native(program: &Path) -> Result<BTreeMap<&'static str, String>> {
    let dir = std::env::temp_dir().join(format!("armento-faults-native-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let out = Command::new(program)
        .arg(ROUNDS.to_string())
        .current_dir(&dir)
        .output()?;
    let mut all = BTreeMap::new();
    for name in FILES {
        let text = match name {
            "out" => String::from_utf8(out.stdout.clone())?,
            name => fs::read_to_string(dir.join(name))?,
        };
        ensure!(
            !text.is_empty() && !text.contains("WRONG"),
            "natively {PROGRAM} is wrong: {text}"
        );
        all.insert(name, text);
    }
    fs::remove_dir_all(&dir)?;
    ensure!(
        out.status.success(),
        "natively {PROGRAM} ends with {}",
        out.status
    );
    Ok(all)
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
            || lock(&self.sum).moves >= self.args.moves
    }

    fn lives(&self) {
        while !self.ends() {
            let n = self.next.fetch_add(1, Ordering::AcqRel);
            if n >= self.args.moves.saturating_mul(LIVES_PER_MOVE) && self.args.life.is_none() {
                return self.broke("it takes too many programs to make so many moves".into());
            }
            let life = Life::new(self.args.seed, n);
            let deadly = |since: Instant| {
                let last = *lock(&self.deadly);
                last.is_some_and(|at| at + AFTER > since)
            };
            match self.stage.live(&life, deadly) {
                Ok(ended) => self.take(&life, ended),
                Err(e) => return self.broke(format!("life {n}: {e:#}")),
            }
            if self.args.life.is_some() {
                return;
            }
        }
    }

    fn take(&self, life: &Life, ended: Ended) {
        let mut sum = lock(&self.sum);
        sum.lives += 1;
        sum.moves += ended.moves;
        sum.died += u64::from(ended.died);
        for (name, n) in ended.points {
            *sum.points.entry(name).or_default() += n;
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
            let repeat = format!(
                "armento conform --faults --seed {} --life {}",
                self.args.seed, life.number
            );
            eprintln!("WRONG: life {}: {wrong}; repeat: {repeat}", life.number);
            let kept = self.stage.keep.join(life.number.to_string());
            sum.wrong
                .push(json!({"life": life.number, "wrong": wrong, "repeat": repeat, "kept": kept}));
        }
    }

    fn node_faults(&self) {
        for n in 0.. {
            let (wait, node, what) = node_fault(self.args.seed, n);
            let until = Instant::now() + Duration::from_millis(wait);
            while Instant::now() < until {
                if self.ends() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // While it goes on, and for a while after: when it is noticed is unknown.
            if what.deadly() {
                *lock(&self.deadly) = Some(Instant::now() + Duration::from_secs(30));
            }
            if let Err(e) = self.stage.farm.apply(node, what) {
                return self.broke(format!("{what:?} at n{}: {e:#}", node + 1));
            }
            if what.deadly() {
                *lock(&self.deadly) = Some(Instant::now());
            }
            let key = match what {
                NodeFault::Daemon { .. } => "daemon killed",
                NodeFault::DaemonFrozen { .. } => "daemon frozen",
                NodeFault::Frozen { .. } => "node frozen",
                NodeFault::Cut { .. } => "node cut off",
                NodeFault::Killed => "node killed",
            };
            let key = format!("{key}{}", if what.deadly() { " deadly" } else { "" });
            *lock(&self.sum).faults.entry(key).or_default() += 1;
        }
    }

    /// Counts the faults of the proxies: those of homes, and those between hosts.
    fn cables(&self) {
        for node in 0..crate::faults::plan::NODES {
            let line = if node == 0 { "home" } else { "hosts" };
            for (fault, n) in self.stage.farm.cut(node) {
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
                let repeat = format!(
                    "armento conform --faults --seed {} --moves {}",
                    self.args.seed, self.args.moves
                );
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
        let script = format!(
            "for p in $(ps -o pid,stat -C {PROGRAM} h | awk '$2 !~ /^Z/ {{ print $1 }}'); do \
             echo $p $(readlink /proc/$p/cwd) $(grep -E '^(State|PPid|TracerPid)' /proc/$p/status) \
             in $(cat /proc/$p/wchan) $(cat /proc/$p/syscall) \
             of $(for t in /proc/$(awk '/^TracerPid/ {{ print $2 }}' /proc/$p/status)/task/*; do \
             cat $t/comm $t/wchan; echo; done 2>/dev/null | paste -sd' '); done"
        );
        let mut all = Vec::new();
        for node in 0..crate::faults::plan::NODES {
            let found = self.stage.farm.shell(node, &script).output();
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
        if self.args.json {
            let all = json!({
                "schema": SCHEMA, "seed": self.args.seed, "moves": sum.moves, "lives": sum.lives, "died": sum.died,
                "seconds": took.as_secs(), "faults": sum.faults, "points": sum.points, "wrong": sum.wrong,
                "broken": sum.broken, "interrupted": sys::interrupted(),
            });
            writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        } else {
            for (what, n) in &sum.faults {
                writeln!(out, "{n:>6}  {what}")?;
            }
            writeln!(
                out,
                "{} moves of {} programs in {} s; {} died of deadly faults; {} wrong (seed {})",
                sum.moves,
                sum.lives,
                took.as_secs(),
                sum.died,
                sum.wrong.len(),
                self.args.seed
            )?;
            if !sum.wrong.is_empty() {
                writeln!(out, "kept in {}", self.stage.keep.display())?;
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
