//! `armento boot add-node` and `armento boot claim`: one line in the inventory.

use super::place::Place;
use super::status;
use crate::dry_run::{self, DryRun};
use crate::fabric::Source;
use crate::out::{Failure, say, say_json, table};
use anyhow::Result;
use armento_fabric::addr::Mac;
use armento_fabric::inventory::{NewNode, add_node, parse};
use armento_model::span;
use armento_provision::layout::replace;
use serde_json::json;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const ADD_HELP: &str = "Examples:
  armento boot add-node n17 --mac 00:1b:21:aa:bb:cc
  armento boot add-node n17 --mac 00:1b:21:aa:bb:cc --profile diskless --dry-run

A new node gets the next number. A node of a range with a file of cards (macs = \"macs.csv\") gets a line there. `armento boot
serve` notices the change; switch the machine on.";
const CLAIM_HELP: &str = "Examples:
  armento boot claim                              machines that ask to boot and have no name
  armento boot claim 00:1b:21:aa:bb:cc n17

It boots within seconds: its firmware, or iPXE, asks again.";

#[derive(clap::Args)]
#[command(after_help = ADD_HELP)]
pub struct AddArgs {
    /// The node's name
    name: String,
    /// Address of the card from which it boots
    #[arg(long, value_name = "M")]
    mac: Mac,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
#[command(after_help = CLAIM_HELP)]
pub struct ClaimArgs {
    /// Address of the machine's card
    #[arg(requires = "name")]
    mac: Option<Mac>,
    /// Its name from now on
    name: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub struct Common {
    /// Its profile [default: the only one of nodes without a disk]
    #[arg(long, value_name = "P")]
    profile: Option<String>,
    /// Its number [default: the next one]
    #[arg(long, value_name = "N")]
    id: Option<u16>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.boot.node/1)
    #[arg(long)]
    json: bool,
}

pub fn add(args: &AddArgs) -> Result<i32> {
    change(&args.name, args.mac, &args.common)
}

pub fn claim(args: &ClaimArgs) -> Result<i32> {
    if let (Some(mac), Some(name)) = (args.mac, &args.name) {
        return change(name, mac, &args.common);
    }
    let board = status::known(&args.place)?;
    let strangers = board.strangers();
    if args.common.json {
        let machine = |(mac, p): &(Mac, &_)| {
            let p: &armento_provision::stage::Progress = p;
            json!({ "mac": mac, "step": p.step(), "at_ms": p.at_ms() })
        };
        let all: Vec<_> = strangers.iter().map(machine).collect();
        say_json("armento.boot.node/1", json!({ "waiting": all }));
        return Ok(0);
    }
    if strangers.is_empty() {
        say("no unknown machine asks to boot\n");
        return Ok(0);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let rows: Vec<Vec<String>> = strangers
        .iter()
        .map(|(mac, p)| {
            vec![
                mac.to_string(),
                p.step().text().to_owned(),
                format!("{} ago", span(now.saturating_sub(p.at_ms()))),
            ]
        })
        .collect();
    say(&table(
        &[("CARD", false), ("SEEN", false), ("", true)],
        &rows,
    ));
    say("\narmento boot claim CARD NAME gives one a name\n");
    Ok(0)
}

fn change(name: &str, mac: Mac, common: &Common) -> Result<i32> {
    let farm = common.source.read()?;
    let path = &common.source.farm;
    let beside = path.parent().unwrap_or(Path::new("")).to_owned();
    let open = |file: &str| std::fs::read_to_string(beside.join(file)).map_err(|e| e.to_string());
    let text = std::fs::read_to_string(path)?;
    let new = NewNode {
        name,
        mac,
        profile: common.profile.as_deref(),
        id: common.id,
    };
    let refused = |(what, hint)| Failure {
        message: format!("{what}; nothing was changed"),
        hint,
    };
    let edit = add_node(&farm, &text, &new, &open).map_err(refused)?;
    // The whole inventory as it will be, before anything is written.
    let after = |file: &str| match &edit.file {
        Some(edited) if edited == file => Ok(edit.text.clone()),
        _ => open(file),
    };
    let inventory = match edit.file {
        None => &edit.text,
        Some(_) => &text,
    };
    parse(&path.display().to_string(), inventory, &after).map_err(|e| Failure {
        message: format!("the inventory would not be usable; nothing was changed:\n{e}"),
        hint: "the lines above say what is wrong; the line would be the last one".into(),
    })?;
    let to = edit.file.as_ref().map_or(path.clone(), |f| beside.join(f));
    if common.dry.dry_run {
        let would = format!("add to {}: {}", to.display(), edit.line);
        return Ok(dry_run::show(&[would], common.json));
    }
    // The inventory may be a link into a repository: that stays one.
    let file = std::fs::canonicalize(&to)?;
    replace(&file, edit.text.as_bytes()).map_err(Failure::from)?;
    match common.json {
        true => say_json(
            "armento.boot.node/1",
            json!({ "node": name, "mac": mac, "file": to, "line": edit.line }),
        ),
        false => say(&format!(
            "{}: {}\n{name} boots when it is switched on\n",
            to.display(),
            edit.line
        )),
    }
    Ok(0)
}
