//! LAMMPS: real molecular dynamics.

use super::ranks::{cores, in_lab, name, open_mpi};
use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::formula::Values;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, always, as_is};
use anyhow::{Context, Result, bail};
use armento_lab::{Link, Share, Spec};
use armento_mpi::{Ground, Host, Installed, Job, LINK_BIT_S, Map, need, thermo};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Steps at scale 1.
const STEPS: f64 = 1000.0;
/// Cells of the lattice along each edge, four atoms each: 4,000 atoms; 32,000 with `--full`.
const EDGE: u64 = 10;
const FULL_EDGE: u64 = 20;
const NP: usize = 4;
/// Where nodes see the input.
const AT: &str = "/srv/lammps";

pub static EXPERIMENT: Experiment = Experiment {
    id: "lammps",
    title: "LAMMPS, native and moved",
    paper: "M",
    place: "molecular dynamics (named without values)",
    requirements: &["R-058"],
    shows: "Real molecular dynamics prints the same lines to the last digit when its processes move; where MPI has placed them well there is nothing to gain.",
    emulation: "lab: four nodes behind a switch of 100 Mbit/s; Debian's LAMMPS, a Lennard-Jones melt, four processes: one a node, and all started on n1; native, and with `armento run` beneath mpirun",
    on: On::Lab,
    nodes: 4,
    nodes_range: 2..=8,
    scale: 0.2,
    scale_range: 0.02..=1.0,
    minutes: 1.0,
    tools: &[
        Tool {
            program: "mpirun.openmpi",
            package: "openmpi-bin",
        },
        Tool {
            program: "lmp",
            package: "lammps",
        },
        Tool {
            program: "ip",
            package: "iproute2",
        },
    ],
    relations: &["B-13"],
    fits: always,
    prepare: |_| Ok(json!({ "mpi": open_mpi()?.version(), "lammps": need("lmp", "lammps")? })),
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// Commands of LAMMPS: a lattice of atoms that melts.
fn input(edge: u64, steps: f64) -> String {
    let every = (steps / 5.0).max(1.0).round();
    format!(
        "units lj\natom_style atomic\nlattice fcc 0.8442\nregion cube block 0 {edge} 0 {edge} 0 {edge}\ncreate_box 1 cube\ncreate_atoms 1 box\n\
         mass 1 1.0\nvelocity all create 3.0 87287 loop geom\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\n\
         neigh_modify every 20 delay 0 check no\nfix 1 all nve\nthermo {every}\nrun {steps}\n"
    )
}

const PLACES: [(&str, &str); 2] = [("across", "one a node"), ("one", "all on n1")];
const WAYS: [(&str, &str); 2] = [("native", "native"), ("armento", "under `armento run`")];

fn runs(setting: &Setting) -> Vec<Run> {
    let mut all = Vec::new();
    for (place, _) in PLACES {
        for (way, _) in WAYS {
            all.push(Run {
                name: format!("{place}-{way}"),
                expect_s: 6.0 + STEPS * setting.scale * 0.05,
            });
        }
    }
    all
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let mpi = open_mpi()?;
    let folder = std::env::temp_dir().join(format!("armento-lammps-{}", std::process::id()));
    let edge = if setting.full { FULL_EDGE } else { EDGE };
    let steps = (STEPS * setting.scale).round();
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("melt"), input(edge, steps)))
        .context("cannot write the input of LAMMPS")?;
    let done = melt(run, setting, &mpi, &folder);
    // The lab is down, and the folder a temporary one.
    let _ = fs::remove_dir_all(&folder);
    done
}

fn melt(run: &Run, setting: &Setting, mpi: &Installed, folder: &Path) -> Result<Measured> {
    let moved = run.name.ends_with("armento");
    let spec = Spec {
        name: name("lammps"),
        nodes: setting.nodes,
        speeds: vec![(0.8 * cores() as f64 / setting.nodes as f64).min(1.0)],
        link: Link::Switch { bits: LINK_BIT_S },
        period_ms: Some(4),
        shares: vec![Share {
            dir: folder.to_owned(),
            at: AT.into(),
        }],
        farm: moved,
        ..Spec::default()
    };
    in_lab(spec, |ground| {
        let hosts = match run.name.starts_with("one") {
            true => vec![Host::new("n1", NP)],
            false => ground.first(NP),
        };
        let (rows, s) = lines(ground, mpi, hosts, moved)?;
        let key = run.name.replace('-', ".");
        let mut v = Values::default();
        v.set(format!("lammps.{key}.s"), s);
        // A number that any other digit changes.
        let digits = xxhash_rust::xxh3::xxh3_64(rows.join("\n").as_bytes()) >> 16;
        v.set(format!("lammps.{key}.lines"), digits as f64);
        Ok((v, json!({ "lines": rows, "loop_s": s })))
    })
}

fn lines(
    ground: &Ground,
    mpi: &Installed,
    hosts: Vec<Host>,
    moved: bool,
) -> Result<(Vec<String>, f64)> {
    let under = ["armento", "run"].map(str::to_owned).to_vec();
    let job = Job {
        program: need("lmp", "lammps")?,
        args: ["-in", &format!("{AT}/melt"), "-log", "none"]
            .map(str::to_owned)
            .to_vec(),
        np: NP,
        hosts,
        map: Map::Slot,
        under: if moved { under } else { Vec::new() },
        env: vec![("OMP_NUM_THREADS".into(), "1".into())],
        limit_s: 600.0,
        ..Job::default()
    };
    let said = ground.run(mpi, &job)?;
    match thermo(&said.stdout) {
        Some(found) if !found.0.is_empty() => Ok(found),
        _ => bail!(
            "LAMMPS printed no result: {}",
            said.stderr.lines().last().unwrap_or_default()
        ),
    }
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "Four processes",
        &[
            "processes started",
            "way",
            "s of the loop",
            "over native",
            "thermodynamic lines",
        ],
    );
    let mut bars = Vec::new();
    for (place, where_) in PLACES {
        let native = found.value(&format!("lammps.{place}.native.s"));
        let expected = found.value(&format!("lammps.{place}.native.lines"));
        for (way, label) in WAYS {
            let s = found.mean(&format!("lammps.{place}.{way}.s"));
            let lines = found.value(&format!("lammps.{place}.{way}.lines"));
            let ratio = s.zip(native).map(|(s, n)| s.mean / n);
            all.rows.push(vec![
                Cell::label(where_),
                Cell::label(label),
                Cell::measured(s, 2),
                ratio.map_or_else(Cell::unrun, |r| Cell::recomputed(r, 2)),
                Cell::label(match lines.zip(expected) {
                    None => "",
                    Some(_) if way == "native" => "",
                    Some((a, b)) if a == b => "equal",
                    Some(_) => "differ",
                }),
            ]);
            bars.extend(s.map(|s| Bar {
                label: format!("{where_}, {label}"),
                value: s.mean,
                series: usize::from(way == "armento"),
            }));
        }
    }
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "LAMMPS".into(),
            x: "s".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "The paper names molecular dynamics of more than a million atoms on Myrinet and prints no times. A process \
             that is moved away from mpirun's place sends every message through its home, and one that waits for messages polls, and so looks busy. \
             Armento counts what a process writes and reads over TCP while it is at home, and leaves those that talk in every step where mpirun \
             put them: that is what B-13 measures."
                .into(),
        ],
    }
}
