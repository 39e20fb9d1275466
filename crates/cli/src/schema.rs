//! `armento schema`.

use crate::out::say;

const HELP: &str = "Examples:
  armento schema > armento.schema.json
  armento schema | jq '.\"$defs\".NodeInfo.properties | keys'

`$defs` has each type, `line` and `reply` what a control session carries, `documents` what --json prints.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// For uniformity with other commands: the schema is JSON in any case
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let _ = args.json;
    say(&format!("{:#}\n", armento_schema::document()));
    Ok(0)
}
