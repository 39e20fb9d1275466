//! The cost of an idle farm: CPU and memory of its daemons, and the traffic between them.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit};
use crate::stage::{SOON, Stage};
use anyhow::{Context, Result};
use armento_lab::{Lab, Node, Spec};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Nodes of the farm for CPU and memory of daemons, and of the farm for traffic. The bars are budgets of the
/// design.
const NODES: usize = 16;
const NODES_MANY: usize = 64;
const NODES_QUICK: usize = 4;
const CPU: Bar = Bar::AtMost(0.5);
const MEMORY: Bar = Bar::AtMost(20.0);
const WORDS: Bar = Bar::AtMost(4.0);
/// Time until all nodes have received all loads, and speeds are measured.
const SETTLES: Duration = Duration::from_secs(30);
const WATCHED: Duration = Duration::from_secs(40);

/// Prints nanoseconds of CPU of a node's daemon, its memory in KiB, and bytes sent and received by the node.
const LOOK: &str = "pid=$(pgrep -f '[a]rmento node$')
cat /proc/$pid/task/*/schedstat | awk '{ ns += $1 } END { printf \"%.0f\\n\", ns }'
awk '/^VmRSS/ { print $2 }' /proc/$pid/status
awk -F: '$1 !~ /lo|face/ && NF == 2 { split($2, n, \" \"); out += n[9]; in_ += n[1] } END { print out; print in_ }' /proc/net/dev";

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    let size = |usual| if stage.quick { NODES_QUICK } else { usual };
    let few = costs(stage, size(NODES))?;
    let many = costs(stage, size(NODES_MANY))?;
    let row = |nodes: usize, what: &str, unit, all: &[Cost], of: fn(&Cost) -> f64| {
        let values = all.iter().map(of).collect();
        let one = Samples {
            what: "a node".into(),
            unit,
            values,
        };
        Row::alone("rest", format!("{nodes} nodes: {what}"), one)
    };
    let (n, m) = (few.len(), many.len());
    rows.extend([
        row(n, "CPU of a daemon", "%", &few, |c| c.percent).barred(CPU),
        row(n, "its memory", "MB", &few, |c| c.mb).barred(MEMORY),
        row(m, "sent by a node", "KB/s", &many, |c| c.out_kb).barred(WORDS),
        row(m, "received by a node", "KB/s", &many, |c| c.in_kb).barred(WORDS),
    ]);
    Ok(())
}

/// Of one node, over the time of measurement.
struct Cost {
    /// Of one core.
    percent: f64,
    mb: f64,
    /// Thousands of bytes a second, with all headers.
    out_kb: f64,
    in_kb: f64,
}

fn costs(stage: &Stage, nodes: usize) -> Result<Vec<Cost>> {
    let spec = Spec {
        name: format!("bench-{}", std::process::id()),
        nodes,
        speeds: vec![1.0],
        exe: Some(stage.armento.clone()),
        ..Spec::default()
    };
    let lab = Lab::up(spec)?;
    sleep(SETTLES);
    let before = read_all(&lab)?;
    sleep(WATCHED);
    let after = read_all(&lab)?;
    lab.down()?;
    Ok(before.iter().zip(&after).map(|(b, a)| a.since(b)).collect())
}

struct Seen {
    at: Instant,
    cpu_ns: f64,
    kib: f64,
    out: f64,
    heard: f64,
}

impl Seen {
    fn since(&self, before: &Seen) -> Cost {
        let s = self.at.duration_since(before.at).as_secs_f64();
        Cost {
            percent: (self.cpu_ns - before.cpu_ns) / s / 1e7,
            mb: self.kib * 1024.0 / 1e6,
            out_kb: (self.out - before.out) / s / 1e3,
            in_kb: (self.heard - before.heard) / s / 1e3,
        }
    }
}

fn read_all(lab: &Lab) -> Result<Vec<Seen>> {
    lab.nodes().iter().map(read).collect()
}

fn read(node: &Node) -> Result<Seen> {
    let mut c = node.command("sh");
    c.args(["-c", LOOK]);
    let at = Instant::now();
    let numbers = run::numbers(c, Limit::secs(SOON))?;
    let four = <[f64; 4]>::try_from(numbers).ok();
    let [cpu_ns, kib, out, heard] =
        four.with_context(|| format!("no daemon to look at on {}", node.name))?;
    Ok(Seen {
        at,
        cpu_ns,
        kib,
        out,
        heard,
    })
}
