//! Time of MPI's operations, with every result checked.

use super::ranks::{TOOLS, compile, fast_ethernet, in_lab, open_mpi, patiently, scaled, words};
use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::formula::Values;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, as_is};
use anyhow::Result;
use armento_mpi::{Mpitest, Program};
use serde_json::{Value, json};

/// PAPER(K, Mpitest): repeats of short and of long operations.
const FAST: f64 = 100_000.0;
const SLOW: f64 = 100.0;
/// Repeats of long operations at the least: a mean needs some.
const SLOW_MIN: f64 = 20.0;

pub static EXPERIMENT: Experiment = Experiment {
    id: "mpitest",
    title: "Mpitest: time of MPI operations",
    paper: "K",
    place: "test of operations",
    requirements: &["R-063"],
    shows: "An operation that crosses the network takes tens of microseconds and more; only those that do not take less than one.",
    emulation: "lab: eight nodes at full speed behind a switch of 100 Mbit/s, Open MPI over TCP; the operations are ours, since the paper names classes only",
    on: On::Lab,
    nodes: 8,
    nodes_range: 2..=16,
    scale: 0.02,
    scale_range: 0.001..=1.0,
    minutes: 0.4,
    tools: TOOLS,
    relations: &["B-17"],
    fits: always,
    prepare: |_| compile(&[Program::Mpitest]),
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// Names by which values are kept.
const FAST_NAMES: [&str; 3] = ["MPI_Barrier", "empty ping-pong", "MPI_Wtime"];
const LENGTHS: [u64; 3] = [1, 10, 100];
const SLOW_NAMES: [&str; 12] = [
    "MPI_Send/MPI_Recv",
    "MPI_Sendrecv",
    "MPI_Isend/MPI_Irecv/MPI_Wait",
    "MPI_Bcast",
    "MPI_Scatter",
    "MPI_Gather",
    "MPI_Allgather",
    "MPI_Alltoall",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Reduce_scatter",
    "MPI_Scan",
];

fn runs(setting: &Setting) -> Vec<Run> {
    vec![Run {
        name: "all".into(),
        // Measured: a barrier of eight processes on two cores takes a millisecond.
        expect_s: 3.0
            + FAST * setting.scale * 0.002
            + 36.0 * SLOW_MIN.max(SLOW * setting.scale) * 0.003,
    }]
}

/// Letters, digits and underscores of a name.
fn key(name: &str, integers: u64) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).collect();
    format!("mpitest.{name}.{integers}")
}

fn perform(_: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let mpi = open_mpi()?;
    in_lab(fast_ethernet("mpitest", setting.nodes), |ground| {
        let repeats = [scaled(FAST, setting), scaled(SLOW, setting).max(SLOW_MIN)];
        let m: Mpitest = patiently(
            ground,
            &mpi,
            Program::Mpitest,
            setting.nodes,
            &words(&repeats),
        )?;
        let mut v = Values::default();
        for o in &m.operations {
            v.set(key(&o.name, o.integers), o.s * 1e6);
            v.set(
                format!("{}.operation", key(&o.name, o.integers)),
                o.operation_s * 1e6,
            );
        }
        v.set("mpitest.checked", m.checked as f64);
        Ok((v, json!(m)))
    })
}

fn chapter(found: &Found) -> Chapter {
    let mut fast = Table::new(
        "Short operations, µs: published is the bound for all",
        &[
            "operation",
            "published below",
            "operation",
            "with synchronisation",
        ],
    );
    let published = || Cell {
        erratum: Some("E-41"),
        ..Cell::recomputed(1.0, 0)
    };
    for name in FAST_NAMES {
        fast.rows.push(vec![
            Cell::label(name),
            published(),
            Cell::measured(found.mean(&format!("{}.operation", key(name, 0))), 3),
            Cell::measured(found.mean(&key(name, 0)), 3),
        ]);
    }
    let mut slow = Table::new(
        "Long operations with the synchronisation after each, µs, by the number of integers",
        &["operation", "published below", "1", "10", "100"],
    );
    let mut bars = Vec::new();
    for name in SLOW_NAMES {
        let mut row = vec![Cell::label(name), published()];
        for n in LENGTHS {
            row.push(Cell::measured(found.mean(&key(name, n)), 0));
        }
        slow.rows.push(row);
        bars.extend(
            found
                .value(&format!("{}.operation", key(name, 100)))
                .map(|value| Bar {
                    label: name.to_owned(),
                    value,
                    series: 0,
                }),
        );
    }
    Chapter {
        tables: vec![fast, slow],
        plots: vec![Plot {
            title: "Operations on 100 integers, without the synchronisation".into(),
            x: "µs".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "The paper says that no operation took more than a microsecond, which no message over Fast Ethernet can (E-41); a millisecond would \
             be credible."
                .into(),
            match found.value("mpitest.checked") {
                Some(n) => format!("{n:.0} results were checked on all nodes, and all were right."),
                None => "Each result is checked on each node; a wrong one ends the run.".into(),
            },
        ],
    }
}
