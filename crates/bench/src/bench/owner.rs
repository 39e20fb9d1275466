//! Priority of a node's owner: what the owner's program loses to guests in its first second, and how long they stay.

use crate::bench::pause::start;
use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit, Running};
use crate::stage::{Farm, SOON, Stage, migrate};
use anyhow::{Context, Result, bail};
use armento_lab::Lab;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// About a second on a core of 2025: a period in which nodes send loads and decide.
const SPIN: &[&str] = &["600000000"];
/// Longer than guests may stay.
const STAYS: &[&str] = &["3000000000"];
/// Time until the owner counts as away, and smoothed loads have forgotten its work.
const FORGOTTEN: Duration = Duration::from_secs(8);
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Of the first second; a program that got its share only after it would have lost half of that.
const SLOWER: Bar = Bar::AtMost(1.05);
const GONE: Bar = Bar::AtMost(5.0);

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        owner_first: true,
        ..Farm::default()
    })?;
    let (mut beside, mut alone, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..stage.rounds(7, 2) {
        let guest = guest(stage, &lab)?;
        let owner = Running::start(stage.native(lab.node(2), "spin", SPIN))?;
        beside.extend(milliseconds(owner.finish(Limit::secs(SOON))?)?);
        drop(guest);
        sleep(FORGOTTEN);
        alone.extend(milliseconds(run::lines(
            stage.native(lab.node(2), "spin", SPIN),
            Limit::secs(SOON),
        )?)?);
        sleep(FORGOTTEN);
        gone.push(time_until_gone(stage, &lab)?);
        sleep(FORGOTTEN);
    }
    let side = |what: &str, unit, values| Samples {
        what: what.into(),
        unit,
        values,
    };
    rows.extend([
        Row::ratio(
            "owner",
            "first second beside a guest / alone",
            side("beside", "ms", beside),
            side("alone", "ms", alone),
            SLOWER,
        ),
        Row::alone("owner", "until guests are gone", side("gone", "s", gone)).barred(GONE),
    ]);
    lab.down()
}

fn milliseconds(lines: Vec<String>) -> Result<Vec<f64>> {
    let ms = |l: &String| Some(l.parse::<f64>().ok()? / 1e6);
    let all: Option<Vec<f64>> = lines.iter().map(ms).collect();
    all.with_context(|| format!("expected nanoseconds, not `{}`", lines.join(" / ")))
}

/// A program of n1 that computes on n2, killed on drop.
fn guest(stage: &Stage, lab: &Lab) -> Result<(Running, u32)> {
    let home = lab.node(1);
    let (guest, pid) = start(stage.armento(home, &[], "hold", &["1", "0", "spin"]))?;
    migrate(home, pid, "n2", Limit::secs(SOON))?;
    Ok((guest, pid))
}

/// Seconds from the owner's arrival until no guest is there.
fn time_until_gone(stage: &Stage, lab: &Lab) -> Result<f64> {
    let (_guest, pid) = guest(stage, lab)?;
    let came = Instant::now();
    let _owner = Running::start(stage.native(lab.node(2), "spin", STAYS))?;
    let limit = Limit::secs(SOON);
    while place(lab, pid)? != "n1" {
        if limit.is_over() {
            bail!("the guest is still there after {SOON} s");
        }
        sleep(CHECK_EVERY);
    }
    Ok(came.elapsed().as_secs_f64())
}

fn place(lab: &Lab, pid: u32) -> Result<String> {
    let mut c = lab.node(1).command("armento");
    c.args(["ps", "--json"]);
    let said = run::lines(c, Limit::secs(SOON))?.concat();
    let doc: serde_json::Value = serde_json::from_str(&said)?;
    let procs = doc["procs"].as_array().context("no processes in `ps`")?;
    let its = procs.iter().find(|p| p["pid"] == pid);
    let place = its.and_then(|p| p["place"].as_str());
    Ok(place.context("the guest is in no list")?.to_owned())
}
