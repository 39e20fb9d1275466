//! `armento checkpoint PID… FILE`, and what is in such a file.
//!
//! Next: `noded/src/work/checkpoint.rs`, then `keeper/src/saved/save.rs`.

use crate::dry_run::{self, DryRun};
use crate::migrate::ask_keeper;
use crate::out::{Failure, say, say_json, unexpected_answer};
use armento_checkpoint::format::{Inspect, inspect};
use armento_client::api::{Answer, Ask, CheckpointOrder, Checkpointed};
use armento_client::{CHECKPOINT, Session};
use armento_lab::Waiting;
use armento_model::{Pid, clean};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HELP: &str = "Examples:
  armento checkpoint 4711 model.ckpt            the process and all that it has started; it runs on
  armento checkpoint --every 600 4711 m.ckpt    every ten minutes, until the process ends
  armento checkpoint --dry-run 4711 m.ckpt      what would be written, or why it cannot be
  armento checkpoint --inspect m.ckpt           what is in a file, and whether it is whole
  armento restart m.ckpt                        go on from there, here or on another node

A program stands still for some milliseconds (the first of a tree while the others are copied); the file is written
while they run on. It holds their memory, so only its owner
can read it. What a checkpoint cannot hold (connections to other machines, shared memory) is named, and nothing is stopped.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Processes, by their pids at home, and at the end the file
    #[arg(value_name = "PID… FILE", required = true, num_args = 1..=65)]
    words: Vec<PathBuf>,
    /// Again and again with this many seconds between, replacing the file each time, until the first process ends
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    /// Also keep what open files hold, for a restart where they have changed or are gone
    #[arg(long)]
    with_files: bool,
    /// Replace a file of that name
    #[arg(long)]
    overwrite: bool,
    /// Show what is in a file
    #[arg(long, conflicts_with_all = ["every", "with_files", "overwrite", "dry_run"])]
    inspect: bool,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.checkpoint/1, with --inspect armento.checkpoint-file/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    if args.inspect {
        return look_into(args);
    }
    let (pids, file) = named(args)?;
    if args.dry.dry_run {
        return Ok(dry_run::show(&plan(&pids, &file), args.json));
    }
    let order = CheckpointOrder {
        pids,
        file: absolute(&file)?,
        overwrite: args.overwrite,
        with_files: args.with_files,
    };
    let Some(every) = args.every.map(Duration::from_secs) else {
        show(args, &checkpoint(order)?);
        return Ok(0);
    };
    again_and_again(args, order, every)
}

/// Until the first process ends. What hinders one checkpoint may be over at the next.
fn again_and_again(
    args: &Args,
    mut order: CheckpointOrder,
    every: Duration,
) -> anyhow::Result<i32> {
    let first = order.pids[0];
    show(args, &checkpoint(order.clone())?);
    // The one before is replaced when the next is complete.
    order.overwrite = true;
    loop {
        let begun = Instant::now();
        while begun.elapsed() < every {
            std::thread::sleep(Duration::from_millis(200).min(every));
            if !lives(first) {
                let last = format!(
                    "process {first} has ended; {} is its last checkpoint\n",
                    order.file
                );
                say(&last);
                return Ok(0);
            }
        }
        match checkpoint(order.clone()) {
            Ok(done) => show(args, &done),
            Err(e) if lives(first) => {
                eprintln!(
                    "armento: {e}\nhint: {} is as it was; it is tried again in {} s",
                    order.file,
                    every.as_secs()
                );
            }
            Err(_) => {}
        }
    }
}

/// Whether the process runs: one that has ended and was not waited for does not.
fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// The processes and the file.
fn named(args: &Args) -> Result<(Vec<Pid>, PathBuf), Failure> {
    let wrong = |message: String| Failure {
        message: format!("{message}; nothing was written"),
        hint: "armento checkpoint PID… FILE: the file comes last".into(),
    };
    let (file, pids) = args
        .words
        .split_last()
        .ok_or_else(|| wrong("no file is named".into()))?;
    if pids.is_empty() {
        return Err(wrong("a process and a file are needed".into()));
    }
    let number = |word: &PathBuf| {
        let text = word.to_string_lossy();
        let pid = text.parse::<Pid>().ok().filter(|pid| *pid > 0);
        pid.ok_or_else(|| wrong(format!("`{text}` is no pid")))
    };
    let pids = pids.iter().map(number).collect::<Result<_, _>>()?;
    if file.to_string_lossy().parse::<Pid>().is_ok() && !file.exists() {
        return Err(wrong(format!(
            "`{}` is a number: the file is missing",
            file.display()
        )));
    }
    Ok((pids, file.clone()))
}

/// The keeper, which writes the file, has another working directory.
fn absolute(file: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(file).map_err(|e| Failure {
        message: format!("{}: {e}; nothing was written", file.display()),
        hint: "name the file by its whole path".into(),
    })?;
    let text = path.into_os_string().into_string();
    Ok(text.map_err(|_| Failure {
        message: "the name of the file is not UTF-8; nothing was written".into(),
        hint: "give it another name".into(),
    })?)
}

fn plan(pids: &[Pid], file: &Path) -> Vec<String> {
    let one = |pid: &Pid| match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(comm) => format!(
            "write process {pid} ({}) and what it has started",
            comm.trim()
        ),
        Err(_) => format!("be refused: there is no process {pid} here"),
    };
    let mut lines: Vec<String> = pids.iter().map(one).collect();
    lines.push(match file.exists() {
        true => format!("be refused without --overwrite: {} exists", file.display()),
        false => format!("write {}", file.display()),
    });
    lines
}

fn checkpoint(order: CheckpointOrder) -> anyhow::Result<Checkpointed> {
    let mut session = Session::connect().map_err(Failure::from)?;
    let pid = order.pids[0];
    let answer = ask_keeper(pid, || {
        let _waiting = Waiting::new(format!("process {pid} is written"));
        session.ask(Ask::Checkpoint(order.clone()), CHECKPOINT)
    })?;
    match answer {
        Answer::Checkpointed(done) => Ok(done),
        _ => Err(unexpected_answer()),
    }
}

fn show(args: &Args, done: &Checkpointed) {
    if args.json {
        return say_json("armento.checkpoint/1", json!(done));
    }
    let processes = match done.pids.len() {
        1 => format!("process {}", done.pids[0]),
        n => format!("{n} processes"),
    };
    say(&format!(
        "{processes}: {} of memory in {} ({}), stopped for {:.1} ms of {:.1} s\n",
        mib(done.memory_bytes),
        done.file,
        mib(done.file_bytes),
        done.pause_us as f64 / 1e3,
        done.total_us as f64 / 1e6
    ));
}

fn look_into(args: &Args) -> anyhow::Result<i32> {
    let [file] = args.words.as_slice() else {
        return Err(Failure {
            message: "--inspect takes one file".into(),
            hint: "armento checkpoint --inspect FILE".into(),
        }
        .into());
    };
    let found: Inspect = inspect(file).map_err(|e| Failure {
        message: e.to_string(),
        hint: e.hint().unwrap_or("is it the right file?").into(),
    })?;
    if args.json {
        say_json("armento.checkpoint-file/1", json!(found));
    } else {
        say(&text(&found));
    }
    Ok(0)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// For people.
fn text(found: &Inspect) -> String {
    let h = &found.header;
    let when = jiff::Timestamp::from_second(h.taken_s);
    let when = when.map_or_else(|_| h.taken_s.to_string(), |t| t.to_string());
    let mut all = format!(
        "made {when} on {} (Linux {}, Armento {})\n{} of memory, {} distinct, {} in the file\n",
        clean(&h.node),
        clean(&h.kernel),
        clean(&h.program_version),
        mib(found.memory_bytes),
        mib(found.distinct_bytes),
        mib(found.file_bytes)
    );
    for p in &found.processes {
        let child = p
            .parent
            .map_or(String::new(), |of| format!(", child of {of}"));
        all += &format!(
            "{}{child}: {} ({})\n",
            p.pid,
            p.command,
            mib(p.memory_bytes)
        );
        all += &format!("  program   {}\n  directory {}\n", p.program, p.directory);
        for d in &p.descriptors {
            all += &format!("  {d}\n");
        }
    }
    match found.changed.as_slice() {
        [] => all += "all of its files are as they were\n",
        changed => {
            for line in changed {
                all += &format!("changed: {line}\n");
            }
        }
    }
    all
}
