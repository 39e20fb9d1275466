//! Throughput of a network in logical topologies.

use super::ranks::{TOOLS, compile, fast_ethernet, in_lab, open_mpi, words};
use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::formula::Values;
use crate::published::table;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, as_is};
use anyhow::{Context, Result};
use armento_mpi::{Nettest, Program};
use serde_json::{Value, json};

/// Shortest time of a measurement at scale 1, seconds.
const LEAST_S: f64 = 10.0;
/// Messages that fit into the queue of a port when all others send, and messages of the paper's best size that do not.
const SIZES: [u64; 2] = [4096, 32_768];
const LABELS: [&str; 6] = ["Star", "Star2", "Ring", "Ring2", "Chaos", "Chaos2"];

pub static EXPERIMENT: Experiment = Experiment {
    id: "nettest",
    title: "Nettest: star, ring and complete graph, one way and both",
    paper: "K",
    place: "network test (figure 6)",
    requirements: &["R-062"],
    shows: "A star is as slow as its centre's link; with all pairs at once the switch carries most.",
    emulation: "lab: eight nodes behind a switch of 100 Mbit/s with a queue of 40 frames a port, Open MPI over TCP, every message checked; a channel's bytes go there and back",
    on: On::Lab,
    nodes: 8,
    nodes_range: 3..=16,
    scale: 0.1,
    scale_range: 0.01..=10.0,
    minutes: 0.4,
    tools: TOOLS,
    relations: &["Q-23", "B-15", "B-16"],
    fits: always,
    prepare: |_| compile(&[Program::Nettest]),
    runs,
    perform,
    derive: as_is,
    chapter,
};

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |bytes: u64| Run {
        name: bytes.to_string(),
        expect_s: LEAST_S * setting.scale * 12.0 + 4.0,
    };
    SIZES.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let mpi = open_mpi()?;
    let bytes: u64 = run.name.parse().context("a size")?;
    let mut measured = in_lab(fast_ethernet("nettest", setting.nodes), |ground| {
        let before: u64 = ground.traffic()?.iter().map(|t| t.sent).sum();
        let args = words(&[bytes as f64, LEAST_S * setting.scale]);
        let n: Nettest = ground.measure(&mpi, Program::Nettest, setting.nodes, &args)?;
        let after: u64 = ground.traffic()?.iter().map(|t| t.sent).sum();
        let mut v = Values::default();
        for label in LABELS {
            if let Some(rate) = n.get(label) {
                v.set(format!("nettest.{}.{bytes}", label.to_lowercase()), rate);
            }
        }
        let share = (after - before) as f64 / n.message_bytes() as f64;
        v.set(format!("nettest.bytes.{bytes}"), share);
        Ok((v, json!(n)))
    })?;
    if bytes == SIZES[0] {
        for label in LABELS {
            let label = label.to_lowercase();
            if let Some(rate) = measured.values.get(&format!("nettest.{label}.{bytes}")) {
                measured.values.set(format!("nettest.{label}"), rate);
            }
        }
    }
    Ok(measured)
}

fn chapter(found: &Found) -> Chapter {
    let printed = table("teaching-cluster/nettest.csv").ok();
    let mut all = Table::new(
        "Throughput, MB/s, by the size of the messages",
        &[
            "topology",
            "channels of eight",
            "published",
            "rank published",
            "4 KiB",
            "32 KiB",
        ],
    );
    let mut bars = Vec::new();
    for label in LABELS {
        let row = printed.as_ref().and_then(|t| t.find(&[("label", label)]));
        let get = |bytes: u64| found.mean(&format!("nettest.{}.{bytes}", label.to_lowercase()));
        let [small, large] = SIZES.map(get);
        all.rows.push(vec![
            Cell::label(label),
            Cell::published(row, "channels_8_recomputed"),
            Cell::published(row, "published_mb_s"),
            Cell::label(row.and_then(|r| r.text("published_rank")).unwrap_or("")),
            Cell::measured(small, 1),
            Cell::measured(large, 1),
        ]);
        for (m, size, series) in [(small, "4 KiB", 0), (large, "32 KiB", 1)] {
            bars.extend(m.map(|m| Bar {
                label: format!("{label}, {size}"),
                value: m.mean,
                series,
            }));
        }
    }
    let mut bytes = Table::new(
        "Bytes that all nodes have sent, over the bytes of the messages",
        &["message bytes", "ratio"],
    );
    for size in SIZES {
        bytes.rows.push(vec![
            Cell::label(size.to_string()),
            Cell::measured(found.mean(&format!("nettest.bytes.{size}")), 3),
        ]);
    }
    Chapter {
        tables: vec![all, bytes],
        plots: vec![Plot {
            title: "Throughput of topologies".into(),
            x: "MB/s".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "The paper prints one value and names no message size. With 4 KiB all messages of a round fit into a port's queue of 40 frames; with \
             32 KiB seven senders of a star or a complete graph overflow it, and TCP waits for its timer: the star then carries a tenth. The \
             paper's switch had a larger buffer."
                .into(),
        ],
    }
}
