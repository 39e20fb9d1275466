//! `armento farm upgrade`: the program of each node is replaced in turn, while programs run.
//!
//! It asks this node's daemon, which passes parts of the program on; `plan.rs` decides, `helper.rs` is the process that a
//! daemon starts for it. This node comes last, since its daemon is needed for the others.

pub mod helper;
mod package;
mod plan;

use crate::drain;
use crate::dry_run::{self, DryRun};
use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::api::{Answer, Ask, DrainChange, PART_MAX, UpgradeStep, VersionsInfo};
use armento_client::{ANSWER, AskError, Session};
use armento_lab::Waiting;
use armento_model::NodeName;
use armento_noded::{
    install_program, previous_program, program_hash, rollback_program, versions_of_program,
};
use plan::{NodePlan, Step, Target, lines, shown, step};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const HELP: &str = "Examples:
  armento farm upgrade --dry-run                    what runs where, and what would become of it
  armento farm upgrade                              every node runs the program of this command
  armento farm upgrade n2 n3 --binary ./armento     these only, with that program
  armento farm upgrade --package armento_0.2.0_amd64.deb
                                                    with the program of that package, which no node has yet
  armento farm upgrade --drain                      each node is emptied first
  armento farm upgrade --rollback                   every node runs the program of before again

One node after the other; the first that does not answer with the new program ends it. Running programs go on.
Another node takes part if its settings have `allow_upgrade = true`, and this one holds the farm's key.";

const CHECK_EVERY: Duration = Duration::from_millis(250);
/// A node tries the new program before it is put in place.
const INSTALL: Duration = Duration::from_secs(90);

#[derive(clap::Args)]
pub struct Upgrade {
    /// Nodes to upgrade [default: all]
    #[arg(value_name = "NODE")]
    nodes: Vec<NodeName>,
    /// The new program [default: that of this command]
    #[arg(long, value_name = "FILE", conflicts_with = "rollback")]
    binary: Option<PathBuf>,
    /// The new program, or the Debian package that has it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rollback", "binary"])]
    package: Option<PathBuf>,
    /// Put the program in place again that the last upgrade replaced
    #[arg(long)]
    rollback: bool,
    /// Drain each node before, and undrain it after
    #[arg(long)]
    drain: bool,
    /// How long a node may take to empty, and to answer again, seconds
    #[arg(long, value_name = "S", default_value_t = 120)]
    timeout: u32,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.farm-upgrade/1; with --dry-run armento.dry-run/1)
    #[arg(long)]
    json: bool,
}

pub fn upgrade(args: &Upgrade) -> anyhow::Result<i32> {
    if args.rollback {
        return match Session::connect() {
            Err(AskError::NoDaemon { .. }) => rollback_without_daemon(args),
            _ => rollback(args, chosen(&args.nodes)?),
        };
    }
    let nodes = chosen(&args.nodes)?;
    // A program that was taken out of a package is there for as long as this is.
    let taken = args
        .package
        .as_deref()
        .map(package::program_of)
        .transpose()?;
    let file = match (&taken, &args.binary) {
        (Some(taken), _) => taken.path.clone(),
        (None, Some(file)) => file.clone(),
        (None, None) => std::env::current_exe()?,
    };
    let versions = versions_of_program(&file).map_err(Failure::from)?;
    let (sha256, size) = program_hash(&file).map_err(Failure::from)?;
    let target = Target { versions, sha256 };
    let plans: Vec<NodePlan> = nodes
        .into_iter()
        .map(|(name, here)| {
            let info = look(&name);
            let step = info
                .as_ref()
                .map_or(Step::Silent, |info| step(info, here, &target));
            NodePlan {
                name,
                here,
                info: info.map_err(|e| e.to_string()),
                step,
            }
        })
        .collect();
    if args.dry.dry_run {
        return Ok(show_plan(&plans, &target, args.json));
    }
    let waiting = Waiting::new("");
    let mut done = Vec::new();
    for plan in plans.iter().filter(|p| p.step != Step::Nothing) {
        let info = match &plan.info {
            Ok(info) => info,
            Err(why) => return Err(stopped(&plan.name, why, &done, &plans)),
        };
        if plan.step != Step::Upgrade {
            continue;
        }
        waiting.say(format!("upgrading {}", plan.name));
        let put = || {
            match plan.here {
                true => install_here(info, &file, &target)?,
                false => send(&plan.name, &file, size, &target)?,
            }
            answers(info, args.timeout, |now| now.sha256 == target.sha256)?;
            keepers_follow(&plan.name, &waiting, args.timeout)
        };
        if let Err(e) = around(&plan.name, args, put) {
            return Err(stopped(&plan.name, &format!("{e:#}"), &done, &plans));
        }
        done.push(plan.name.clone());
    }
    drop(waiting);
    report(&done, &plans, args.json)
}

/// The nodes with whether each is this one, which comes last.
fn chosen(names: &[NodeName]) -> anyhow::Result<Vec<(NodeName, bool)>> {
    let all = dry_run::nodes()?;
    for name in names {
        if !all.iter().any(|n| n.name == *name) {
            let failure = Failure {
                message: format!("the farm has no node `{name}`; nothing was changed"),
                hint: "armento nodes shows its nodes".into(),
            };
            return Err(failure.into());
        }
    }
    let wanted = all
        .into_iter()
        .filter(|n| names.is_empty() || names.contains(&n.name));
    let mut nodes: Vec<(NodeName, bool)> = wanted.map(|n| (n.name, n.here)).collect();
    nodes.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    Ok(nodes)
}

fn look(node: &NodeName) -> Result<VersionsInfo, Failure> {
    let question = Ask::Versions {
        node: Some(node.clone()),
    };
    match ask(question, ANSWER)? {
        Answer::Versions(info) => Ok(info),
        _ => Err(Failure {
            message: format!("{node} gave another answer"),
            hint: "update Armento there".into(),
        }),
    }
}

/// `work`, between draining the node and undraining it, where that is wanted.
fn around(
    node: &NodeName,
    args: &Upgrade,
    work: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if !args.drain {
        return work();
    }
    if drain::info(node)?.drained {
        return work();
    }
    let change = DrainChange {
        drained: true,
        why: "upgrade".into(),
        all_home: false,
    };
    let limit = Duration::from_secs(args.timeout.into());
    drain::empty(node, &change, limit)
        .and_then(|()| work())
        .map_err(|e| {
            let why = format!("{e:#}");
            let first = why.lines().next().unwrap_or_default();
            anyhow::anyhow!("{first} ({node} stays drained)")
        })?;
    drain::change(node, &DrainChange::default())
}

/// Puts the program in place on this node and has its daemon become it.
fn install_here(info: &VersionsInfo, file: &Path, target: &Target) -> anyhow::Result<()> {
    let path = Path::new(&info.program);
    // A package manager may have put it there already.
    let there = program_hash(path).is_ok_and(|(hash, _)| hash == target.sha256);
    if !there {
        let program = File::open(file)?;
        install_program(program, path, Some(&target.sha256)).map_err(Failure::from)?;
    }
    restart()
}

fn restart() -> anyhow::Result<()> {
    match ask(Ask::Restart, ANSWER)? {
        Answer::Done => Ok(()),
        _ => Err(unexpected_answer()),
    }
}

/// Sends it to another node, which puts it in place and whose daemon becomes it.
fn send(node: &NodeName, file: &Path, size: u64, target: &Target) -> anyhow::Result<()> {
    let sha256 = || target.sha256.clone();
    let mut session = Session::connect().map_err(Failure::from)?;
    let mut order = |step: UpgradeStep| -> anyhow::Result<()> {
        let node = node.clone();
        match session.ask(Ask::Upgrade { node, step }, INSTALL) {
            Ok(Answer::Done) => Ok(()),
            Ok(_) => Err(unexpected_answer()),
            Err(e) => Err(Failure::from(e).into()),
        }
    };
    order(UpgradeStep::Begin {
        sha256: sha256(),
        size,
    })?;
    let mut program = File::open(file)?;
    let mut offset = 0;
    loop {
        let mut bytes = Vec::new();
        program
            .by_ref()
            .take(PART_MAX as u64)
            .read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            break;
        }
        let data = armento_client::hex::hex(&bytes);
        order(UpgradeStep::Part { offset, data })?;
        offset += bytes.len() as u64;
    }
    order(UpgradeStep::Install { sha256: sha256() })
}

/// Waits until the node's daemon has started again and is as it should be.
fn answers(
    before: &VersionsInfo,
    seconds: u32,
    right: impl Fn(&VersionsInfo) -> bool,
) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(seconds.into());
    let mut last = String::from("nothing was heard");
    while Instant::now() < until {
        match look(&before.node) {
            Ok(now) if now.boot > before.boot && right(&now) => return Ok(()),
            Ok(now) => last = format!("its daemon runs {}", shown(&now.build)),
            Err(e) => last = e.message,
        }
        sleep(CHECK_EVERY);
    }
    anyhow::bail!("it does not answer with the new program after {seconds} s: {last}")
}

/// Waits until the node's keepers are its daemon's program, or cannot become it. Those that take longer follow later.
fn keepers_follow(node: &NodeName, waiting: &Waiting, seconds: u32) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(seconds.into());
    while Instant::now() < until {
        let info = look(node)?;
        let others = info.keepers.iter().filter(|k| !k.same_file);
        let others = others.map(|k| k.count).sum::<u64>();
        let left = others.saturating_sub(info.staying.len() as u64);
        if left == 0 || !info.upgrade_keepers {
            return Ok(());
        }
        waiting.say(format!(
            "{left} keepers of {node} are left with the program of before"
        ));
        sleep(CHECK_EVERY);
    }
    Ok(())
}

/// Keepers of these nodes that could not become their daemon's program.
fn staying(nodes: &[NodeName]) -> Vec<Value> {
    let of_node = |node: &NodeName| {
        let info = look(node).ok()?;
        let each = info.staying.into_iter().map(
            |k| json!({ "node": node, "process": k.process, "why": armento_model::clean(&k.why) }),
        );
        Some(each.collect::<Vec<_>>())
    };
    nodes.iter().filter_map(of_node).flatten().collect()
}

fn say_staying(staying: &[Value]) {
    for k in staying {
        let word = |key: &str| k[key].as_str().unwrap_or_default().to_owned();
        say(&format!(
            "the keeper of process {} on {} goes on with its program, and is told again in five minutes: {}\n",
            k["process"],
            word("node"),
            word("why")
        ));
    }
}

fn show_plan(plans: &[NodePlan], target: &Target, as_json: bool) -> i32 {
    let would: Vec<String> = plans.iter().flat_map(|p| lines(p, target)).collect();
    if !as_json {
        return dry_run::show(&would, false);
    }
    let each: Vec<Value> = plans
        .iter()
        .map(|p| match &p.info {
            Ok(info) => json!({ "node": p.name, "step": p.step.name(), "runs": info }),
            Err(why) => json!({ "node": p.name, "step": p.step.name(), "why": why }),
        })
        .collect();
    let new = &target.versions;
    let fields = json!({
        "would": would, "nodes": each,
        "program": { "build": new.build, "control": new.control, "sha256": target.sha256 },
    });
    say_json("armento.dry-run/1", fields);
    0
}

fn names(names: &[NodeName]) -> String {
    match names {
        [] => "none".into(),
        names => names
            .iter()
            .map(NodeName::as_str)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// The upgrade ends at this node.
fn stopped(at: &NodeName, why: &str, done: &[NodeName], plans: &[NodePlan]) -> anyhow::Error {
    let rest = plans.iter().filter(|p| p.step != Step::Nothing);
    let rest: Vec<NodeName> = rest
        .filter(|p| !done.contains(&p.name))
        .map(|p| p.name.clone())
        .collect();
    let failure = Failure {
        message: format!(
            "stopped at {at}: {}; upgraded: {}; left: {}",
            why.lines().next().unwrap_or_default(),
            names(done),
            names(&rest)
        ),
        hint: format!(
            "see the daemon's log on {at}; `armento farm upgrade --rollback {at}` puts its program of before back"
        ),
    };
    failure.into()
}

fn report(done: &[NodeName], plans: &[NodePlan], as_json: bool) -> anyhow::Result<i32> {
    let left: Vec<NodeName> = plans
        .iter()
        .filter(|p| matches!(p.step, Step::ByHand | Step::TooFar))
        .map(|p| p.name.clone())
        .collect();
    let staying = staying(done);
    if as_json {
        say_json(
            "armento.farm-upgrade/1",
            json!({ "upgraded": done, "left": left, "keepers": staying }),
        );
    } else {
        say(&format!("upgraded: {}\n", names(done)));
        say_staying(&staying);
    }
    if left.is_empty() {
        return Ok(0);
    }
    let failure = Failure {
        message: format!(
            "left: {}: they let no other node replace their program, or are too far apart in version",
            names(&left)
        ),
        hint: "`armento farm upgrade NODE --binary FILE` on each of them; --dry-run says more"
            .into(),
    };
    Err(failure.into())
}

/// What a rollback does to a node.
fn rollback_line(name: &NodeName, info: &Result<VersionsInfo, Failure>) -> String {
    match info {
        Ok(i) if i.previous => format!(
            "put {0}.previous in the place of {0} on {name}, and restart its daemon",
            i.program
        ),
        Ok(_) => format!("leave {name} as it is: no program of before is kept there"),
        Err(e) => format!("stop at {name}: {}", e.message),
    }
}

fn rollback(args: &Upgrade, nodes: Vec<(NodeName, bool)>) -> anyhow::Result<i32> {
    let mut infos = Vec::new();
    for (name, here) in nodes {
        infos.push((look(&name), name, here));
    }
    if args.dry.dry_run {
        let would: Vec<String> = infos
            .iter()
            .map(|(info, name, _)| rollback_line(name, info))
            .collect();
        return Ok(dry_run::show(&would, args.json));
    }
    let waiting = Waiting::new("");
    let mut done = Vec::new();
    for (info, name, here) in infos {
        waiting.say(format!("putting the program of before back on {name}"));
        let rolled = match info {
            Ok(info) if !info.previous => continue,
            Ok(info) => around(&name, args, || {
                match here {
                    true => rollback_here(&info)?,
                    false => rollback_there(&name)?,
                }
                answers(&info, args.timeout, |_| true)?;
                keepers_follow(&name, &waiting, args.timeout)
            }),
            Err(e) => Err(e.into()),
        };
        if let Err(e) = rolled {
            return Err(stopped(&name, &format!("{e:#}"), &done, &[]));
        }
        done.push(name);
    }
    drop(waiting);
    let staying = staying(&done);
    if args.json {
        let fields = json!({ "upgraded": done, "left": [], "keepers": staying });
        say_json("armento.farm-upgrade/1", fields);
    } else {
        say(&format!("put back: {}\n", names(&done)));
        say_staying(&staying);
    }
    Ok(0)
}

fn rollback_here(info: &VersionsInfo) -> anyhow::Result<()> {
    rollback_program(Path::new(&info.program)).map_err(Failure::from)?;
    restart()
}

fn rollback_there(node: &NodeName) -> anyhow::Result<()> {
    let question = Ask::Upgrade {
        node: node.clone(),
        step: UpgradeStep::Rollback,
    };
    let answer = Session::connect().and_then(|mut s| s.ask(question, INSTALL));
    match answer.map_err(Failure::from)? {
        Answer::Done => Ok(()),
        _ => Err(unexpected_answer()),
    }
}

/// No daemon answers here, perhaps because the new program fails: the file is put back, and a person starts the daemon.
fn rollback_without_daemon(args: &Upgrade) -> anyhow::Result<i32> {
    let path = std::env::current_exe()?;
    let kept = previous_program(&path);
    if args.dry.dry_run {
        let line = format!("put {} in the place of {}", kept.display(), path.display());
        return Ok(dry_run::show(&[line], args.json));
    }
    let versions = rollback_program(&path).map_err(Failure::from)?;
    say(&format!(
        "{} is {} again; no daemon runs here: start it (`systemctl restart armento`, or `armento node`)\n",
        path.display(),
        shown(&versions.build)
    ));
    Ok(0)
}
