//! Scenarios in a lab, for all experiments that play one.

use crate::formula::Values;
use crate::runner::{Measured, Setting};
use anyhow::{Result, anyhow, bail};
use armento_lab::farm::wait_alive;
use armento_lab::play::{Stage, Way};
use armento_scenario::{Plan, Row};
use armento_sim::Prices;
use serde_json::json;

/// Time limit of a run, seconds of the farm.
pub const LIMIT: f64 = 20_000.0;
/// Share of all cores that the nodes may have together: the rest is for the machine itself.
const CORES_SHARE: f64 = 0.8;
/// Share of a core of a node, at most and at least. Below it the start of one program takes a second.
const SHARE_MAX: f64 = 0.1;
const SHARE_MIN: f64 = 0.05;
/// Memory that a node of a lab takes with some programs: a daemon, hosts, keepers (measured: 20 to 40 MiB).
const NODE_KIB: u64 = 48 << 10;

/// As `armento sim` has them by default: measured on one machine, `docs/manual/sim.md`.
pub fn prices() -> Prices {
    Prices {
        first_ns: 7_000_000,
        ..Prices::default()
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A node's share of a core, where so many run.
pub fn share(nodes: usize) -> f64 {
    (CORES_SHARE * cores() as f64 / nodes as f64).min(SHARE_MAX)
}

/// Refuses more nodes than this machine has processors and memory for.
pub fn farm_fits(setting: &Setting) -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    // KERNEL: proc_meminfo(5), MemAvailable, KiB.
    let free = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let free = free.and_then(|l| l.trim().split(' ').next()?.parse().ok());
    fits(setting.nodes, cores(), free.unwrap_or(u64::MAX))
}

fn fits(nodes: usize, cores: usize, free_kib: u64) -> Result<()> {
    let by_cores = (CORES_SHARE * cores as f64 / SHARE_MIN) as usize;
    let by_memory = (free_kib / NODE_KIB) as usize;
    let most = by_cores.min(by_memory);
    if nodes > most {
        let free = free_kib >> 10;
        let hint = match most {
            0 | 1 => "hint: free some memory, or use another machine".to_owned(),
            most => format!("hint: --nodes {most} fits"),
        };
        bail!(
            "this machine is too small for {nodes} nodes: {cores} cores, {free} MiB free\n{hint}"
        );
    }
    Ok(())
}

/// Plays a plan on a farm of its own, and takes that down. `n`: number of programs, for the row.
pub fn lab(plan: &Plan, way: &str, n: usize) -> Result<(Row, Measured)> {
    let way: Way = way.parse().map_err(|e| anyhow!("{e}"))?;
    let stage = Stage::raise(plan, &way)?;
    let played = stage.play(plan)?;
    let lab = stage.lab();
    let lost = lab.lost();
    let problem = if !lost.is_empty() {
        Some(format!("nodes were lost: {}", lost.join(", ")))
    } else if let Some(e) = absent(&stage, &way) {
        Some(format!("nodes were lost: {e}"))
    } else {
        (played.lost > 0).then(|| format!("{} programs never ended", played.lost))
    };
    let traffic = match problem {
        None => lab.traffic()?,
        Some(_) => Vec::new(),
    };
    stage.down()?;
    let row = Row::of(n, &way.to_string(), 0, plan, &played);
    let measured = Measured {
        values: Values::default(),
        raw: json!({ "row": row, "ends_s": played.ends_s }),
        traffic,
        problem,
    };
    Ok((row, measured))
}

/// Why not all daemons are alive.
fn absent(stage: &Stage, way: &Way) -> Option<String> {
    let lab = stage.lab();
    let all = way
        .needs_farm()
        .then(|| wait_alive(lab.node(1), lab.nodes().len()));
    let said = all?.err()?.to_string();
    Some(said.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_too_small_is_told_what_fits() {
        let gib = 1 << 20;
        assert!(fits(16, 2, 4 * gib).is_ok());
        let e = fits(32, 1, 4 * gib).expect_err("one core").to_string();
        assert!(e.ends_with("hint: --nodes 16 fits"), "{e}");
        let e = fits(16, 2, gib / 2).expect_err("little memory").to_string();
        assert!(e.ends_with("hint: --nodes 10 fits"), "{e}");
    }
}
