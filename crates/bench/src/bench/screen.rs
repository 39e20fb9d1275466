//! `armento top` at 1,000 nodes and 10,000 processes: from new data, and from a key, to the frame.

use crate::row::{Bar, Row, Samples, Table};
use crate::stage::Stage;
use anyhow::Result;
use armento_client::api::{NodeInfo, ProcInfo};
use armento_tui::{Look, Theme, redraws};
use serde_json::json;

const NODES: usize = 1_000;
const PROCS: usize = 10_000;
const BAR: Bar = Bar::AtMost(50.0);

pub fn run(stage: &Stage, table: &mut Table) -> Result<()> {
    let look = Look {
        theme: Theme::Dark,
        unicode: true,
    };
    for tree in [false, true] {
        let rounds = stage.rounds(41, 11);
        let snapshots: Vec<_> = (0..rounds)
            .map(|n| Ok((nodes(n)?, procs(n)?)))
            .collect::<Result<_>>()?;
        let times = redraws(look, tree, snapshots.into_iter());
        let side = |what: &str, of: fn(&armento_tui::Redraw) -> std::time::Duration| Samples {
            what: what.into(),
            unit: "ms",
            values: times.iter().map(|t| of(t).as_secs_f64() * 1e3).collect(),
        };
        let shape = if tree { "tree" } else { "list" };
        let size = format!("{NODES} nodes, {PROCS} processes");
        let data = side("new data to frame", |t| t.data);
        table.push(Row::alone("screen", format!("{shape}: {size}"), data).barred(BAR));
        let key = side("key to frame", |t| t.key);
        table.push(Row::alone("screen", format!("{shape}: a key"), key).barred(BAR));
    }
    Ok(())
}

/// The farm at round `n`, as its daemon would send it.
fn nodes(n: usize) -> Result<Vec<NodeInfo>> {
    let node = |i: usize| {
        serde_json::from_value::<NodeInfo>(json!({
            "name": format!("node-{i}"), "addr": format!("10.0.{}.{}:7117", i / 250, i % 250),
            "state": if i.is_multiple_of(97) { "down" } else { "alive" }, "here": i == 0,
            "load": ((i * 7 + n) % 40) as f64 / 10.0, "speed": 10_000, "cores": 8,
            "mem_total_kib": 1 << 25, "mem_free_kib": (i * 1013 + n) % (1 << 25),
            "guests": i % 13, "age_ms": 400, "wire": "tls", "version": "0.1.0",
        }))
    };
    Ok((0..NODES).map(node).collect::<Result<_, _>>()?)
}

fn procs(n: usize) -> Result<Vec<ProcInfo>> {
    let proc = |i: usize| {
        serde_json::from_value::<ProcInfo>(json!({
            "pid": 1000 + i, "ppid": if i.is_multiple_of(10) { 1 } else { 1000 + i / 10 * 10 },
            "tree": format!("{:016x}", i / 10), "uid": 1000 + i % 30,
            "home": format!("node-{}", i / 10 % NODES), "place": format!("node-{}", (i * 31 + n / 4) % NODES),
            "command": format!("/usr/lib/gcc/x86_64-linux-gnu/14/cc1 -quiet -I /usr/include file{i}.c -o /tmp/cc{i}.s"),
            "cpu_ms": i * 13 % 5000 + n * (i % 1000), "away_cpu_ms": 0, "rss_kib": i * 7, "threads": 1,
            "busy_percent": 90, "moves": i % 5, "forwarded": i * n, "stay": null, "locked": false,
            "age_ms": 5000 + n * 1000,
        }))
    };
    Ok((0..PROCS).map(proc).collect::<Result<_, _>>()?)
}
