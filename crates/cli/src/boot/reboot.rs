//! `armento boot reboot`: nodes start again, after their work has moved away; with `--rolling` by `cli/src/boot/rolling/mod.rs`.

use super::place::Place;
use super::status::known;
use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::inventory::{Farm, Root};
use armento_lab::Waiting;
use armento_provision::stage::{Progress, Step};
use serde_json::json;
use std::io::Read as _;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const HELP: &str = "Examples:
  armento boot reboot n2
  armento boot reboot --rolling              all nodes without a disk, one after the other
  armento boot reboot --rolling --at-once 4
  armento boot reboot --rolling --dry-run
  armento boot reboot n2 --shell \"ssh -i /root/key\"

On each node `armento farm stop` sends guests away and brings own processes home; then it starts again, with the image in
use. With --rolling each node is drained as by `armento node drain`, started again, and undrained when it has joined with that
image; the first that is not back ends the command, and the same command goes on from there.";

/// `armento farm stop` waits for a minute.
const STOPS: Duration = Duration::from_secs(120);
/// The order to start again is taken at once.
const TAKEN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// ssh(1): of ssh itself, as opposed to the command.
const CUT_OFF: i32 = 255;
/// Bytes of what a command on a node says.
const SAID_MAX: u64 = 4096;

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// These nodes
    #[arg(value_name = "NODE", required_unless_present = "rolling")]
    nodes: Vec<String>,
    /// One after the other, each when the one before has joined; without names all nodes without a disk
    #[arg(long)]
    pub rolling: bool,
    /// With --rolling: so many nodes at the same time
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rolling", value_parser = clap::value_parser!(u16).range(1..))]
    pub at_once: u16,
    /// The command that runs another on a node: it gets the node's address and the command
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "ssh -o BatchMode=yes -o ConnectTimeout=10 -l root"
    )]
    pub shell: String,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub dry: DryRun,
    /// Print JSON (schema armento.boot.reboot/1)
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// The inventory, and the nodes that are to start again.
    pub fn chosen(&self) -> Result<(Farm, Vec<String>)> {
        let farm = super::place::farm(&self.place.settings()?)?;
        let nodes = chosen(&farm, &self.nodes)?;
        Ok((farm, nodes))
    }
}

/// Without `--rolling`.
pub fn run(args: &Args) -> Result<i32> {
    let (farm, nodes) = args.chosen()?;
    if args.dry.dry_run {
        let line = |n: &String| format!("empty {n}, start it again, and go on");
        let would: Vec<String> = nodes.iter().map(line).collect();
        return Ok(dry_run::show(&would, args.json));
    }
    let net = farm.boot_net().map(|n| n.name.clone()).unwrap_or_default();
    let mut done: Vec<String> = Vec::new();
    for name in &nodes {
        let Some(address) = farm.node(name).and_then(|n| n.address(&net)) else {
            continue;
        };
        if let Err((e, hint)) = one(args, name, &address.to_string()) {
            let left = match done.is_empty() {
                true => "no node was started again before it".to_owned(),
                false => format!("started again before it: {}", done.join(", ")),
            };
            let message = format!("{name}: {e}; {left}");
            return Err(Failure { message, hint }.into());
        }
        if !args.json {
            say(&format!("{name} starts again\n"));
        }
        done.push(name.clone());
    }
    if args.json {
        say_json("armento.boot.reboot/1", json!({ "nodes": done }));
    }
    Ok(0)
}

/// Empties one node and starts it again; else what is wrong, and a hint.
fn one(args: &Args, name: &str, address: &str) -> Result<(), (String, String)> {
    let why = || format!("armento boot why {name}");
    let before = progress(&args.place, name).map_err(|e| (e.to_string(), why()))?;
    let joined = before.is_some_and(|p| p.step() == Step::Joined);
    let waiting = Waiting::new(format!("{name}: its work moves away"));
    let stopped = match run_on(&args.shell, address, "armento farm stop", STOPS) {
        Ok(Some(said)) if said.status.success() => Ok(()),
        Ok(Some(said)) => Err(said.failed()),
        Ok(None) => Err(format!("no answer in {} s", STOPS.as_secs())),
        Err(e) => Err(e),
    };
    // A node that is in no farm has nothing to send away.
    if let Err(e) = stopped
        && joined
    {
        let hint =
            "`armento farm status` on it shows what is left; `armento farm start` undoes the stop";
        return Err((format!("{e}; it was not started again"), hint.into()));
    }
    waiting.say(format!("{name} starts again"));
    reboot(&args.shell, address).map_err(|e| (e, why()))
}

fn chosen(farm: &Farm, names: &[String]) -> Result<Vec<String>> {
    if names.is_empty() {
        let diskless = farm.nodes.iter().filter(|n| n.root != Root::Disk);
        return Ok(diskless.map(|n| n.name.clone()).collect());
    }
    let mut once: Vec<String> = Vec::new();
    for name in names {
        let what = match farm.node(name) {
            Some(node) if node.root != Root::Disk => {
                if !once.contains(name) {
                    once.push(name.clone());
                }
                continue;
            }
            Some(_) => {
                format!("{name} has a disk and does not boot from the farm; nothing was changed")
            }
            None => format!("the inventory has no node `{name}`; nothing was changed"),
        };
        let failure = Failure {
            message: what,
            hint: "armento boot status lists the machines that boot from here".into(),
        };
        return Err(failure.into());
    }
    Ok(once)
}

/// What boot servers know of a node's last start.
pub fn progress(place: &Place, node: &str) -> Result<Option<Progress>> {
    let mut all = known(place)?.machines.into_values();
    Ok(all.find(|p| p.node.as_deref() == Some(node)))
}

/// Has a node start again. A shell whose node goes away while it answers is cut off, or waits for it in vain.
pub fn reboot(shell: &str, address: &str) -> Result<(), String> {
    match run_on(shell, address, "systemctl reboot", TAKEN)? {
        Some(said) if said.status.success() => Ok(()),
        Some(said) if said.status.code() == Some(CUT_OFF) && said.text.is_empty() => Ok(()),
        Some(said) => Err(said.failed()),
        None => Ok(()),
    }
}

/// What a command on a node left.
struct Said {
    command: String,
    status: ExitStatus,
    /// On standard error.
    text: String,
}

impl Said {
    fn failed(&self) -> String {
        format!("{}: {} ({})", self.command, self.text, self.status)
    }
}

/// Runs a command on a node, for `limit` at most; `None`: it has not ended by then.
fn run_on(
    shell: &str,
    address: &str,
    command: &str,
    limit: Duration,
) -> Result<Option<Said>, String> {
    let mut words = shell.split_whitespace();
    let program = words.next().ok_or("--shell is empty")?;
    let mut child = Command::new(program)
        .args(words)
        .args([address, command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{program}: {e}"))?;
    let until = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(|e| format!("{program}: {e}"))? {
            Some(status) => break status,
            None if Instant::now() < until => sleep(LOOK),
            None => {
                // It is our child and not reaped, so the pid is its own.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(None);
            }
        }
    };
    let mut said = Vec::new();
    if let Some(err) = child.stderr.take() {
        let _ = err.take(SAID_MAX).read_to_end(&mut said);
    }
    Ok(Some(Said {
        command: command.to_owned(),
        status,
        text: String::from_utf8_lossy(&said).trim().to_owned(),
    }))
}
