//! `armento web`: an address with a token, to open in a browser.

use crate::out::{Failure, say, say_json, unexpected_answer};
use armento_client::Session;
use armento_client::api::{Answer, Ask, WebTicket};
use armento_model::span;
use serde_json::json;
use std::time::Duration;

const HELP: &str = "Examples:
  armento web                      print an address to open; the browser stays signed in for 12 hours
  armento web --hours 1            … for an hour
  armento web --json | jq -r .open
  armento web --end                sign all of one's browsers out, and make printed addresses invalid

The dashboard listens on 127.0.0.1:7118 unless web.listen in config.toml says another address. From another machine:
  ssh -L 7118:127.0.0.1:7118 NODE  then open the address that `armento web` prints there";

/// The daemon starts the server first, which may take ten seconds on a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// How long a browser stays signed in, hours
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=168))]
    hours: u64,
    /// How many browsers can sign in with this address
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    uses: u32,
    /// Sign all of one's browsers out instead
    #[arg(long, conflicts_with_all = ["hours", "uses"])]
    end: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON (schema armento.web-token/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let dry_run = args.dry_run;
    let ask = match args.end {
        true => Ask::WebEnd { dry_run },
        false => Ask::WebToken {
            uses: args.uses,
            session_s: args.hours * 3600,
            dry_run,
        },
    };
    let mut session = Session::connect().map_err(Failure::from)?;
    match session.ask(ask, LIMIT).map_err(Failure::from)? {
        Answer::WebTicket(ticket) => show(args, &ticket),
        Answer::WebEnded { count } if args.json => {
            let fields = json!({ "ended": count, "dry_run": dry_run });
            say_json("armento.web-token/1", fields);
        }
        Answer::WebEnded { count } => {
            let what = if dry_run { "would be ended" } else { "ended" };
            say(&format!("{count} sessions and tokens {what}\n"));
        }
        _ => return Err(unexpected_answer()),
    }
    Ok(0)
}

fn show(args: &Args, ticket: &WebTicket) {
    let open = (!ticket.token.is_empty()).then(|| format!("{}#token={}", ticket.url, ticket.token));
    if args.json {
        let fields = json!({
            "open": open, "url": ticket.url, "uses": ticket.uses, "valid_s": ticket.valid_s,
            "session_s": ticket.session_s, "fingerprint": ticket.fingerprint, "dry_run": args.dry_run,
        });
        say_json("armento.web-token/1", fields);
        return;
    }
    let (uses, valid) = (ticket.uses, span(ticket.valid_s * 1000));
    let times = if uses == 1 {
        "once".to_owned()
    } else {
        format!("{uses} times")
    };
    let session = span(ticket.session_s * 1000);
    match open {
        Some(open) => {
            say(&format!("{open}\n"));
            eprintln!(
                "it can be used {times}, within {valid}; the browser stays signed in for {session}"
            );
        }
        None => say(&format!(
            "would print an address of {}, to be used {times} within {valid}, for {session}\n",
            ticket.url
        )),
    }
    if let Some(print) = &ticket.fingerprint {
        eprintln!("SHA-256 of its certificate, which browsers show and do not know: {print}");
    }
}
