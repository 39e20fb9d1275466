//! Exchange with 26 neighbours.

use super::ranks::{TOOLS, compile, cores, in_lab, name, open_mpi};
use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::formula::Values;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, as_is};
use anyhow::Result;
use armento_lab::{Link, Spec};
use armento_mpi::{Halo, Kind, LINK_BIT_S, Program};
use serde_json::{Value, json};

/// Cells along an edge of a process's cube, and steps at scale 1.
const SIDE: u64 = 24;
const STEPS: f64 = 1000.0;
/// PAPER(M, molecular dynamics): more than a million atoms; here as many cells.
const FULL_SIDE: u64 = 50;
const NP: usize = 8;

pub static EXPERIMENT: Experiment = Experiment {
    id: "halo",
    title: "Exchange of the outermost cells with 26 neighbours",
    paper: "M",
    place: "molecular dynamics (named without values)",
    requirements: &["R-058", "R-072"],
    shows: "A program whose processes talk to 26 neighbours in every step computes the same when its processes move.",
    emulation: "lab: four nodes behind a switch of 100 Mbit/s, two processes each; our own program stands for the molecular dynamics: cubes of cells, the layer around each exchanged and checked in every step; native, and with `armento run` beneath mpirun; `--full` has a million cells, and MPICH",
    on: On::Lab,
    nodes: 4,
    nodes_range: 2..=8,
    scale: 0.1,
    scale_range: 0.01..=1.0,
    minutes: 0.5,
    tools: TOOLS,
    relations: &["B-19"],
    fits: always,
    prepare: |_| compile(&[Program::Halo]),
    runs,
    perform,
    derive: as_is,
    chapter,
};

fn runs(setting: &Setting) -> Vec<Run> {
    let kinds: &[Kind] = match setting.full {
        true => &[Kind::OpenMpi, Kind::Mpich],
        false => &[Kind::OpenMpi],
    };
    let mut all = Vec::new();
    for kind in kinds {
        for way in ["native", "armento"] {
            all.push(Run {
                name: format!("{}-{way}", kind.word()),
                expect_s: 6.0 + STEPS * setting.scale * 0.05,
            });
        }
    }
    all
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let moved = run.name.ends_with("armento");
    let mpich = run.name.starts_with("mpich");
    let mpi = match mpich {
        true => Kind::Mpich.find()?,
        false => open_mpi()?,
    };
    let side = if setting.full { FULL_SIDE } else { SIDE };
    let spec = Spec {
        name: name("halo"),
        nodes: setting.nodes,
        speeds: vec![(0.8 * cores() as f64 / setting.nodes as f64).min(1.0)],
        link: Link::Switch { bits: LINK_BIT_S },
        period_ms: Some(4),
        farm: moved,
        ..Spec::default()
    };
    in_lab(spec, |ground| {
        let steps = (STEPS * setting.scale).round().max(1.0);
        let mut job = ground.job(
            &mpi,
            Program::Halo,
            NP,
            &[side.to_string(), steps.to_string()],
        )?;
        if moved {
            job.under = vec!["armento".into(), "run".into()];
        }
        let h: Halo = ground.run(&mpi, &job)?.json()?;
        let key = run.name.replace('-', ".");
        let mut v = Values::default();
        v.set(format!("halo.{key}.s"), h.s);
        v.set(format!("halo.{key}.exchange_s"), h.exchange_s);
        v.set(format!("halo.{key}.mb_s"), h.sent_bytes as f64 / h.s / 1e6);
        v.set(
            format!("halo.{key}.cells"),
            (h.side.pow(3) * h.np as u64) as f64,
        );
        v.set(format!("halo.{key}.checked"), h.checked as f64);
        v.set(format!("halo.{key}.print"), h.print);
        Ok((v, json!(h)))
    })
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "Eight processes",
        &[
            "MPI",
            "processes",
            "s",
            "of that exchanging",
            "MB/s exchanged",
            "cells",
            "cells checked",
            "sum of the last cells",
        ],
    );
    let mut bars = Vec::new();
    for kind in [Kind::OpenMpi, Kind::Mpich] {
        for (way, label) in [
            ("native", "where mpirun put them"),
            ("armento", "under `armento run`"),
        ] {
            let get = |what: &str| found.mean(&format!("halo.{}.{way}.{what}", kind.word()));
            let share = get("exchange_s")
                .zip(get("s"))
                .map(|(e, s)| e.mean / s.mean * 100.0);
            all.rows.push(vec![
                Cell::label(kind.name()),
                Cell::label(label),
                Cell::measured(get("s"), 2),
                share.map_or_else(Cell::unrun, |p| Cell::recomputed(p, 0)),
                Cell::measured(get("mb_s"), 2),
                Cell::measured(get("cells"), 0),
                Cell::measured(get("checked"), 0),
                Cell::measured(get("print"), 0),
            ]);
            bars.extend(get("s").map(|s| Bar {
                label: format!("{}, {label}", kind.name()),
                value: s.mean,
                series: usize::from(way == "armento"),
            }));
        }
    }
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "Exchange with 26 neighbours".into(),
            x: "s".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "Every cell of the first exchange is compared with the place that it comes from; the sum of all cells is the same after the last \
             step as before the first. The messages of a process that is moved would go \
             through its home; a program that does little else than exchange is therefore left where mpirun put it."
                .into(),
        ],
    }
}
