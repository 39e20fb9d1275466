//! `armento fabric apply`, `confirm`, and the timer between them.

use super::apply_all;
use super::source::About;
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::apply::{self, ApplyError, CONFIRM_S, CONFIRM_S_MAX, STATE_DIR};
use armento_fabric::diff::{commands, diff};
use armento_fabric::observe::observe;
use armento_fabric::plan::plan;
use armento_fabric::render::{Backend, node_files};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HELP: &str = "Examples:
  armento fabric apply && armento fabric confirm
  armento fabric apply --confirm 300 --for netplan
  armento fabric apply --dry-run
  armento fabric apply --all --rsh ssh            every node in turn, kept when it is reached again

The old settings are kept first. Unless `armento fabric confirm` comes in time, they come back, whatever has become of this
session. Files are written by `confirm` only: a machine that starts anew before it has its old network.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    about: About,
    /// Every node, one after the other; the first that is not reached again ends it
    #[arg(long, requires = "rsh", conflicts_with_all = ["node", "state"])]
    all: bool,
    /// How nodes are reached: CMD NODE …; program and inventory are at the same place on each
    #[arg(long, value_name = "CMD", requires = "all")]
    rsh: Option<String>,
    /// Seconds after which it is undone
    #[arg(long, value_name = "S", default_value_t = CONFIRM_S, value_parser = clap::value_parser!(u64).range(1..=CONFIRM_S_MAX))]
    confirm: u64,
    /// Whose files `confirm` writes [default: what this machine has]
    #[arg(long = "for", value_name = "SYSTEM", value_parser = ["ifupdown", "netplan", "networkd", "ip"])]
    backend: Option<String>,
    /// Show the commands and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Where the old settings are kept
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    state: PathBuf,
    /// Print JSON (schema armento.fabric.apply/1; with --all armento.fabric.apply-all/1)
    #[arg(long)]
    json: bool,
}

const CONFIRM_HELP: &str = "Examples:
  armento fabric confirm
  armento fabric confirm --json";

#[derive(clap::Args)]
#[command(after_help = CONFIRM_HELP)]
pub struct ConfirmArgs {
    /// Where `apply` kept the old settings
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    state: PathBuf,
    /// Write files below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Show what waits, and keep nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON (schema armento.fabric.confirm/1)
    #[arg(long)]
    json: bool,
}

const UNDO_HELP: &str = "Example:
  armento fabric undo";

#[derive(clap::Args)]
#[command(after_help = UNDO_HELP)]
pub struct UndoArgs {
    #[arg(long, default_value = STATE_DIR)]
    state: PathBuf,
    /// Of this change only
    #[arg(long)]
    id: Option<String>,
    /// Seconds until then
    #[arg(long, default_value_t = 0)]
    after: u64,
}

fn failure(e: &ApplyError) -> Failure {
    Failure {
        message: e.to_string(),
        hint: e.hint().into(),
    }
}

pub fn run(args: &Args) -> Result<i32> {
    let farm = args.about.source.read()?;
    if let (true, Some(rsh)) = (args.all, &args.rsh) {
        let all = apply_all::All {
            rsh: rsh.clone(),
            farm: std::fs::canonicalize(&args.about.source.farm)?,
            confirm_s: args.confirm,
            backend: args.backend.clone(),
            dry_run: args.dry_run,
            json: args.json,
        };
        return apply_all::run(&farm, &all);
    }
    let plan = plan(&farm, args.about.node(&farm)?);
    let backend = args
        .backend
        .as_deref()
        .and_then(Backend::from_word)
        .unwrap_or_else(installed);
    let files = node_files(&plan, backend);
    if args.dry_run {
        let seen = observe(plan.sysctls.keys().map(String::as_str)).map_err(|e| Failure {
            message: e.to_string(),
            hint: e.hint().into(),
        })?;
        let (drift, commands) = (diff(&plan, &seen), commands(&plan, &seen));
        if args.json {
            say_json(
                "armento.fabric.apply/1",
                json!({ "node": plan.node, "dry_run": true, "drift": drift, "commands": commands }),
            );
        } else {
            let lines = commands.iter().map(|c| format!("ip {c}\n"));
            say(&lines.collect::<String>());
        }
        return Ok(0);
    }
    let timer = |id: &str| -> std::io::Result<()> {
        // By its file, not its name: it must start whatever becomes of PATH.
        let mut undo = Command::new(std::env::current_exe()?);
        undo.args([
            "fabric",
            "undo",
            "--id",
            id,
            "--after",
            &args.confirm.to_string(),
            "--state",
        ])
        .arg(&args.state);
        undo.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(drop)
    };
    let begun =
        apply::begin(&args.state, &plan, files, args.confirm, &timer).map_err(|e| failure(&e))?;
    if args.json {
        let fields = json!({ "node": plan.node, "dry_run": false, "commands": begun.commands, "until_s": begun.until_s });
        say_json("armento.fabric.apply/1", fields);
    } else {
        let n = begun.commands.len();
        say(&format!(
            "{}: {n} change{} made; undone in {} s unless you run `armento fabric confirm`\n",
            plan.node,
            if n == 1 { "" } else { "s" },
            args.confirm
        ));
    }
    Ok(0)
}

/// What sets up the network of this machine.
fn installed() -> Backend {
    let there = |path: &str| Path::new(path).exists();
    if there("/usr/sbin/netplan") {
        Backend::Netplan
    } else if there("/usr/sbin/ifup") {
        Backend::Ifupdown
    } else {
        Backend::Networkd
    }
}

pub fn confirm(args: &ConfirmArgs) -> Result<i32> {
    if args.dry_run {
        let change = apply::pending(&args.state).ok_or_else(|| failure(&ApplyError::Nothing))?;
        let files: Vec<&str> = change.files.iter().map(|f| f.0.as_str()).collect();
        match args.json {
            true => say_json(
                "armento.fabric.confirm/1",
                json!({ "node": change.node, "dry_run": true, "written": files, "removed": [] }),
            ),
            false => say(&files
                .iter()
                .map(|f| format!("would write {f}\n"))
                .collect::<String>()),
        }
        return Ok(0);
    }
    let done = apply::confirm(&args.state, &args.root).map_err(|e| failure(&e))?;
    if args.json {
        let fields = json!({ "node": done.node, "dry_run": false, "written": done.written, "removed": done.removed });
        say_json("armento.fabric.confirm/1", fields);
        return Ok(0);
    }
    let mut text = format!("{}: kept\n", done.node);
    text.extend(done.written.iter().map(|f| format!("wrote {f}\n")));
    text.extend(done.removed.iter().map(|f| format!("removed {f}\n")));
    say(&text);
    Ok(0)
}

/// Steps of the timer: it ends soon after the change was confirmed.
const STEP: Duration = Duration::from_millis(250);

pub fn undo(args: &UndoArgs) -> Result<i32> {
    if args.after > 0 {
        // A session of its own: the end of the user's session, which may be a broken connection, does not end it.
        // It fails only for the leader of one, which is as good.
        let _ = rustix::process::setsid();
        let until = Instant::now() + Duration::from_secs(args.after);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let waits = apply::pending(&args.state)
                .is_some_and(|p| args.id.as_ref().is_none_or(|id| *id == p.id));
            if !waits {
                return Ok(0);
            }
            std::thread::sleep(left.min(STEP));
        }
    }
    let undone = apply::undo(&args.state, args.id.as_deref()).map_err(|e| failure(&e))?;
    for left in &undone.left {
        eprintln!("armento: not brought back: {left}");
    }
    say(&format!("{}: the old network is back\n", undone.node));
    Ok(if undone.left.is_empty() { 0 } else { 1 })
}
