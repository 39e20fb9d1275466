//! Downtime of a program in a move: the longest gap between two readings of its clock during the move, minus the
//! longest gap of a native run of the same duration on the same node. Also reported: the longest gap without the time
//! in which the machine's own processors were stopped.
//!
//! Targets use memory that the machine already has (`Stage::warm`).

use crate::row::{Bar, Row, Samples, Table, median};
use crate::run::{Limit, Running};
use crate::stage::{Farm, Moved, SOON, Stage, migrate};
use crate::sys;
use crate::witness::{Gap, Witness, outside};
use anyhow::{Context, Result, bail};
use armento_lab::Lab;
use std::time::Duration;

/// One tour of moves: kind and target. Each is between nodes on different processors where there are two (lab nodes
/// take them in turn): n3 and n1 share one, and then the program waits for both sides' copying.
const TOUR: [(&str, &str); 4] = [
    ("out", "n2"),
    ("on", "n3"),
    ("back", "n2"),
    ("home", "home"),
];
/// Time limit: four gigabytes on a slow machine.
const MOVE: u64 = 120;
/// A native run as long as the moves, but no longer than this: a longer run could only have a longer gap.
const QUIET_MAX_NS: u64 = 8_000_000_000;

/// A process that is moved.
pub struct Case {
    pub name: &'static str,
    /// Arguments of `hold`.
    hold: &'static [&'static str],
    rounds: usize,
    bar: Bar,
}

const fn case(
    name: &'static str,
    hold: &'static [&'static str],
    rounds: usize,
    most_ms: f64,
) -> Case {
    let bar = Bar::AtMost(most_ms);
    Case {
        name,
        hold,
        rounds,
        bar,
    }
}

/// The bars are requirements of the design.
const CASES: [Case; 12] = [
    case("64 MB idle", &["64", "0", "spin"], 3, 10.0),
    case("64 MB 20 MB/s", &["64", "20000000", "spin"], 3, 10.0),
    case("64 MB 200 MB/s", &["64", "200000000", "spin"], 3, 10.0),
    case("64 threads", &["64", "0", "spin", "64"], 3, 10.0),
    case("2000 mappings", &["64", "0", "spin", "1", "2000"], 3, 10.0),
    case("1 GB idle", &["1024", "0", "spin"], 2, 10.0),
    case("1 GB 20 MB/s", &["1024", "20000000", "spin"], 2, 10.0),
    case("1 GB 200 MB/s", &["1024", "200000000", "spin"], 2, 10.0),
    case("4 GB idle", &["4096", "0", "spin"], 1, 10.0),
    case("4 GB 20 MB/s", &["4096", "20000000", "spin"], 1, 10.0),
    case("4 GB 200 MB/s", &["4096", "200000000", "spin"], 1, 10.0),
    case("4 GB 1 GB/s", &["4096", "1000000000", "spin"], 1, 20.0),
];

pub fn run(stage: &Stage, table: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        ..Farm::default()
    })?;
    let wanted = |c: &&Case| (!stage.quick || c.hold[0] == "64") && c.name.contains(&stage.only);
    for case in CASES.iter().filter(wanted) {
        match tours(stage, &lab, case) {
            Ok(tours) => table.extend(judge(case, &tours)),
            Err(e) => table.push(Row::failed("pause", &format!("{}: {e:#}", case.name))),
        }
    }
    lab.down()
}

fn tours(stage: &Stage, lab: &Lab, case: &Case) -> Result<Vec<Vec<Step>>> {
    let mut tours = Vec::new();
    while tours.len() < stage.rounds(case.rounds, 1) && !stage.limit.is_over() {
        tours.push(one_round(stage, lab, case)?);
    }
    if tours.is_empty() {
        bail!("no time was left for it");
    }
    Ok(tours)
}

/// One move of a tour, milliseconds.
struct Step {
    longest: f64,
    native: f64,
    keeper: f64,
    took: f64,
    /// Time from the order to the begin of the longest gap.
    when: f64,
    /// The longest gap without standstills of the machine's processors; NaN when these were not measured.
    ours: f64,
}

/// A B: one tour under Armento, then a native run as long.
fn one_round(stage: &Stage, lab: &Lab, case: &Case) -> Result<Vec<Step>> {
    let (home, args) = (lab.node(1), case.hold);
    let witness = Witness::begin();
    let (moves, seen) = tour(stage, lab, args)?;
    let stalls = witness.map(Witness::end);
    let length = |m: &Moved| m.end_ns - m.begin_ns;
    let whole: u64 = moves.iter().map(length).sum();
    let scale = (QUIET_MAX_NS as f64 / whole as f64).min(1.0);
    let (begin, quiet) = idle(
        stage.native(home, "hold", args),
        (whole as f64 * scale) as u64,
    )?;
    let mut at = begin;
    let mut step = |m: &Moved| {
        let share = (length(m) as f64 * scale) as u64;
        let native = longest(&quiet, at, at + share).1;
        at += share;
        let (when, longest) = longest(&seen, m.begin_ns, m.end_ns);
        let ours = |stalls: &Vec<Gap>| {
            let all = touching(&seen, m.begin_ns, m.end_ns).map(|g| outside(*g, stalls));
            all.max().unwrap_or(0) as f64 / 1e6
        };
        Step {
            longest: longest as f64 / 1e6,
            native: native as f64 / 1e6,
            keeper: m.pause_ms,
            took: length(m) as f64 / 1e6,
            when: when.saturating_sub(m.begin_ns) as f64 / 1e6,
            ours: stalls.as_ref().map_or(f64::NAN, ours),
        }
    };
    Ok(moves.iter().map(&mut step).collect())
}

fn judge(case: &Case, tours: &[Vec<Step>]) -> Vec<Row> {
    let row = |(i, (kind, _)): (usize, &(&str, &str))| {
        let side = |what: &str, of: fn(&Step) -> f64| Samples {
            what: what.into(),
            unit: "ms",
            values: tours.iter().map(|t| of(&t[i])).collect(),
        };
        let keeper = side("keeper's pause", |s| s.keeper);
        let took = side("whole move", |s| s.took);
        let when = side("the longest gap's begin", |s| s.when);
        let ours = side("without standing processors", |s| s.ours);
        let without = match median(&ours.values) {
            n if n.is_nan() => "unknown".into(),
            n => format!("{n:.2}"),
        };
        let told = format!(
            "without the machine's standstills {without}, keeper reports {:.2}, move took {:.0}, gap at {:.0} ms",
            median(&keeper.values),
            median(&took.values),
            median(&when.values)
        );
        let (moved, native) = (
            side("longest gap", |s| s.longest),
            side("native", |s| s.native),
        );
        let mut row = Row::difference(
            "pause",
            format!("{}, {kind}", case.name),
            moved,
            native,
            case.bar,
        )
        .noted(&told);
        row.samples.extend([ours, keeper, took, when]);
        row
    };
    TOUR.iter().enumerate().map(row).collect()
}

fn tour(stage: &Stage, lab: &Lab, hold: &[&str]) -> Result<(Vec<Moved>, Vec<Gap>)> {
    let home = lab.node(1);
    let (holder, pid) = start(stage.armento(home, &[], "hold", hold))?;
    let mib: u64 = hold[0].parse()?;
    let moves = TOUR
        .iter()
        .map(|(kind, to)| {
            stage.warm(lab, mib, &[])?;
            migrate(home, pid, to, Limit::secs(MOVE)).with_context(|| format!("move {kind}"))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((moves, gaps(holder)?))
}

fn idle(command: std::process::Command, ns: u64) -> Result<(u64, Vec<Gap>)> {
    let (holder, _) = start(command)?;
    let begin = sys::now_ns();
    std::thread::sleep(Duration::from_nanos(ns));
    Ok((begin, gaps(holder)?))
}

/// Starts `hold` and waits until it has its memory.
pub fn start(command: std::process::Command) -> Result<(Running, u32)> {
    let mut holder = Running::start(command)?;
    let line = holder.line(Limit::secs(2 * SOON))?;
    let pid = line.strip_prefix("ready ").and_then(|p| p.parse().ok());
    Ok((holder, pid.with_context(|| format!("`hold` said: {line}"))?))
}

pub fn gaps(holder: Running) -> Result<Vec<Gap>> {
    holder.signal(sys::SIGUSR1)?;
    // It first reads all its memory.
    let lines = holder.finish(Limit::secs(MOVE))?;
    let (last, lines) = lines.split_last().context("`hold` printed nothing")?;
    if last != "lost 0" {
        bail!("the machine is too busy to distinguish gaps: {last}");
    }
    let gap = |l: &String| {
        l.split_once(' ')
            .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
    };
    lines
        .iter()
        .map(|l| gap(l).with_context(|| format!("expected a gap, not `{l}`")))
        .collect()
}

/// The longest gap that overlaps the time from `begin` to `end`; of length 0 if there is none.
pub fn longest(gaps: &[Gap], begin: u64, end: u64) -> Gap {
    let all = touching(gaps, begin, end);
    all.max_by_key(|g| g.1).copied().unwrap_or((begin, 0))
}

fn touching(gaps: &[Gap], begin: u64, end: u64) -> impl Iterator<Item = &Gap> {
    gaps.iter()
        .filter(move |(at, ns)| *at < end && at + ns > begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gaps_during_the_move_count() {
        let gaps = [
            (0, 9_000_000),
            (20_000_000, 3_000_000),
            (40_000_000, 8_000_000),
        ];
        assert_eq!(longest(&gaps, 10_000_000, 39_000_000).1, 3_000_000);
        assert_eq!(longest(&gaps, 8_000_000, 9_500_000).1, 9_000_000);
        assert_eq!(longest(&gaps, 10_000_000, 11_000_000).1, 0);
    }

    #[test]
    fn a_row_for_each_kind_of_move() {
        let step = || Step {
            longest: 9.0,
            native: 1.0,
            keeper: 7.0,
            took: 100.0,
            when: 50.0,
            ours: 8.0,
        };
        let tours: Vec<Vec<Step>> = (0..2).map(|_| TOUR.map(|_| step()).into()).collect();
        let rows = judge(&CASES[0], &tours);
        assert_eq!(rows.len(), TOUR.len());
        assert_eq!(rows[0].value, Some(8.0));
        assert!(rows[3].what.contains("home") && rows[3].pass());
    }
}
