//! Bytes sent by a move of a process with half of its memory zeros (read, or written) or the text of a file (mapped, or
//! copied), against the bytes of its own pages. Moves back and forth: the first one also transfers the files.

use crate::bench::pause::start;
use crate::row::{Bar, Row, Samples, Table};
use crate::run::Limit;
use crate::stage::{Farm, Stage, migrate};
use anyhow::Result;

const MOVE: u64 = 60;
const TOUR: [&str; 3] = ["n2", "n3", "home"];

pub fn run(stage: &Stage, table: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        ..Farm::default()
    })?;
    let mib: u64 = if stage.quick { 128 } else { 1024 };
    let (size, home) = (mib.to_string(), lab.node(1));
    let mut sent: [Vec<f64>; 3] = Default::default();
    for _ in 0..stage.rounds(2, 1) {
        let (_holder, pid) = start(stage.armento(home, &[], "hold", &[&size, "0", "half"]))?;
        for (to, all) in TOUR.iter().zip(&mut sent) {
            all.push(migrate(home, pid, to, Limit::secs(MOVE))?.bytes / 1e6);
        }
    }
    let side = |what: &str, values| Samples {
        what: what.into(),
        unit: "MB",
        values,
    };
    for (to, sent) in TOUR.iter().zip(sent) {
        let own = side("own", vec![(mib << 19) as f64 / 1e6]);
        let what = format!("{mib} MiB, half of it zeros or text, to {to}: sent / own");
        // The bar is a requirement of the design.
        let row = Row::ratio("bytes", what, side("sent", sent), own, Bar::AtMost(1.05));
        table.push(row);
    }
    lab.down()
}
