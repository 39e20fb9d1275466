//! `armento mfs stat`, `on`, `off`, `select`.

use super::stat;
use crate::dry_run::{self, DryRun};
use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, MfsInfo, SwitchChange};
use armento_lab::Waiting;
use armento_model::{NodeName, Pid};
use serde_json::json;
use std::os::unix::process::parent_id;
use std::thread::sleep;
use std::time::{Duration, Instant};

const STAT_HELP: &str = "Examples:
  armento mfs stat
  armento mfs stat --json | jq '.streams[] | select(.connected | not) | .node'

READ and WRITTEN are what went over the network; CALLS too, with the time within which half of them
(P50) and all but one in a hundred (P99) were answered.";
const ON_HELP: &str = "Examples:
  armento mfs on             mount it, and serve files of this node to the farm's users
  armento mfs on && ls /mfs

The setting is stored; `mfs =` in /etc/armento/config.toml sets the mount point.";
const OFF_HELP: &str = "Example:
  armento mfs off            unmount it, serve no files; what is open gets errors";
const SELECT_HELP: &str = "Examples:
  armento mfs select n2 && ls /mfs/selected/tmp
  armento mfs select n2 4711

For the calling shell and what it starts, or for another process of yours. openMosix had
/proc/self/selected for it.";

/// A mount is there within a moment, or there is a reason why not.
const MOUNTED: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Show whether it is mounted, and what was read and written
    #[command(after_help = STAT_HELP)]
    Stat(Json),
    /// Mount it, and serve files of this node
    #[command(after_help = ON_HELP)]
    On(Switch),
    /// Unmount it, and serve no files
    #[command(after_help = OFF_HELP)]
    Off(Switch),
    /// Choose the node that /mfs/selected means
    #[command(after_help = SELECT_HELP)]
    Select {
        node: NodeName,
        /// Of this process and those that it starts [default: the calling shell]
        pid: Option<Pid>,
        #[command(flatten)]
        dry: DryRun,
    },
}

#[derive(clap::Args)]
pub struct Switch {
    #[command(flatten)]
    dry: DryRun,
    #[command(flatten)]
    json: Json,
}

#[derive(clap::Args)]
pub struct Json {
    /// Print JSON (schema armento.mfs/1)
    #[arg(long)]
    json: bool,
}

pub fn run(cmd: &Cmd) -> anyhow::Result<i32> {
    match cmd {
        Cmd::Stat(args) => {
            show(&info()?, args);
            Ok(0)
        }
        Cmd::On(args) => switch(true, args),
        Cmd::Off(args) => switch(false, args),
        Cmd::Select { node, pid, dry } => select(node, *pid, *dry),
    }
}

fn info() -> anyhow::Result<MfsInfo> {
    match ask(Ask::Mfs, ANSWER)? {
        Answer::Mfs(info) => Ok(info),
        _ => Err(unexpected_answer()),
    }
}

fn switch(on: bool, args: &Switch) -> anyhow::Result<i32> {
    if args.dry.dry_run {
        let is_on = dry_run::switches()?.mfs;
        let now = info()?;
        let mut would = vec![dry_run::set("mfs", is_on, on)];
        if now.mounted != on {
            would.push(if on { "mount it" } else { "unmount it" }.into());
        }
        return Ok(dry_run::show(&would, args.json.json));
    }
    let change = SwitchChange {
        mfs: Some(on),
        ..SwitchChange::default()
    };
    let change = Some(change);
    match ask(Ask::Switch { change }, ANSWER)? {
        Answer::Switches(_) => {}
        _ => return Err(unexpected_answer()),
    }
    let waiting = Waiting::new(if on {
        "MFS is mounted"
    } else {
        "MFS is unmounted"
    });
    let until = Instant::now() + MOUNTED;
    let mut now = info()?;
    while now.mounted != on && now.why.is_empty() && Instant::now() < until {
        sleep(LOOK_EVERY);
        now = info()?;
    }
    if now.mounted != on {
        let what = if on { "mounted" } else { "unmounted" };
        let why = match now.why.as_str() {
            "" => format!("not within {} s", MOUNTED.as_secs()),
            why => why.to_owned(),
        };
        let message = format!("MFS is switched, but not {what}: {why}");
        let hint = "when the cause is mended, the daemon tries again by itself; `armento mfs stat` shows it";
        let hint = hint.into();
        return Err(Failure { message, hint }.into());
    }
    drop(waiting);
    show(&now, &args.json);
    Ok(0)
}

fn select(node: &NodeName, pid: Option<Pid>, dry: DryRun) -> anyhow::Result<i32> {
    let pid = pid.unwrap_or_else(|| parent_id() as Pid);
    if dry.dry_run {
        let would = [format!(
            "let /mfs/selected mean {node} for process {pid} and what it starts"
        )];
        return Ok(dry_run::show(&would, false));
    }
    let node = node.clone();
    match ask(Ask::MfsSelect { pid, node }, ANSWER)? {
        Answer::Done => Ok(0),
        _ => Err(unexpected_answer()),
    }
}

fn show(info: &MfsInfo, args: &Json) {
    if args.json {
        say_json("armento.mfs/1", json!(info));
    } else {
        say(&stat::render(info));
    }
}
