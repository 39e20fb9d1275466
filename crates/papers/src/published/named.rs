//! Published values by the names that relations use.

use super::tables::{Row, table};
use super::{JOBS, TEST1_NODES, TEST1_S};
use crate::formula::Values;
use std::sync::LazyLock;

/// All of them.
pub fn values() -> &'static Values {
    static ALL: LazyLock<Values> = LazyLock::new(|| {
        let mut all = Values::default();
        topologies(&mut all, "stereo", "openmosix-topology/stereo.csv");
        topologies(&mut all, "mono", "openmosix-topology/mono.csv");
        each(&mut all, "openmosix-topology/copy.csv", &copies);
        each(&mut all, "mosix-farm/cpu-bound.csv", &cpu_bound);
        each(&mut all, "mosix-farm/comm-bound.csv", &comm_bound);
        each(&mut all, "mosix-farm/mpi.csv", &mpi);
        flops(&mut all);
        each(&mut all, "hpl-bonding/hpl.csv", &hpl);
        each(&mut all, "riello-copies/table1.csv", &riello);
        each(&mut all, "riello-copies/table2.csv", &riello);
        all.set("test1.t", TEST1_S);
        all.set("test1.nodes", TEST1_NODES as f64);
        // PAPER(P, test bed): the files of a job.
        all.set("job.mp3_bytes", 16_287_870.0);
        // A WAV file has a head of 44 bytes; 16 bit, stereo, 44.1 kHz.
        all.set("job.wav_s", (89_782_940.0 - 44.0) / (44_100.0 * 4.0));
        // PAPER(K, figures 5 and 6).
        all.set("transfer.both_peak", 8.2);
        all.set("transfer.both_peak_bytes", 32_768.0);
        all.set("nettest.chaos2", 30.97);
        all
    });
    &ALL
}

/// Adds what one row has.
type Add = dyn Fn(&mut Values, &Row) -> Option<()>;

fn each(all: &mut Values, path: &str, add: &Add) {
    // A test reads every file of the program, so that none fails here.
    let Ok(table) = table(path) else { return };
    for row in table.rows() {
        add(all, &row);
    }
}

fn topologies(all: &mut Values, of: &str, path: &str) {
    let Ok(table) = table(path) else { return };
    let makespan = |row: &Row| row.number("makespan_s");
    let single = table.rows().find_map(|row| makespan(&row));
    for row in table.rows() {
        let (Some(name), Some(s), Some(single)) = (row.text("topology"), makespan(&row), single)
        else {
            continue;
        };
        let nodes = row.number("nodes_measured").unwrap_or(1.0);
        all.set(format!("{of}.{name}.s"), s);
        all.set(format!("{of}.{name}.nodes"), nodes);
        all.set(format!("{of}.{name}.jobs"), JOBS as f64);
        all.set(format!("{of}.{name}.share"), single / s / nodes);
        if let Some(percent) = row.number("diff_pct_published") {
            all.set(format!("{of}.{name}.diff_pct"), percent);
        }
    }
}

fn copies(all: &mut Values, row: &Row) -> Option<()> {
    let name = row.text("topology")?;
    all.set(format!("copy.{name}.s"), row.number("time_s")?);
    Some(())
}

fn cpu_bound(all: &mut Values, row: &Row) -> Option<()> {
    let n = row.text("n")?;
    for (name, column) in [
        ("optimal", "optimal_s"),
        ("mosix", "mosix_s"),
        ("pvm", "pvm_s"),
        ("pvm_on_mosix", "pvm_on_mosix_s"),
    ] {
        all.set(format!("test1.{n}.{name}"), row.number(column)?);
    }
    Some(())
}

fn comm_bound(all: &mut Values, row: &Row) -> Option<()> {
    let (kb, n) = (row.text("message_kb")?, row.text("n")?);
    all.set(format!("exchange.{kb}.{n}.mosix"), row.number("mosix_s")?);
    all.set(format!("exchange.{kb}.{n}.pvm"), row.number("pvm_s")?);
    Some(())
}

fn mpi(all: &mut Values, row: &Row) -> Option<()> {
    let system = match row.text("system")? {
        "Linux" => "linux",
        _ => "mosix",
    };
    let name = format!("mpi.{}.{system}", row.text("np")?);
    all.set(name, row.number("time_s")?);
    Some(())
}

fn flops(all: &mut Values) {
    each(all, "teaching-cluster/flops-cluster.csv", &|all, row| {
        let n = row.text("nodes")?;
        all.set(format!("flops.{n}.s"), row.number("time_s")?);
        all.set(format!("flops.{n}.mflops"), row.number("cluster_mflops")?);
        Some(())
    });
    each(all, "teaching-cluster/flops-per-node.csv", &|all, row| {
        let (n, speed) = (row.text("nodes")?, row.number("mflops")?);
        let [first, least, sum] =
            ["node0", "node_min", "node_sum"].map(|w| format!("flops.{n}.{w}"));
        if row.text("node") == Some("0") {
            all.set(first, speed);
        }
        let before = all.get(&least).unwrap_or(f64::INFINITY);
        all.set(least, speed.min(before));
        let before = all.get(&sum).unwrap_or(0.0);
        all.set(sum, speed + before);
        Some(())
    });
    each(
        all,
        "teaching-cluster/flops-reference-cpu.csv",
        &|all, row| {
            let cores = row.text("cores")?;
            all.set(format!("reference.{cores}.mflops"), row.number("mflops")?);
            Some(())
        },
    );
}

fn hpl(all: &mut Values, row: &Row) -> Option<()> {
    let kind = match (row.text("bonding")?, row.text("mtu")?) {
        ("no", _) => "plain",
        (_, "1500") => "bonded",
        _ => "jumbo",
    };
    let name = format!("hpl.{}.{kind}", row.text("nodes")?);
    all.set(name, row.number("gflops")?);
    Some(())
}

fn riello(all: &mut Values, row: &Row) -> Option<()> {
    let system = match row.text("configuration")? {
        "no openMosix" => "none",
        "openMosix" | "only openMosix" => "openmosix",
        "only MPI" => "mpi",
        _ => "both",
    };
    let class = match row.text("node_class")? {
        "Pentium II" => "ii",
        _ => "iii",
    };
    all.set(format!("riello.{system}.{class}"), row.number("total_min")?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_names() {
        let check = |name: &str, want: f64| {
            assert_eq!(values().get(name), Some(want), "{name}");
        };
        check("mono.p2p.s", 1182.0);
        check("stereo.hub.diff_pct", 5.3);
        check("copy.switch.s", 453.3);
        check("test1.17.pvm", 604.36);
        check("exchange.256.16.pvm", 751.5);
        check("mpi.8.mosix", 209.0);
        check("flops.8.node_sum", 1096.0);
        check("reference.2.mflops", 1118.0);
        check("hpl.4.jumbo", 24.86);
        check("riello.both.iii", 150.0);
    }
}
