//! The first move of a fresh python3: from the order to its resumption on the target, as its keeper reports.
//!
//! Its host is new and has none of its state; the node has had a python3 before. The very first move, which also
//! transfers the program and its libraries, is reported separately.

use crate::bench::pause::start;
use crate::row::{Bar, Row, Samples, Table};
use crate::run::Limit;
use crate::stage::{Farm, Stage, migrate};
use anyhow::Result;

const MOVE: u64 = 60;
/// With these modules it has some 30 MB.
const SCRIPT: &str = "import asyncio, ctypes, decimal, email, http.client, json, sqlite3, ssl, unittest, \
    xml.dom.minidom, os, time; a = list(range(200000)); print('ready', os.getpid(), flush=True); time.sleep(600)";

pub fn run(stage: &Stage, table: &mut Table) -> Result<()> {
    let lab = stage.farm(Farm {
        no_policy: true,
        ..Farm::default()
    })?;
    let home = lab.node(1);
    let mut took = Vec::new();
    for _ in 0..=stage.rounds(7, 3) {
        let mut c = home.command_as("nobody", "armento");
        c.args(["run", "python3", "-c", SCRIPT]);
        let (_python, pid) = start(c)?;
        took.push(migrate(home, pid, "n2", Limit::secs(MOVE))?.took_ms);
    }
    let side = |what: &str, values| Samples {
        what: what.into(),
        unit: "ms",
        values,
    };
    let cold = side("of all", vec![took.remove(0)]);
    let known = side("of this one", took);
    // The bar is a requirement of the design.
    let row = Row::alone("first", "first move of a fresh python3", known);
    table.push(row.barred(Bar::AtMost(40.0)));
    table.push(Row::alone(
        "first",
        "… the first python3 that node saw",
        cold,
    ));
    lab.down()
}
