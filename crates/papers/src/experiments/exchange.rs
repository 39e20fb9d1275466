//! Neighbour exchange on a shared hub: sockets on a farm against messages of PVM.

use super::play::{farm_fits, share};
use crate::chapter::{Cell, Chapter, Content, Line, Plot, Series, Table};
use crate::exchange::{By, Seen, Shape, Size, install, measure};
use crate::hosts::Hosts;
use crate::published::{table, values};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use anyhow::{Result, anyhow};
use armento_lab::{Lab, Link, Spec, pvm};
use serde_json::{Value, json};

/// PAPER(M, communication-bound): sizes of messages, KB, numbers of processes, cycles.
const SIZES_KB: [u32; 4] = [1, 16, 64, 256];
const NUMBERS: [usize; 4] = [4, 8, 12, 16];
const CYCLES: f64 = 60.0;
/// PAPER(M): Ethernet.
const HUB_BIT_S: u64 = 10_000_000;
/// The largest messages of pipes: all bytes cross the medium twice, and the pipes of one home hold 64 KiB each.
const PIPES_KB_MAX: u32 = 16;
/// Processes that exchange over pipes.
const PIPES_N: usize = 4;

pub static EXPERIMENT: Experiment = Experiment {
    id: "exchange",
    title: "Messages between neighbours on a shared hub",
    paper: "M",
    place: "communication-bound processes",
    requirements: &["R-057"],
    shows: "Processes that talk straight to each other lose less to the network than those whose messages pass the daemons of PVM, the more so the more processes there are.",
    emulation: "lab: 16 nodes on a hub of 10 Mbit/s, without collisions; `mosix` are processes under `armento run`, one on each node, over TCP; PVM's messages take its usual route; fewer cycles for larger messages, times are those of 60 and of the process that took longest; pipes join processes of one home, each on another node. The paper does not say whether its neighbours were a ring or a chain: the table has a ring, and a chain for the most processes",
    on: On::Lab,
    nodes: 16,
    nodes_range: 4..=16,
    scale: 0.01,
    scale_range: 0.005..=1.0,
    minutes: 2.5,
    tools: &[
        Tool {
            program: "cc",
            package: "gcc libc6-dev",
        },
        Tool {
            program: "pvm",
            package: "pvm pvm-dev",
        },
        Tool {
            program: "ip",
            package: "iproute2",
        },
    ],
    relations: &["Q-15", "Q-16"],
    fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// Name of the run and its values.
const RUNS: [(&str, By); 3] = [
    ("mosix", By::Sockets { under: true }),
    ("pvm", By::Pvm),
    ("pipes", By::Pipes),
];

fn fits(setting: &Setting) -> Result<()> {
    pvm::check()?;
    farm_fits(setting)
}

/// As many cycles of smaller messages as take as long, up to all.
fn sizes(scale: f64, kb_max: u32) -> Vec<Size> {
    let largest = f64::from(SIZES_KB[3]);
    let size = |kb: &u32| {
        let cycles = CYCLES * scale * largest / f64::from(*kb);
        Size {
            kb: *kb,
            cycles: cycles.round().clamp(1.0, CYCLES) as u32,
        }
    };
    SIZES_KB
        .iter()
        .filter(|kb| **kb <= kb_max)
        .map(size)
        .collect()
}

/// Processes, shape, and the largest message of each measurement.
fn parts(by: By, nodes: usize) -> Vec<(usize, Shape, u32)> {
    if by == By::Pipes {
        return vec![(PIPES_N, Shape::Ring, PIPES_KB_MAX)];
    }
    let numbers: Vec<usize> = NUMBERS.into_iter().filter(|n| *n <= nodes).collect();
    let most = numbers.last().copied().unwrap_or(nodes);
    let rings = numbers.into_iter().map(|n| (n, Shape::Ring, SIZES_KB[3]));
    rings.chain([(most, Shape::Chain, SIZES_KB[3])]).collect()
}

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(name, by): (&str, By)| {
        let seconds = |(n, shape, kb): (usize, Shape, u32)| {
            let bytes = |s: &Size| f64::from(s.kb * s.cycles) * 1024.0;
            let bytes: f64 = sizes(setting.scale, kb).iter().map(bytes).sum();
            bytes * shape.messages(n) as f64 * 8.0 / HUB_BIT_S as f64
        };
        let all: f64 = parts(by, setting.nodes).into_iter().map(seconds).sum();
        Run {
            name: name.to_owned(),
            expect_s: all * 1.2 + 25.0,
        }
    };
    RUNS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let by = RUNS.iter().find(|(name, _)| *name == run.name);
    let (name, by) = by.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let parts = parts(*by, setting.nodes);
    let nodes = match by {
        By::Pipes => PIPES_N,
        _ => setting.nodes,
    };
    let lab = Lab::up(Spec {
        name: format!("exchange-{}", std::process::id()),
        nodes,
        speeds: vec![share(setting.nodes)],
        link: Link::Hub { bits: HUB_BIT_S },
        farm: *by != By::Pvm,
        ..Spec::default()
    })?;
    let exchanged = exchange(&lab, *by, &parts, setting.scale);
    let (lost, traffic) = (lab.lost(), lab.traffic());
    lab.down()?;
    if !lost.is_empty() {
        return Ok(Measured {
            problem: Some(format!("nodes were lost: {}", lost.join(", "))),
            ..Measured::default()
        });
    }
    let all = exchanged?;
    let mut measured = Measured {
        raw: json!(
            all.iter()
                .map(|(n, shape, seen)| json!({ "n": n, "shape": shape.word(), "seen": seen }))
                .collect::<Vec<_>>()
        ),
        traffic: traffic?,
        ..Measured::default()
    };
    for (n, shape, seen) in &all {
        for s in seen {
            let way = match shape {
                Shape::Ring => (*name).to_owned(),
                Shape::Chain => format!("chain_{name}"),
            };
            measured.values.set(
                format!("exchange.{}.{n}.{way}", s.kb),
                s.talked_s * CYCLES / f64::from(s.cycles),
            );
        }
    }
    Ok(measured)
}

type Part = (usize, Shape, Vec<Seen>);

fn exchange(lab: &Lab, by: By, parts: &[(usize, Shape, u32)], scale: f64) -> Result<Vec<Part>> {
    let hosts = Hosts::of(lab)?;
    if by == By::Pvm {
        pvm::start(lab)?;
    }
    install(&hosts, by, lab.nodes().len())?;
    let one = |&(n, shape, kb): &(usize, Shape, u32)| {
        let seen = measure(&hosts, by, shape, n, &sizes(scale, kb))?;
        Ok((n, shape, seen))
    };
    parts.iter().map(one).collect()
}

fn chapter(found: &Found) -> Chapter {
    let printed = table("mosix-farm/comm-bound.csv").ok();
    let mut all = Table::new(
        "Net communication time of 60 cycles, seconds",
        &[
            "KB",
            "N",
            "MOSIX published",
            "`armento`, sockets",
            "PVM published",
            "PVM",
            "PVM over MOSIX published",
            "PVM over `armento`",
            "Mbit/s of `armento`",
            "chain, `armento`",
            "chain, PVM",
            "pipes of one home",
        ],
    );
    for kb in SIZES_KB {
        for n in NUMBERS {
            let place = [("message_kb", kb.to_string()), ("n", n.to_string())];
            let place = place.each_ref().map(|(c, v)| (*c, &**v));
            let row = printed.as_ref().and_then(|t| t.find(&place));
            let get = |name: &str| found.mean(&format!("exchange.{kb}.{n}.{name}"));
            let seconds = |name: &str| Cell::measured(get(name), 2);
            let number = |column: &str| row.and_then(|r| r.number(column));
            let theirs = number("pvm_s").zip(number("mosix_s")).map(|(p, m)| p / m);
            let ours = get("pvm").zip(get("mosix")).map(|(p, m)| p.mean / m.mean);
            let bits = (Shape::Ring.messages(n) * 8 * 1024) as f64 * f64::from(kb) * CYCLES;
            let rate = get("mosix").map(|m| bits / m.mean / 1e6);
            let shown = |v: Option<f64>| v.map_or_else(Cell::unrun, |v| Cell::recomputed(v, 2));
            // Not all cells have a chain or pipes.
            let beside = |name: &str| match get(name) {
                None => Cell::unprinted(),
                some => Cell::measured(some, 2),
            };
            all.rows.push(vec![
                Cell::label(kb.to_string()),
                Cell::label(n.to_string()),
                Cell::published(row, "mosix_s"),
                seconds("mosix"),
                Cell::published(row, "pvm_s"),
                seconds("pvm"),
                theirs.map_or_else(Cell::unprinted, |v| Cell::recomputed(v, 2)),
                shown(ours),
                shown(rate),
                beside("chain_mosix"),
                beside("chain_pvm"),
                beside("pipes"),
            ]);
        }
    }
    let series = |name: String, line: Line, ratio: &dyn Fn(usize) -> Option<f64>| Series {
        name,
        line,
        points: NUMBERS
            .iter()
            .filter_map(|n| Some((*n as f64, ratio(*n)?)))
            .collect(),
    };
    let mut lines = Vec::new();
    for kb in SIZES_KB {
        let of = |name: &str, n: usize| format!("exchange.{kb}.{n}.{name}");
        let ours = |n: usize| Some(found.value(&of("pvm", n))? / found.value(&of("mosix", n))?);
        let theirs = |n: usize| Some(values().get(&of("pvm", n))? / values().get(&of("mosix", n))?);
        lines.push(series(format!("{kb} KB"), Line::Joined, &ours));
        lines.push(series(format!("{kb} KB, published"), Line::Points, &theirs));
    }
    lines.retain(|s| !s.points.is_empty());
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "PVM over MOSIX".into(),
            x: "processes".into(),
            y: "ratio of communication times".into(),
            content: Content::Lines(lines),
        }],
        notes: vec![
            "Four published values are above what TCP carries on such a medium, if all neighbours form a ring (E-33); an open chain \
             has two messages less in each cycle."
                .into(),
            "Q-16 fails where PVM/MOSIX does not rise with N. Here TCP nearly fills the hub from four processes on (column Mbit/s; 9.1 is \
             what it carries), and PVM leaves it half idle with few processes, presumably as a pvmd has few packets under way to a host \
             that are not acknowledged: PVM loses most there, and the ratio falls. The paper's MOSIX reached 6.8 Mbit/s with four \
             processes and 256 KB, and 10 with sixteen (E-33), on a medium with collisions, which this hub has not. With one or two \
             cycles (`--scale` below 0.02), what processes wait for the last one to begin counts sixty times in the largest messages."
                .into(),
            "Between processes of one home every byte goes to the home and on from there: twice over the medium.".into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_messages_have_all_cycles() {
        let cycles =
            |scale: f64| -> Vec<u32> { sizes(scale, 256).iter().map(|s| s.cycles).collect() };
        assert_eq!(cycles(1.0), [60; 4]);
        assert_eq!(cycles(0.01), [60, 10, 2, 1]);
        assert_eq!(parts(By::Pvm, 12).len(), 4);
        assert_eq!(parts(By::Pvm, 16)[4], (16, Shape::Chain, 256));
    }
}
