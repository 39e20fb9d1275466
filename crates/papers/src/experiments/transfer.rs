//! Latency and bandwidth between node 0 and each other.

use super::ranks::{TOOLS, compile, cores, fast_ethernet, in_lab, open_mpi, words};
use crate::chapter::{Cell, Chapter, Content, Line, Plot, Series, Table};
use crate::formula::Values;
use crate::published::table;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always};
use anyhow::{Context, Result};
use armento_mpi::{Ground, Host, Installed, Job, Program, Rate, Transfer, find_program, netpipe};
use serde_json::{Value, json};

/// Longest message, and the shortest time of a measurement at scale 1, seconds.
const LARGEST: u64 = 1 << 20;
const LEAST_S: f64 = 1.0;
/// Most nodes.
const NODES_MAX: usize = 16;
/// Sizes that are compared with NetPIPE.
const COMPARED: std::ops::RangeInclusive<u64> = 1024..=65_536;

pub static EXPERIMENT: Experiment = Experiment {
    id: "transfer",
    title: "Transfer: latency and bandwidth between two nodes",
    paper: "K",
    place: "point-to-point test (figures 3 to 5)",
    requirements: &["R-061"],
    shows: "Both directions at once carry most with messages of some 32 KB, and less with longer ones; all nodes are equally far.",
    emulation: "lab: nodes at full speed behind a switch of 100 Mbit/s with a queue of 40 frames a port, Open MPI over TCP; partners one after the other, where the machine has fewer processors than nodes each in a lab of its own, so that both ends have a processor; NetPIPE on the same link, where it is installed",
    on: On::Lab,
    nodes: 8,
    nodes_range: 2..=NODES_MAX,
    scale: 0.01,
    scale_range: 0.001..=1.0,
    minutes: 1.0,
    tools: TOOLS,
    relations: &["Q-22", "B-14"],
    fits: always,
    prepare: |_| compile(&[Program::Transfer]),
    runs,
    perform,
    derive,
    chapter,
};

fn runs(setting: &Setting) -> Vec<Run> {
    // One latency and 21 sizes in two ways, three times, and what it takes to find their number.
    let run = |i: usize| Run {
        name: i.to_string(),
        expect_s: 43.0 * 5.0 * LEAST_S * setting.scale + 2.0,
    };
    let mut all: Vec<Run> = (1..setting.nodes).map(run).collect();
    if find_program("NPopenmpi").is_some() {
        all.push(Run {
            name: "netpipe".into(),
            expect_s: 12.0,
        });
    }
    all
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let mpi = open_mpi()?;
    let least_s = LEAST_S * setting.scale;
    if run.name == "netpipe" {
        return in_lab(fast_ethernet("transfer", 2), |ground| {
            compare(ground, &mpi, least_s)
        });
    }
    let partner: usize = run.name.parse().context("a node")?;
    // Two processes that poll on one processor measure its scheduler.
    let nodes = if cores() < setting.nodes {
        2
    } else {
        partner + 1
    };
    in_lab(fast_ethernet("transfer", nodes), |ground| {
        let mut job = ground.job(
            &mpi,
            Program::Transfer,
            2,
            &words(&[LARGEST as f64, least_s]),
        )?;
        job.hosts = vec![Host::new("n1", 1), Host::new(format!("n{nodes}"), 1)];
        let t: Transfer = ground.run(&mpi, &job)?.json()?;
        let found = t.partners.first().context("a partner")?;
        let mut v = Values::default();
        v.set(format!("transfer.latency.{partner}"), found.latency_s * 1e6);
        for (word, rates) in [("one", &found.one), ("both", &found.both)] {
            for rate in rates {
                v.set(
                    format!("transfer.{word}.{}.{partner}", rate.bytes),
                    rate.mb_s,
                );
            }
        }
        Ok((v, json!(t)))
    })
}

/// Means over all nodes, the best of them, and the spread of the latency.
fn derive(v: &mut Values) {
    let all = |v: &Values, what: &str| -> Vec<f64> {
        (1..NODES_MAX)
            .filter_map(|i| v.get(&format!("{what}.{i}")))
            .collect()
    };
    let mut peak: Option<(f64, f64)> = None;
    for bytes in sizes() {
        for word in ["one", "both"] {
            let what = format!("transfer.{word}.{bytes}");
            let rates = all(v, &what);
            if rates.is_empty() {
                continue;
            }
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            v.set(what, mean);
            if word == "both" && peak.is_none_or(|(_, best)| mean > best) {
                peak = Some((bytes as f64, mean));
            }
        }
    }
    if let Some((bytes, mean)) = peak {
        v.set("transfer.both_peak", mean);
        v.set("transfer.both_peak_bytes", bytes);
    }
    let latency = all(v, "transfer.latency");
    let range = |f: fn(f64, f64) -> f64| latency.iter().copied().reduce(f);
    if let Some((least, most)) = range(f64::min).zip(range(f64::max)) {
        v.set("transfer.spread_pct", (most / least - 1.0) * 100.0);
    }
}

fn sizes() -> impl Iterator<Item = u64> {
    (0..).map(|i| 1u64 << i).take_while(|b| *b <= LARGEST)
}

/// NetPIPE and Transfer on the same two nodes, one right after the other.
fn compare(ground: &Ground, mpi: &Installed, least_s: f64) -> Result<(Values, Value)> {
    let longest = *COMPARED.end() as f64;
    let ours: Transfer = ground.measure(
        mpi,
        Program::Transfer,
        2,
        &words(&[longest, least_s.max(0.05)]),
    )?;
    let job = Job {
        program: armento_mpi::need("NPopenmpi", "netpipe-openmpi")?,
        args: ["-u", &longest.to_string(), "-p", "0", "-o", "/tmp/netpipe"]
            .map(str::to_owned)
            .to_vec(),
        np: 2,
        hosts: ground.first(2),
        limit_s: 120.0,
        ..Job::default()
    };
    let said = ground.run(mpi, &job)?;
    // NetPIPE prints its lines to standard error.
    let theirs = netpipe(&(said.stdout + &said.stderr));
    let mut v = Values::default();
    let rate = |all: &[Rate], bytes: u64| all.iter().find(|r| r.bytes == bytes).map(|r| r.mb_s);
    let one = ours.partners.first().map_or(&[][..], |p| &p.one);
    for bytes in ours.sizes() {
        if let Some((a, b)) = rate(one, bytes).zip(rate(&theirs, bytes)) {
            v.set(format!("netpipe.{bytes}.ours"), a);
            v.set(format!("netpipe.{bytes}.netpipe"), b);
            if COMPARED.contains(&bytes) {
                v.set(format!("netpipe.{bytes}.ratio"), a / b);
            }
        }
    }
    Ok((v, json!({ "transfer": ours, "netpipe": theirs })))
}

fn chapter(found: &Found) -> Chapter {
    let mut facts = Table::new(
        "What the paper prints",
        &["quantity", "published", "measured"],
    );
    let printed = table("teaching-cluster/transfer.csv").ok();
    let peak = found.value("transfer.both_peak_bytes");
    facts.rows.push(vec![
        Cell::label("best bandwidth, both directions, MB/s"),
        Cell::published(
            printed
                .as_ref()
                .and_then(|t| t.find(&[("quantity", "best bandwidth")])),
            "value",
        ),
        Cell::measured(found.mean("transfer.both_peak"), 2),
    ]);
    facts.rows.push(vec![
        Cell::label("at messages of so many KiB"),
        Cell::recomputed(32.0, 0),
        peak.map_or_else(Cell::unrun, |b| Cell::recomputed(b / 1024.0, 0)),
    ]);
    facts.rows.push(vec![
        Cell::label("spread of the latency over all partners, %, below"),
        Cell::published(printed.as_ref().and_then(|t| t.rows().next()), "value"),
        Cell::measured(found.mean("transfer.spread_pct"), 1),
    ]);
    let mut latency = Table::new("Latency to each node", &["node", "µs"]);
    let nodes = found.results.map_or(8, |r| r.setting.nodes);
    for i in 1..nodes {
        latency.rows.push(vec![
            Cell::label(i.to_string()),
            Cell::measured(found.mean(&format!("transfer.latency.{i}")), 1),
        ]);
    }
    let mut rates = Table::new(
        "Bandwidth, mean of all nodes, MB/s, and NetPIPE on the same link",
        &[
            "bytes",
            "one way",
            "both ways",
            "one way beside NetPIPE",
            "NetPIPE",
            "over NetPIPE",
        ],
    );
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for bytes in sizes() {
        let one = found.mean(&format!("transfer.one.{bytes}"));
        let both = found.mean(&format!("transfer.both.{bytes}"));
        let theirs = found.mean(&format!("netpipe.{bytes}.netpipe"));
        let beside = found.mean(&format!("netpipe.{bytes}.ours"));
        let ratio = found.value(&format!("netpipe.{bytes}.ratio"));
        rates.rows.push(vec![
            Cell::label(bytes.to_string()),
            Cell::measured(one, 2),
            Cell::measured(both, 2),
            beside.map_or_else(Cell::unprinted, |m| Cell::measured(Some(m), 2)),
            theirs.map_or_else(Cell::unprinted, |m| Cell::measured(Some(m), 2)),
            ratio.map_or_else(Cell::unprinted, |r| Cell::recomputed(r, 3)),
        ]);
        for (line, m) in lines.iter_mut().zip([one, both, theirs]) {
            line.extend(m.map(|m| ((bytes as f64).log2(), m.mean)));
        }
    }
    let [one, both, theirs] = lines;
    let series = |name: &str, line, points| Series {
        name: name.to_owned(),
        line,
        points,
    };
    Chapter {
        tables: vec![facts, latency, rates],
        plots: vec![Plot {
            title: "Bandwidth over message size".into(),
            x: "log2 of bytes".into(),
            y: "MB/s".into(),
            content: Content::Lines(vec![
                series("one way", Line::Joined, one),
                series("both ways", Line::Joined, both),
                series("NetPIPE, one way", Line::Thin, theirs),
                series("published, both ways", Line::Points, vec![(15.0, 8.2)]),
            ]),
        }],
        notes: vec![
            "MB are 10^6 bytes; the paper's own unit is wrong (E-46). It explains the fall above 32 KB by collisions, which a full-duplex \
             switch does not have (E-42); here the port's queue overflows when both ends send long messages, and TCP waits."
                .into(),
            "A lab's switch lets two frames pass at once before its rate holds, so that messages of up to some 3 KB go and come faster than \
             the rate; NetPIPE shows the same."
                .into(),
            "All links of a lab are alike, so that the spread of the latency is that of the measurement: other work on the machine \
             moves single values by half, and Q-22 and B-14 need an idle one."
                .into(),
        ],
    }
}
