//! `armento lab load`: background work in a node, for a bounded time.

use crate::enter::{self, Entry};
use crate::lab::Lab;
use crate::probe::LOAD_SECONDS_MAX;
use crate::spec::NodePlan;
use crate::state::Dir;
use anyhow::{Context, Result, bail};
use std::process::Command;

pub const HELP: &str = "The load is a native program that does not move. It wants PERCENT of each of the node's cores, at the node's \
speed, and gets less where other programs want them, too. Ctrl-C, or killing this command, ends it.

Examples:
  armento lab load n2 100 --for 30
  armento lab load n2 50 --for 3600 &";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the lab
    #[arg(long, default_value = "lab", value_name = "L")]
    name: String,
    /// Name of the node, e.g. n1
    node: String,
    /// Share of the node's cores, percent
    percent: f64,
    /// Duration, at most a day
    #[arg(long = "for", default_value_t = 60.0, value_name = "SECONDS")]
    for_s: f64,
}

/// Runs the load; returns when it is over.
pub fn run(args: &Args) -> Result<i32> {
    if !(args.percent > 0.0 && args.percent <= 100.0) {
        bail!(
            "{} % is no share of a core\nhint: armento lab load {} 50",
            args.percent,
            args.node
        );
    }
    if !(args.for_s > 0.0 && args.for_s <= LOAD_SECONDS_MAX) {
        bail!(
            "a load lasts up to {LOAD_SECONDS_MAX} seconds, not {}\nhint: --for 60",
            args.for_s
        );
    }
    let plan = Dir::of(&args.name)?.plan()?;
    let node = plan.nodes.iter().find(|n| n.is_called(&args.node));
    let node = node.with_context(|| {
        format!(
            "lab {} has no node `{}`\nhint: armento lab list --json",
            args.name, args.node
        )
    })?;
    enter::run(&Entry {
        lab: args.name.clone(),
        node: node.name.clone(),
        user: None,
        detach: None,
        command: words(node, args.percent, args.for_s)
            .into_iter()
            .map(Into::into)
            .collect(),
    })
}

/// The program that loads a node, with its arguments, to be run there.
fn words(node: &NodePlan, percent: f64, for_s: f64) -> [String; 8] {
    let numbers = [percent, for_s, node.speed].map(|n| n.to_string());
    let [percent, for_s, speed] = numbers;
    let cores = node.cores.to_string();
    let [program, init, probe, load] = ["armento", "lab-init", "probe", "load"].map(String::from);
    [program, init, probe, load, percent, for_s, speed, cores]
}

impl Lab {
    /// A command that loads node `i`, counted from 1, with native work: `percent` of each of its cores for so many seconds.
    /// Killing it ends the load.
    pub fn load(&self, i: usize, percent: f64, for_s: f64) -> Command {
        let [program, args @ ..] = words(&self.plan().nodes[i - 1], percent, for_s);
        let mut c = self.node(i).command(program);
        c.args(args);
        c
    }
}
