//! Copies by MPI-IO beside a simulation on the fast node, alone and with a farm below.

use super::play::farm_fits;
use super::storage::{Cost, Storage, mpi_copy, program, timed, times};
use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::hosts::{Hosts, Running, finish};
use crate::published::table;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use crate::tools::Folder;
use anyhow::{Result, anyhow};
use armento_lab::play::compile;
use armento_lab::{Lab, Link, Spec};
use serde_json::{Value, json};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// Shares of a core: 440 and 800 MHz.
pub const SLOW: f64 = 0.25;
pub const FAST: f64 = SLOW * 800.0 / 440.0;
/// PAPER(R, database): files of a node, GB, in their order.
const FILES_GB: [f64; 8] = [2.0, 2.0, 1.5, 1.5, 1.0, 1.0, 0.5, 0.5];
/// PAPER(R, table 1): a GB takes the Pentium II 20 minutes; half of them its processor, as in table 1 here. Bytes and times
/// have the same scale.
pub const COST: Cost = Cost {
    cpu_s: 600.0 * SLOW / 1024.0,
    wait_s: 600.0 / 1024.0,
};
/// PAPER(R, load): simulation programs of 90 minutes; three, as in table 1 here.
const SIMULATIONS: usize = 3;
const SIMULATION_MIN: f64 = 90.0;
/// PAPER(R, MPI copy): bytes of a node's buffer.
pub const BUFFER: f64 = 25.0 * 1_048_576.0;
/// Processes that copy one file; the paper's table does not say how many it had.
const PROCESSES: usize = 2;
/// The simulations run already when the copies begin.
const BEFORE: Duration = Duration::from_secs(3);

pub static TABLE2: Experiment = Experiment {
    id: "riello-table2",
    title: "Copies by MPI-IO on three slow nodes and a fast one that simulates",
    paper: "R",
    place: "table 2",
    requirements: &["R-046", "R-048", "R-067", "R-087"],
    shows: "A file that several processes copy in parts is done sooner than by one that may move; with both, the loaded node gains and the others lose.",
    emulation: "lab: three nodes of 0.25 of a core and one of 0.45 (440 and 800 MHz), real MPI-IO (Open MPI) by two processes a file with views and a last one that is shorter, from and to a directory that all nodes see; processor time and waits are those of table 1 here; `both` has the policy `mosix`",
    on: On::Lab,
    nodes: 4,
    nodes_range: 4..=4,
    scale: 0.003,
    scale_range: 0.001..=0.05,
    minutes: 2.0,
    tools: &[
        Tool {
            program: "mpicc.openmpi",
            package: "libopenmpi-dev",
        },
        Tool {
            program: "mpirun.openmpi",
            package: "openmpi-bin",
        },
        Tool {
            program: "cc",
            package: "gcc libc6-dev",
        },
        Tool {
            program: "ip",
            package: "iproute2",
        },
    ],
    relations: &["Q-28", "Q-29", "B-21"],
    fits: farm_fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// Name of the run and its values, the policy of the farm, the published configuration.
const RUNS: [(&str, Option<&str>, &str); 3] = [
    ("mpi", None, "only MPI"),
    ("both", Some("mosix"), "MPI and openMosix"),
    ("both_armento", Some("armento"), ""),
];

pub fn bytes(gb: f64, scale: f64, i: usize) -> u64 {
    // Not a multiple of any number of processes.
    ((gb * 1_073_741_824.0 * scale) as u64 / 2 + i as u64) * 2 + 1
}

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(name, _, _): (&str, Option<&str>, &str)| Run {
        name: name.to_owned(),
        // PAPER(R, table 2): three hours.
        expect_s: 10_800.0 * setting.scale + 14.0,
    };
    RUNS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let known = RUNS.iter().find(|(name, ..)| *name == run.name);
    let (name, policy, _) = known.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let sizes = FILES_GB.iter().enumerate();
    let sizes: Vec<u64> = sizes.map(|(i, gb)| bytes(*gb, setting.scale, i)).collect();
    let storage = Storage::new(4, &sizes)?;
    let lab = Lab::up(spec("riello", policy.as_deref(), &storage))?;
    let copied = copy(&lab, policy.is_some(), setting.scale);
    let (lost, traffic) = (lab.lost(), lab.traffic());
    lab.down()?;
    let problem = |why: String| {
        Ok(Measured {
            problem: Some(why),
            ..Measured::default()
        })
    };
    if !lost.is_empty() {
        return problem(format!("nodes were lost: {}", lost.join(", ")));
    }
    let seconds = copied?;
    let (same, all) = storage.compare()?;
    if same != all {
        return problem(format!("{same} of {all} copies are the file"));
    }
    let minutes = |s: f64| s / 60.0 / setting.scale;
    let slow = seconds[..3].iter().copied().fold(0.0, f64::max);
    let mut measured = Measured {
        raw: json!({ "seconds": seconds, "copies": all }),
        traffic: traffic?,
        ..Measured::default()
    };
    for (class, s) in [("ii", slow), ("iii", seconds[3])] {
        measured
            .values
            .set(format!("riello.{name}.{class}"), minutes(s));
    }
    Ok(measured)
}

/// Four nodes that see the storage.
pub fn spec(what: &str, policy: Option<&str>, storage: &Storage) -> Spec {
    let config = policy.map(|p| format!("policy = \"{p}\"\nguest_cpu_weight = 1\n"));
    Spec {
        name: format!("{what}-{}", std::process::id()),
        nodes: 4,
        speeds: vec![SLOW, SLOW, SLOW, FAST],
        link: Link::Switch { bits: 100_000_000 },
        shares: vec![storage.share()],
        farm: policy.is_some(),
        config: config.unwrap_or_default(),
        ..Spec::default()
    }
}

/// Installs the programs and copies all files of all nodes at the same time. Seconds of each node.
fn copy(lab: &Lab, under: bool, scale: f64) -> Result<Vec<f64>> {
    let hosts = Hosts::of(lab)?;
    let (path, bytes) = program()?;
    (0..4).try_for_each(|i| hosts.put(i, path, &bytes))?;
    let folder = Folder::new("job")?;
    hosts.put(3, "/var/tmp/job", &compile(&folder.0)?)?;
    let work_s = SIMULATION_MIN * 60.0 * scale * FAST;
    let run = if under { "armento run " } else { "" };
    let mut simulations = Running(Vec::new());
    for _ in 0..SIMULATIONS {
        let script = format!("exec {run}/var/tmp/job {work_s:.3} 4");
        simulations.0.push(hosts.command(3, &script).spawn()?);
    }
    sleep(BEFORE);
    let mut copies = Running(Vec::new());
    for node in 1..=4 {
        let buffer = (BUFFER * scale / PROCESSES as f64) as u64;
        let line = mpi_copy(node, 0..FILES_GB.len(), PROCESSES, buffer, under, COST);
        let mut c = hosts.command(node - 1, &timed(&[line]));
        copies.0.push(c.stdout(Stdio::piped()).spawn()?);
    }
    // PAPER(R, table 1): five hours at most; started programs on slow nodes take a multiple.
    let limit = Duration::from_secs_f64(18_000.0 * scale * 4.0 + 120.0);
    let said = finish(std::mem::take(&mut copies.0), limit)?;
    let seconds = said.iter().map(|said| {
        let (begin, end) = times(said)?;
        Ok(end - begin)
    });
    seconds.collect()
}

fn chapter(found: &Found) -> Chapter {
    let printed = table("riello-copies/table2.csv").ok();
    let mut all = Table::new(
        "Table 2: minutes until all files are copied, in the paper's time",
        &[
            "configuration",
            "node",
            "minutes published",
            "minutes",
            "minutes a GB published",
            "minutes a GB",
        ],
    );
    let mut bars = Vec::new();
    let only = [("openmosix", Some("mosix"), "only openMosix")];
    for (key, policy, configuration) in only.iter().chain(&RUNS) {
        for (class, name, label) in [
            ("Pentium II", "ii", "slow (Pentium II), the last of three"),
            ("Pentium III", "iii", "fast (Pentium III)"),
        ] {
            let place = [("configuration", *configuration), ("node_class", class)];
            let row = printed.as_ref().and_then(|t| t.find(&place));
            let minutes = found.mean(&format!("riello.{key}.{name}"));
            let shown = match (*key, minutes) {
                ("openmosix", None) => Cell::label("see riello-table1"),
                (_, minutes) => Cell::measured(minutes, 0),
            };
            all.rows.push(vec![
                Cell::label(match *configuration {
                    "" => format!("MPI and Armento, `{}`", policy.unwrap_or_default()),
                    other => other.to_owned(),
                }),
                Cell::label(label),
                Cell::published(row, "total_min"),
                shown,
                Cell::published(row, "minutes_per_gb_recomputed"),
                // PAPER(R, table 1): 10 GB a node.
                match (*key, minutes) {
                    ("openmosix", None) => Cell::unprinted(),
                    (_, minutes) => Cell::measured(minutes.map(|m| m.times(0.1)), 1),
                },
            ]);
            for (what, value, series) in [
                ("published", row.and_then(|r| r.number("total_min")), 0),
                ("measured", minutes.map(|m| m.mean), 1),
            ] {
                bars.extend(value.map(|value| Bar {
                    label: format!(
                        "{}, {class}, {what}",
                        if configuration.is_empty() {
                            key
                        } else {
                            configuration
                        }
                    ),
                    value,
                    series,
                }));
            }
        }
    }
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "Minutes until all files are copied".into(),
            x: "minutes of the paper".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "Every copy has the SHA-256 of its file, or the sample is discarded. One mpirun copies all files of a node: its \
             start is measured, too, and is not scaled."
                .into(),
            "Q-28 fails where both together are sooner than MPI alone: the node that simulates is the last in both, and gives work away; \
             in the paper the slow nodes, which take it, become the last. With `armento` they do here, too, and later: its turns give \
             the simulations to them as well."
                .into(),
            "The paper says that both together need nearly the time of MPI alone (E-51), and 25 % more on the slow nodes where its \
             table has 20 % (E-50)."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_papers_sizes_and_no_common_divisor() {
        assert_eq!(FILES_GB.iter().sum::<f64>(), 10.0);
        assert_eq!(bytes(2.0, 0.003, 0), 6_442_451);
        assert!((0..8).all(|i| bytes(1.0, 0.003, i) % 2 == 1));
        assert!((FAST - 0.4545).abs() < 1e-3);
    }
}
