//! Throughput of a move: the memory of a process over the whole time of its move, against a plain TCP receive into
//! fresh memory of the same page size between the same two nodes; on a shaped link against that link.
//!
//! The program sleeps, so that the move has a core of its own. The move is timed around `armento migrate`; its own
//! start (tens of milliseconds) is included. Both sides use memory that the machine already has (`Stage::warm`).

use crate::bench::pause::start;
use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit, Running};
use crate::stage::{Farm, SOON, Stage, migrate};
use anyhow::Result;
use armento_lab::{Lab, Link};

const PORT: &str = "7901";
const MOVE: u64 = 60;
const LINK: &str = "link of 1 Gbit";
/// Megabytes a second that 1 Gbit/s carries as TCP payload: 1448 bytes in each frame of 1538.
const GBIT: f64 = 125.0 * 1448.0 / 1538.0;

pub fn run(stage: &Stage, table: &mut Table) -> Result<()> {
    // The bars are requirements of the design.
    for (word, plain, least) in [("plain", true, 0.8), ("TLS", false, 0.5)] {
        let farm = Farm {
            plain,
            no_policy: true,
            ..Farm::default()
        };
        if !word.contains(&stage.only) {
            continue;
        }
        let lab = stage.farm(farm)?;
        for pages in [Pages::Small, Pages::Huge] {
            table.push(against_receive(stage, &lab, (word, pages), least)?);
        }
        lab.down()?;
    }
    if !LINK.contains(&stage.only) {
        return Ok(());
    }
    let lab = stage.farm(Farm {
        no_policy: true,
        link: Some(Link::Switch {
            bits: 1_000_000_000,
        }),
        ..Farm::default()
    })?;
    table.push(against_link(stage, &lab)?);
    lab.down()
}

fn side(what: &str, values: Vec<f64>) -> Samples {
    Samples {
        what: what.into(),
        unit: "MB/s",
        values,
    }
}

/// Page size of the program, and of the memory that it is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Small,
    Huge,
}

impl Pages {
    fn name(self) -> &'static str {
        match self {
            Pages::Small => "4 KiB pages",
            Pages::Huge => "huge pages",
        }
    }

    fn held(self) -> &'static str {
        match self {
            Pages::Small => "sleep",
            Pages::Huge => "huge",
        }
    }

    fn extra(self) -> &'static [&'static str] {
        match self {
            Pages::Small => &[],
            Pages::Huge => &["huge"],
        }
    }
}

fn against_receive(
    stage: &Stage,
    lab: &Lab,
    (word, pages): (&str, Pages),
    least: f64,
) -> Result<Row> {
    let mib: u64 = if stage.quick { 128 } else { 1024 };
    let (mut moves, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..stage.rounds(5, 2) {
        moves.push(moved(stage, lab, mib, pages)?);
        plain.push(received(stage, lab, mib, pages)?);
    }
    let what = format!("{mib} MiB, {}, {word} / plain receive", pages.name());
    let (moves, plain) = (side("move", moves), side("plain", plain));
    Ok(Row::ratio("bulk", what, moves, plain, Bar::AtLeast(least)))
}

fn against_link(stage: &Stage, lab: &Lab) -> Result<Row> {
    let mib: u64 = if stage.quick { 128 } else { 512 };
    let moves = (0..stage.rounds(3, 1)).map(|_| moved(stage, lab, mib, Pages::Small));
    let moves = side("move", moves.collect::<Result<_>>()?);
    let what = format!("{mib} MiB, TLS / {LINK}");
    let link = side("TCP payload", vec![GBIT]);
    Ok(Row::ratio("bulk", what, moves, link, Bar::AtLeast(0.95)))
}

fn moved(stage: &Stage, lab: &Lab, mib: u64, pages: Pages) -> Result<f64> {
    let home = lab.node(1);
    let size = mib.to_string();
    let hold = [&size, "0", pages.held()];
    // Killed on drop, at the end.
    let (_holder, pid) = start(stage.armento(home, &[], "hold", &hold))?;
    warm(stage, lab, mib, pages)?;
    let m = migrate(home, pid, "n2", Limit::secs(MOVE))?;
    Ok((mib << 20) as f64 * 1e3 / (m.end_ns - m.begin_ns) as f64)
}

fn received(stage: &Stage, lab: &Lab, mib: u64, pages: Pages) -> Result<f64> {
    let (home, away) = (lab.node(1), lab.node(2));
    let size = mib.to_string();
    // The sender's memory is as much again.
    warm(stage, lab, 2 * mib, pages)?;
    let receive = [&["receive", PORT, &size], pages.extra()].concat();
    let mut sink = Running::start(stage.native(away, "bulk", &receive))?;
    sink.line(Limit::secs(SOON))?;
    let send = stage.native(home, "bulk", &["send", &away.addr, PORT, &size]);
    run::lines(send, Limit::secs(MOVE))?;
    let ns: f64 = sink.line(Limit::secs(SOON))?.parse()?;
    Ok((mib << 20) as f64 * 1e3 / ns)
}

fn warm(stage: &Stage, lab: &Lab, mib: u64, pages: Pages) -> Result<()> {
    stage.warm(lab, mib, pages.extra())
}
