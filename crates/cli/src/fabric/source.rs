//! The inventory of a command, and the node that it is about.

use crate::out::Failure;
use anyhow::Result;
use armento_fabric::inventory::{Farm, Node, parse};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Where the inventory is unless `--farm` says otherwise.
const FARM: &str = "/etc/armento/farm.toml";

/// Far above the inventory of any farm: 10,000 nodes with a line each are 1 MiB.
const FILE_MAX: u64 = 64 << 20;

/// A file of text, of a bounded length: a device or a pipe may never end.
pub fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    let read = file.take(FILE_MAX + 1).read_to_string(&mut text);
    match read.map_err(|e| e.to_string())? as u64 > FILE_MAX {
        true => Err(format!("it is larger than {} MiB", FILE_MAX >> 20)),
        false => Ok(text),
    }
}

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
        let text = read_text(&self.farm).map_err(|e| Failure {
            message: format!("cannot read {name}: {e}"),
            hint: "name the inventory with --farm; `armento fabric import` makes one of other systems' files".into(),
        })?;
        let beside = self.farm.parent().unwrap_or(Path::new("")).to_owned();
        let open = |file: &str| read_text(&beside.join(file));
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
