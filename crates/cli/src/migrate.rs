//! `armento migrate PID NODE|home|balance`.

use crate::out::{Failure, confused, say, say_json};
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
  armento migrate 4711 n3 --json   the move's figures for a script";

/// A program is born within milliseconds.
const BORN: Duration = Duration::from_secs(5);
/// Keepers report each half second.
const TOLD: Duration = Duration::from_secs(2);
/// Between two questions.
const LOOK: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The process, as its home numbers it
    pid: Pid,
    /// A node's name, `home` or `balance`
    #[arg(value_name = "NODE|home|balance", value_parser = dest)]
    to: Dest,
    /// Print JSON (schema armento.migrate/1): where it is, microseconds, bytes
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

fn told(args: &Args, doc: serde_json::Value, text: &str) {
    if args.json {
        say_json("armento.migrate/1", doc);
    } else {
        say(text);
    }
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let mut session = Session::connect().map_err(Failure::from)?;
    let mut ask = || {
        let to = args.to.clone();
        session.ask(Ask::Migrate { pid: args.pid, to }, MOVE)
    };
    let mut answer = ask();
    let born = Instant::now() + BORN;
    while not_held(&answer) && is_being_born(args.pid) && Instant::now() < born {
        std::thread::sleep(LOOK);
        answer = ask();
    }
    if not_held(&answer) {
        adopt(args.pid)?;
        // A keeper that has it already tells the daemon when it looks next.
        let told = Instant::now() + TOLD;
        answer = ask();
        while not_held(&answer) && Instant::now() < told {
            std::thread::sleep(LOOK);
            answer = ask();
        }
    }
    let answer = answer.map_err(Failure::from)?;
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
            told(args, doc, &(words + "\n"));
        }
        (_, Answer::Done) => {
            let text = format!("{} goes where the farm wants it\n", args.pid);
            told(args, json!({ "pid": args.pid, "node": null }), &text);
        }
        _ => return Err(confused()),
    }
    Ok(0)
}

fn not_held(answer: &Result<Answer, AskError>) -> bool {
    matches!(answer, Err(AskError::Refused(no)) if no.code == "not-held")
}

/// An `armento run` whose keeper has not said hello yet: the program is exec'd behind that.
fn is_being_born(pid: Pid) -> bool {
    let program = |who: &str| std::fs::metadata(format!("/proc/{who}/exe"));
    match (program(&pid.to_string()), program("self")) {
        (Ok(it), Ok(me)) => (it.dev(), it.ino()) == (me.dev(), me.ino()),
        _ => false,
    }
}

/// Gives a keeper to a process that was not started by `armento run`. After `Ok` that keeper has
/// said hello to the daemon, so the question can be asked again.
fn adopt(pid: Pid) -> Result<(), Failure> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = words
        .split(|b| *b == 0)
        .map(String::from_utf8_lossy)
        .collect();
    armento_keeper::adopt(pid, words.join(" ").trim_end().to_owned()).map_err(|e| Failure {
        message: format!("process {pid} cannot be moved: {e}; it goes on as before"),
        hint: "is it yours, and traced by nobody? `armento doctor` tells what this machine allows"
            .into(),
    })
}
