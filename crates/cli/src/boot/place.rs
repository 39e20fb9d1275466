//! The boot directory of a command.

use crate::fabric::Source;
use crate::out::Failure;
use anyhow::Result;
use armento_fabric::inventory::Farm;
use armento_provision::layout::{BootDir, DIR, Settings};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Place {
    /// The boot directory
    #[arg(long, value_name = "DIR", default_value = DIR)]
    pub dir: PathBuf,
}

impl Place {
    pub fn boot(&self) -> BootDir {
        BootDir(self.dir.clone())
    }

    pub fn settings(&self) -> Result<Settings> {
        Ok(self.boot().settings().map_err(Failure::from)?)
    }
}

/// The inventory of a boot directory's settings.
pub fn farm(settings: &Settings) -> Result<Farm> {
    let source = Source {
        farm: settings.inventory.clone(),
    };
    source.read()
}
