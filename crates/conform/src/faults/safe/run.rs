//! `armento conform --faults --safe`: the nodes of programs that are kept safe are lost.
//!
//! The criteria: each program ends with everything that a native run leaves; or it ends with a reason that the manual lists
//! (`reason.rs`) or by the kill of its keeper, and what it has written is a beginning of that. No lost body runs on beside
//! another one, and no process of it is left. Of those that have lost a body, the share that goes on is counted.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use crate::Args;
use crate::faults::campaign::{Ended, Lives, Sum, campaign};
use crate::faults::farm::{DISKS, Farm};
use crate::faults::plan::NodeFault;
use crate::faults::safe::life::{KEEPER_KILLED, Stage};
use crate::faults::safe::plan::{Life, node_faults};
use crate::faults::safe::programs::{NAMES, known};
use crate::faults::safe::twice::Bodies;

pub(crate) fn run(args: &Args, armento: &Path, tally: &Path, keep: &Path) -> Result<i32> {
    let lives = match args.life {
        Some(n) => n..n + 1,
        None => 0..args.programs,
    };
    let wanted: BTreeSet<usize> = lives.map(|n| Life::new(args.seed, n).program).collect();
    let programs = known(tally, |n| wanted.contains(&n))?;
    let farm = Farm::up(armento, args.seed, &[DISKS])?;
    let bodies = Bodies::default();
    let kept = Safe {
        args,
        stage: Stage {
            farm: &farm,
            tally,
            programs: &programs,
            bodies: &bodies,
            keep,
            homes: Mutex::new(()),
        },
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| bodies.watch(&over));
        let done = campaign(args, &farm, &kept);
        over.store(true, Ordering::Release);
        done
    })
}

struct Safe<'a> {
    args: &'a Args,
    stage: Stage<'a>,
}

impl Lives for Safe<'_> {
    fn live(&self, number: u64, _: &dyn Fn(Instant) -> bool) -> Result<Ended> {
        self.stage.live(&Life::new(self.args.seed, number))
    }

    fn node_faults(&self, n: u64) -> (u64, Vec<(usize, NodeFault)>) {
        node_faults(self.args.seed, n)
    }

    fn names(&self) -> Vec<&'static str> {
        NAMES.to_vec()
    }

    fn begins(&self, number: u64) -> Result<bool> {
        Ok(number < self.args.programs)
    }

    fn is_done(&self, sum: &Sum) -> bool {
        sum.lives >= self.args.programs
    }

    fn command(&self) -> String {
        let (seed, programs) = (self.args.seed, self.args.programs);
        format!("armento conform --faults --safe --seed {seed} --programs {programs}")
    }

    fn keep(&self) -> &Path {
        self.stage.keep
    }

    fn report(&self, sum: &Sum) -> (String, Option<Value>) {
        let n = |what: &str| sum.told.get(what).copied().unwrap_or(0);
        let (continued, ended) = (n("continued"), n("ended"));
        let share = match continued + ended {
            0 => 100.0,
            all => 100.0 * continued as f64 / all as f64,
        };
        let line = format!(
            "{} programs; {} lost a body: {continued} went on ({share:.1} %), {ended} ended with a reason; {} lost their keeper",
            sum.lives,
            continued + ended,
            n(&format!("ended: {KEEPER_KILLED}")),
        );
        let safe = json!({"lost": continued + ended, "continued": continued, "ended": ended, "told": sum.told});
        (line, Some(safe))
    }
}
