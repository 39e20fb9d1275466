//! `armento lab …`: the command line of the lab.

use crate::enter::{self, Entry};
use crate::lab::Lab;
use crate::play;
use crate::proxy::{self, Fault, Plan};
use crate::spec::{self, Link, Spec};
use crate::state::Dir;
use crate::{down, sys};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;

/// Version of what `--json` prints.
const JSON_VERSION: u32 = 1;

const UP_HELP: &str = "Examples:
  armento lab up                                  four nodes, a farm, a gigabit switch
  armento lab up --nodes 4 --speed 0.1,0.2,0.3,0.4 --link switch100
  armento lab up --set 'policy = \"armento\"' --set 'dead_ms = 15000'
  armento lab up --name slow --rate 10mbit --no-farm";
const EXEC_HELP: &str = "Examples:
  armento lab exec n1 -- armento nodes
  armento lab exec --user nobody n2 -- id
  armento lab exec n1 -- bash";
const LIST_HELP: &str = "Example:
  armento lab list --json";
const DOWN_HELP: &str = "Examples:
  armento lab down
  armento lab down --all      also what a killed `lab up` left behind";

const PROXY_HELP: &str = "Example:
  armento lab proxy --listen 127.0.0.1:7999 &
  ARMENTO_DIAL_VIA=127.0.0.1:7999 armento run --on n2 make";

#[derive(Debug, Subcommand)]
pub enum Cmd {
    /// Start a farm on this machine
    #[command(after_help = UP_HELP)]
    Up(Up),
    /// Run a command inside a node; exits with its exit code
    #[command(after_help = EXEC_HELP)]
    Exec(Exec),
    /// Show the labs of this machine
    #[command(after_help = LIST_HELP)]
    List {
        /// Print JSON
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
    },
    /// Run a scenario on farms started for it, with each policy
    #[command(after_help = play::HELP)]
    Play(play::Args),
    /// Run a TCP proxy that injects connection faults
    #[command(hide = true, after_help = PROXY_HELP)]
    Proxy(Proxy),
}

#[derive(Debug, Args)]
pub struct Proxy {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Where connections lead [default: the first line of each connection, as with ARMENTO_DIAL_VIA]
    #[arg(long, value_name = "IP:PORT")]
    to: Option<SocketAddr>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Bytes between two faults of one direction
    #[arg(long, default_value = "1000..1000000", value_parser = range, value_name = "A..B")]
    bytes: RangeInclusive<u64>,
    /// Milliseconds between two faults of one direction
    #[arg(long, default_value = "100..1000", value_parser = range, value_name = "A..B")]
    every: RangeInclusive<u64>,
    /// How long delays and stalls take, milliseconds
    #[arg(long, default_value = "1..300", value_parser = range, value_name = "A..B")]
    pause: RangeInclusive<u64>,
    /// Kinds of faults; none if none is named
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
}

/// `A..B`, both included.
fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |t: &str| t.parse().map_err(|e| format!("{t:?}: {e}"));
    match text.split_once("..") {
        Some((a, b)) if number(a)? <= number(b)? => Ok(number(a)?..=number(b)?),
        _ => Err("it is two numbers, `A..B`, the smaller first".into()),
    }
}

/// Prints its address, then each fault.
fn run_proxy(p: Proxy) -> Result<i32> {
    let listener = TcpListener::bind(p.listen)?;
    say!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let plan = Plan {
        seed: p.seed,
        bytes: p.bytes,
        every_ms: p.every,
        pause_ms: p.pause,
        faults: p.faults,
    };
    proxy::serve(&listener, p.to, &plan, |connection, direction, fault| {
        // Output that cannot be written is ignored: the faults go on.
        let _ = writeln!(
            std::io::stdout(),
            "connection {connection} direction {direction} {fault:?}"
        );
    })?;
    Ok(0)
}

#[derive(Debug, Args)]
pub struct Up {
    /// Number of nodes
    #[arg(long, default_value_t = 4, value_name = "N")]
    nodes: usize,
    /// Speed of the nodes as fractions of one core, repeated round the nodes
    /// [default: an equal share of this machine's cores, at most 1]
    #[arg(long, value_delimiter = ',', value_name = "S")]
    speed: Vec<f64>,
    /// Memory of each node, its disk included, e.g. 512M [default: no limit]
    #[arg(long, value_parser = spec::parse_size, value_name = "SIZE")]
    mem: Option<u64>,
    /// Network of the nodes: switch100, switch1000 or none
    #[arg(long, default_value = "switch1000")]
    link: Link,
    /// A switch of this rate instead, e.g. 4gbit
    #[arg(long, value_parser = spec::parse_rate, conflicts_with = "link", value_name = "BITS")]
    rate: Option<u64>,
    /// Name of the lab
    #[arg(long, default_value = "lab", value_name = "L")]
    name: String,
    /// Only start the nodes, without daemons
    #[arg(long)]
    no_farm: bool,
    /// A setting of all daemons, a line of TOML; may be repeated
    #[arg(long, value_name = "LINE")]
    set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
        Cmd::Up(up) => raise(up),
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
        Cmd::Down { name, all } => take_down(&name, all),
        Cmd::Play(args) => play::run(&args),
        Cmd::Proxy(p) => run_proxy(p),
    }
}

/// Returns the command's exit code; failures of Armento itself are 125, to tell them apart.
fn exec(entry: &Entry) -> i32 {
    enter::run(entry).unwrap_or_else(|e| {
        eprintln!("armento: {e:#}");
        enter::FAILED
    })
}

fn raise(up: Up) -> Result<i32> {
    let link = up.rate.map_or(up.link, |bits| Link::Switch { bits });
    let spec = Spec {
        name: up.name,
        nodes: up.nodes,
        speeds: up.speed,
        mem: up.mem,
        link,
        farm: !up.no_farm,
        config: up.set.iter().map(|line| format!("{line}\n")).collect(),
        ..Spec::default()
    };
    let farm = spec.farm;
    let lab = Lab::up(spec)?;
    let plan = lab.plan().clone();
    lab.keep()?;
    let name = plan.name;
    if up.json {
        say!("{}", describe(&name)?);
    } else {
        for n in &plan.nodes {
            say!(
                "{:<4} {:<12} {:.2} of CPU {}",
                n.name,
                n.addr,
                n.speed,
                n.cpu
            );
        }
        let option = if name == "lab" {
            String::new()
        } else {
            format!(" --name {name}")
        };
        let try_it = if farm { "armento nodes" } else { "hostname" };
        say!(
            "lab {name} is up: `armento lab exec{option} n1 -- {try_it}`, `armento lab down{option}`"
        );
    }
    Ok(0)
}

fn describe(name: &str) -> Result<serde_json::Value> {
    let dir = Dir::of(name)?;
    let (plan, pids) = (dir.plan()?, dir.pids());
    let alive = |i: usize| {
        pids.as_ref()
            .and_then(|p| p.nodes.get(i))
            .is_some_and(|p| p.alive())
    };
    let node = |(i, n): (usize, &spec::NodePlan)| {
        let pid = pids.as_ref().and_then(|p| p.nodes.get(i)).map(|p| p.pid);
        let state = if alive(i) { "up" } else { "down" };
        json!({ "name": n.name, "addr": n.addr, "speed": n.speed, "cpu": n.cpu, "pid": pid, "state": state })
    };
    let nodes: Vec<_> = plan.nodes.iter().enumerate().map(node).collect();
    Ok(
        json!({ "v": JSON_VERSION, "name": plan.name, "link": plan.link, "mem": plan.mem, "nodes": nodes }),
    )
}

fn list(as_json: bool) -> Result<i32> {
    let mut labs = Vec::new();
    for name in down::traces() {
        let broken = json!({ "v": JSON_VERSION, "name": name, "nodes": [], "state": "broken" });
        labs.push(describe(&name).unwrap_or(broken));
    }
    if as_json {
        say!("{}", json!({ "v": JSON_VERSION, "labs": labs }));
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

fn take_down(name: &str, all: bool) -> Result<i32> {
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
        match down::wipe(lab, &mut down::short_pause) {
            Ok(()) => say!("lab {lab} is down"),
            Err(e) => left.push(format!("{e:#}")),
        }
    }
    if left.is_empty() {
        Ok(0)
    } else {
        bail!("{}", left.join("\n"))
    }
}
