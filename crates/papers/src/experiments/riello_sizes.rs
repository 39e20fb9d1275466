//! Copies by file size and number of processes: one program a file on a farm, against MPI-IO.

use super::play::farm_fits;
use super::riello_mpi::{BUFFER, COST, bytes, spec};
use super::storage::{Cost, Storage, mpi_copy, paths, program, timed, times};
use crate::chapter::{Cell, Chapter, Content, Line, Plot, Series, Table};
use crate::formula::Values;
use crate::hosts::{Hosts, Running, finish};
use crate::published::table;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use crate::tools::Folder;
use anyhow::{Result, anyhow};
use armento_lab::play::compile;
use armento_lab::{Lab, Spec};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;

/// PAPER(R, comparison): sizes of files, MB of a thousandth GB, and how many a node copies; half as many here, for the sake of time.
const SETS: [(u64, usize); 4] = [(400, 10), (1000, 4), (1400, 3), (2000, 2)];
const PROCESSES: [usize; 3] = [1, 2, 4];
/// Minutes in which a channel reads a GB: two nodes share one, and a node alone on it reads as fast as table 1 waits.
const CHANNEL_MIN_GB: f64 = 5.0;
/// PAPER(R, storage).
const CHANNELS: usize = 2;

pub static EXPERIMENT: Experiment = Experiment {
    id: "riello-sizes",
    title: "Copies by size of files and number of processes",
    paper: "R",
    place: "comparison of copies (a figure without values)",
    requirements: &["R-068"],
    shows: "One program a file suits small files; several processes a file suit large ones.",
    emulation: "lab: the nodes of riello-table2 without simulations; files on a disk of this machine, read over two channels that two nodes each share; one program a file, so many at a time, on a farm with the policy `mosix`, or an MPI program of so many processes for each file; half as many files as published., one mpirun for all of a size, whose start is not scaled",
    on: On::Lab,
    nodes: 4,
    nodes_range: 4..=4,
    scale: 0.0007,
    scale_range: 0.0005..=0.05,
    minutes: 2.1,
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
    relations: &["Q-30"],
    fits: farm_fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// The two systems, by the names of their values.
const SYSTEMS: [(&str, &str); 2] = [("cp", "programs on a farm"), ("mpi", "MPI")];

fn runs(setting: &Setting) -> Vec<Run> {
    let all = SYSTEMS
        .iter()
        .flat_map(|(s, _)| PROCESSES.iter().map(move |p| (*s, *p)));
    let run = |(system, processes): (&str, usize)| {
        let starts = if system == "mpi" {
            SETS.len() as f64 * 2.0
        } else {
            0.0
        };
        Run {
            name: format!("{system}, processes: {processes}"),
            // PAPER(R, rates): 14 minutes a GB, four sets of 4 GB.
            expect_s: 16.0 * 14.0 * 60.0 * setting.scale + starts + 10.0,
        }
    };
    all.map(run).collect()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let known = || anyhow!("there is no run `{}`", run.name);
    let (system, processes) = run.name.split_once(", processes: ").ok_or_else(known)?;
    let processes: usize = processes.parse()?;
    let sizes: Vec<u64> = SETS
        .iter()
        .flat_map(|(mb, count)| (0..*count).map(move |i| (*mb, i)))
        .map(|(mb, i)| bytes(mb as f64 / 1000.0, setting.scale, i))
        .collect();
    let storage = Storage::new(4, &sizes)?;
    let policy = (system == "cp").then_some("mosix");
    // What a channel reads in so many minutes, with the bytes and the time both scaled.
    let rate = 1_073_741_824.0 / (CHANNEL_MIN_GB * 60.0);
    let lab = Lab::up(Spec {
        disk: Some(rate as u64),
        disk_channels: Some(CHANNELS),
        ..spec("sizes", policy, &storage)
    })?;
    let copied = sets(&lab, &storage, system, processes, setting.scale);
    let (lost, traffic) = (lab.lost(), lab.traffic());
    lab.down()?;
    let mut measured = Measured::default();
    if !lost.is_empty() {
        measured.problem = Some(format!("nodes were lost: {}", lost.join(", ")));
        return Ok(measured);
    }
    let seconds = copied?;
    let (same, all) = storage.compare()?;
    if same != all {
        measured.problem = Some(format!("{same} of {all} copies are the file"));
        return Ok(measured);
    }
    for ((mb, _), s) in SETS.iter().zip(&seconds) {
        let minutes = s / 60.0 / setting.scale;
        measured
            .values
            .set(format!("sizes.{mb}.{processes}.{system}"), minutes);
    }
    measured.raw = json!({ "seconds": seconds, "copies": all, "rate": rate as u64 });
    measured.traffic = traffic?;
    Ok(measured)
}

/// Copies one set after the other on all nodes. Seconds of each, of the node that was last.
fn sets(
    lab: &Lab,
    storage: &Storage,
    system: &str,
    processes: usize,
    scale: f64,
) -> Result<Vec<f64>> {
    let hosts = Hosts::of(lab)?;
    let folder = Folder::new("job")?;
    let (path, program) = match system {
        "mpi" => program()?,
        _ => ("/var/tmp/job-copy", compile(&folder.0)?),
    };
    (0..4).try_for_each(|i| hosts.put(i, path, &program))?;
    let mut first = 0;
    let one = |&(mb, count): &(u64, usize)| {
        let files = first..first + count;
        first += count;
        storage.forget()?;
        let gb = mb as f64 / 1000.0;
        let cost = Cost {
            wait_s: 0.0,
            ..COST
        };
        let mut copies = Running(Vec::new());
        for node in 1..=4 {
            let script = match system {
                "mpi" => {
                    let buffer = (BUFFER * scale / processes as f64) as u64;
                    timed(&[mpi_copy(
                        node,
                        files.clone(),
                        processes,
                        buffer,
                        false,
                        cost,
                    )])
                }
                _ => {
                    let words = |i| {
                        let (from, to) = paths(node, i);
                        format!("{from} {to}")
                    };
                    let all: Vec<String> = files.clone().map(words).collect();
                    timed(&[format!(
                        "echo {} | xargs -n 2 -P {processes} armento run {path} {:.4} 1 0",
                        all.join(" "),
                        cost.cpu_s * gb * 1024.0 * scale
                    )])
                }
            };
            let mut c = hosts.command(node - 1, &script);
            copies.0.push(c.stdout(Stdio::piped()).spawn()?);
        }
        let limit = Duration::from_secs_f64(gb * count as f64 * 3600.0 * scale * 4.0 + 120.0);
        let said = finish(std::mem::take(&mut copies.0), limit)?;
        let mut longest = 0.0f64;
        for said in &said {
            let (begin, end) = times(said)?;
            longest = longest.max(end - begin);
        }
        Ok(longest)
    };
    SETS.iter().map(one).collect()
}

/// What the paper reads from its figure, and in how many of its cases it is so here.
fn findings(all: &Values) -> Vec<(&'static str, usize, usize)> {
    let get = |mb: u64, p: usize, system: &str| all.get(&format!("sizes.{mb}.{p}.{system}"));
    let count = |cases: Vec<Option<bool>>| {
        let known: Vec<bool> = cases.into_iter().flatten().collect();
        (known.iter().filter(|c| **c).count(), known.len())
    };
    let less = |mb, p| Some(get(mb, p, "cp")? < get(mb, p, "mpi")?);
    let sizes = SETS.map(|(mb, _)| mb);
    let (small, big) = (&sizes[..2], &sizes[2..]);
    let several = |sizes: &[u64]| -> Vec<(u64, usize)> {
        let pairs = sizes.iter().flat_map(|mb| [(*mb, 2), (*mb, 4)]);
        pairs.collect()
    };
    let steps = |mb: u64, system: &str| {
        Some([1, 2, 4].map(|p| get(mb, p, system))).and_then(|[a, b, c]| Some((a?, b?, c?)))
    };
    let f1 = count(sizes.iter().map(|mb| less(*mb, 1)).collect());
    let f2 = count(
        several(small)
            .into_iter()
            .map(|(mb, p)| less(mb, p))
            .collect(),
    );
    let f3 = several(big)
        .into_iter()
        .map(|(mb, p)| less(mb, p).map(|l| !l));
    let f3 = count(f3.collect());
    let f4 = |mb: &u64| steps(*mb, "cp").map(|(a, b, c)| a < b && b < c);
    let f4 = count(sizes.iter().map(f4).collect());
    let f5 = |mb: &u64| steps(*mb, "mpi").map(|(a, b, c)| a > b && b > c && a - b > b - c);
    let f5 = count(sizes.iter().map(f5).collect());
    [
        ("F-1", f1),
        ("F-2", f2),
        ("F-3", f3),
        ("F-4", f4),
        ("F-5", f5),
    ]
    .map(|(id, (so, of))| (id, so, of))
    .to_vec()
}

fn chapter(found: &Found) -> Chapter {
    let mut times = Table::new(
        "Minutes until a node's files are copied, of the paper's time",
        &[
            "file, GB",
            "files",
            "processes",
            "programs on a farm",
            "MPI",
            "MPI over programs",
        ],
    );
    for (mb, count) in SETS {
        for p in PROCESSES {
            let get = |system: &str| found.mean(&format!("sizes.{mb}.{p}.{system}"));
            let ratio = get("cp")
                .zip(get("mpi"))
                .map(|(cp, mpi)| mpi.mean / cp.mean);
            times.rows.push(vec![
                Cell::label(format!("{:.1}", mb as f64 / 1000.0)),
                Cell::label(count.to_string()),
                Cell::label(p.to_string()),
                Cell::measured(get("cp"), 0),
                Cell::measured(get("mpi"), 0),
                ratio.map_or_else(Cell::unrun, |r| Cell::recomputed(r, 2)),
            ]);
        }
    }
    let printed = table("riello-copies/findings.csv").ok();
    let mut seen = Table::new(
        "What the paper finds, and in how many cases it is so here",
        &["finding", "of", "published", "here"],
    );
    for (id, so, of) in findings(&found.values) {
        let row = printed.as_ref().and_then(|t| t.find(&[("id", id)]));
        seen.rows.push(vec![
            Cell::label(id),
            Cell::published(row, "subject"),
            Cell::published(row, "expected"),
            match of {
                0 => Cell::unrun(),
                of => Cell::label(format!("{so} of {of}")),
            },
        ]);
    }
    let series = |system: &str, name: &str, mb: u64| Series {
        name: format!("{name}, {:.1} GB", mb as f64 / 1000.0),
        line: Line::Joined,
        points: PROCESSES
            .iter()
            .filter_map(|p| {
                let y = found.value(&format!("sizes.{mb}.{p}.{system}"))?;
                Some((*p as f64, y))
            })
            .collect(),
    };
    let mut lines = Vec::new();
    for (system, name) in SYSTEMS {
        for (mb, _) in [SETS[0], SETS[3]] {
            lines.push(series(system, name, mb));
        }
    }
    lines.retain(|s| !s.points.is_empty());
    Chapter {
        tables: vec![times, seen],
        plots: vec![Plot {
            title: "Minutes by number of processes".into(),
            x: "processes".into(),
            y: "minutes of the paper".into(),
            content: Content::Lines(lines),
        }],
        notes: vec![
            "F-1 and F-2 follow from the start of MPI. F-4 needs storage that loses time when several read at once, as disks with heads \
             did; the channels here share one rate, so that several programs overlap computing and reading and none loses. Q-30 then \
             fails at F-3, too: as many programs as MPI has processes overlap as much, and have no start to pay."
                .into(),
            "Channels of storage need control groups of version 1.".into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted() {
        let mut all = Values::default();
        assert!(
            findings(&all)
                .iter()
                .all(|(_, so, of)| (*so, *of) == (0, 0))
        );
        for (p, cp, mpi) in [(1, 5.0, 9.0), (2, 6.0, 7.0), (4, 7.0, 6.0)] {
            all.set(format!("sizes.2000.{p}.cp"), cp);
            all.set(format!("sizes.2000.{p}.mpi"), mpi);
        }
        let got = findings(&all);
        assert_eq!(
            got,
            [
                ("F-1", 1, 1),
                ("F-2", 0, 0),
                ("F-3", 1, 2),
                ("F-4", 1, 1),
                ("F-5", 1, 1)
            ]
        );
    }
}
