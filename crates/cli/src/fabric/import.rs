//! `armento fabric import`.

use super::source::read_text;
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::import::{Given, System, import};
use serde_json::json;
use std::path::PathBuf;

const HELP: &str = "Examples:
  armento fabric import /etc/openmosix.map /etc/hosts > farm.toml
  armento fabric import --as perceus /etc/perceus/modules/ipaddr nodes /etc/hosts > farm.toml
  armento fabric import --as warewulf /etc/warewulf/nodes.conf > farm.toml

The inventory goes to standard output, what it cannot say to standard error. Nothing is changed.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Files of that system, with a hosts file where names need one
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Whose files [default: by their looks]
    #[arg(long = "as", value_name = "SYSTEM", value_parser = ["perceus", "openmosix-map", "ethers", "warewulf"])]
    system: Option<String>,
    /// Print JSON (schema armento.fabric.import/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<i32> {
    let read = |path: &PathBuf| -> Result<Given> {
        let name = path.display().to_string();
        let fail = |what: String| Failure {
            message: format!("cannot read {name}: {what}"),
            hint: "nothing was written".into(),
        };
        let text = read_text(path).map_err(fail)?;
        Ok(Given { name, text })
    };
    let files = args.files.iter().map(read).collect::<Result<Vec<_>>>()?;
    let system = args.system.as_deref().and_then(System::from_word);
    let done = import(system, &files).map_err(|e| Failure {
        message: e.to_string(),
        hint: e.hint().into(),
    })?;
    if args.json {
        say_json(
            "armento.fabric.import/1",
            json!({ "toml": done.toml, "losses": done.losses }),
        );
        return Ok(0);
    }
    say(&done.toml);
    for loss in &done.losses {
        eprintln!("not imported: {loss}");
    }
    Ok(0)
}
