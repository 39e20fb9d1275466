//! CRIU and DMTCP, where they are installed: how long the same program is stopped while it is written to a file and
//! read back. They do not move it; their time on one node is the least that a move by them would take.

use crate::row::{Row, Samples, Table};
use crate::run::{self, Limit};
use crate::stage::{SOON, Stage};
use crate::sys;
use anyhow::Result;
use armento_lab::Lab;
use std::process::Command;

/// Time limit: gigabytes through a slow disk.
const FILE: u64 = 120;

/// A tool: a check that it works here; scripts that end with the program stopped and saved, and running again. `DIR` is
/// a directory for its files, `HOLD` the program.
struct Tool {
    name: &'static str,
    works: &'static str,
    starts: &'static str,
    keeps: &'static str,
    revives: &'static str,
    ends: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool {
        name: "CRIU",
        works: "command -v criu >/dev/null && criu check >/dev/null 2>&1",
        starts: "setsid HOLD </dev/null >DIR/said 2>&1 3>&- 4>&- 5>&- & echo $! >DIR/pid; until grep -q ready DIR/said; do sleep 0.02; done",
        keeps: "criu dump -t $(cat DIR/pid) -D DIR",
        revives: "criu restore -d -D DIR",
        ends: "kill -9 $(cat DIR/pid)",
    },
    Tool {
        name: "DMTCP",
        works: "command -v dmtcp_launch >/dev/null && command -v dmtcp_command >/dev/null",
        starts: "cd DIR; setsid dmtcp_launch -q -q --new-coordinator -p 0 --port-file DIR/port --no-gzip --ckptdir DIR HOLD \
                 </dev/null >DIR/said 2>&1 & until grep -q ready DIR/said; do sleep 0.02; done",
        keeps: "dmtcp_command -q -p $(cat DIR/port) --bcheckpoint && dmtcp_command -q -p $(cat DIR/port) --quit",
        revives: "cd DIR; rm -f port; setsid dmtcp_restart -q -q --new-coordinator -p 0 --port-file DIR/port DIR/ckpt_*.dmtcp \
                  </dev/null >>DIR/said 2>&1 & until [ -s DIR/port ] && dmtcp_command -q -p $(cat DIR/port) -s 2>/dev/null | \
                  grep -q RUNNING=yes; do sleep 0.005; done",
        ends: "dmtcp_command -q -p $(cat DIR/port) --kill",
    },
];

pub fn run(stage: &Stage, lab: &Lab, table: &mut Table) {
    for tool in &TOOLS {
        if run::lines(sh(lab, tool.works), Limit::secs(SOON)).is_err() {
            // Not a failure: they are measured only where they are installed.
            eprintln!(
                "beside: {} is not here, or does not work with this kernel",
                tool.name
            );
            continue;
        }
        let sizes: &[u64] = if stage.quick { &[64] } else { &[64, 1024] };
        for mib in sizes {
            match rounds(stage, lab, tool, *mib) {
                Ok(rows) => table.extend(rows),
                Err(e) => {
                    let why = format!("{}, {mib} MiB: {e:#}", tool.name);
                    table.push(Row::failed("beside", &why));
                }
            }
        }
    }
}

/// As root: CRIU needs it, and both tools are to be treated alike.
fn sh(lab: &Lab, script: &str) -> Command {
    let mut c = lab.node(1).command("sh");
    c.args(["-c", script]);
    c
}

fn rounds(stage: &Stage, lab: &Lab, tool: &Tool, mib: u64) -> Result<Vec<Row>> {
    let (mut kept, mut revived) = (Vec::new(), Vec::new());
    let hold = format!("{} {mib} 0 sleep", stage.programs.path("hold").display());
    for round in 0..stage.rounds(3, 1) {
        let dir = format!("/tmp/others-{}-{mib}-{round}", tool.name);
        let script = |s: &str| s.replace("DIR", &dir).replace("HOLD", &hold);
        let timed = |s: &str| -> Result<f64> {
            let begun = sys::now_ns();
            run::lines(sh(lab, &script(s)), Limit::secs(FILE))?;
            Ok((sys::now_ns() - begun) as f64 / 1e6)
        };
        let make = format!("mkdir -p DIR; {}", tool.starts);
        run::lines(sh(lab, &script(&make)), Limit::secs(FILE))?;
        kept.push(timed(tool.keeps)?);
        revived.push(timed(tool.revives)?);
        run::lines(sh(lab, &script(tool.ends)), Limit::secs(SOON))?;
        run::lines(sh(lab, &script("rm -rf DIR")), Limit::secs(SOON))?;
    }
    let both: Vec<f64> = kept.iter().zip(&revived).map(|(a, b)| a + b).collect();
    let row = |what: &str, values: Vec<f64>| {
        let side = Samples {
            what: what.into(),
            unit: "ms",
            values,
        };
        Row::alone(
            "beside",
            format!("{mib} MiB by {}: {what}", tool.name),
            side,
        )
    };
    Ok(vec![
        row("to its file", kept),
        row("from its file", revived),
        row("both", both),
    ])
}
