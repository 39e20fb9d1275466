//! `armento fabric`: the farm's network from one file. Each command reads the inventory, calls `armento_fabric`, and prints.

mod apply;
mod apply_all;
mod check;
mod cost;
mod doctor;
mod import;
mod plan;
mod remote;
mod source;

pub use source::{Source, node};

use anyhow::Result;

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
