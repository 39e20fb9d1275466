//! `armento farm trust`, `armento farm reload`, `armento farm remove`.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, TrustChange, TrustInfo};
use armento_lab::Waiting;
use armento_model::NodeName;
use armento_noded::{Config, invitations, withdraw};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const HELP: &str = "Examples:
  armento farm trust
  armento farm trust --send-to n2,alice@n3      only there, to n3 only alice's processes
  armento farm trust --accept-from '!1000@n2'   all but user 1000 of n2
  armento farm trust --accept-from ''           none
  armento farm trust --send-to '*'              everywhere
  armento farm trust --reset                    as the configuration has it

A rule is NODE or USER@NODE, either may be *, and ! before it denies. What runs where it may not be any more
goes home at once. Users of --accept-from are those of the other node and given by number.";
pub const RELOAD_HELP: &str = "Example:
  armento farm reload

send_to, accept_from and allow_root hold at once, also for what runs, and so do block, stay and quiet; the rest when
the daemon is started again.";
pub const REMOVE_HELP: &str = "Examples:
  armento farm remove n3
  armento farm remove n3 --now    it cannot be trusted: do not wait for its processes
  armento farm remove --token 1a2b3c4d    no node joins with it any more (`armento farm list`)
  armento farm remove n3 --dry-run

Run it on a member that holds the farm's key. Tokens made so far are void. The name can join again.";

/// Processes have half a minute to go home, and each member is informed.
const REMOVING: Duration = Duration::from_secs(90);

#[derive(clap::Args)]
pub struct Trust {
    /// Nodes that programs of this home may move to
    #[arg(long, value_name = "RULES")]
    send_to: Option<String>,
    /// Homes that guests may come from
    #[arg(long, value_name = "RULES")]
    accept_from: Option<String>,
    /// Whether processes of root may leave, and root's guests may come
    #[arg(long, value_enum, value_name = "yes|no")]
    allow_root: Option<YesNo>,
    /// Discard changes that were made with this command
    #[arg(long)]
    reset: bool,
    /// Show the result; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON (schema armento.trust/1)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum YesNo {
    Yes,
    No,
}

#[derive(clap::Args)]
pub struct Reload {
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.trust/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Remove {
    #[arg(required_unless_present = "token")]
    node: Option<NodeName>,
    /// Make the token with this id invalid instead
    #[arg(long, value_name = "ID", conflicts_with_all = ["node", "now"])]
    token: Option<String>,
    /// Settings, with --token [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    /// Do not wait until its guests and ours have gone home
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.removed/1)
    #[arg(long)]
    json: bool,
}

pub fn trust(args: Trust) -> anyhow::Result<i32> {
    let rules = |text: &String| {
        let rules = text.split(',').map(str::trim).filter(|r| !r.is_empty());
        rules.map(str::to_owned).collect()
    };
    let change = TrustChange {
        send_to: args.send_to.as_ref().map(rules),
        accept_from: args.accept_from.as_ref().map(rules),
        allow_root: args.allow_root.map(|a| a == YesNo::Yes),
        reset: args.reset,
        dry_run: args.dry_run,
    };
    let nothing = TrustChange {
        dry_run: args.dry_run,
        ..TrustChange::default()
    };
    let change = Some(change).filter(|c| *c != nothing);
    let Answer::Trust(info) = ask(Ask::Trust { change }, ANSWER)? else {
        return Err(unexpected_answer());
    };
    show(&info, args.json);
    Ok(0)
}

pub fn reload(args: &Reload) -> anyhow::Result<i32> {
    if args.dry.dry_run {
        let config = Config::load(None).map_err(Failure::from)?;
        let file = config
            .file
            .as_ref()
            .map_or("no file".into(), |f| f.display().to_string());
        let would = [format!(
            "have the daemon read its configuration again ({file} is valid)"
        )];
        return Ok(dry_run::show(&would, args.json));
    }
    let Answer::Trust(info) = ask(Ask::Reload, ANSWER)? else {
        return Err(unexpected_answer());
    };
    show(&info, args.json);
    Ok(0)
}

fn show(info: &TrustInfo, as_json: bool) {
    if as_json {
        say_json("armento.trust/1", json!(info));
    } else {
        say(&render(info));
    }
}

fn render(info: &TrustInfo) -> String {
    let line = |key: &str, what: String| {
        let by_command = info.changed.iter().any(|c| c == key);
        let note = if by_command { "  (by command)" } else { "" };
        format!("{key:<11}  {what}{note}\n")
    };
    let list = |rules: &Option<Vec<String>>| match rules.as_deref() {
        None => "*".to_owned(),
        Some([]) => "none".to_owned(),
        Some(rules) => rules.join(", "),
    };
    let mut text = line("send_to", list(&info.send_to))
        + &line("accept_from", list(&info.accept_from))
        + &line(
            "allow_root",
            if info.allow_root { "yes" } else { "no" }.into(),
        );
    if info.homeward > 0 {
        text += &format!("{} of ours on their way home\n", info.homeward);
    }
    if info.expelled > 0 {
        text += &format!("{} guests on their way home\n", info.expelled);
    }
    text
}

pub fn remove(args: Remove) -> anyhow::Result<i32> {
    let Some(node) = args.node else {
        let id = args.token.unwrap_or_default();
        return remove_token(&id, args.config.as_deref(), args.dry, args.json);
    };
    if args.dry.dry_run {
        let would = dry_run::remove(&node, args.now)?;
        return Ok(dry_run::show(&would, args.json));
    }
    let waiting = Waiting::new(format!("removing {node}: processes go home"));
    let asked = Ask::Remove {
        node,
        now: args.now,
    };
    let Answer::Removed { node, lost, untold } = ask(asked, REMOVING)? else {
        return Err(unexpected_answer());
    };
    drop(waiting);
    if args.json {
        let fields = json!({ "node": node, "lost": lost, "untold": untold });
        say_json("armento.removed/1", fields);
        return Ok(0);
    }
    let mut text =
        format!("{node} is removed; its keys and all tokens made so far are no longer accepted\n");
    if lost > 0 {
        text += &format!("{lost} processes were lost with it\n");
    }
    text += &not_reached(&untold);
    say(&text);
    Ok(0)
}

/// A line about members that did not answer; empty if all did.
pub fn not_reached(untold: &[NodeName]) -> String {
    if untold.is_empty() {
        return String::new();
    }
    let names: Vec<String> = untold.iter().map(NodeName::to_string).collect();
    format!(
        "not reached; they are informed when they are back: {}\n",
        names.join(", ")
    )
}

fn remove_token(
    id: &str,
    config: Option<&Path>,
    dry: DryRun,
    as_json: bool,
) -> anyhow::Result<i32> {
    let config = Config::load(config).map_err(Failure::from)?;
    if dry.dry_run {
        let all = invitations(&config).map_err(Failure::from)?;
        let would = match all.iter().any(|t| t.id == id) {
            true => format!("make the token {id} invalid"),
            false => format!("be refused: there is no token {id}"),
        };
        return Ok(dry_run::show(&[would], as_json));
    }
    if !withdraw(&config, id).map_err(Failure::from)? {
        let failure = Failure {
            message: format!("there is no token {id}; nothing was changed"),
            hint: "`armento farm list` shows the tokens".into(),
        };
        return Err(failure.into());
    }
    match as_json {
        true => say_json("armento.removed/1", json!({ "token": id })),
        false => say(&format!("no node joins with the token {id} any more\n")),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_shown_in_three_lines() {
        let mut info = TrustInfo {
            node: "n1".parse().expect("name"),
            send_to: None,
            accept_from: Some(Vec::new()),
            allow_root: false,
            changed: vec!["accept_from".into()],
            homeward: 0,
            expelled: 0,
        };
        let said = "send_to      *\naccept_from  none  (by command)\nallow_root   no\n";
        assert_eq!(render(&info), said);
        info.send_to = Some(vec!["n2".into(), "!7@n3".into()]);
        info.expelled = 2;
        let text = render(&info);
        assert!(text.contains("send_to      n2, !7@n3\n"), "{text}");
        assert!(text.ends_with("2 guests on their way home\n"), "{text}");
    }
}
