//! `armento migrate PID NODE|home|balance`.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say, say_json, unexpected_answer};
use crate::progress::MoveProgress;
use armento_client::api::{Answer, Ask, Dest};
use armento_client::{AskError, MOVE, Session};
use armento_model::Pid;
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

const HELP: &str = "Examples:
  armento migrate 4711 n3          to a node; also a process not started by `armento run`
  armento migrate 4711 home
  armento migrate 4711 balance     let the farm decide from now on
  armento migrate 4711 n3 --dry-run
  armento migrate 4711 n3 --json   the move's figures for a script";

/// Time limit for the start of a program, which takes milliseconds.
const START_MAX: Duration = Duration::from_secs(5);
/// Time limit for a keeper's report, which is sent every half second.
const REPORT_MAX: Duration = Duration::from_secs(2);
/// Interval between repeated requests.
const RETRY_EVERY: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The process, by its pid at home
    pid: Pid,
    /// A node's name, `home` or `balance`
    #[arg(value_name = "NODE|home|balance", value_parser = dest)]
    to: Dest,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.migrate/1): node, microseconds, bytes
    #[arg(long)]
    json: bool,
}

fn dest(word: &str) -> Result<Dest, String> {
    match word {
        "home" => Ok(Dest::Home),
        "balance" => Ok(Dest::Balance),
        name => name
            .parse()
            .map(Dest::Node)
            .map_err(|e: armento_model::BadName| e.to_string()),
    }
}

fn print_result(args: &Args, doc: serde_json::Value, text: &str) {
    if args.json {
        say_json("armento.migrate/1", doc);
    } else {
        say(text);
    }
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    if args.dry.dry_run {
        return Ok(dry_run::show(
            &dry_run::migrate(args.pid, &args.to)?,
            args.json,
        ));
    }
    let mut session = Session::connect().map_err(Failure::from)?;
    let answer = ask_keeper(args.pid, || {
        let to = args.to.clone();
        // Gone before a keeper is forked: that needs a process of one thread.
        let _progress = MoveProgress::of(args.pid);
        session.ask(Ask::Migrate { pid: args.pid, to }, MOVE)
    })?;
    match (answer.move_words(), answer) {
        (
            Some(words),
            Answer::Moved {
                pid,
                node,
                pause_us,
                total_us,
                bytes,
            },
        ) => {
            let doc = json!({
                "pid": pid, "node": node,
                "pause_us": pause_us, "total_us": total_us, "bytes": bytes,
            });
            print_result(args, doc, &(words + "\n"));
        }
        (_, Answer::Done) => {
            let text = format!("{} is placed by the farm\n", args.pid);
            print_result(args, json!({ "pid": args.pid, "node": null }), &text);
        }
        _ => return Err(unexpected_answer()),
    }
    Ok(0)
}

/// Asks what only the keeper of a process can do; a process that has none is given one.
pub fn ask_keeper(
    pid: Pid,
    mut ask: impl FnMut() -> Result<Answer, AskError>,
) -> Result<Answer, Failure> {
    let mut answer = ask();
    let born = Instant::now() + START_MAX;
    while not_held(&answer) && is_starting(pid) && Instant::now() < born {
        std::thread::sleep(RETRY_EVERY);
        answer = ask();
    }
    if not_held(&answer) {
        adopt(pid)?;
        // A keeper that already has the process tells the daemon with its next report.
        let deadline = Instant::now() + REPORT_MAX;
        answer = ask();
        while not_held(&answer) && Instant::now() < deadline {
            std::thread::sleep(RETRY_EVERY);
            answer = ask();
        }
    }
    answer.map_err(Failure::from)
}

fn not_held(answer: &Result<Answer, AskError>) -> bool {
    matches!(answer, Err(AskError::Refused(no)) if no.code == "not-held")
}

/// An `armento run` before its keeper's hello: the program is exec'd after that.
fn is_starting(pid: Pid) -> bool {
    let program = |pid: &str| std::fs::metadata(format!("/proc/{pid}/exe"));
    match (program(&pid.to_string()), program("self")) {
        (Ok(it), Ok(me)) => (it.dev(), it.ino()) == (me.dev(), me.ino()),
        _ => false,
    }
}

/// Gives a keeper to a process that was not started by `armento run`. After `Ok` that keeper has sent its hello to the
/// daemon, so the request can be repeated.
fn adopt(pid: Pid) -> Result<(), Failure> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = words
        .split(|b| *b == 0)
        .map(String::from_utf8_lossy)
        .collect();
    armento_keeper::adopt(pid, words.join(" ").trim_end().to_owned()).map_err(|e| Failure {
        message: format!("process {pid} cannot be moved: {e}; it goes on as before"),
        hint: "is it yours, and not traced? `armento doctor` shows what this machine allows".into(),
    })
}
