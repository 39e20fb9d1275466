//! The whole suite: runners take guests from one queue, results are compared as they arrive.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::Args;
use crate::compare;
use crate::compare::{Report, Row, Run, Verdict};
use crate::farm::{self, Farm};
use crate::guests;
use crate::guests::{Guest, How};
use crate::session::evidence;
use crate::session::handler::Runner;
use crate::session::show;
use crate::sys;
use crate::task::{End, Mode, Outcome, Task};

/// Interval at which a waiting session checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(200);
/// A unit of a suite may take so many times as long as natively, in addition to `--timeout`.
const PACE: u64 = 50;
/// But never longer than this, seconds.
const SUITE_S_MAX: u32 = 1200;
/// Interrupted runners have this long to end their guests.
const PATIENCE: Duration = Duration::from_secs(8);

pub fn run(args: &Args, guests: &[Guest], absent: &[(&'static str, String)]) -> Result<i32> {
    sys::catch_interrupts();
    let plan = Plan::new(args)?;
    prepare(guests)?;
    let farm = match &plan.armento {
        Some(armento) if args.to.is_none() => Some(Farm::up(armento, args.lab.as_deref())?),
        _ => None,
    };
    let finished = suite(&plan, guests, absent, farm.as_ref());
    let down = match farm {
        Some(farm) if args.keep => {
            eprintln!("kept the lab; look: {}", farm.hint());
            Ok(())
        }
        Some(farm) => farm.down(),
        None => Ok(()),
    };
    if !args.keep {
        // In a lab the guests' directories are removed with the nodes' disks.
        let _ = std::fs::remove_dir_all(&plan.base);
    }
    down?;
    let report = finished?;
    report.finish(args.json)?;
    Ok(report.code())
}

/// Data that all runners share.
#[derive(Clone)]
struct Plan {
    args: Args,
    modes: Vec<Mode>,
    /// None if every run is native: then no lab is needed.
    armento: Option<PathBuf>,
    base: PathBuf,
}

impl Plan {
    fn new(args: &Args) -> Result<Plan> {
        let mut modes = args.mode.clone();
        modes.sort_by_key(|mode| *mode as u8);
        modes.dedup();
        let lab = args.lab.is_some() || modes.iter().any(|mode| *mode != Mode::Native);
        if lab && args.to.is_none() && !sys::is_root() {
            bail!(
                "a lab needs root; nothing was run\nhint: use sudo, or --mode native; --to NODE runs on a farm that is there"
            );
        }
        let base = PathBuf::from(format!("/var/tmp/armento-conform-{}", std::process::id()));
        let armento = if lab {
            Some(farm::shared(
                &farm::armento(args.armento.as_deref())?,
                &base,
            )?)
        } else {
            None
        };
        Ok(Plan {
            args: args.clone(),
            modes,
            armento,
            base,
        })
    }

    fn task(&self, guest: &Guest, mode: Mode, round: u32) -> Task {
        Task {
            guest: guest.name.clone(),
            script: guest.own_script().map(str::to_owned),
            mode,
            base: self.base.clone(),
            storm_ms: self.args.storm_ms,
            seed: self.args.seed.wrapping_add(round.into()),
            timeout_s: self.args.timeout,
            armento: self.armento.clone(),
            node: self.args.to.clone().unwrap_or_else(|| farm::AWAY.into()),
            keep: self.args.keep,
        }
    }
}

/// Compiles before anything is measured or started; a node finds the programs on its root disk.
fn prepare(guests: &[Guest]) -> Result<()> {
    for guest in guests {
        if let How::Source { file, source } = guest.how
            && crate::user::missing(guest.needs).is_none()
        {
            guests::compiled(&guest.name, file, source)?;
        }
    }
    Ok(())
}

fn suite(
    plan: &Plan,
    guests: &[Guest],
    absent: &[(&'static str, String)],
    farm: Option<&Farm>,
) -> Result<Report> {
    let queue = Arc::new(Mutex::new(guests.iter().cloned().collect::<VecDeque<_>>()));
    let (results, rows) = mpsc::channel();
    let jobs = plan.args.jobs.min(guests.len() as u32).max(1);
    let mut runners = Vec::new();
    for _ in 0..jobs {
        let runner = Runner::start(farm, &plan.base)?;
        runners.push(runner.pid());
        let (queue, results, plan) = (queue.clone(), results.clone(), plan.clone());
        let farm = farm.cloned();
        std::thread::spawn(move || work((runner, farm), &plan, &queue, &results));
    }
    drop(results);
    let mut report = Report::new(plan.args.strict);
    for (name, why) in absent {
        report.take(plan, absent_suite(name, &plan.modes, why))?;
    }
    let mut give_up = None;
    loop {
        match rows.recv_timeout(LOOK) {
            Ok(row) => {
                report.take(plan, row)?;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if sys::interrupted() => {
                report.interrupted = true;
                if give_up.is_none() {
                    runners.iter().for_each(|&pid| sys::terminate(pid));
                }
                // A runner that does not answer ends with its lab.
                if *give_up.get_or_insert_with(|| Instant::now() + PATIENCE) < Instant::now() {
                    break;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(report)
}

fn work(
    (mut runner, farm): (Runner, Option<Farm>),
    plan: &Plan,
    queue: &Mutex<VecDeque<Guest>>,
    results: &Sender<Row>,
) {
    loop {
        let next = match queue.lock() {
            Ok(mut queue) => queue.pop_front(),
            Err(_) => return,
        };
        let Some(guest) = next else { return };
        let row = examine(&mut runner, plan, &guest);
        if let Some(farm) = &farm {
            keep_logs(farm, &row);
        }
        // The result of an interrupted guest means nothing.
        if sys::interrupted() || results.send(row).is_err() {
            return;
        }
    }
}

/// Guests may fail at the same time: each gets the logs of that time.
fn keep_logs(farm: &Farm, row: &Row) {
    let failed = |r: &&Run| matches!(r.verdict, Verdict::Differs(_));
    for folder in row
        .runs
        .iter()
        .filter(failed)
        .filter_map(|r| r.kept.as_ref())
    {
        if let Err(cause) = farm.keep_logs(folder) {
            eprintln!("cannot keep logs in {}: {cause:#}", folder.display());
        }
    }
}

/// The row of a suite that is not available.
fn absent_suite(name: &str, modes: &[Mode], why: &str) -> Row {
    let mut row = Row {
        name: format!("{name}:*"),
        stays: false,
        runs: Vec::new(),
    };
    row.skip(modes, why);
    row
}

/// Seconds that a run may take. Tests of suites differ too much for one limit: a file that creates a thousand children
/// takes fifty times as long away from home, and does not hang more often than natively.
fn patience(guest: &Guest, timeout_s: u32, native_ms: u64) -> u32 {
    if !matches!(guest.how, How::Suite { .. }) {
        return timeout_s;
    }
    let paced_s = u32::try_from(native_ms * PACE / 1000).unwrap_or(u32::MAX);
    timeout_s.saturating_add(paced_s).min(SUITE_S_MAX)
}

/// All runs of one guest.
fn examine(runner: &mut Runner, plan: &Plan, guest: &Guest) -> Row {
    let mut row = Row {
        name: guest.name.clone(),
        stays: guest.stays,
        runs: Vec::new(),
    };
    let native = runner.ask(&plan.task(guest, Mode::Native, 0));
    if let End::Missing(package) = &native.end {
        row.skip(&plan.modes, &format!("install the package {package}"));
        return row;
    }
    if let Some(why) = compare::no_reference(guest, &native) {
        row.skip(&plan.modes, &why);
        return row;
    }
    let faults = compare::native_faults(&native);
    let sound = faults.is_empty();
    let verdict = if sound {
        Verdict::Equal
    } else {
        Verdict::Differs(faults)
    };
    row.runs.push(Run::new(
        plan,
        guest,
        Mode::Native,
        0,
        verdict,
        &native,
        &native,
    ));
    for &mode in plan.modes.iter().filter(|_| sound) {
        let first = u32::from(mode == Mode::Native);
        for round in first..plan.args.runs {
            if sys::interrupted() {
                return row;
            }
            let mut task = plan.task(guest, mode, round);
            task.timeout_s = patience(guest, task.timeout_s, native.wall_ms);
            let other = runner.ask(&task);
            let found = compare::differences(guest, &native, &other);
            let verdict = Verdict::new(found, compare::known_gap(&guest.name, mode));
            row.runs
                .push(Run::new(plan, guest, mode, round, verdict, &native, &other));
        }
    }
    row
}

impl Run {
    fn new(
        plan: &Plan,
        guest: &Guest,
        mode: Mode,
        round: u32,
        verdict: Verdict,
        native: &Outcome,
        other: &Outcome,
    ) -> Run {
        let task = plan.task(guest, mode, round);
        let repeat = format!(
            "armento conform --mode {} --storm-ms {} --seed {} {}{}",
            mode.word(),
            task.storm_ms,
            task.seed,
            if matches!(guest.how, How::Suite { .. }) {
                "--suite "
            } else {
                ""
            },
            guest.name
        );
        let kept = match &verdict {
            Verdict::Differs(_) | Verdict::Gap { .. } if !sys::interrupted() => {
                evidence::keep(&task, round, &repeat, native, other)
            }
            _ => None,
        };
        Run {
            mode,
            round,
            seed: task.seed,
            verdict,
            end: other.end.to_string(),
            wall_ms: other.wall_ms,
            moves: other.moves,
            away: other.away,
            repeat,
            kept,
        }
    }
}

impl Report {
    /// Adds a row, and shows it.
    fn take(&mut self, plan: &Plan, row: Row) -> Result<()> {
        if !plan.args.json {
            show::line(&row, &plan.modes)?;
        }
        self.rows.push(row);
        Ok(())
    }
}
