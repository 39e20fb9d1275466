//! Members and whether they are alive: foca's view, by name.

use crate::state_dir::Member;
use armento_model::NodeName;
use foca::{Config, Identity, PeriodicParams};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

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

fn some(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN)
}

/// foca's LAN settings, but sooner: a node that died is known to be down within about 6 s, well
/// before hosts freeze (10 s) and homes give up (30 s), and an isolated node is called again every
/// few seconds (foca's default is never).
pub fn swim_config() -> Config {
    let every = |s: u64, num: usize| {
        Some(PeriodicParams {
            frequency: Duration::from_secs(s),
            num_members: some(num),
        })
    };
    Config {
        probe_period: Duration::from_secs(1),
        probe_rtt: Duration::from_millis(500),
        num_indirect_probes: some(3),
        max_transmissions: NonZeroU8::new(10).unwrap_or(NonZeroU8::MIN),
        suspect_to_down_after: Duration::from_secs(4),
        // A dead life's name is remembered long enough to outlive every echo of it.
        remove_down_after: Some(Duration::from_secs(3600)),
        // One Ethernet frame without our seal.
        max_packet_size: some(1350),
        notify_down_members: true,
        periodic_announce: every(20, 1),
        periodic_announce_to_down_members: every(5, 2),
        periodic_gossip: every(1, 3),
    }
}
