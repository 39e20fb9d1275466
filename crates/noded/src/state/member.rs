//! One member, and whether it is alive: foca's view, by name.

use crate::state_dir::Member;
use armento_model::NodeName;
use foca::Identity;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// One life of one node's daemon. A restarted daemon is a new one and beats the old.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Life {
    pub name: NodeName,
    pub boot: u64,
    pub addr: SocketAddr,
}

impl Identity for Life {
    type Addr = NodeName;

    /// Declared down while alive: come back as a later life.
    fn renew(&self) -> Option<Life> {
        Some(Life {
            boot: self.boot + 1,
            ..self.clone()
        })
    }

    fn addr(&self) -> NodeName {
        self.name.clone()
    }

    fn win_addr_conflict(&self, other: &Life) -> bool {
        self.boot > other.boot
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Alive,
    Suspect,
    Down,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Suspect => "suspect",
            State::Down => "down",
        }
    }
}

/// A member and how it is.
#[derive(Clone, Debug)]
pub struct Standing {
    pub known: Member,
    pub boot: u64,
    pub state: State,
}

impl Standing {
    pub fn is_up(&self) -> bool {
        self.state != State::Down
    }

    pub fn life(&self) -> Life {
        Life {
            name: self.known.name.clone(),
            boot: self.boot,
            addr: self.known.addr,
        }
    }
}
