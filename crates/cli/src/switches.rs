//! `armento farm start`, `stop`, `block`, `stay`, `quiet`, `drain`, `expel`, `bring`, `status`.

use crate::dry_run::{self, DryRun};
use crate::nodes;
use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, SwitchChange, SwitchInfo};
use armento_lab::Waiting;
use armento_model::clean;
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const STOP_HELP: &str = "Examples:
  armento farm stop           before the machine goes down: ours come home, guests go home
  armento farm stop --no-wait
  armento farm stop --dry-run
  armento farm start

Nothing comes or goes until `armento farm start`, also after a restart of the daemon. Programs run on, at home.";
pub const START_HELP: &str = "Example:
  armento farm start

Ends `armento farm stop` and `armento farm drain`.";
pub const BLOCK_HELP: &str = "Examples:
  armento farm block          accept no guests; those that are here may stay
  armento farm block --off";
pub const STAY_HELP: &str = "Examples:
  armento farm stay           programs of this home leave it only by `armento migrate` or --on
  armento farm stay --off";
pub const QUIET_HELP: &str = "Examples:
  armento farm quiet          report no load, move no process automatically
  armento farm quiet --off

After a minute the others have no load of this node and send it nothing. It stays a member.";
pub const DRAIN_HELP: &str = "Examples:
  armento farm drain          guests go home, none comes; ours stay where they are
  armento farm drain --off";
pub const EXPEL_HELP: &str = "Example:
  armento farm expel          guests go home; soon others may come (see block and drain)";
pub const BRING_HELP: &str = "Example:
  armento farm bring          ours come home and are left there for a minute (see stay)";
pub const STATUS_HELP: &str = "Examples:
  armento farm status
  armento farm status --json | jq .guests";

/// As long as `armento leave` waits.
const WAIT: Duration = Duration::from_secs(60);
const CHECK_EVERY: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub struct Switch {
    /// Switch it off again
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.farm-status/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Drain {
    /// Switch it off again
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    going: Going,
}

#[derive(clap::Args)]
pub struct Going {
    /// Do not wait until all processes have gone home
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.farm-status/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Start {
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.farm-status/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Status {
    /// Print JSON (schema armento.farm-status/1)
    #[arg(long)]
    json: bool,
}

/// The processes that a command waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Nothing,
    Guests,
    Ours,
    All,
}

pub fn stop(args: &Going) -> anyhow::Result<i32> {
    let stop = SwitchChange {
        stop: Some(true),
        ..SwitchChange::default()
    };
    go(stop, For::All, args)
}

pub fn start(args: &Start) -> anyhow::Result<i32> {
    let start = SwitchChange {
        stop: Some(false),
        drain: Some(false),
        ..SwitchChange::default()
    };
    change(start, args.dry, args.json)
}

pub fn block(args: &Switch) -> anyhow::Result<i32> {
    let block = Some(!args.off);
    let word = SwitchChange {
        block,
        ..SwitchChange::default()
    };
    change(word, args.dry, args.json)
}

pub fn stay(args: &Switch) -> anyhow::Result<i32> {
    let stay = Some(!args.off);
    let word = SwitchChange {
        stay,
        ..SwitchChange::default()
    };
    change(word, args.dry, args.json)
}

pub fn quiet(args: &Switch) -> anyhow::Result<i32> {
    let quiet = Some(!args.off);
    let word = SwitchChange {
        quiet,
        ..SwitchChange::default()
    };
    change(word, args.dry, args.json)
}

pub fn drain(args: &Drain) -> anyhow::Result<i32> {
    let drain = SwitchChange {
        drain: Some(!args.off),
        ..SwitchChange::default()
    };
    let processes = if args.off { For::Nothing } else { For::Guests };
    go(drain, processes, &args.going)
}

pub fn expel(args: &Going) -> anyhow::Result<i32> {
    let expel = SwitchChange {
        expel: true,
        ..SwitchChange::default()
    };
    go(expel, For::Guests, args)
}

pub fn bring(args: &Going) -> anyhow::Result<i32> {
    let bring = SwitchChange {
        bring: true,
        ..SwitchChange::default()
    };
    go(bring, For::Ours, args)
}

pub fn status(args: &Status) -> anyhow::Result<i32> {
    show(&switch(None)?, args.json);
    if !args.json
        && let Answer::Nodes { nodes } = ask(Ask::Nodes, ANSWER)?
    {
        nodes::clocks(&nodes);
    }
    Ok(0)
}

fn switch(change: Option<SwitchChange>) -> anyhow::Result<SwitchInfo> {
    match ask(Ask::Switch { change }, ANSWER)? {
        Answer::Switches(info) => Ok(info),
        _ => Err(unexpected_answer()),
    }
}

fn change(word: SwitchChange, dry: DryRun, as_json: bool) -> anyhow::Result<i32> {
    if dry.dry_run {
        return Ok(dry_run::show(&would(&switch(None)?, &word), as_json));
    }
    show(&switch(Some(word))?, as_json);
    Ok(0)
}

/// Sends the change and waits until the processes concerned have gone home.
fn go(word: SwitchChange, processes: For, args: &Going) -> anyhow::Result<i32> {
    if args.dry.dry_run {
        return Ok(dry_run::show(&would(&switch(None)?, &word), args.json));
    }
    let mut info = switch(Some(word))?;
    let waiting = Waiting::new("");
    let until = Instant::now() + WAIT;
    while !args.no_wait && left(&info, processes) > 0 {
        if Instant::now() >= until {
            let (left, s) = (left(&info, processes), WAIT.as_secs());
            let failure = Failure {
                message: format!("{left} processes have not gone home after {s} s; they still may"),
                hint: "`armento ps --all` shows them, `armento farm status` how many are left"
                    .into(),
            };
            return Err(failure.into());
        }
        waiting.say(format!(
            "{} processes are still to go home",
            left(&info, processes)
        ));
        sleep(CHECK_EVERY);
        info = switch(None)?;
    }
    drop(waiting);
    show(&info, args.json);
    Ok(0)
}

/// What the change would do to a node that is as `info` says.
fn would(info: &SwitchInfo, change: &SwitchChange) -> Vec<String> {
    let switches = [
        ("stop", info.stopped, change.stop),
        ("drain", info.drain, change.drain),
        ("block", info.block, change.block),
        ("stay", info.stay, change.stay),
        ("quiet", info.quiet, change.quiet),
        ("mfs", info.mfs, change.mfs),
    ];
    let named = switches.into_iter();
    let mut lines: Vec<String> = named
        .filter_map(|(name, now, wanted)| Some(dry_run::set(name, now, wanted?)))
        .collect();
    let stops = change.stop == Some(true);
    if stops || change.expel || change.drain == Some(true) {
        lines.push(format!("send {} guests away", info.guests));
    }
    if stops || change.bring {
        lines.push(format!("bring {} processes of this node home", info.away));
    }
    lines
}

fn left(info: &SwitchInfo, processes: For) -> u64 {
    let guests = info.guests + info.unheard;
    match processes {
        For::Nothing => 0,
        For::Guests => guests,
        For::Ours => info.brings,
        For::All => info.away + guests,
    }
}

fn show(info: &SwitchInfo, as_json: bool) {
    if as_json {
        say_json("armento.farm-status/1", json!(info));
    } else {
        say(&render(info));
    }
}

fn render(info: &SwitchInfo) -> String {
    let drained = format!(
        "none comes, those here go home (drained: {})",
        clean(&info.drain_why)
    );
    let guests = match info {
        i if i.drain && !i.drain_why.is_empty() => drained.as_str(),
        i if i.stopped || i.drain => "none comes, those here go home",
        i if i.expels => "go home, others may come soon",
        i if i.block => "none comes",
        i if i.owner => "none comes while the owner is here, those here go home",
        i if i.owner_first => "may come, the owner is away",
        _ => "may come",
    };
    let ours = match info {
        i if i.stopped => "come home and stay",
        i if i.brings > 0 => "come home",
        i if i.stay => "leave only by command",
        _ => "go where there is room",
    };
    let load = match info.quiet || info.stopped {
        true => "not reported, not balanced",
        false => "reported and balanced",
    };
    let line = |key: &str, what: &str, switch: &str| {
        let by_command = info.changed.iter().any(|c| c == switch);
        let note = if by_command { "  (by command)" } else { "" };
        format!("{key:<7} {what}{note}\n")
    };
    let state = if info.stopped {
        "stopped"
    } else {
        "in the farm"
    };
    format!("{:<7} {state}\n", info.node.as_str())
        + &line("guests", &format!("{guests}: {}", info.guests), "block")
        + &line("ours", &format!("{ours}: {} away", info.away), "stay")
        + &line("load", load, "quiet")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> SwitchInfo {
        SwitchInfo {
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
            away: 2,
            guests: 3,
            unheard: 1,
        }
    }

    #[test]
    fn status_is_shown_in_words() {
        let mut i = info();
        let said = "n1      in the farm\nguests  may come: 3\nours    go where there is room: 2 away\nload    reported and balanced\n";
        assert_eq!(render(&i), said);
        i.owner_first = true;
        assert!(render(&i).contains("guests  may come, the owner is away: 3\n"));
        i.owner = true;
        assert!(render(&i).contains("none comes while the owner is here"));
        (i.block, i.stay) = (true, true);
        i.changed = vec!["block".into()];
        let said = render(&i);
        assert!(said.contains("none comes: 3  (by command)\n"), "{said}");
        assert!(said.contains("leave only by command: 2 away\n"), "{said}");
        i.stopped = true;
        let said = render(&i);
        assert!(
            said.starts_with("n1      stopped\nguests  none comes, those here go home"),
            "{said}"
        );
    }

    #[test]
    fn dry_runs_say_what_would_change() {
        let stop = SwitchChange {
            stop: Some(true),
            ..SwitchChange::default()
        };
        let said = [
            "switch `stop` on",
            "send 3 guests away",
            "bring 2 processes of this node home",
        ];
        assert_eq!(would(&info(), &stop), said);
        let drain = SwitchChange {
            drain: Some(false),
            ..SwitchChange::default()
        };
        assert_eq!(would(&info(), &drain), ["leave `drain` off, as it is"]);
        let bring = SwitchChange {
            bring: true,
            ..SwitchChange::default()
        };
        assert_eq!(
            would(&info(), &bring),
            ["bring 2 processes of this node home"]
        );
    }

    #[test]
    fn each_command_waits_for_its_processes() {
        let i = info();
        let all = [For::Nothing, For::Guests, For::Ours, For::All];
        assert_eq!(all.map(|processes| left(&i, processes)), [0, 4, 0, 6]);
    }
}
