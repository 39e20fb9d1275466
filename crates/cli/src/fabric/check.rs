//! `armento fabric check`.

use super::source::About;
use crate::out::{Failure, say, say_json, table};
use anyhow::Result;
use armento_fabric::diff::{Drift, diff};
use armento_fabric::observe::observe;
use armento_fabric::plan::plan;
use serde_json::json;

const HELP: &str = "Examples:
  armento fabric check && echo as planned
  armento fabric check --json | jq '.drift[].link'

The exit status is 0 if nothing differs, 1 if something does.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    about: About,
    /// Print JSON (schema armento.fabric.check/1)
    #[arg(long)]
    json: bool,
}

const HEADS: [(&str, bool); 4] = [
    ("WHAT", false),
    ("LINK", false),
    ("WANTED", false),
    ("FOUND", false),
];

pub fn run(args: &Args) -> Result<i32> {
    let farm = args.about.source.read()?;
    let plan = plan(&farm, args.about.node(&farm)?);
    let seen = observe(plan.sysctls.keys().map(String::as_str)).map_err(|e| Failure {
        message: e.to_string(),
        hint: e.hint().into(),
    })?;
    let drift = diff(&plan, &seen);
    if args.json {
        say_json(
            "armento.fabric.check/1",
            json!({ "node": plan.node, "same": drift.is_empty(), "drift": drift }),
        );
    } else if drift.is_empty() {
        say(&format!("{}: as planned\n", plan.node));
    } else {
        let row = |d: &Drift| {
            vec![
                d.code.to_owned(),
                d.link.clone(),
                d.wanted.clone(),
                d.found.clone(),
            ]
        };
        say(&table(&HEADS, &drift.iter().map(row).collect::<Vec<_>>()));
        say("hint: `armento fabric apply` mends it\n");
    }
    Ok(i32::from(!drift.is_empty()))
}
