//! `armento farm invite`, `list`, `rotate`: tokens with which nodes join.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, ask, say, say_json, table, unexpected_answer};
use crate::trust::not_reached;
use anyhow::Context as _;
use armento_client::api::{Answer, Ask};
use armento_model::span;
use armento_noded::{
    Config, Invitation, TOKEN_TTL, TOKEN_USES, invitations, new_token, plan_token,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const INVITE_HELP: &str = "Examples:
  armento farm invite
  armento farm invite --hours 1 --uses 1

Run it on a member that holds the farm's key: where `armento farm init` was run.";
pub const LIST_HELP: &str = "Examples:
  armento farm list
  armento farm list --json | jq '.tokens[].id'

Secrets of tokens are not kept: a token that was lost is replaced by `armento farm invite`. `armento farm remove --token ID`
makes one invalid.";
pub const ROTATE_HELP: &str = "Examples:
  armento farm rotate --dry-run
  armento farm rotate

Members receive the new secret at once, or from others when they are back. No node leaves, no process is disturbed.";

/// Each member is informed.
const ROTATING: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Invite {
    /// Hours that the token is valid
    #[arg(long, value_name = "H", default_value_t = TOKEN_TTL.as_secs() / 3600, value_parser = clap::value_parser!(u64).range(0..=8760))]
    hours: u64,
    /// Number of nodes that the token admits
    #[arg(long, value_name = "N", default_value_t = TOKEN_USES)]
    uses: u32,
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.invitation/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct List {
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    /// Print JSON (schema armento.invitations/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Rotate {
    #[command(flatten)]
    dry: DryRun,
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    /// Print JSON (schema armento.rotated/1)
    #[arg(long)]
    json: bool,
}

pub fn invite(args: &Invite) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    if args.dry.dry_run {
        let farm = plan_token(&config).map_err(Failure::from)?;
        let (hours, uses) = (args.hours, args.uses);
        let would = format!("make a token of farm {farm} for {uses} nodes within {hours} hours");
        return Ok(dry_run::show(&[would], args.json));
    }
    let ttl = Duration::from_secs(args.hours * 3600);
    let (token, addr) = new_token(&config, ttl, args.uses).map_err(Failure::from)?;
    let command = format!("armento join {token} {addr}");
    match args.json {
        true => {
            let fields = json!({
                "id": token.id,
                "token": token.to_string(),
                "address": addr,
                "command": command,
                "hours": args.hours,
                "uses": args.uses,
            });
            say_json("armento.invitation/1", fields);
        }
        false => say(&format!("{command}\n")),
    }
    Ok(0)
}

pub fn list(args: &List) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    let all = invitations(&config).map_err(Failure::from)?;
    let now = unix_now()?;
    match args.json {
        true => {
            let fields =
                json!({ "tokens": all.iter().map(|t| fields(t, now)).collect::<Vec<_>>() });
            say_json("armento.invitations/1", fields);
        }
        false => say(&render(&all, now)),
    }
    Ok(0)
}

fn unix_now() -> anyhow::Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(since
        .context("this machine's clock is before 1970: set it")?
        .as_secs())
}

/// Whether it admits a node, in a word.
fn state(token: &Invitation, now: u64) -> &'static str {
    match (token.expires <= now, token.uses_left) {
        (true, _) => "expired",
        (false, 0) => "used",
        (false, _) => "valid",
    }
}

fn fields(token: &Invitation, now: u64) -> Value {
    json!({
        "id": token.id,
        "state": state(token, now),
        "expires": token.expires,
        "uses_left": token.uses_left,
        "used": token.used,
    })
}

fn render(all: &[Invitation], now: u64) -> String {
    if all.is_empty() {
        return "no token; `armento farm invite` makes one\n".into();
    }
    let heads = [
        ("ID", false),
        ("STATE", false),
        ("EXPIRES", true),
        ("ADMITTED", true),
        ("ADMITS", true),
    ];
    let time = |expires: u64| match expires.checked_sub(now) {
        Some(left) if left > 0 => format!("in {}", span(left.saturating_mul(1000))),
        _ => format!("{} ago", span((now - expires).saturating_mul(1000))),
    };
    let row = |t: &Invitation| {
        vec![
            t.id.clone(),
            state(t, now).to_owned(),
            time(t.expires),
            t.used.to_string(),
            t.uses_left.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    table(&heads, &rows)
}

pub fn rotate(args: &Rotate) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    let now = unix_now()?;
    if args.dry.dry_run {
        let all = invitations(&config).map_err(Failure::from)?;
        let valid: Vec<&str> = all
            .iter()
            .filter(|t| state(t, now) == "valid")
            .map(|t| t.id.as_str())
            .collect();
        let would = [
            "give the farm a new secret, and tell all members".to_owned(),
            match valid.is_empty() {
                true => "make no token invalid: none is valid".into(),
                false => format!("make these tokens invalid: {}", valid.join(", ")),
            },
        ];
        return Ok(dry_run::show(&would, args.json));
    }
    let Answer::Rotated { untold } = ask(Ask::Rotate, ROTATING)? else {
        return Err(unexpected_answer());
    };
    match args.json {
        true => say_json("armento.rotated/1", json!({ "untold": untold })),
        false => say(&format!(
            "the farm has a new secret; all tokens made so far are invalid\n{}",
            not_reached(&untold)
        )),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_shown_with_their_state() {
        let token = |id: &str, expires: u64, uses_left: u32, used: u32| Invitation {
            id: id.into(),
            expires,
            uses_left,
            used,
        };
        let now = 1_000_000;
        let all = [
            token("0badcafe", now + 3600, 3, 1),
            token("0badc0de", now - 60, 3, 0),
            token("feedface", now + 3600, 0, 4),
        ];
        let states: Vec<&str> = all.iter().map(|t| state(t, now)).collect();
        assert_eq!(states, ["valid", "expired", "used"]);
        let text = render(&all, now);
        assert!(text.starts_with("ID        STATE"), "{text}");
        assert!(text.contains(" ago "), "{text}");
        assert!(render(&[], now).contains("armento farm invite"));
    }
}
