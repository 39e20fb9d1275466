//! Where and at which scale an experiment runs.

use serde::{Deserialize, Serialize};

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// Computed from published values.
    Paper,
    /// In virtual time.
    Simulator,
    /// On a farm of this machine, made for it.
    Lab,
    /// On the farm to which this node belongs.
    Farm,
}

impl On {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            On::Paper => "paper",
            On::Simulator => "simulator",
            On::Lab => "lab",
            On::Farm => "farm",
        }
    }
}

/// How an experiment is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Length of the work, 1 as in the paper.
    pub scale: f64,
    pub on: On,
    pub nodes: usize,
    /// Also the runs that take long, of experiments that have some.
    #[serde(default)]
    pub full: bool,
}
