//! `armento lab …`: the command line of the lab.

mod describe;
mod proxy;
mod up;

use crate::Waiting;
use crate::enter::{self, Entry};
use crate::{check, counters, down, load, play, rsh, spec, sys};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use describe::{JSON_VERSION, describe};
use serde_json::json;
use std::ffi::OsString;

const EXEC_HELP: &str = "Examples:
  armento lab exec n1 -- armento nodes
  armento lab exec --user nobody n2 -- id
  armento lab exec n1 -- bash";
const LIST_HELP: &str = "Example:
  armento lab list --json";
const COUNTERS_HELP: &str = "Counts are those of the kernel since the node was made. A segment that crosses a fast link whole counts as one packet.

Examples:
  armento lab counters
  armento lab counters --name slow --json";
const DOWN_HELP: &str = "Examples:
  armento lab down
  armento lab down --dry-run
  armento lab down --all      also what a killed `lab up` left behind";

#[derive(Debug, Subcommand)]
pub enum Cmd {
    /// Start a farm on this machine
    #[command(after_help = up::HELP)]
    Up(Box<up::Up>),
    /// Run a command inside a node; exits with its exit code
    #[command(after_help = EXEC_HELP)]
    Exec(Exec),
    /// Show the labs of this machine
    #[command(after_help = LIST_HELP)]
    List {
        /// Print JSON (schema armento.labs/1)
        #[arg(long)]
        json: bool,
    },
    /// Take a lab down and remove every trace of it
    #[command(after_help = DOWN_HELP)]
    Down {
        /// Name of the lab
        #[arg(long, default_value = "lab")]
        name: String,
        /// Every lab, including remains of a killed `lab up`
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Show which would be taken down; change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Run a command on another node, as ssh does; works inside nodes
    #[command(after_help = rsh::HELP)]
    Rsh(rsh::Args),
    /// Load a node with native work for some time
    #[command(after_help = load::HELP)]
    Load(load::Args),
    /// Show bytes and packets of each node's interfaces
    #[command(after_help = COUNTERS_HELP)]
    Counters {
        /// Name of the lab
        #[arg(long, default_value = "lab", value_name = "L")]
        name: String,
        /// Print JSON (schema armento.lab-counters/1)
        #[arg(long)]
        json: bool,
    },
    /// Measure a lab and compare it with the ideal
    #[command(after_help = check::HELP)]
    Check(check::Args),
    /// Run a scenario on farms started for it, with each policy
    #[command(after_help = play::HELP)]
    Play(play::Args),
    /// Run a TCP proxy that injects connection faults
    #[command(hide = true, after_help = proxy::HELP)]
    Proxy(proxy::Proxy),
}

#[derive(Debug, Args)]
pub struct Exec {
    /// Name of the lab
    #[arg(long, default_value = "lab", value_name = "L")]
    name: String,
    /// Run as this user of the node
    #[arg(long, short, value_name = "U")]
    user: Option<String>,
    /// Name of the node, e.g. n1
    node: String,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs one command; returns the exit code of `armento`.
pub fn run(cmd: Cmd) -> Result<i32> {
    match cmd {
        Cmd::Up(up) => up::raise(*up),
        Cmd::Exec(Exec {
            name,
            user,
            node,
            command,
        }) => Ok(exec(&Entry {
            lab: name,
            node,
            user,
            detach: None,
            command,
        })),
        Cmd::List { json } => list(json),
        Cmd::Down { name, all, dry_run } => take_down(&name, all, dry_run),
        Cmd::Play(args) => play::run(&args),
        Cmd::Rsh(args) => Ok(rsh::run(&args)),
        Cmd::Load(args) => load::run(&args),
        Cmd::Counters { name, json } => count(&name, json),
        Cmd::Check(args) => check::run(&args),
        Cmd::Proxy(p) => proxy::run(p),
    }
}

/// Returns the command's exit code; failures of Armento itself are 125, to tell them apart.
fn exec(entry: &Entry) -> i32 {
    enter::run(entry).unwrap_or_else(|e| {
        eprintln!("armento: {e:#}");
        enter::FAILED
    })
}

fn count(name: &str, as_json: bool) -> Result<i32> {
    let all = counters::of(name)?;
    if as_json {
        say!("{}", counters::json(name, &all));
        return Ok(0);
    }
    say!(
        "{:<4} {:<5} {:>14} {:>10} {:>8} {:>14} {:>10} {:>8}",
        "",
        "",
        "received",
        "packets",
        "dropped",
        "sent",
        "packets",
        "dropped"
    );
    for (node, nics) in &all {
        for n in nics {
            say!(
                "{node:<4} {:<5} {:>14} {:>10} {:>8} {:>14} {:>10} {:>8}",
                n.name,
                n.rx_bytes,
                n.rx_packets,
                n.rx_dropped,
                n.tx_bytes,
                n.tx_packets,
                n.tx_dropped
            );
        }
    }
    Ok(0)
}

fn list(as_json: bool) -> Result<i32> {
    let mut labs = Vec::new();
    for name in down::traces() {
        let broken = json!({ "v": JSON_VERSION, "name": name, "nodes": [], "state": "broken" });
        labs.push(describe(&name).unwrap_or(broken));
    }
    if as_json {
        say!(
            "{}",
            json!({ "schema": "armento.labs/1", "v": JSON_VERSION, "labs": labs })
        );
        return Ok(0);
    }
    if labs.is_empty() {
        say!("no lab is up; `armento lab up` raises one");
    }
    for lab in &labs {
        let nodes = lab["nodes"].as_array().map_or(&[][..], |n| n);
        let up = nodes.iter().filter(|n| n["state"] == "up").count();
        let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
        match up {
            0 => say!(
                "{:<12} broken; `armento lab down --name {}` removes it",
                text(&lab["name"]),
                text(&lab["name"])
            ),
            _ => say!(
                "{:<12} {up} of {} nodes up",
                text(&lab["name"]),
                nodes.len()
            ),
        }
    }
    Ok(0)
}

fn take_down(name: &str, all: bool, dry_run: bool) -> Result<i32> {
    spec::check_name(name)?;
    if !sys::is_root() {
        bail!("taking a lab down needs root\nhint: sudo armento lab down");
    }
    let found = down::traces();
    if !all && !found.contains(name) {
        bail!("there is no lab `{name}`\nhint: `armento lab list` shows the labs");
    }
    let mut left = Vec::new();
    for lab in found.iter().filter(|n| all || *n == name) {
        if dry_run {
            say!("would take lab {lab} down, and end all that runs in it");
            continue;
        }
        let _waiting = Waiting::new(format!("lab {lab} goes down"));
        match down::wipe(lab, &mut down::short_pause) {
            Ok(()) => say!("lab {lab} is down"),
            Err(e) => left.push(format!("{e:#}")),
        }
    }
    if dry_run {
        say!("nothing was changed");
    }
    if left.is_empty() {
        Ok(0)
    } else {
        bail!("{}", left.join("\n"))
    }
}
