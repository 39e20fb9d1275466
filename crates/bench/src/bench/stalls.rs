//! Four gigabytes, written at random places, a twentieth of them a second: the duration of the whole move, and the
//! stalls of the program after the pause. CRIU's post-copy takes 40 s and stalls for 36 of them (anchors).

use crate::bench::pause::{gaps, start};
use crate::row::{Bar, Row, Samples, Table};
use crate::run::Limit;
use crate::stage::{Farm, Stage, migrate};
use anyhow::Result;
use std::time::Duration;

const MOVE: u64 = 120;
/// Shorter gaps after the pause are no stalls.
const STALL_NS: u64 = 5_000_000;
/// Time after the move for remaining page transfers.
const AFTER: Duration = Duration::from_secs(3);

pub fn run(stage: &Stage, table: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        ..Farm::default()
    })?;
    let mib: u64 = if stage.quick { 256 } else { 4096 };
    let (size, rate) = (mib.to_string(), ((mib << 20) / 20).to_string());
    let (mut took, mut pauses, mut stalls) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..stage.rounds(2, 1) {
        let home = lab.node(1);
        let (holder, pid) = start(stage.armento(home, &[], "hold", &[&size, &rate, "random"]))?;
        stage.warm(&lab, mib, &[])?;
        let m = migrate(home, pid, "n2", Limit::secs(MOVE))?;
        std::thread::sleep(AFTER);
        let all = gaps(holder)?;
        let until = m.end_ns + AFTER.as_nanos() as u64;
        let during = all
            .iter()
            .filter(|(at, ns)| at + ns > m.begin_ns && *at < until);
        let mut long: Vec<u64> = during.map(|g| g.1).collect();
        long.sort_unstable();
        let pause = long.pop().unwrap_or(0);
        let rest: u64 = long.iter().filter(|ns| **ns > STALL_NS).sum();
        took.push((m.end_ns - m.begin_ns) as f64 / 1e9);
        pauses.push(pause as f64 / 1e6);
        stalls.push(rest as f64 / 1e9);
    }
    let side = |what: &str, unit, values| Samples {
        what: what.into(),
        unit,
        values,
    };
    let what = |of: &str| format!("{mib} MiB, 5 %/s at random: {of}");
    // The bars are requirements of the design.
    let rows = [
        Row::alone("stalls", what("whole move"), side("whole", "s", took)).barred(Bar::AtMost(5.0)),
        Row::alone("stalls", what("longest gap"), side("longest", "ms", pauses)),
        Row::alone(
            "stalls",
            what("others above 5 ms"),
            side("sum", "s", stalls),
        )
        .barred(Bar::AtMost(0.2)),
    ];
    table.extend(rows);
    lab.down()
}
