//! `--dry-run`: what a command would do. It asks and looks; it changes nothing, here or elsewhere.

use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, Dest, NodeInfo, ProcInfo, SwitchInfo};
use armento_model::{NodeName, Pid, Stay, clean};
use serde_json::json;

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct DryRun {
    /// Show what would be done; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// What would be done, one line each.
pub fn show(lines: &[String], as_json: bool) -> i32 {
    if as_json {
        say_json("armento.dry-run/1", json!({ "would": lines }));
    } else {
        let text: String = lines.iter().map(|l| format!("would {l}\n")).collect();
        say(&(text + "nothing was changed\n"));
    }
    0
}

pub fn nodes() -> anyhow::Result<Vec<NodeInfo>> {
    match ask(Ask::Nodes, ANSWER)? {
        Answer::Nodes { nodes } => Ok(nodes),
        _ => Err(unexpected_answer()),
    }
}

fn procs(all: bool) -> anyhow::Result<Vec<ProcInfo>> {
    match ask(Ask::Ps { all }, ANSWER)? {
        Answer::Ps { procs } => Ok(procs),
        _ => Err(unexpected_answer()),
    }
}

pub fn switches() -> anyhow::Result<SwitchInfo> {
    match ask(Ask::Switch { change: None }, ANSWER)? {
        Answer::Switches(info) => Ok(info),
        _ => Err(unexpected_answer()),
    }
}

/// The node, if the farm has it.
fn known<'a>(nodes: &'a [NodeInfo], name: &NodeName) -> Result<&'a NodeInfo, Failure> {
    nodes
        .iter()
        .find(|n| n.name == *name)
        .ok_or_else(|| Failure {
            message: format!("the farm has no node `{name}`; nothing was changed"),
            hint: "armento nodes shows its nodes".into(),
        })
}

/// `armento farm remove`.
pub fn remove(name: &NodeName, now: bool) -> anyhow::Result<Vec<String>> {
    let nodes = nodes()?;
    let node = known(&nodes, name)?;
    if node.here {
        let failure = Failure {
            message: format!("{name} is this node; nothing was changed"),
            hint: "armento leave takes it out of the farm".into(),
        };
        return Err(failure.into());
    }
    let all = procs(true)?;
    let there = all
        .iter()
        .filter(|p| p.place == *name && p.home != *name)
        .count();
    let theirs = all
        .iter()
        .filter(|p| p.home == *name && p.place != *name)
        .count();
    let wait = match now {
        true => "lose at once what is still away from its home:".to_owned(),
        false => "wait half a minute for these to go home, and lose the rest:".to_owned(),
    };
    Ok(vec![
        format!("{wait} {there} on {name}, {theirs} of {name} elsewhere"),
        format!(
            "remove {name} ({}) for good, and tell the {} others",
            node.standing(),
            nodes.len().saturating_sub(2)
        ),
        "make all tokens so far invalid".into(),
    ])
}

/// `armento migrate` and `armento hold`.
pub fn migrate(pid: Pid, to: &Dest) -> anyhow::Result<Vec<String>> {
    let nodes = nodes()?;
    let held = procs(false)?.into_iter().find(|p| p.pid == pid);
    let mut would = Vec::new();
    let (place, what) = match &held {
        Some(p) => (Some(p.place.clone()), clean(&p.command)),
        None => {
            if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
                let failure = Failure {
                    message: format!("there is no process {pid} here; nothing was changed"),
                    hint: "armento ps shows those of this home".into(),
                };
                return Err(failure.into());
            }
            match to {
                Dest::Hold | Dest::Home => {}
                _ => would.push(format!("start a keeper for process {pid}")),
            }
            let here = nodes.iter().find(|n| n.here).map(|n| n.name.clone());
            (here, "not started by armento run".into())
        }
    };
    let from = place.as_ref().map_or("here".into(), NodeName::to_string);
    would.push(match to {
        Dest::Node(name) => {
            let node = known(&nodes, name)?;
            match node.standing() {
                _ if place.as_ref() == Some(name) => {
                    format!("leave {pid} on {name}, where it is ({what})")
                }
                "alive" => format!("move {pid} from {from} to {name} ({what})"),
                other => format!("be refused: {name} is {other}; {pid} stays on {from} ({what})"),
            }
        }
        Dest::Home => format!("bring {pid} home from {from} ({what})"),
        Dest::Hold => format!("bring {pid} home from {from} and keep it there, untraced ({what})"),
        Dest::Balance => format!("let the farm choose the node of {pid}, now on {from} ({what})"),
    });
    let stay = held.and_then(|p| p.stay);
    if let Some(stay) = stay.filter(|_| matches!(to, Dest::Node(_))) {
        let (why, remedy) = (Stay::explain(stay), Stay::remedy(stay));
        would.push(format!(
            "perhaps be refused: it stays now because {why}; {remedy}"
        ));
    }
    Ok(would)
}

/// `armento leave`, with a daemon.
pub fn leave() -> anyhow::Result<Vec<String>> {
    let info = switches()?;
    let others = nodes()?.iter().filter(|n| !n.here).count();
    Ok(vec![
        format!(
            "bring {} processes home and send {} guests away, within a minute",
            info.away, info.guests
        ),
        format!(
            "tell {others} members that {} leaves, and delete its keys",
            info.node
        ),
        "end the daemon".into(),
    ])
}

/// A setting that a switch changes.
pub fn set(name: &str, now: bool, wanted: bool) -> String {
    let word = |on: bool| if on { "on" } else { "off" };
    match now == wanted {
        true => format!("leave `{name}` {}, as it is", word(now)),
        false => format!("switch `{name}` {}", word(wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that change something that outlives them: each has `--dry-run`.
    const CHANGE: &[&str] = &[
        "farm init",
        "farm invite",
        "farm rotate",
        "farm allocation",
        "context invite",
        "context add",
        "context use",
        "context remove",
        "boot init",
        "boot image build",
        "boot image import",
        "boot image use",
        "boot image back",
        "boot image remove",
        "boot image lead",
        "boot add-node",
        "boot claim",
        "boot reboot",
        "fabric apply",
        "fabric confirm",
        "web",
        "mosix install",
        "mosix remove",
        "mosix write",
        "farm trust",
        "farm reload",
        "farm remove",
        "farm start",
        "farm stop",
        "farm drain",
        "farm block",
        "farm stay",
        "farm quiet",
        "farm expel",
        "farm bring",
        "farm upgrade",
        "farm recover",
        "node drain",
        "node undrain",
        "join",
        "leave",
        "migrate",
        "checkpoint",
        "safe",
        "restart",
        "hold",
        "mfs on",
        "mfs off",
        "mfs select",
        "lab up",
        "lab down",
    ];
    /// Those that only show something, run something and leave nothing but its output, or are called by another command.
    const OTHERS: &[&str] = &[
        "farm discover",
        "farm list",
        "context list",
        "fabric undo",
        "fabric import",
        "fabric plan",
        "fabric check",
        "fabric doctor",
        "fabric cost",
        "boot image list",
        "boot image diff",
        "boot serve",
        "boot status",
        "boot why",
        "boot view",
        "mosix list",
        "mosix cat",
        "metrics",
        "schema",
        "run",
        "nodes",
        "ps",
        "files",
        "mfs stat",
        "dfsa",
        "top",
        "why",
        "log",
        "history",
        "farm status",
        "lab exec",
        "lab list",
        "lab rsh",
        "lab load",
        "lab counters",
        "lab check",
        "lab play",
        "lab proxy",
        "sim",
        "conform",
        "doctor",
        "demo",
        "paper list",
        "paper run",
        "paper report",
        "bench",
        "hostfile",
        "mpi-env",
        "service",
        "pages",
    ];

    #[test]
    fn every_command_that_changes_something_has_a_dry_run() {
        use clap::CommandFactory as _;
        let mut command = crate::Cli::command();
        command.build();
        let below = |c: &clap::Command| -> Vec<clap::Command> {
            let verbs = c.get_subcommands().filter(|v| v.get_name() != "help");
            verbs.cloned().collect()
        };
        let mut open: Vec<(String, clap::Command)> = below(&command)
            .into_iter()
            .map(|c| (c.get_name().to_owned(), c))
            .collect();
        let mut seen = Vec::new();
        while let Some((name, verb)) = open.pop() {
            // Groups of commands that measure, or that only a package calls.
            let deeper = match name.as_str() {
                "bench" | "service" => Vec::new(),
                _ => below(&verb),
            };
            if deeper.is_empty() {
                let dry = verb.get_arguments().any(|a| a.get_id() == "dry_run");
                assert_eq!(dry, CHANGE.contains(&name.as_str()), "{name} --dry-run");
                let known = dry || OTHERS.contains(&name.as_str());
                assert!(
                    known,
                    "`{name}` is in neither table: does it change something?"
                );
                seen.push(name);
                continue;
            }
            let named = |c: clap::Command| (format!("{name} {}", c.get_name()), c);
            open.extend(deeper.into_iter().map(named));
        }
        let all = CHANGE.iter().chain(OTHERS);
        let gone: Vec<_> = all.filter(|v| !seen.iter().any(|s| s == *v)).collect();
        assert!(gone.is_empty(), "no such commands: {gone:?}");
    }

    #[test]
    fn switches_that_are_set_already_are_left() {
        assert_eq!(set("block", false, true), "switch `block` on");
        assert_eq!(set("block", true, true), "leave `block` on, as it is");
        assert_eq!(set("drain", true, false), "switch `drain` off");
    }
}
