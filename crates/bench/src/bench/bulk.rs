//! How fast memory moves: bytes of a move over its whole time, against a plain TCP receive into
//! fresh memory of the same page size between the same two nodes.
//!
//! The program sleeps, so that the mover has its core to itself. The move is timed around
//! `armento migrate`, whose own start (tens of milliseconds) counts against us.

use crate::bench::pause::start;
use crate::row::{Bar, Row, Samples};
use crate::run::{self, Limit, Running};
use crate::stage::{Farm, SOON, Stage, migrate};
use anyhow::Result;
use armento_lab::Lab;

const BAR: Bar = Bar::AtLeast(0.6);
const PORT: &str = "7901";
const MOVE: u64 = 60;

pub fn run(stage: &Stage, rows: &mut Vec<Row>) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        ..Farm::default()
    })?;
    let mib: u64 = if stage.quick { 128 } else { 1024 };
    let (mut moves, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..stage.rounds(3, 2) {
        if stage.limit.is_over() {
            break;
        }
        moves.push(moved(stage, &lab, mib)?);
        plain.push(received(stage, &lab, mib)?);
    }
    let side = |what: &str, values| Samples {
        what: what.into(),
        unit: "MB/s",
        values,
    };
    rows.push(Row::ratio(
        "bulk",
        format!("move of {mib} MiB / plain receive"),
        side("move", moves),
        side("plain", plain),
        BAR,
    ));
    lab.down()
}

fn moved(stage: &Stage, lab: &Lab, mib: u64) -> Result<f64> {
    let home = lab.node(1);
    let size = mib.to_string();
    // Dropped at the end, and with that killed.
    let (_holder, pid) = start(stage.armento(home, &[], "hold", &[&size, "0", "sleep"]))?;
    let m = migrate(home, pid, "n2", Limit::secs(MOVE))?;
    Ok(m.bytes * 1e3 / (m.end_ns - m.begin_ns) as f64)
}

fn received(stage: &Stage, lab: &Lab, mib: u64) -> Result<f64> {
    let (home, away) = (lab.node(1), lab.node(2));
    let size = mib.to_string();
    let mut sink = Running::start(stage.native(away, "bulk", &["receive", PORT, &size]))?;
    sink.line(Limit::secs(SOON))?;
    let send = stage.native(home, "bulk", &["send", &away.addr, PORT, &size]);
    run::lines(send, Limit::secs(MOVE))?;
    let ns: f64 = sink.line(Limit::secs(SOON))?.parse()?;
    Ok((mib << 20) as f64 * 1e3 / ns)
}
