//! The daemon as a service: whether one waits for a farm, and requests of the unit and the package's scripts.
//!
//! `packaging/armento.service` and `packaging/debian/prerm` call the hidden verb.

use crate::out::{Failure, say, unexpected_answer};
use armento_client::api::{Answer, Ask, Build, Ending, ProgramVersions, SwitchChange, SwitchInfo};
use armento_client::{ANSWER, AskError, Session, version};
use armento_noded::{Config, is_waiting};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const STOPPING_HELP: &str = "Example:
  armento service stopping --timeout 60

ExecStop= of armento.service: when the machine shuts down, guests go home first. A restart of the service leaves them.";
const REMOVING_HELP: &str = "Example:
  armento service removing --timeout 60

Before the package is removed: guests go home, own processes come home and run on there.";

const VERSIONS_HELP: &str = "Example:
  armento service versions

A daemon and `armento farm upgrade` ask a program this before they put it in place.";

/// A waiting service has started by then: it checks each second.
const START_MAX: Duration = Duration::from_secs(20);
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Directories of units, the administrator's first (systemd.unit(5)).
const UNITS: [&str; 3] = [
    "/etc/systemd/system/armento.service",
    "/usr/lib/systemd/system/armento.service",
    "/lib/systemd/system/armento.service",
];

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Guests go home, if the machine is shutting down
    #[command(after_help = STOPPING_HELP)]
    Stopping(Within),
    /// What this program was built from, for `armento farm upgrade`
    #[command(after_help = VERSIONS_HELP)]
    Versions,
    /// Guests go home, own processes come home
    #[command(after_help = REMOVING_HELP)]
    Removing(Within),
    /// A node without a disk joins its farm
    #[command(after_help = crate::booted::HELP)]
    Booted(crate::booted::Args),
}

#[derive(clap::Args)]
pub struct Within {
    /// Wait at most so many seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Exits with 0 whatever is left of processes: the caller waits no longer than its time limit.
pub fn run(cmd: Cmd) -> anyhow::Result<i32> {
    let (ending, within) = match cmd {
        Cmd::Versions => return versions(),
        Cmd::Booted(args) => return crate::booted::run(&args),
        Cmd::Stopping(_) if !is_stopping() => return Ok(0),
        Cmd::Stopping(within) => (Ending::Machine, within),
        Cmd::Removing(within) => (Ending::Package, within),
    };
    let until = Instant::now() + Duration::from_secs(within.timeout);
    let config = Config::load(None).map_err(Failure::from)?;
    let mut session = match Session::connect_to(&config.socket_path()) {
        Err(AskError::NoDaemon { .. }) => return Ok(0),
        session => session.map_err(Failure::from)?,
    };
    let change = SwitchChange {
        ending: Some(ending),
        ..SwitchChange::default()
    };
    let mut ask = |change| match session.ask(Ask::Switch { change }, ANSWER) {
        Ok(Answer::Switches(info)) => Ok(info),
        Ok(_) => Err(unexpected_answer()),
        Err(e) => Err(Failure::from(e).into()),
    };
    let first = ask(Some(change))?;
    let mut now = first.clone();
    while left(&now, ending) > 0 && Instant::now() < until {
        sleep(CHECK_EVERY);
        now = ask(None)?;
    }
    say(&progress(&first, &now, ending));
    Ok(0)
}

fn versions() -> anyhow::Result<i32> {
    let versions = ProgramVersions {
        build: Build::own(),
        control: version::spoken(),
    };
    say(&format!("{}\n", serde_json::to_string(&versions)?));
    Ok(0)
}

fn left(info: &SwitchInfo, ending: Ending) -> u64 {
    let guests = info.guests + info.unheard;
    match ending {
        Ending::Machine => guests,
        Ending::Package => guests + info.away,
    }
}

fn progress(first: &SwitchInfo, now: &SwitchInfo, ending: Ending) -> String {
    let gone = |before: u64, after: u64, what: &str| match after {
        0 => format!("{before} {what}"),
        n => format!("{} of {before} {what}", before.saturating_sub(n)),
    };
    let guests = gone(first.guests, now.guests, "guests have gone home");
    match ending {
        Ending::Machine => format!("{guests}\n"),
        Ending::Package => {
            let ours = gone(first.away, now.away, "own processes have come home");
            format!("{guests}, {ours}\n")
        }
    }
}

/// `systemctl is-system-running` reports it from the moment at which a shutdown is requested.
fn is_stopping() -> bool {
    let said = Command::new("timeout")
        .args(["10", "systemctl", "is-system-running"])
        .output();
    said.is_ok_and(|out| out.stdout.trim_ascii() == b"stopping")
}

/// Whether a daemon waits for this node's farm. Ask before `farm init` or `join` makes it a member.
pub struct Waits(Option<Option<i32>>);

pub fn waits(config: &Config) -> Waits {
    Waits(is_waiting(config))
}

impl Waits {
    /// The next step about the daemon, as a line to print; waits until a waiting daemon has started.
    pub fn daemon_line(self, config: &Config) -> String {
        let Some(pid) = self.0 else {
            let unit = UNITS.iter().any(|unit| Path::new(unit).exists());
            let how = match unit {
                true => "systemctl enable --now armento",
                false => "armento node",
            };
            return format!("start its daemon:     {how}\n");
        };
        let until = Instant::now() + START_MAX;
        let socket = config.socket_path();
        while Instant::now() < until {
            if Session::connect_to(&socket).is_ok() {
                return "its daemon runs:      it waited for this\n".into();
            }
            sleep(CHECK_EVERY);
        }
        let pid = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
        format!(
            "its daemon{pid} waited for this and has not begun within {} s; see `journalctl -u armento`\n",
            START_MAX.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_moves_are_counted() {
        let info = |guests, away| SwitchInfo {
            node: "n1".parse().expect("name"),
            stopped: false,
            drain: false,
            drain_why: String::new(),
            block: false,
            stay: false,
            quiet: false,
            mfs: false,
            expels: false,
            owner_first: false,
            owner: false,
            brings: 0,
            changed: Vec::new(),
            away,
            guests,
            unheard: 0,
        };
        let check = |now, ending, want| assert_eq!(progress(&info(3, 2), &now, ending), want);
        check(info(0, 2), Ending::Machine, "3 guests have gone home\n");
        check(
            info(1, 2),
            Ending::Machine,
            "2 of 3 guests have gone home\n",
        );
        check(
            info(0, 1),
            Ending::Package,
            "3 guests have gone home, 1 of 2 own processes have come home\n",
        );
        assert_eq!(left(&info(1, 2), Ending::Machine), 1);
        assert_eq!(left(&info(1, 2), Ending::Package), 3);
    }
}
