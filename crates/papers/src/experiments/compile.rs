//! A compilation on one node and on a farm.

use super::play::farm_fits;
use crate::chapter::{Cell, Chapter, Table};
use crate::hosts::{Hosts, finish};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use anyhow::{Result, anyhow, bail};
use armento_lab::sources::{MAKEFILE, zstd};
use armento_lab::{Lab, Link, Spec};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Share of a core of each node.
const SPEED: f64 = 0.35;
/// Where it is built, on n1 alone.
const PLACE: &str = "/opt/compile";
/// Parts of the library, in the order in which a scale below 1 takes their files.
const PARTS: [&str; 6] = [
    "common",
    "decompress",
    "dictBuilder",
    "compress",
    "deprecated",
    "legacy",
];
/// Processor time of all files, seconds of a whole processor (measured: gcc 12, -O2).
const ALL_CPU_S: f64 = 24.0;

pub static EXPERIMENT: Experiment = Experiment {
    id: "compile",
    title: "A compilation on one node and on a farm",
    paper: "M",
    place: "sequential sets of large compilations (named, without values)",
    requirements: &["R-071"],
    shows: "make, unchanged, uses all nodes: each compiler that it starts goes where there is room.",
    emulation: "lab: zstd's library by `make -j12`, natively on one node of 0.35 of a core, and by `armento run --spread make -j12` on four; the archive must be the same, byte for byte; a scale below 1 takes so many of the files",
    on: On::Lab,
    nodes: 4,
    nodes_range: 2..=8,
    scale: 0.4,
    scale_range: 0.05..=1.0,
    minutes: 1.0,
    tools: &[
        Tool {
            program: "make",
            package: "make",
        },
        Tool {
            program: "cc",
            package: "gcc libc6-dev",
        },
        Tool {
            program: "ar",
            package: "binutils",
        },
        Tool {
            program: "ip",
            package: "iproute2",
        },
    ],
    relations: &["B-22"],
    fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// One run does both: they must make the same.
const RUN: &str = "one node, then the farm";

fn fits(setting: &Setting) -> Result<()> {
    zstd()?;
    farm_fits(setting)
}

fn runs(setting: &Setting) -> Vec<Run> {
    vec![Run {
        name: RUN.into(),
        expect_s: ALL_CPU_S * setting.scale / SPEED * 1.6 + 12.0,
    }]
}

/// So many of the library's files.
fn files(lib: &Path, scale: f64) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for part in PARTS {
        let dir = fs::read_dir(lib.join(part)).into_iter().flatten().flatten();
        let names = dir.map(|f| f.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|n| n.ends_with(".c")).collect();
        names.sort();
        all.extend(names.iter().map(|n| format!("lib/{part}/{n}")));
    }
    if all.is_empty() {
        bail!("{} has no C files", lib.display());
    }
    all.truncate(((all.len() as f64 * scale).round() as usize).max(1));
    Ok(all)
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    if run.name != RUN {
        return Err(anyhow!("there is no run `{}`", run.name));
    }
    let lib = zstd()?;
    let files = files(&lib, setting.scale)?;
    let lab = Lab::up(Spec {
        name: format!("compile-{}", std::process::id()),
        nodes: setting.nodes,
        speeds: vec![SPEED],
        link: Link::Switch {
            bits: 1_000_000_000,
        },
        ..Spec::default()
    })?;
    let built = both(&lab, &lib, &files, setting.scale);
    let (lost, traffic) = (lab.lost(), lab.traffic());
    lab.down()?;
    let mut measured = Measured::default();
    if !lost.is_empty() {
        measured.problem = Some(format!("nodes were lost: {}", lost.join(", ")));
        return Ok(measured);
    }
    let [(one_s, one), (farm_s, farm)] = built?;
    if one != farm {
        measured.problem = Some("the archive of the farm is another one".into());
        return Ok(measured);
    }
    measured.values.set("compile.one.s", one_s);
    measured.values.set("compile.farm.s", farm_s);
    measured.values.set("compile.nodes", setting.nodes as f64);
    measured.raw = json!({ "files": files, "sha256": one.trim() });
    measured.traffic = traffic?;
    Ok(measured)
}

/// Seconds and SHA-256 of the archive: of one node, of the farm.
fn both(lab: &Lab, lib: &Path, files: &[String], scale: f64) -> Result<[(f64, String); 2]> {
    let hosts = Hosts::of(lab)?;
    hosts.put(0, &format!("{PLACE}/Makefile"), MAKEFILE.as_bytes())?;
    // The nodes see this machine's files.
    hosts.said(0, &format!("cp -r '{}' {PLACE}/lib", lib.display()))?;
    let build = |how: &str| {
        let script = format!(
            "cd {PLACE} && rm -rf obj && begin=$(date +%s.%N) && {how}make -s -j12 SRCS='{}' >/dev/null && \
             echo $begin $(date +%s.%N) && sha256sum obj/libzstd.a",
            files.join(" ")
        );
        let child = hosts.command(0, &script).stdout(Stdio::piped()).spawn()?;
        let limit = Duration::from_secs_f64(ALL_CPU_S * scale / SPEED * 8.0 + 120.0);
        let said = finish(vec![child], limit)?.concat();
        let (times, sum) = said.split_once('\n').unwrap_or((&said, ""));
        let (begin, end) = super::storage::times(times)?;
        Ok((end - begin, sum.to_owned()))
    };
    let build = |how: &str| -> Result<(f64, String)> { build(how) };
    Ok([build("")?, build("armento run --spread ")?])
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "A compilation by make -j12",
        &["nodes", "seconds", "% of one node", "worth in nodes"],
    );
    let one = found.value("compile.one.s");
    for name in ["one", "farm"] {
        let s = found.mean(&format!("compile.{name}.s"));
        let nodes = match name {
            "one" => "1, natively".to_owned(),
            _ => found
                .value("compile.nodes")
                .map_or("the farm".to_owned(), |n| format!("{n:.0}")),
        };
        let ratio = s.zip(one).map(|(s, one)| s.mean / one);
        let shown = |v: Option<f64>, d| v.map_or_else(Cell::unrun, |v| Cell::recomputed(v, d));
        all.rows.push(vec![
            Cell::label(nodes),
            Cell::measured(s, 1),
            shown(ratio.map(|r| r * 100.0), 1),
            shown(ratio.map(|r| 1.0 / r), 2),
        ]);
    }
    Chapter {
        tables: vec![all],
        notes: vec![
            "The paper names large compilations among the programs that gain, and prints no times. With few files the longest one \
             bounds the farm's time, and its first build of them pays for finding out which programs are short: a quarter of the files \
             gains nothing, the whole library (`--scale 1`) most."
                .into(),
        ],
        ..Chapter::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_takes_so_many_files() {
        let Ok(lib) = zstd() else {
            println!(
                "skipped: a_scale_takes_so_many_files needs the sources of zstd (cargo fetch)"
            );
            return;
        };
        let all = files(&lib, 1.0).expect("files");
        let some = files(&lib, 0.4).expect("files");
        assert!(all.len() > 30 && some.len() < all.len() / 2 && all.starts_with(&some));
    }
}
