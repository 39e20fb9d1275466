//! `armento fabric doctor`.

use super::remote;
use super::source::{About, node, read_text};
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::diagnose::{Finding, OBSERVATION, Observation, diagnose, drawing};
use armento_fabric::inventory::Farm;
use armento_fabric::probe::{Options, probe};
use armento_model::clean;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const HELP: &str = "Examples:
  armento fabric doctor                                        this node and its ways to the others
  armento fabric doctor --rsh ssh                              every node looks for itself; all is put together
  armento fabric doctor --rsh 'armento lab rsh --name x'       ... in a laboratory
  armento fabric doctor --rsh ssh --pair n1 n2 --load          two nodes only, and with data
  armento fabric doctor --observe > n1.json                    what this node sees, for --from
  armento fabric doctor --from n1.json n2.json

Needs root on each node. The exit status is 0 if nothing is wrong, 1 if something is.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    about: About,
    /// Only these two nodes
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pair: Option<Vec<String>>,
    /// Run the observers of all nodes by this command: CMD NODE …
    #[arg(long, value_name = "CMD")]
    rsh: Option<String>,
    /// Print what this node sees as JSON (schema armento.fabric.observation/1), and judge nothing
    #[arg(long, conflicts_with_all = ["rsh", "from"])]
    observe: bool,
    /// Judge these observations instead
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "rsh")]
    from: Vec<PathBuf>,
    /// How long observers listen for each other's frames, seconds
    #[arg(long, value_name = "S", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    listen: u64,
    /// Send data for ten seconds, too: to the other of the pair, or from each node to the next
    #[arg(long)]
    load: bool,
    /// Print JSON (schema armento.fabric.doctor/1)
    #[arg(long)]
    json: bool,
}

/// Long enough for queues, offloads and coalescing to be in their steady state.
const LOAD: Duration = Duration::from_secs(10);
/// … in some nets one after the other, with the wait for the other observers.
const LOAD_MAX: Duration = Duration::from_secs(120);
/// An observer whose probes are all lost, on a slow node, by a remote shell that is slow, too.
const OBSERVES: Duration = Duration::from_secs(60);
/// Nodes whose observers run at once.
const NODES_MAX: usize = 256;

pub fn run(args: &Args) -> Result<i32> {
    let farm = args.about.source.read()?;
    if args.observe {
        let seen = look(&farm, args)?;
        say(&format!("{}\n", serde_json::to_string(&seen)?));
        return Ok(0);
    }
    let mut missing = Vec::new();
    let seen = match (&args.rsh, args.from.is_empty()) {
        (Some(rsh), _) => everywhere(&farm, rsh, args, &mut missing)?,
        (None, false) => args.from.iter().map(|p| read(p)).collect::<Result<_>>()?,
        (None, true) => vec![look(&farm, args)?],
    };
    let found = diagnose(&farm, &seen);
    let gaps = seen
        .iter()
        .flat_map(|o| o.gaps.iter().map(|g| format!("{}: {g}", o.node)));
    let gaps: Vec<String> = missing.into_iter().chain(gaps).collect();
    if args.json {
        let nodes: Vec<&str> = seen.iter().map(|o| o.node.as_str()).collect();
        let fields = json!({ "nodes": nodes, "findings": found, "not_looked_at": gaps, "wiring": drawing(&seen) });
        say_json("armento.fabric.doctor/1", fields);
    } else {
        say(&text(&found, &gaps, &seen));
    }
    Ok(i32::from(!found.is_empty()))
}

fn look(farm: &Farm, args: &Args) -> Result<Observation> {
    let node = args.about.node(farm)?;
    let pair = args.pair.as_deref().unwrap_or_default();
    for name in pair {
        self::node(farm, Some(name))?;
    }
    let options = Options {
        peer: pair.iter().find(|p| **p != node.name).cloned(),
        listen: Duration::from_secs(args.listen),
        load: args.load.then_some(LOAD),
    };
    let seen = probe(farm, node, &options);
    Ok(seen.map_err(|e| Failure {
        message: e.to_string(),
        hint: e.hint().into(),
    })?)
}

fn read(path: &Path) -> Result<Observation> {
    let fail = |what: String| Failure {
        message: format!("cannot use {}: {what}", path.display()),
        hint: "it should be what `armento fabric doctor --observe` printed".into(),
    };
    let text = read_text(path).map_err(fail)?;
    let seen: Observation = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
    match seen.schema == OBSERVATION {
        true => Ok(seen),
        false => Err(fail(format!("its schema is `{}`", clean(&seen.schema))).into()),
    }
}

/// Every node's observer at once. A node that cannot be asked is no fault of its own: it is named apart.
fn everywhere(
    farm: &Farm,
    rsh: &str,
    args: &Args,
    missing: &mut Vec<String>,
) -> Result<Vec<Observation>> {
    let exe = std::env::current_exe()?;
    let farm_file = std::fs::canonicalize(&args.about.source.farm)?;
    let pair = args.pair.as_deref().unwrap_or_default();
    for name in pair {
        node(farm, Some(name))?;
    }
    let wanted = |n: &&armento_fabric::inventory::Node| pair.is_empty() || pair.contains(&n.name);
    let names: Vec<&str> = farm
        .nodes
        .iter()
        .filter(wanted)
        .map(|n| n.name.as_str())
        .collect();
    if names.len() > NODES_MAX {
        missing.extend(
            names[NODES_MAX..]
                .iter()
                .map(|n| format!("{n}: more than {NODES_MAX} nodes at once")),
        );
    }
    let load = if args.load { LOAD_MAX } else { Duration::ZERO };
    let limit = OBSERVES + Duration::from_secs(args.listen) + load;
    let ask = |name: &str| -> Result<Observation, String> {
        let mut words = rsh.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("ssh"));
        command.args(words).arg(name).arg(&exe).args([
            "fabric",
            "doctor",
            "--observe",
            "--node",
            name,
            "--farm",
        ]);
        command
            .arg(&farm_file)
            .args(["--listen", &args.listen.to_string()]);
        if !pair.is_empty() {
            command.arg("--pair").args(pair);
        }
        if args.load {
            command.arg("--load");
        }
        let ended = remote::run(&mut command, limit)?;
        if !ended.status.success() {
            let first = ended.err.lines().next();
            return Err(first
                .unwrap_or("its observer failed and said nothing")
                .to_owned());
        }
        serde_json::from_str(&ended.out).map_err(|e| format!("its observer's answer: {e}"))
    };
    let asked: Vec<(&str, Result<Observation, String>)> = std::thread::scope(|s| {
        let started: Vec<_> = names
            .iter()
            .take(NODES_MAX)
            .map(|n| (*n, s.spawn(|| ask(n))))
            .collect();
        let join = |(n, t): (_, std::thread::ScopedJoinHandle<_>)| {
            (n, t.join().unwrap_or(Err("its thread ended".into())))
        };
        started.into_iter().map(join).collect()
    });
    let mut seen = Vec::new();
    for (name, answer) in asked {
        match answer {
            Ok(o) => seen.push(o),
            Err(e) => missing.push(format!("{name}: {}", clean(&e))),
        }
    }
    if seen.is_empty() {
        let failure = Failure {
            message: format!(
                "no node could be asked: {}",
                missing.first().map_or("", String::as_str)
            ),
            hint: "try the command of --rsh by hand with a node and `true`".into(),
        };
        return Err(failure.into());
    }
    Ok(seen)
}

fn text(found: &[Finding], gaps: &[String], seen: &[Observation]) -> String {
    let mut text = String::new();
    for f in found {
        let peer = f
            .peer
            .as_ref()
            .map_or(String::new(), |p| format!(" -> {p}"));
        text += &format!("{}  {} {}{peer}\n", f.code, f.node, f.link);
        text += &format!(
            "    {}\n    proof:  {}\n    remedy: {}\n",
            clean(&f.what),
            clean(&f.evidence),
            f.remedy
        );
    }
    for gap in gaps {
        text += &format!("not looked at: {}\n", clean(gap));
    }
    let wiring = drawing(seen);
    if !wiring.is_empty() {
        text += &format!(
            "wiring as found:\n{}",
            wiring
                .lines()
                .map(|l| format!("  {}\n", clean(l)))
                .collect::<String>()
        );
    }
    match found.len() {
        0 => text + "no fault was found\n",
        1 => text + "1 fault\n",
        n => text + &format!("{n} faults\n"),
    }
}
