//! A [`Deed`] is done: the daemon is asked, or `armento` takes this process's place.

mod control;
mod maps;
mod monitor;
mod out;
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
use out::{FAILED, become_armento, say};
use std::ffi::OsString;

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
