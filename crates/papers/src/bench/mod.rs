//! `armento bench`: the programs of the papers on a lab, on a user's hosts, or on the running farm, without a paper.
//!
//! The same programs and the same launcher as the experiments; published values are not shown. Start at [`run`];
//! `tables.rs` shows results.

mod args;
mod measure;
mod plain;
mod tables;

use crate::report::plain;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use args::Place;
use armento_lab::{Spec, say, write_out};
use armento_mpi::{Ground, Host, Kind, parse_hostfile};
use measure::Bench;
use std::fs;

pub use args::Cmd;

/// Runs one benchmark. `farm` names the hosts of the running farm.
pub fn run(cmd: Cmd, farm: impl FnOnce() -> Result<Vec<Host>>) -> Result<i32> {
    let place = cmd.place();
    if !(0.01..=1.0).contains(&place.speed) {
        bail!(
            "a speed is a fraction of a core, not {}\nhint: --speed 0.25",
            place.speed
        );
    }
    let mpi = match (&cmd, place.mpich) {
        (Cmd::Exchange(_) | Cmd::Copy(_), _) => None,
        (_, true) => Some(Kind::Mpich.find()?),
        (_, false) => Some(Kind::OpenMpi.find()?),
    };
    let lab = place.lab_nodes.is_some();
    let stop = lab.then(|| runner::arm(format!("armento bench {}", cmd.name())));
    stop.transpose()?;
    let ground = ground(place, &cmd, farm)?;
    let np = place.np.unwrap_or_else(|| ground.count());
    let by_mpi = |mpi| Bench {
        ground: &ground,
        mpi,
        np,
        lab,
    };
    let done = match (&cmd, &mpi) {
        (Cmd::Exchange(asked), _) => plain::exchange(&ground, np, asked),
        (Cmd::Copy(asked), _) => plain::copy(&ground, asked),
        (_, Some(mpi)) => by_mpi(mpi).run(&cmd),
        (_, None) => Err(anyhow!("MPI was not looked for")),
    };
    let problem = ground.problem();
    let traffic = ground.traffic();
    ground.down()?;
    if let Some(problem) = problem {
        bail!("{problem}\nhint: run it again");
    }
    let (table, mut doc) = done?;
    if place.json {
        doc["schema"] = "armento.bench/1".into();
        doc["bench"] = cmd.name().into();
        if let Some(mpi) = mpi {
            doc["mpi"] = mpi.version().into();
        }
        doc["traffic"] = serde_json::to_value(traffic?)?;
        say!("{doc:#}");
    } else {
        for table in table {
            write_out(format_args!("\n{}", plain(&table)));
        }
    }
    Ok(0)
}

fn ground(place: &Place, cmd: &Cmd, farm: impl FnOnce() -> Result<Vec<Host>>) -> Result<Ground> {
    if let Some(nodes) = place.lab_nodes {
        return Ground::lab(Spec {
            name: format!("bench-{}", std::process::id()),
            nodes,
            speeds: vec![place.speed],
            link: place.link,
            farm: matches!(cmd, Cmd::Copy(_))
                || matches!(cmd, Cmd::Nfstest(a) if a.dir.as_ref().is_some_and(|d| d.starts_with("/mfs"))),
            ..Spec::default()
        });
    }
    let hosts = match &place.hostfile {
        None => farm()?,
        Some(file) => {
            let text = fs::read_to_string(file)
                .map_err(|e| anyhow!("{} cannot be read: {e}\nhint: `armento hostfile > hosts` writes one of the farm's nodes", file.display()))?;
            parse_hostfile(&text).with_context(|| file.display().to_string())?
        }
    };
    Ground::hosts(hosts)
}
