//! Reference measurements without bars: the same machine in the same run without Armento or without pre-copy. A gap of
//! a program may be the machine's: the gaps beside a plain transfer are reported.

use crate::bench::others;
use crate::bench::pause::{gaps, longest, start};
use crate::row::{Row, Samples, Table};
use crate::run::{self, Limit, Running};
use crate::stage::{Farm, SOON, Stage, migrate};
use crate::sys;
use anyhow::{Context, Result};
use armento_lab::Lab;
use std::path::Path;

const PORT: &str = "7902";
const MOVE: u64 = 120;
const SSHD: &str = "/usr/sbin/sshd";
const SSH_PORT: &str = "7903";

pub fn run(stage: &Stage, table: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        ..Farm::default()
    })?;
    let sizes: &[u64] = if stage.quick { &[128] } else { &[1024, 4096] };
    for mib in sizes {
        transfers(stage, &lab, *mib, table)?;
        table.push(stop_copy(stage, &lab, *mib)?);
    }
    match ssh(stage, &lab) {
        Ok(Some(row)) => table.push(row),
        // ssh is not installed.
        Ok(None) => {}
        Err(e) => table.push(Row::failed("beside", &format!("ssh: {e:#}"))),
    }
    others::run(stage, &lab, table);
    lab.down()
}

fn alone(what: String, one: &str, unit: &'static str, values: Vec<f64>) -> Row {
    let side = Samples {
        what: one.into(),
        unit,
        values,
    };
    Row::alone("beside", what, side)
}

/// Plain TCP beside a computing program on the sending node, as during a move out.
fn transfers(stage: &Stage, lab: &Lab, mib: u64, table: &mut Table) -> Result<()> {
    for (mode, memory) in [("drain", "one buffer"), ("receive", "fresh memory")] {
        let (mut rates, mut longests) = (Vec::new(), Vec::new());
        for _ in 0..stage.rounds(3, 1) {
            let (rate, gap) = transfer(stage, lab, mib, mode)?;
            rates.push(rate);
            longests.push(gap);
        }
        let what = |of: &str| format!("{mib} MiB of plain TCP into {memory}: {of}");
        table.push(alone(what("rate"), "rate", "MB/s", rates));
        let what = what("longest gap of a program beside it");
        table.push(alone(what, "longest", "ms", longests));
    }
    Ok(())
}

/// The rate of the transfer, and the longest gap.
fn transfer(stage: &Stage, lab: &Lab, mib: u64, mode: &str) -> Result<(f64, f64)> {
    let (home, away) = (lab.node(1), lab.node(2));
    let (holder, _) = start(stage.native(home, "hold", &["64", "0", "spin"]))?;
    let size = mib.to_string();
    stage.warm(lab, mib, &[])?;
    let mut sink = Running::start(stage.native(away, "bulk", &[mode, PORT, &size]))?;
    sink.line(Limit::secs(SOON))?;
    let send = stage.native(home, "bulk", &["send", &away.addr, PORT, &size]);
    run::lines(send, Limit::secs(MOVE))?;
    let ns: f64 = sink.line(Limit::secs(SOON))?.parse()?;
    let end = sys::now_ns();
    let seen = longest(&gaps(holder)?, end.saturating_sub(ns as u64), end);
    Ok(((mib << 20) as f64 * 1e3 / ns, seen.1 as f64 / 1e6))
}

fn stop_copy(stage: &Stage, lab: &Lab, mib: u64) -> Result<Row> {
    let home = lab.node(1);
    let size = mib.to_string();
    let mut pauses = Vec::new();
    for _ in 0..stage.rounds(3, 1) {
        let mut c = stage.armento(home, &[], "hold", &[&size, "0", "sleep"]);
        c.env("ARMENTO_STOPCOPY", "1");
        let (_holder, pid) = start(c)?;
        stage.warm(lab, mib, &[])?;
        pauses.push(migrate(home, pid, "n2", Limit::secs(MOVE))?.pause_ms);
    }
    Ok(alone(
        format!("{mib} MiB, stop-copy, out: pause"),
        "pause",
        "ms",
        pauses,
    ))
}

/// The duration of `ssh n2 true`, with keys of its own. `None`: there is no sshd.
fn ssh(stage: &Stage, lab: &Lab) -> Result<Option<Row>> {
    if !Path::new(SSHD).exists() {
        return Ok(None);
    }
    let (home, away) = (lab.node(1), lab.node(2));
    // Nodes have a /tmp of their own, which ends with them.
    let keys = "ssh-keygen -q -t ed25519 -N '' -f /tmp/key && cat /tmp/key.pub";
    let mut c = home.command("sh");
    c.args(["-c", keys]);
    let public = run::lines(c, Limit::secs(SOON))?.concat();
    let serve = format!(
        "mkdir -p /run/sshd /tmp/ssh && ssh-keygen -q -t ed25519 -N '' -f /tmp/ssh/host && echo '{public}' >/tmp/ssh/known && \
         chmod 700 /tmp/ssh && exec {SSHD} -D -e -p {SSH_PORT} -h /tmp/ssh/host -o StrictModes=no -o UsePAM=no \
         -o PidFile=none -o AuthorizedKeysFile=/tmp/ssh/known"
    );
    let mut c = away.command("sh");
    c.args(["-c", &serve]);
    let mut door = Running::start(c)?;
    door.line(Limit::secs(SOON)).context("sshd")?;
    let mut took = Vec::new();
    for _ in 0..stage.rounds(7, 3) {
        let mut c = home.command("ssh");
        c.args(["-i", "/tmp/key", "-p", SSH_PORT]);
        c.args([
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ]);
        c.args(["-o", "LogLevel=ERROR", &away.addr, "true"]);
        let begun = sys::now_ns();
        run::lines(c, Limit::secs(SOON))?;
        took.push((sys::now_ns() - begun) as f64 / 1e6);
    }
    Ok(Some(alone("`ssh n2 true`".into(), "took", "ms", took)))
}
