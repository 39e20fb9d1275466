//! What daemons say to each other: questions and answers in turn, as JSON lines over TLS.
//!
//! Public so that tests can say what no honest node would.

pub(crate) mod join;
pub(crate) mod lines;
pub(crate) mod serve;

use crate::Wire;
use crate::core::Node;
use crate::joining::offset::Moments;
use crate::news::Said;
use crate::state::Member;
use armento_client::LineError;
use armento_client::api::{ProcInfo, Refusal};
use armento_link::{Badge, Duplex, Identity, LinkError, dial};
use armento_model::{NodeName, Pid, TreeId};
use lines::Line;
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer to what nobody understands.
const TO_COME: Duration = Duration::from_secs(3);

#[derive(Debug, Serialize, Deserialize)]
pub struct Question {
    pub v: u32,
    pub ask: PeerAsk,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PeerAsk {
    /// The only question heard without a certificate.
    Join(JoinAsk),
    /// Room and a host for a tree of the asker's.
    Admit(AdmitAsk),
    /// What time of day is it there?
    Clock,
    /// Processes whose home is there; of one user, or of all. `name`: the user's where it is asked; one who has another
    /// name there is another person. Older daemons tell none.
    Ps {
        uid: Option<u32>,
        #[serde(default)]
        name: Option<String>,
    },
    /// The asker leaves the farm for good.
    Left,
    /// The farm says it; whoever passes it on.
    Said(Said),
    /// What was said since `epoch`?
    News { epoch: u64 },
    /// Of a version to come: said in tests, understood by nobody.
    #[serde(skip_deserializing)]
    ToCome,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct JoinAsk {
    pub token: String,
    pub secret: String,
    pub version: String,
    pub engine: u32,
    pub name: NodeName,
    pub csr_pem: String,
    /// Where the joiner will be reached.
    pub addr: SocketAddr,
    /// Its machine's hash (`joining/machine.rs`); older joiners tell none of what follows.
    #[serde(default)]
    pub machine: Option<String>,
    /// Another node may have the same.
    #[serde(default)]
    pub same_machine: bool,
    /// The time of day there.
    #[serde(default)]
    pub asked_ns: Option<i64>,
    /// With which it answers at `addr` while it waits (`joining/way_back.rs`); `None`: it need not be reached.
    #[serde(default)]
    pub way_back: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct AdmitAsk {
    pub tree: TreeId,
    pub pid: Pid,
    pub uid: u32,
    pub need_kib: u64,
    /// Of the keeper that asks; one that does not say is older than those that do.
    #[serde(default)]
    pub engine: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PeerAnswer {
    Joined(Joined),
    Admitted {
        addr: SocketAddr,
        plain: bool,
        #[serde(default)]
        engine: u32,
    },
    /// The time of day there.
    Clock {
        realtime_ns: i64,
    },
    Ps {
        procs: Vec<ProcInfo>,
    },
    News {
        said: Option<Said>,
    },
    /// So many are not yet where they belong.
    Left {
        count: u64,
    },
    Done,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Joined {
    pub ca_pem: String,
    pub node_pem: String,
    pub wire: Wire,
    pub secret: String,
    #[serde(default)]
    pub news: Option<Said>,
    pub seeds: Vec<Member>,
    /// The joiner was reached.
    #[serde(default)]
    pub checked: bool,
    #[serde(default)]
    pub moments: Option<Moments>,
}

/// A reply, and what its sender speaks.
#[derive(Debug, Serialize, Deserialize)]
pub struct Replied {
    pub v: u32,
    #[serde(flatten)]
    pub reply: Reply,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    Ok(PeerAnswer),
    Err(Refusal),
}

/// Why a question has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The other daemon said no.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// It was not reached, or is not who it should be; nothing was asked.
    #[error("{0}")]
    Link(#[from] LinkError),
    /// The connection ended before the answer; whether it was heard is unknown.
    #[error("{0}")]
    Line(#[from] LineError),
}

/// Asks `node` at `addr`, on a connection of its own. Blocks for at most about twice `timeout`.
pub(crate) fn call(
    me: &Identity,
    node: &NodeName,
    addr: SocketAddr,
    ask: &PeerAsk,
    timeout: Duration,
) -> Result<PeerAnswer, CallError> {
    talk(dialled(me, node, addr, timeout)?, ask, timeout)
}

fn dialled(
    me: &Identity,
    node: &NodeName,
    addr: SocketAddr,
    timeout: Duration,
) -> Result<Duplex, LinkError> {
    dial(&addr.to_string(), me, &Badge::daemon(node), timeout)
}

/// Asks on a connection that is made.
pub fn talk(duplex: Duplex, ask: &PeerAsk, timeout: Duration) -> Result<PeerAnswer, CallError> {
    Line::new(duplex)?.ask(ask, timeout)
}

/// What a member of today must refuse, at no cost. Says who did.
pub(crate) fn ask_to_come(node: &Node) {
    let members: Vec<_> = {
        let core = node.lock();
        let up = core.members.values().filter(|m| m.is_up());
        up.map(|m| (m.known.name.clone(), m.known.addr)).collect()
    };
    for (name, addr) in members {
        match call(&node.me(), &name, addr, &PeerAsk::ToCome, TO_COME) {
            Err(CallError::Refused(no)) => tracing::info!("{name}: {}: {}", no.code, no.message),
            other => tracing::warn!("{name} should not understand this: {other:?}"),
        }
    }
}

/// No read or write of `socket` waits longer.
fn bound(socket: &TcpStream, timeout: Duration) -> Result<(), LinkError> {
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    Ok(())
}
