//! Results as tables.

use crate::chapter::{Cell, Table};
use crate::exchange::{Seen, Shape};
use armento_mpi::{Blas, Flops, Hpl, Mpitest, Nettest, Nfstest, Transfer};

/// A measured value.
fn value(value: f64, decimals: usize) -> Cell {
    Cell::recomputed(value, decimals)
}

pub fn flops(all: &[Flops]) -> Vec<Table> {
    let mut t = Table::new(
        "flops",
        &[
            "processes",
            "s",
            "MFLOPS",
            "efficiency %",
            "lowest node",
            "highest node",
        ],
    );
    let one = all.first().map_or(1.0, |f| f.mflops);
    for f in all {
        let nodes = || f.nodes.iter().copied();
        t.rows.push(vec![
            Cell::label(f.np.to_string()),
            value(f.s, 3),
            value(f.mflops, 0),
            value(f.mflops / one / f.np as f64 * 100.0, 1),
            value(nodes().fold(f64::INFINITY, f64::min), 0),
            value(nodes().fold(0.0, f64::max), 0),
        ]);
    }
    vec![t]
}

pub fn transfer(all: &Transfer) -> Vec<Table> {
    let mut latency = Table::new("latency", &["process", "µs"]);
    for p in &all.partners {
        latency.rows.push(vec![
            Cell::label(p.rank.to_string()),
            value(p.latency_s * 1e6, 1),
        ]);
    }
    let mut rates = Table::new("bandwidth, MB/s", &["bytes", "one way", "both ways"]);
    for bytes in all.sizes() {
        let get = |both| {
            all.mean(both, bytes)
                .map_or_else(Cell::unrun, |r| value(r, 2))
        };
        rates
            .rows
            .push(vec![Cell::label(bytes.to_string()), get(false), get(true)]);
    }
    vec![latency, rates]
}

pub fn nettest(all: &Nettest) -> Vec<Table> {
    let title = format!("messages of {} bytes, {} processes", all.bytes, all.np);
    let mut t = Table::new(title, &["topology", "channels", "repeats", "MB/s"]);
    for k in &all.topologies {
        t.rows.push(vec![
            Cell::label(&*k.label),
            value(k.channels as f64, 0),
            value(k.repeats as f64, 0),
            value(k.mb_s, 2),
        ]);
    }
    vec![t]
}

pub fn mpitest(all: &Mpitest) -> Vec<Table> {
    let title = format!("{} results checked, µs", all.checked);
    let mut t = Table::new(
        title,
        &[
            "operation",
            "integers",
            "operation",
            "synchronisation",
            "both",
        ],
    );
    for o in &all.operations {
        t.rows.push(vec![
            Cell::label(&*o.name),
            value(o.integers as f64, 0),
            value(o.operation_s * 1e6, 3),
            value(o.synchronisation_s * 1e6, 3),
            value(o.s * 1e6, 3),
        ]);
    }
    vec![t]
}

pub fn nfstest(all: &Nfstest) -> Vec<Table> {
    let title = format!(
        "{} processes, {} checks, {} wrong",
        all.np, all.checks, all.wrong
    );
    let mut t = Table::new(title, &["what", "all together"]);
    for (what, v, decimals) in [
        ("MB/s written and stored", all.write_mb_s, 1),
        ("MB/s read of another's file", all.read_other_mb_s, 1),
        ("MB/s read of the own file", all.read_own_mb_s, 1),
        ("MB/s read of one file by all", all.read_one_mb_s, 1),
        ("files made a second", all.create_per_s, 0),
        ("files found a second", all.stat_per_s, 0),
        ("files removed a second", all.remove_per_s, 0),
    ] {
        t.rows.push(vec![Cell::label(what), value(v, decimals)]);
    }
    vec![t]
}

pub fn hpl(h: &Hpl, blas: Blas) -> Vec<Table> {
    let mut t = Table::new(
        "the residual is within its bound",
        &["unknowns", "block", "grid", "BLAS", "s", "Gflop/s"],
    );
    t.rows.push(vec![
        value(h.n as f64, 0),
        value(h.block as f64, 0),
        Cell::label(format!("{} x {}", h.p, h.q)),
        Cell::label(blas.word()),
        value(h.s, 2),
        value(h.gflops, 3),
    ]);
    vec![t]
}

pub fn exchange(np: usize, shape: Shape, all: &[Seen]) -> Vec<Table> {
    let title = format!("{np} processes in a {}", shape.word());
    let mut t = Table::new(&title, &["KiB", "cycles", "messages s", "computing s"]);
    for seen in all {
        t.rows.push(vec![
            Cell::label(seen.kb.to_string()),
            Cell::label(seen.cycles.to_string()),
            value(seen.talked_s, 3),
            value(seen.computed_s, 3),
        ]);
    }
    vec![t]
}

pub fn copy(bytes: u64, s: f64) -> Vec<Table> {
    let mut t = Table::new("copy through /mfs", &["MiB", "s", "MB/s"]);
    t.rows.push(vec![
        Cell::label((bytes >> 20).to_string()),
        value(s, 3),
        value(bytes as f64 / s / 1e6, 2),
    ]);
    vec![t]
}
