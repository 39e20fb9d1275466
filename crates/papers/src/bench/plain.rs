//! Benchmarks that need no MPI: the exchange of neighbours, and a copy.

use super::args::{Copied, Exchange};
use super::tables;
use crate::chapter::Table;
use crate::copy;
use crate::exchange::{By, Shape, Size, install, measure};
use crate::hosts::Hosts;
use anyhow::Result;
use armento_mpi::Ground;
use serde_json::{Value, json};

/// The hosts of a ground, and what starts programs on them: those of the user's are reached as mpirun reaches them.
fn hosts(ground: &Ground) -> Result<Hosts> {
    match ground {
        Ground::Lab { lab, .. } => Hosts::of(lab),
        Ground::Hosts { hosts, .. } => Ok(Hosts {
            names: hosts.iter().map(|h| h.name.clone()).collect(),
            shell: ["ssh", "-o", "BatchMode=yes"].map(str::to_owned).to_vec(),
        }),
    }
}

pub fn exchange(ground: &Ground, np: usize, asked: &Exchange) -> Result<(Vec<Table>, Value)> {
    let hosts = hosts(ground)?;
    let by = By::Sockets { under: false };
    let shape = match asked.chain {
        true => Shape::Chain,
        false => Shape::Ring,
    };
    let size = |kb: &u32| Size {
        kb: *kb,
        cycles: asked.cycles,
    };
    let sizes: Vec<Size> = asked.kb.iter().map(size).collect();
    install(&hosts, by, np.min(hosts.names.len()))?;
    let seen = measure(&hosts, by, shape, np, &sizes)?;
    let doc = json!({ "result": { "np": np, "shape": shape.word(), "sizes": seen } });
    Ok((tables::exchange(np, shape, &seen), doc))
}

pub fn copy(ground: &Ground, asked: &Copied) -> Result<(Vec<Table>, Value)> {
    let bytes = asked.mib << 20;
    let s = copy::measure(&hosts(ground)?, bytes)?;
    let doc = json!({ "result": { "bytes": bytes, "s": s } });
    Ok((tables::copy(bytes, s), doc))
}
