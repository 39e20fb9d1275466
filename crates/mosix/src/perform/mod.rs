//! A [`Deed`] is done: the daemon is asked, or `armento` takes this process's place.

mod control;
mod maps;
mod monitor;
mod processes;
mod start;

use crate::failed::Failed;
use crate::farm::Farm;
use crate::pages::help;
use crate::parse::{Deed, To, parse};
use crate::sys;
use crate::table::{Command, command};
use armento_client::Session;
use armento_model::Pid;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process;

/// Armento itself failed (the status that `env`, `nohup` and `timeout` use).
const FAILED: i32 = 125;

/// Whether that is the name of an old command.
pub fn is_name(name: &str) -> bool {
    command(name).is_some()
}

/// Runs a command of old name. Before: [`is_name`], and no thread was started. The exit status; or this process has
/// become another program.
pub fn main(name: &str, args: &[OsString]) -> i32 {
    let done = match command(name) {
        Some(command) => parse(command, args).and_then(|deed| perform(command, deed)),
        None => Err(Failed::new(
            format!("{} is no command of openMosix", armento_model::clean(name)),
            "`armento mosix list` shows them",
        )),
    };
    done.unwrap_or_else(|no| {
        let name = armento_model::clean(name);
        eprintln!(
            "{name}: {}\nhint: {}",
            armento_model::clean(&no.message),
            no.hint
        );
        FAILED
    })
}

fn perform(command: &'static Command, deed: Deed) -> Result<i32, Failed> {
    match deed {
        Deed::Help => say(&help(command)).map(|()| 0),
        Deed::Migrate { pid, to } => migrate(pid, to),
        Deed::Signal { pid, stop } => signal(pid, stop),
        Deed::Run(run) => start::run(run),
        Deed::Native(words) => start::native(&words),
        Deed::Control(control) => control::perform(&control),
        Deed::Setpe(setpe) => maps::setpe(&setpe),
        Deed::Showmap => maps::showmap(),
        Deed::BestNode => maps::best_node(),
        Deed::Monitor(m) => monitor::run(m),
        Deed::Ps(ps) => processes::ps(&ps),
        Deed::Top(words) => Err(become_armento("top", words)),
        Deed::Listing(l) => processes::listing(&l),
    }
}

fn migrate(pid: Pid, to: To) -> Result<i32, Failed> {
    let to = match to {
        To::Home => "home".into(),
        To::Balance => "balance".into(),
        To::Node(word) => {
            let farm = Farm::ask(&mut Session::connect()?)?;
            farm.find(&word)?.info.name.to_string()
        }
    };
    Err(become_armento(
        "migrate",
        vec![pid.to_string().into(), to.into()],
    ))
}

fn signal(pid: Pid, stop: bool) -> Result<i32, Failed> {
    let (number, word) = match stop {
        true => (libc::SIGSTOP, "stopped"),
        false => (libc::SIGCONT, "continued"),
    };
    sys::signal(pid, number).map(|()| 0).map_err(|e| {
        Failed::new(
            format!("process {pid} cannot be {word}: {e}"),
            "is it yours, and does it run? `ps` shows it",
        )
    })
}

/// This process becomes `armento VERB WORDS`. It returns only if that fails.
fn become_armento(verb: &str, words: Vec<OsString>) -> Failed {
    // KERNEL: proc_pid_exe(5): the program that runs, also if its file was replaced.
    let failed = process::Command::new("/proc/self/exe")
        .arg0("armento")
        .arg(verb)
        .args(words)
        .exec();
    Failed::new(
        format!("armento {verb} cannot be started: {failed}; nothing was done"),
        "is /proc mounted?",
    )
}

/// Prints; a closed pipe ends this process silently.
fn say(text: &str) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => process::exit(0),
        Err(e) => Err(Failed::new(
            format!("cannot write to standard output: {e}"),
            "is its disk full?",
        )),
        Ok(()) => Ok(()),
    }
}
