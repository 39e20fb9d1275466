//! `armento context`: farms that are controlled from a machine that is in none of them, a laptop for instance.

mod remote;
mod store;

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, ask, say, say_json, table, unexpected_answer};
use crate::sys;
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask};
use armento_link::Token;
use serde_json::json;
use store::{Context, Store};

pub const HELP: &str = "Examples:
  n1$ armento context invite                       on a node, as the user that you are there; prints the next command
  laptop$ armento context add naples TOKEN n1      keep the farm under the name naples, and use it
  laptop$ armento nodes                            ... of that farm
  laptop$ ARMENTO_CONTEXT=lab armento ps --all     another one, once
  laptop$ armento context use --none               this machine's own daemon again

With a context in use nodes, ps, top, why, log and migrate speak with that farm over TLS, as the user that invited, whose rights
they have. Other commands are for nodes: use ssh.";

const INVITE_HELP: &str = "Examples:
  armento context invite
  armento context invite --days 1 --json";
const ADD_HELP: &str = "Example:
  armento context add naples armento1K6f…::c0:5e6f… n1

The token works once, within ten minutes; its secret is sent only to a daemon of the token's farm.";
const LIST_HELP: &str = "Examples:
  armento context list
  armento context list --json | jq -r '.contexts[].name'";
const USE_HELP: &str = "Examples:
  armento context use naples
  armento context use --none       this machine's own daemon";
const REMOVE_HELP: &str = "Examples:
  armento context remove --dry-run naples
  armento context remove naples";

/// The environment variable that names a context for one command; empty: none.
pub const VARIABLE: &str = "ARMENTO_CONTEXT";

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Make a token with which another machine controls this farm as the calling user
    #[command(after_help = INVITE_HELP)]
    Invite(Invite),
    /// Keep a farm under a name, and use it
    #[command(after_help = ADD_HELP)]
    Add(Add),
    /// Show the farms that are kept
    #[command(after_help = LIST_HELP)]
    List(List),
    /// Use a farm that is kept, or this machine's own daemon
    #[command(after_help = USE_HELP)]
    Use(Use),
    /// Forget a farm, and sign out there
    #[command(after_help = REMOVE_HELP)]
    Remove(Remove),
}

#[derive(clap::Args)]
pub struct Invite {
    /// Days that the other machine stays signed in
    #[arg(long, value_name = "D", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=7))]
    days: u64,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.context-invitation/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Add {
    name: String,
    /// As `armento context invite` printed it
    token: String,
    /// A node of the farm: address or name, and port if that is not 7117
    #[arg(value_name = "A:P")]
    addr: String,
    /// Replace a farm of this name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    dry: DryRun,
}

#[derive(clap::Args)]
pub struct List {
    /// Print JSON (schema armento.contexts/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Use {
    #[arg(required_unless_present = "none")]
    name: Option<String>,
    /// This machine's own daemon
    #[arg(long, conflicts_with = "name")]
    none: bool,
    #[command(flatten)]
    dry: DryRun,
}

#[derive(clap::Args)]
pub struct Remove {
    name: String,
    #[command(flatten)]
    dry: DryRun,
}

pub fn run(cmd: Cmd) -> anyhow::Result<i32> {
    match cmd {
        Cmd::Invite(args) => invite(&args),
        Cmd::Add(args) => add(args),
        Cmd::List(args) => list(&args),
        Cmd::Use(args) => choose(args),
        Cmd::Remove(args) => remove(&args),
    }
}

/// The farm that this command is for, if it is another than that of this machine's own daemon: its name in the variable,
/// else the one in use.
fn chosen() -> Result<Option<Context>, Failure> {
    let named = std::env::var(VARIABLE).ok();
    if named.as_deref() == Some("") {
        return Ok(None);
    }
    let store = Store::load()?;
    match named.or_else(|| store.current.clone()) {
        None => Ok(None),
        Some(name) => store.get(&name).cloned().map(Some),
    }
}

/// Commands that speak with the chosen farm.
const REMOTE: &[&str] = &["nodes", "ps", "top", "why", "log", "migrate"];

/// Runs a command: with a farm in use, and if the command can, as if this process were on its node.
pub fn within(verb: &str, run: impl FnOnce() -> anyhow::Result<i32>) -> anyhow::Result<i32> {
    if !REMOTE.contains(&verb) {
        return run();
    }
    let Some(context) = chosen()? else {
        return run();
    };
    let way = remote::bind()?;
    sys::set_socket(&way.path);
    let way = way.open(&context)?;
    let done = run();
    drop(way);
    done
}

fn invite(args: &Invite) -> anyhow::Result<i32> {
    if args.dry.dry_run {
        let would = format!(
            "make a token with which another machine controls this node as you for {} days",
            args.days
        );
        return Ok(dry_run::show(&[would], args.json));
    }
    let asked = Ask::Invite {
        session_s: args.days * 24 * 3600,
    };
    let Answer::Invitation {
        token,
        addr,
        valid_s,
    } = ask(asked, ANSWER)?
    else {
        return Err(unexpected_answer());
    };
    let command = format!("armento context add NAME {token} {addr}");
    match args.json {
        true => {
            let fields = json!({
                "token": token, "address": addr, "valid_s": valid_s, "days": args.days, "command": command,
            });
            say_json("armento.context-invitation/1", fields);
        }
        false => say(&format!("{command}\n")),
    }
    Ok(0)
}

fn add(args: Add) -> anyhow::Result<i32> {
    let mut store = Store::load()?;
    store.check_new(&args.name, args.replace)?;
    let token: Token = args
        .token
        .parse()
        .map_err(|e: armento_link::BadToken| Failure {
            message: format!("{e}; nothing was changed"),
            hint: "copy the whole line that `armento context invite` printed".into(),
        })?;
    if args.dry.dry_run {
        let (name, addr) = (&args.name, &args.addr);
        let would = format!("sign in at {addr}, keep its farm as {name}, and use it");
        return Ok(dry_run::show(&[would], false));
    }
    let context = remote::sign_in(&args.name, &token, &args.addr)?;
    let shown = format!(
        "{} is {}@{} of farm {}",
        context.name, context.user, context.node, context.farm
    );
    store.put(context);
    store.save()?;
    say(&format!("{shown}; it is in use\n"));
    Ok(0)
}

fn list(args: &List) -> anyhow::Result<i32> {
    let store = Store::load()?;
    let current = store.current.as_deref();
    if args.json {
        let one = |c: &Context| {
            json!({
                "name": c.name, "current": current == Some(&c.name), "farm": c.farm, "node": c.node,
                "address": c.address, "user": c.user, "expires": c.expires,
            })
        };
        let all: Vec<_> = store.contexts.iter().map(one).collect();
        say_json("armento.contexts/1", json!({ "contexts": all }));
        return Ok(0);
    }
    if store.contexts.is_empty() {
        say("no farm is kept; `armento context add` keeps one\n");
        return Ok(0);
    }
    let heads = [
        ("NAME", false),
        ("USER", false),
        ("NODE", false),
        ("ADDRESS", false),
        ("FARM", false),
    ];
    let row = |c: &Context| {
        let mark = if current == Some(&c.name) { "*" } else { "" };
        vec![
            format!("{}{mark}", c.name),
            c.user.clone(),
            c.node.clone(),
            c.address.clone(),
            c.farm.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = store.contexts.iter().map(row).collect();
    say(&table(&heads, &rows));
    Ok(0)
}

fn choose(args: Use) -> anyhow::Result<i32> {
    let mut store = Store::load()?;
    if let Some(name) = &args.name {
        store.get(name)?;
    }
    if args.dry.dry_run {
        let would = match &args.name {
            Some(name) => format!("use {name}"),
            None => "use this machine's own daemon".into(),
        };
        return Ok(dry_run::show(&[would], false));
    }
    let said = match &args.name {
        Some(name) => format!("{name} is in use\n"),
        None => "this machine's own daemon is in use\n".into(),
    };
    store.current = args.name;
    store.save()?;
    say(&said);
    Ok(0)
}

fn remove(args: &Remove) -> anyhow::Result<i32> {
    let mut store = Store::load()?;
    let context = store.get(&args.name)?.clone();
    if args.dry.dry_run {
        let would = format!(
            "sign {} out at {}, and forget it",
            context.name, context.address
        );
        return Ok(dry_run::show(&[would], false));
    }
    // A node that does not answer forgets the session when it expires.
    let reached = remote::sign_out(&context);
    store.drop(&args.name);
    store.save()?;
    say(&match reached {
        Ok(()) => format!("{} is signed out and forgotten\n", args.name),
        Err(e) => format!(
            "{} is forgotten; it was not signed out there: {}\n",
            args.name, e.message
        ),
    });
    Ok(0)
}
