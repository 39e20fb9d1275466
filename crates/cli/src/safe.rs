//! `armento safe PID`: a running tree is kept safe from now on, or no more. The price is shown first.
//!
//! Next: `noded/src/work/safe.rs`, then `keeper/src/handover/give.rs`.

use crate::dry_run::{self, DryRun};
use crate::migrate::ask_keeper;
use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::api::{Answer, Ask, ProcInfo, SafeWish};
use armento_client::{ANSWER, SAFE, Session};
use armento_lab::Waiting;
use armento_model::{Pid, clean};
use serde_json::json;

const HELP: &str = "Examples:
  armento safe 4711                 a checkpoint every 30 seconds: it goes on when its node is lost
  armento safe 4711 --every 300     … every five minutes
  armento safe 4711 --remote 600    also when its home is lost: armento farm recover
  armento safe 4711 --dry-run       what that takes, and what makes it unsafe
  armento safe 4711 --off           no more

The process and all that it has started come home for a moment and go back. `armento run --safe` begins so.";

/// A day.
const SECONDS_MAX: u64 = 86_400;

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// A process of the tree, by its pid at home
    pid: Pid,
    /// Seconds between two checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    every: u64,
    /// Hold what leaves the program until a checkpoint covers it
    #[arg(long)]
    exact: bool,
    /// Another node keeps a checkpoint of the tree, made anew every SECONDS
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60",
          value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    remote: Option<u64>,
    /// Keep nothing of it any more
    #[arg(long, conflicts_with_all = ["every", "exact", "remote"])]
    off: bool,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.safe/1; with --dry-run armento.dry-run/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let wish = (!args.off).then_some(SafeWish {
        every_s: args.every,
        exact: args.exact,
        remote_s: args.remote,
    });
    let price = price(args.pid, wish)?;
    if args.dry.dry_run {
        return Ok(dry_run::show(&price, args.json));
    }
    if !args.json {
        say(&price
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>());
    }
    let waiting = Waiting::new(format!(
        "the tree of process {} begins to be kept so",
        args.pid
    ));
    let question = || Ask::Safe {
        pid: args.pid,
        safe: wish,
    };
    let answer = ask_keeper(args.pid, || {
        Session::connect().and_then(|mut s| s.ask(question(), SAFE))
    })?;
    drop(waiting);
    match answer {
        Answer::Done => {}
        _ => return Err(unexpected_answer()),
    }
    if args.json {
        say_json(
            "armento.safe/1",
            json!({ "pid": args.pid, "safe": wish, "price": price }),
        );
    } else {
        let what = match args.off {
            true => "is kept safe no more",
            false => "is kept safe; armento why shows what is kept",
        };
        say(&format!("the tree of process {} {what}\n", args.pid));
    }
    Ok(0)
}

/// What it takes, in lines.
fn price(pid: Pid, wish: Option<SafeWish>) -> anyhow::Result<Vec<String>> {
    let Answer::Ps { procs: all } = ask(Ask::Ps { all: false }, ANSWER)? else {
        return Err(unexpected_answer());
    };
    let Some(wish) = wish else {
        return Ok(vec![format!("keep nothing of the tree of process {pid}")]);
    };
    let tree = tree_of(pid, &all);
    let away: Vec<&ProcInfo> = tree.iter().copied().filter(|p| p.place != p.home).collect();
    let mib = |kib: u64| kib.div_ceil(1024);
    let need = mib(away.iter().map(|p| p.rss_kib).sum());
    let free = mib(armento_sense::available_kib());
    if need > free / 2 {
        let failure = Failure {
            message: format!(
                "the tree of process {pid} has {need} MiB elsewhere, and its checkpoints may take half of the {free} MiB that are \
                 available here; nothing was changed"
            ),
            hint: "let it run on without, or free memory of this node".into(),
        };
        return Err(failure.into());
    }
    let mut lines = vec![format!(
        "keep {} processes safe, {} of them elsewhere: up to {need} MiB of this node's memory ({free} MiB are available), {need} MiB \
         over the network, then what they write, every {} s",
        tree.len().max(1),
        away.len(),
        wish.every_s
    )];
    lines.push("each checkpoint stops a process for the pause of a move, mostly 5 to 30 ms".into());
    let files: u64 = away
        .iter()
        .map(|p| p.files.posted + p.files.lookups + p.files.reads)
        .sum();
    if files > 0 {
        lines.push(format!(
            "calls on files are made at home: {files} were answered where the processes run so far"
        ));
    }
    if let Some(every) = wish.remote_s {
        lines.push(format!(
            "another node gets a checkpoint of the tree with its open files every {every} s; the tree stops when that node does not answer"
        ));
    }
    let unsafe_now = tree.iter().filter_map(|p| {
        let why = p.safe.as_ref()?.unsafe_now.as_deref()?;
        Some(format!(
            "process {} could not go on now: {}",
            p.pid,
            clean(why)
        ))
    });
    lines.extend(unsafe_now);
    Ok(lines)
}

/// The processes that one keeper has with `pid`: those above it and below it.
fn tree_of(pid: Pid, all: &[ProcInfo]) -> Vec<&ProcInfo> {
    let find = |pid: Pid| all.iter().find(|p| p.pid == pid);
    let Some(mut top) = find(pid) else {
        return Vec::new();
    };
    while let Some(above) = find(top.ppid) {
        top = above;
    }
    let mut tree = vec![top];
    let mut next = 0;
    while let Some(parent) = tree.get(next).map(|p| p.pid) {
        tree.extend(all.iter().filter(|p| p.ppid == parent && p.pid != parent));
        next += 1;
    }
    tree
}
