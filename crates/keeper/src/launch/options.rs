//! What `armento run` was asked, and why nothing was started.

use crate::cpu_features::Portable;
use crate::state::{Restart, Safety, Storm};
use armento_client::AskError;
use armento_model::{Hint, NodeName};
use std::ffi::OsString;

/// Where the program of a tree begins, if nothing pins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Where there is room.
    Anywhere,
    /// At home: the balancer may move it later.
    Here,
}

/// What `armento run` was asked.
#[derive(Clone, Debug)]
pub struct Birth {
    pub command: Vec<OsString>,
    pub on: Option<NodeName>,
    pub stay: bool,
    pub begin: Begin,
    pub spread: bool,
    pub portable: Option<Portable>,
    pub hint: Option<Hint>,
    /// Calls on files are made at home before they are answered.
    pub forward_files: bool,
    /// Connections between its processes may go directly between their nodes.
    pub direct_sockets: bool,
    /// Its processes go on when a node is lost.
    pub safe: Option<Safety>,
    /// Its processes begin from a checkpoint file.
    pub restart: Option<Restart>,
    pub storm: Option<Storm>,
    pub seed: Option<u64>,
}

impl Birth {
    /// Whether it asks for more than to be run where there is room.
    pub fn is_special(&self) -> bool {
        self.on.is_some()
            || self.stay
            || self.spread
            || self.storm.is_some()
            || self.forward_files
            || !self.direct_sockets
            || self.safe.is_some()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BirthError {
    /// Nothing was started.
    #[error("{0}")]
    NoDaemon(AskError),
    #[error("{0}: {1}")]
    Exec(String, std::io::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}
