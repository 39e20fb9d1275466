//! `armento hold PID [-- COMMAND]`.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say, unexpected_answer};
use crate::sys;
use armento_client::api::{Answer, Ask, Dest};
use armento_client::{AskError, MOVE, Session};
use armento_lab::Waiting;
use armento_model::{Pid, clean};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

const HELP: &str = "Examples:
  armento hold 4711 -- gdb -p 4711         until gdb ends
  armento hold 4711 -- strace -p 4711
  armento hold --dry-run 4711
  armento hold 4711                        until `armento migrate 4711 balance`

While a process is away its half at home is traced by Armento and has no memory: debuggers cannot attach.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The process, by its pid at home
    pid: Pid,
    #[command(flatten)]
    dry: DryRun,
    /// Run this command; the process is held until it ends
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    if args.dry.dry_run {
        return Ok(dry_run::show(&plan(args)?, false));
    }
    let waiting = Waiting::new(format!("process {} comes home", args.pid));
    let managed = send(args.pid, Dest::Hold)?;
    drop(waiting);
    let Some((program, words)) = args.command.split_first() else {
        let left = match managed {
            true => format!(
                "is held at home until `armento migrate {} balance`",
                args.pid
            ),
            false => "was never moved by Armento, and is not".into(),
        };
        say(&format!("{} {left}\n", args.pid));
        return Ok(0);
    };
    let status = sys::run(Command::new(program).args(words));
    // Unless it has ended meanwhile.
    if managed && Path::new(&format!("/proc/{}", args.pid)).exists() {
        send(args.pid, Dest::Balance)?;
    }
    let status = status.map_err(|e| Failure {
        message: format!("cannot run {}: {e}", program.display()),
        hint: format!("process {} is at home and goes on", args.pid),
    })?;
    Ok(status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn plan(args: &Args) -> anyhow::Result<Vec<String>> {
    let mut would = dry_run::migrate(args.pid, &Dest::Hold)?;
    if let Some(program) = args.command.first() {
        let program = clean(&program.to_string_lossy());
        would.push(format!(
            "run {program}, and let the farm choose again when it has ended"
        ));
    }
    Ok(would)
}

/// False: the process has no keeper, so it is at home and stays there.
fn send(pid: Pid, to: Dest) -> anyhow::Result<bool> {
    let mut session = Session::connect().map_err(Failure::from)?;
    match session.ask(Ask::Migrate { pid, to }, MOVE) {
        Ok(Answer::Moved { .. } | Answer::Done) => Ok(true),
        Ok(_) => Err(unexpected_answer()),
        Err(AskError::Refused(no)) if no.code == "not-held" => Ok(false),
        Err(e) => Err(Failure::from(e).into()),
    }
}
