//! A shared file system as the processes of an MPI program see it.

use super::ranks::{TOOLS, compile, in_lab, name, open_mpi};
use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::formula::Values;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, as_is};
use anyhow::{Context, Result, bail};
use armento_lab::{Link, Share, Spec};
use armento_mpi::{LINK_BIT_S, Nfstest, Program};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Bytes of each process's file at scale 1.
const BYTES: f64 = 64e6;

pub static EXPERIMENT: Experiment = Experiment {
    id: "nfstest",
    title: "nfstest: files that the processes of an MPI program share",
    paper: "K",
    place: "the suite of the paper's programs (not in the paper)",
    requirements: &["R-064"],
    shows: "What one process has written, renamed, cut or removed is there for all others after a barrier, on a directory of the machine and below /mfs.",
    emulation: "lab: nodes behind a switch of 100 Mbit/s; `shared` is a directory of this machine in every node, `mfs` is /mfs/n1/var/tmp on every node; Open MPI",
    on: On::Lab,
    nodes: 4,
    nodes_range: 2..=8,
    scale: 0.02,
    scale_range: 0.001..=1.0,
    minutes: 0.3,
    tools: TOOLS,
    relations: &["B-18"],
    fits: always,
    prepare: |_| compile(&[Program::Nfstest]),
    runs,
    perform,
    derive: as_is,
    chapter,
};

const WAYS: [&str; 2] = ["shared", "mfs"];

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |way: &str| Run {
        name: way.to_owned(),
        expect_s: 8.0 + BYTES * setting.scale * 3.0 * setting.nodes as f64 / 10e6,
    };
    WAYS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let mpi = open_mpi()?;
    let mfs = run.name == "mfs";
    let folder: PathBuf =
        std::env::temp_dir().join(format!("armento-nfstest-{}", std::process::id()));
    std::fs::create_dir_all(&folder).context("cannot make a folder to share")?;
    let at = match mfs {
        true => "/mfs/n1/var/tmp",
        false => "/srv/nfstest",
    };
    let shares = vec![Share {
        dir: folder.clone(),
        at: "/srv/nfstest".into(),
    }];
    let spec = Spec {
        name: name("nfstest"),
        nodes: setting.nodes,
        link: Link::Switch { bits: LINK_BIT_S },
        shares,
        farm: mfs,
        ..Spec::default()
    };
    let done = in_lab(spec, |ground| {
        if mfs {
            mounted(ground)?;
        }
        let args = [at.to_owned(), format!("{:.0}", BYTES * setting.scale)];
        let n: Nfstest = ground.measure(&mpi, Program::Nfstest, setting.nodes, &args)?;
        let mut v = Values::default();
        let mut set = |what: &str, value| v.set(format!("nfstest.{}.{what}", run.name), value);
        for (what, value) in [
            ("write", n.write_mb_s),
            ("other", n.read_other_mb_s),
            ("own", n.read_own_mb_s),
            ("one", n.read_one_mb_s),
            ("create", n.create_per_s),
            ("stat", n.stat_per_s),
            ("remove", n.remove_per_s),
            ("checks", n.checks as f64),
            ("wrong", n.wrong as f64),
        ] {
            set(what, value);
        }
        Ok((v, json!(n)))
    });
    // The lab is down, and the folder a temporary one.
    let _ = std::fs::remove_dir_all(&folder);
    done
}

fn mounted(ground: &armento_mpi::Ground) -> Result<()> {
    let node = ground.node().context("a lab")?;
    let status = node
        .command("test")
        .args(["-d", "/mfs/n1/var/tmp"])
        .status()?;
    if !status.success() {
        bail!(
            "MFS is not mounted in the lab\nhint: modprobe fuse; the file /dev/fuse has to be there"
        );
    }
    Ok(())
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "All processes together",
        &["what", "shared directory", "below /mfs"],
    );
    let rows = [
        ("write", "MB/s written and stored, a file each", 1),
        ("other", "MB/s read of another's file", 1),
        ("own", "MB/s read of the own file", 1),
        ("one", "MB/s read of one file by all", 1),
        ("create", "files made a second", 0),
        ("stat", "files found a second", 0),
        ("remove", "files removed a second", 0),
        ("checks", "checks", 0),
        ("wrong", "of these wrong", 0),
    ];
    let mut bars = Vec::new();
    for (key, label, decimals) in rows {
        let get = |way: &str| found.mean(&format!("nfstest.{way}.{key}"));
        let [shared, mfs] = WAYS.map(get);
        all.rows.push(vec![
            Cell::label(label),
            Cell::measured(shared, decimals),
            Cell::measured(mfs, decimals),
        ]);
        if ["write", "other", "own", "one"].contains(&key) {
            bars.extend(mfs.map(|m| Bar {
                label: label.to_owned(),
                value: m.mean,
                series: 0,
            }));
        }
    }
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "Below /mfs".into(),
            x: "MB/s".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "The shared directory is this machine's own file system: what it reads is in memory, and no network is in between. Below /mfs all \
             files are on n1."
                .into(),
        ],
    }
}
