//! `armento boot reboot`: nodes start again, one after the other, after their work has moved away.

use super::place::Place;
use super::status::known;
use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::inventory::{Farm, Root};
use armento_lab::Waiting;
use armento_provision::stage::{Progress, Step};
use serde_json::json;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const HELP: &str = "Examples:
  armento boot reboot n2
  armento boot reboot --rolling              all nodes without a disk, one after the other
  armento boot reboot --rolling --dry-run
  armento boot reboot n2 --shell \"ssh -i /root/key\"

On each node `armento farm stop` sends guests away and brings own processes home; then it starts again, with the image in
use. With --rolling the next node follows when the one before has joined; the first that does not ends the command.";

/// From the order to start again until the node has joined.
const JOINED: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// These nodes
    #[arg(value_name = "NODE", required_unless_present = "rolling")]
    nodes: Vec<String>,
    /// One after the other, each when the one before has joined; without names all nodes without a disk
    #[arg(long)]
    rolling: bool,
    /// The command that runs another on a node: it gets the node's address and the command
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "ssh -o BatchMode=yes -o ConnectTimeout=10 -l root"
    )]
    shell: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.boot.reboot/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<i32> {
    let settings = args.place.settings()?;
    let farm = super::place::farm(&settings)?;
    let nodes = chosen(&farm, &args.nodes)?;
    let how = match args.rolling {
        true => "wait until it has joined",
        false => "go on",
    };
    if args.dry.dry_run {
        let line = |n: &String| format!("empty {n}, start it again, and {how}");
        let would: Vec<String> = nodes.iter().map(line).collect();
        return Ok(dry_run::show(&would, args.json));
    }
    let net = farm.boot_net().map(|n| n.name.clone()).unwrap_or_default();
    let mut done = Vec::new();
    for name in &nodes {
        let left = |done: &[String]| match done.is_empty() {
            true => "no node was started again before it".to_owned(),
            false => format!("started again before it: {}", done.join(", ")),
        };
        let Some(address) = farm.node(name).and_then(|n| n.address(&net)) else {
            continue;
        };
        let before = progress(&args.place, name)?;
        let joined = before.as_ref().is_some_and(|p| p.step() == Step::Joined);
        let since = before.map_or(0, |p| p.at_ms());
        let waiting = Waiting::new(format!("{name}: its work moves away"));
        let address = address.to_string();
        let stopped = shell(&args.shell, &address, "armento farm stop");
        // A node that is in no farm has nothing to send away.
        if let Err(e) = stopped
            && joined
        {
            drop(waiting);
            let failure = Failure {
                message: format!("{name}: {e}; it was not started again; {}", left(&done)),
                hint: "`armento farm status` on it shows what is left; `armento farm start` undoes the stop".into(),
            };
            return Err(failure.into());
        }
        waiting.say(format!("{name} starts again"));
        let told = shell(&args.shell, &address, "systemctl reboot");
        let rebooted = told.and_then(|()| match args.rolling {
            true => wait(&args.place, name, since).map_err(|e| e.to_string()),
            false => Ok(()),
        });
        drop(waiting);
        if let Err(e) = rebooted {
            let failure = Failure {
                message: format!("{name}: {e}; {}", left(&done)),
                hint: format!(
                    "armento boot why {name}; `armento boot image back NAME` returns to the image before"
                ),
            };
            return Err(failure.into());
        }
        if !args.json {
            say(&format!(
                "{name} {}\n",
                if args.rolling {
                    "has joined again"
                } else {
                    "starts again"
                }
            ));
        }
        done.push(name.clone());
    }
    if args.json {
        say_json("armento.boot.reboot/1", json!({ "nodes": done }));
    }
    Ok(0)
}

fn chosen(farm: &Farm, names: &[String]) -> Result<Vec<String>> {
    if names.is_empty() {
        let diskless = farm.nodes.iter().filter(|n| n.root != Root::Disk);
        return Ok(diskless.map(|n| n.name.clone()).collect());
    }
    for name in names {
        let what = match farm.node(name) {
            Some(node) if node.root != Root::Disk => continue,
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
    Ok(names.to_vec())
}

/// What boot servers know of a node's last start.
fn progress(place: &Place, node: &str) -> Result<Option<Progress>> {
    let mut all = known(place)?.machines.into_values();
    Ok(all.find(|p| p.node.as_deref() == Some(node)))
}

fn shell(shell: &str, address: &str, command: &str) -> Result<(), String> {
    let mut words = shell.split_whitespace();
    let program = words.next().ok_or("--shell is empty")?;
    let out = Command::new(program)
        .args(words)
        .args([address, command])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    // A shell whose node goes away while it answers is cut off.
    match out.status.code() {
        Some(0) => Ok(()),
        Some(255) if command.ends_with("reboot") && out.stderr.is_empty() => Ok(()),
        _ => Err(format!(
            "{command}: {} ({})",
            String::from_utf8_lossy(&out.stderr).trim(),
            out.status
        )),
    }
}

/// Waits until it has joined after `since`, milliseconds of the boot servers' clocks.
fn wait(place: &Place, node: &str, since: u64) -> Result<()> {
    let until = Instant::now() + JOINED;
    loop {
        let now = progress(place, node)?;
        if now.is_some_and(|p| p.at_ms() > since && p.step() == Step::Joined) {
            return Ok(());
        }
        if Instant::now() > until {
            anyhow::bail!("it has not joined again within {} s", JOINED.as_secs());
        }
        sleep(LOOK);
    }
}
