//! `armento node drain` and `undrain`: a node is emptied before maintenance, and takes part again after it.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, DrainChange, DrainInfo, DrainedProcess};
use armento_lab::Waiting;
use armento_model::{NodeName, Stay, clean};
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const DRAIN_HELP: &str = "Examples:
  armento node drain                              this node, and wait until it is empty
  armento node drain n2 n3 --why 'new memory'     others: on a node that holds the farm's key
  armento node drain n2 --timeout 60
  armento node drain --all-home                   own processes come home, instead of leaving
  armento node drain n2 --dry-run

Guests leave, none is accepted, and programs of the node begin and go on elsewhere where they can. It holds until
`armento node undrain`, also after a restart of the daemon. Programs whose home is the node depend on it wherever they run.";
pub const UNDRAIN_HELP: &str = "Examples:
  armento node undrain
  armento node undrain n2 n3
  armento node undrain n2 --dry-run";

const CHECK_EVERY: Duration = Duration::from_millis(250);
/// A node that does not answer for so long is given up: a daemon is restarted in less.
const SILENT_MAX: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
pub struct Drain {
    /// Nodes to drain [default: this one]
    #[arg(value_name = "NODE")]
    nodes: Vec<NodeName>,
    /// The reason: shown to users whose programs are refused there
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Fail after so many seconds if something is left; the nodes stay drained
    #[arg(long, value_name = "S", default_value_t = 600)]
    timeout: u32,
    /// Bring the node's own processes home and keep them there, instead of sending them to other nodes
    #[arg(long)]
    all_home: bool,
    /// Do not wait until the nodes are empty
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.node-drain/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Undrain {
    /// Nodes that take part again [default: this one]
    #[arg(value_name = "NODE")]
    nodes: Vec<NodeName>,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.node-drain/1)
    #[arg(long)]
    json: bool,
}

pub fn drain(args: &Drain) -> anyhow::Result<i32> {
    let change = DrainChange {
        drained: true,
        why: args.why.clone().unwrap_or_default(),
        all_home: args.all_home,
    };
    let nodes = chosen(&args.nodes);
    if args.dry.dry_run {
        let plans = nodes.iter().map(|n| Ok(would(&look(n, None)?, &change)));
        let would: anyhow::Result<Vec<Vec<String>>> = plans.collect();
        return Ok(dry_run::show(&would?.concat(), args.json));
    }
    let mut infos = order(&nodes, &change)?;
    if !args.no_wait {
        wait(&mut infos, Duration::from_secs(args.timeout.into()))?;
    }
    let left: Vec<&DrainInfo> = infos.iter().filter(|i| !i.is_empty()).collect();
    let late = !args.no_wait && !left.is_empty();
    show(&infos, late, args.json);
    if late {
        return Err(not_empty(&left, args.timeout).into());
    }
    Ok(0)
}

pub fn undrain(args: &Undrain) -> anyhow::Result<i32> {
    let nodes = chosen(&args.nodes);
    if args.dry.dry_run {
        let named = |n: &Option<NodeName>| -> anyhow::Result<String> {
            let info = look(n, None)?;
            Ok(format!(
                "on {}: {}",
                info.node,
                dry_run::set("drain", info.drained, false)
            ))
        };
        let would: anyhow::Result<Vec<String>> = nodes.iter().map(named).collect();
        return Ok(dry_run::show(&would?, args.json));
    }
    show(&order(&nodes, &DrainChange::default())?, false, args.json);
    Ok(0)
}

/// `None`: this node.
fn chosen(names: &[NodeName]) -> Vec<Option<NodeName>> {
    match names {
        [] => vec![None],
        names => {
            let mut once: Vec<Option<NodeName>> = Vec::new();
            for name in names {
                if !once.contains(&Some(name.clone())) {
                    once.push(Some(name.clone()));
                }
            }
            once
        }
    }
}

fn look(node: &Option<NodeName>, change: Option<&DrainChange>) -> Result<DrainInfo, anyhow::Error> {
    let question = Ask::Drain {
        node: node.clone(),
        change: change.cloned(),
    };
    match ask(question, ANSWER)? {
        Answer::Drain(info) => Ok(info),
        _ => Err(unexpected_answer()),
    }
}

/// Orders it of each node in turn. The first that refuses ends it: those before it are changed, which is said.
fn order(nodes: &[Option<NodeName>], change: &DrainChange) -> anyhow::Result<Vec<DrainInfo>> {
    let mut infos: Vec<DrainInfo> = Vec::new();
    for node in nodes {
        match look(node, Some(change)) {
            Ok(info) => infos.push(info),
            Err(e) if infos.is_empty() => return Err(e),
            Err(e) => {
                let done: Vec<&str> = infos.iter().map(|i| i.node.as_str()).collect();
                let word = if change.drained {
                    "drained"
                } else {
                    "undrained"
                };
                return Err(e.context(format!("{} already {word}; then", done.join(", "))));
            }
        }
    }
    Ok(infos)
}

/// Until all are empty, or `limit` is over.
fn wait(infos: &mut [DrainInfo], limit: Duration) -> anyhow::Result<()> {
    let waiting = Waiting::new("");
    let first: u64 = infos.iter().map(to_go).sum();
    let (mut most, begun) = (first, Instant::now());
    let mut heard = vec![begun; infos.len()];
    while infos.iter().any(|i| !i.is_empty()) && begun.elapsed() < limit {
        let left: u64 = infos.iter().map(to_go).sum();
        most = most.max(left);
        let staying: u64 = infos.iter().map(|i| i.staying).sum();
        let stay = match staying {
            0 => String::new(),
            n => format!(", {n} stay"),
        };
        waiting.say(format!("{left} of {most} processes are still to go{stay}"));
        sleep(CHECK_EVERY);
        ask_again(infos, &mut heard, Instant::now, &info)?;
    }
    Ok(())
}

/// Asks each node that is not empty. One that has been silent for too long ends it, whatever the others say; `heard`: when each
/// answered last.
fn ask_again(
    infos: &mut [DrainInfo],
    heard: &mut [Instant],
    now: impl Fn() -> Instant,
    look: &dyn Fn(&NodeName) -> anyhow::Result<DrainInfo>,
) -> anyhow::Result<()> {
    let open = infos.iter_mut().zip(heard).filter(|(i, _)| !i.is_empty());
    for (info, heard) in open {
        match look(&info.node) {
            Ok(fresh) => (*info, *heard) = (fresh, now()),
            Err(e) if now().saturating_duration_since(*heard) >= SILENT_MAX => return Err(e),
            Err(_) => {}
        }
    }
    Ok(())
}

/// How far that node is.
pub fn info(node: &NodeName) -> anyhow::Result<DrainInfo> {
    look(&Some(node.clone()), None)
}

/// Gives one node an order, and does not wait.
pub fn change(node: &NodeName, change: &DrainChange) -> anyhow::Result<()> {
    order(&[Some(node.clone())], change).map(drop)
}

/// Drains one node and waits until it is empty.
pub fn empty(node: &NodeName, change: &DrainChange, limit: Duration) -> anyhow::Result<()> {
    let mut infos = order(&[Some(node.clone())], change)?;
    wait(&mut infos, limit)?;
    let left: Vec<&DrainInfo> = infos.iter().filter(|i| !i.is_empty()).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(not_empty(&left, limit.as_secs() as u32).into()),
    }
}

/// Processes that still have to leave, and hosts that have not told theirs.
pub fn to_go(info: &DrainInfo) -> u64 {
    info.leaving + info.unheard
}

fn not_empty(left: &[&DrainInfo], seconds: u32) -> Failure {
    let each: Vec<String> = left
        .iter()
        .map(|i| match i.unheard {
            0 => format!("{} of {}", i.leaving, i.node),
            n => format!(
                "{} of {}, where {n} hosts have not reported",
                i.leaving, i.node
            ),
        })
        .collect();
    Failure {
        message: format!(
            "after {seconds} s processes are left: {}; they still may go, and the nodes stay drained",
            each.join(", ")
        ),
        hint: "`armento node drain` again waits on; `armento node undrain` ends it".into(),
    }
}

/// What draining would do to a node that is as `info` says.
fn would(info: &DrainInfo, change: &DrainChange) -> Vec<String> {
    let node = &info.node;
    let own = match change.all_home {
        true => format!("bring {} processes of {node} home", info.own_away),
        false => format!(
            "move the {} processes of {node} that run there elsewhere, as far as other nodes take them",
            info.own_here
        ),
    };
    vec![
        format!(
            "on {node}: {}",
            dry_run::set("drain", info.drained, change.drained)
        ),
        format!("send {} guests of {node} away", info.guests),
        own,
    ]
}

fn show(infos: &[DrainInfo], late: bool, as_json: bool) {
    if as_json {
        let fields = json!({ "nodes": infos, "timed_out": late });
        return say_json("armento.node-drain/1", fields);
    }
    say(&infos.iter().map(render).collect::<String>());
}

fn render(info: &DrainInfo) -> String {
    let node = &info.node;
    if !info.drained {
        return format!("{node} takes part again\n");
    }
    let why = match info.why.as_str() {
        "" => String::new(),
        why => format!(": {}", clean(why)),
    };
    let state = if info.is_empty() {
        "drained"
    } else {
        "draining"
    };
    let mut text = format!("{node} is {state}{why}\n");
    text += &info.processes.iter().map(line).collect::<String>();
    let listed = info.processes.len() as u64;
    let more = (info.leaving + info.staying).saturating_sub(listed);
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    let own = info.own_here + info.own_away;
    if own > 0 {
        text += &format!(
            "  own processes: {own}, of which {} elsewhere; they end when {node} is switched off, their home\n",
            info.own_away
        );
    }
    text
}

fn line(p: &DrainedProcess) -> String {
    let what = if p.stays { "stays" } else { "still to go" };
    let why = match p.reason.as_str() {
        "leaving" => "it leaves".to_owned(),
        "home-silent" => format!("its home {} does not answer", p.home),
        code => Stay::from_code(code).map_or_else(|| clean(code), |s| s.explain().to_owned()),
    };
    let detail = match p.detail.as_str() {
        "" => String::new(),
        detail => format!(" ({})", clean(detail)),
    };
    let command: String = clean(&p.command).chars().take(40).collect();
    format!(
        "  {} of {}, {command}: {what}: {why}{detail}\n",
        p.pid, p.home
    )
}

#[cfg(test)]
mod tests;
