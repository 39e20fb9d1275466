//! `armento fabric`: the farm's network from one file. Each command reads the inventory, calls `armento_fabric`, and prints.

mod apply;
mod check;
mod cost;
mod doctor;
mod import;
mod plan;

use crate::out::Failure;
use anyhow::Result;
use armento_fabric::inventory::{Farm, Node, parse};
use std::path::{Path, PathBuf};

/// Where the inventory is unless `--farm` says otherwise.
const FARM: &str = "/etc/armento/farm.toml";

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Make an inventory of another system's files
    Import(import::Args),
    /// Show what a node's network should be, and the files for it
    Plan(plan::Args),
    /// Change this node's network to the plan; undone unless it is confirmed
    Apply(apply::Args),
    /// Keep what `apply` changed
    Confirm(apply::ConfirmArgs),
    /// Show where this node's network differs from the plan
    Check(check::Args),
    /// Look for faults: cables, cards, sizes, routes, addresses
    Doctor(doctor::Args),
    /// Show what the farm's networks need and give, per topology
    Cost(cost::Args),
    /// The timer of `apply`
    #[command(hide = true)]
    Undo(apply::UndoArgs),
}

pub fn run(cmd: Cmd) -> Result<i32> {
    match cmd {
        Cmd::Import(args) => import::run(&args),
        Cmd::Plan(args) => plan::run(&args),
        Cmd::Apply(args) => apply::run(&args),
        Cmd::Confirm(args) => apply::confirm(&args),
        Cmd::Check(args) => check::run(&args),
        Cmd::Doctor(args) => doctor::run(&args),
        Cmd::Cost(args) => cost::run(&args),
        Cmd::Undo(args) => apply::undo(&args),
    }
}

/// The inventory, and the node that it is about.
#[derive(clap::Args)]
pub struct Source {
    /// The inventory
    #[arg(short = 'f', long = "farm", value_name = "FILE", default_value = FARM)]
    pub farm: PathBuf,
}

impl Source {
    pub fn read(&self) -> Result<Farm> {
        let name = self.farm.display().to_string();
        let text = std::fs::read_to_string(&self.farm).map_err(|e| Failure {
            message: format!("cannot read {name}: {e}"),
            hint: "name the inventory with --farm; `armento fabric import` makes one of other systems' files".into(),
        })?;
        let beside = self.farm.parent().unwrap_or(Path::new("")).to_owned();
        let open =
            |file: &str| std::fs::read_to_string(beside.join(file)).map_err(|e| e.to_string());
        let broken = |e: armento_fabric::inventory::Problems| Failure {
            message: format!("the inventory is not usable:\n{e}"),
            hint: "nothing was changed; the lines above say what to write instead".into(),
        };
        Ok(parse(&name, &text, &open).map_err(broken)?)
    }
}

/// The node of this name, or this machine by its host name.
pub fn node<'a>(farm: &'a Farm, name: Option<&str>) -> Result<&'a Node> {
    let own = || {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        name.split('.').next().unwrap_or(name).to_owned()
    };
    let name = name.map_or_else(own, str::to_owned);
    let failure = || Failure {
        message: format!("the farm has no node `{name}`"),
        hint: "name one with --node; its name without --node is this machine's host name".into(),
    };
    Ok(farm.node(&name).ok_or_else(failure)?)
}
