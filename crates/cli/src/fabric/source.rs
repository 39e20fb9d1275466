//! The inventory of a command, and the node that it is about.

use crate::out::Failure;
use anyhow::Result;
use armento_fabric::inventory::{Farm, Node, parse};
use std::path::{Path, PathBuf};

/// Where the inventory is unless `--farm` says otherwise.
const FARM: &str = "/etc/armento/farm.toml";

/// The inventory.
#[derive(clap::Args)]
pub struct Source {
    /// The inventory
    #[arg(short = 'f', long = "farm", value_name = "FILE", default_value = FARM)]
    pub farm: PathBuf,
}

impl Source {
    pub fn read(&self) -> Result<Farm> {
        let name = self.farm.display().to_string();
        let text = std::fs::read_to_string(&self.farm).map_err(|e| Failure {
            message: format!("cannot read {name}: {e}"),
            hint: "name the inventory with --farm; `armento fabric import` makes one of other systems' files".into(),
        })?;
        let beside = self.farm.parent().unwrap_or(Path::new("")).to_owned();
        let open =
            |file: &str| std::fs::read_to_string(beside.join(file)).map_err(|e| e.to_string());
        let broken = |e: armento_fabric::inventory::Problems| Failure {
            message: format!("the inventory is not usable:\n{e}"),
            hint: "nothing was changed; the lines above say what to write instead".into(),
        };
        Ok(parse(&name, &text, &open).map_err(broken)?)
    }
}

/// The inventory, and the node that a command is about.
#[derive(clap::Args)]
pub struct About {
    #[command(flatten)]
    pub source: Source,
    /// As this node [default: this machine, by its host name]
    #[arg(long, value_name = "N")]
    pub node: Option<String>,
}

impl About {
    pub fn node<'a>(&self, farm: &'a Farm) -> Result<&'a Node> {
        node(farm, self.node.as_deref())
    }
}

/// The node of this name, or this machine by its host name.
pub fn node<'a>(farm: &'a Farm, name: Option<&str>) -> Result<&'a Node> {
    let own = || {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        name.split('.').next().unwrap_or(name).to_owned()
    };
    let name = name.map_or_else(own, str::to_owned);
    let failure = || Failure {
        message: format!("the farm has no node `{name}`"),
        hint: "name one with --node; its name without --node is this machine's host name".into(),
    };
    Ok(farm.node(&name).ok_or_else(failure)?)
}
