//! A lab as JSON.

use crate::spec;
use crate::state::Dir;
use anyhow::Result;
use serde_json::json;

/// Version of what `--json` prints.
pub const JSON_VERSION: u32 = 1;

/// A lab as `--json` shows it.
pub fn describe(name: &str) -> Result<serde_json::Value> {
    let dir = Dir::of(name)?;
    let (plan, pids) = (dir.plan()?, dir.pids());
    let alive = |i: usize| {
        pids.as_ref()
            .and_then(|p| p.nodes.get(i))
            .is_some_and(|p| p.alive())
    };
    let node = |(i, n): (usize, &spec::NodePlan)| {
        let pid = pids.as_ref().and_then(|p| p.nodes.get(i)).map(|p| p.pid);
        let state = if alive(i) { "up" } else { "down" };
        json!({ "name": n.name, "addr": n.addr, "second_addr": n.second_addr, "speed": n.speed, "cores": n.cores,
                "cpu": n.cpus.first(), "cpus": n.cpus, "disk_channel": n.disk_channel, "pid": pid, "state": state })
    };
    let nodes: Vec<_> = plan.nodes.iter().enumerate().map(node).collect();
    Ok(
        json!({ "schema": "armento.lab/1", "v": JSON_VERSION, "name": plan.name, "link": plan.link, "links": if plan.second_link { 2 } else { 1 }, "mtu": plan.mtu,
            "faults": plan.faults, "shares": plan.shares, "disk": plan.disk, "period_ms": plan.period_ms, "mem": plan.mem, "nodes": nodes }),
    )
}
