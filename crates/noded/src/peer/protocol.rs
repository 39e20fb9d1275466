//! Questions and answers between daemons: JSON lines over TLS, in turn.

use crate::clock::Moments;
use crate::config::Wire;
use crate::revocation::Signed;
use crate::state_dir::Member;
use armento_client::LineError;
use armento_client::api::{
    Action, Answer, DrainInfo, HistoryInfo, HistoryQuery, KeepAnswer, KeepStep, KeptInfo, ProcInfo,
    Refusal, VersionsInfo, WebSession,
};
use armento_link::LinkError;
use armento_model::{HomePid, NodeName, TreeId};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

#[derive(Debug, Serialize, Deserialize)]
pub struct Question {
    pub v: u32,
    pub ask: PeerAsk,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PeerAsk {
    /// The only question that is answered without a certificate.
    Join(JoinAsk),
    /// A host for a tree of the asking node, if there is room.
    Admit(AdmitAsk),
    /// The time of day there.
    Clock,
    /// What jobs used whose home is there; of users as in `Ps`.
    History {
        uid: Option<u32>,
        #[serde(default)]
        name: Option<String>,
        query: HistoryQuery,
    },
    /// Processes whose home is there; of one user, or of all. `name`: the user's name at the asking node; a user with
    /// another name there is another person. Older daemons send none.
    Ps {
        uid: Option<u32>,
        #[serde(default)]
        name: Option<String>,
    },
    /// A file server (MFS) for that user of the asking node, called `name` there.
    Files {
        uid: u32,
        name: String,
    },
    /// What that user of the asking node, called `name` there, does with a process whose home is there.
    Act {
        uid: u32,
        name: String,
        action: Action,
    },
    /// How far that node is with being drained.
    Drain,
    /// What runs there, by version.
    Versions,
    /// The next part of a program that a statement of the farm has announced, and its end.
    ProgramPart {
        offset: u64,
        data: String,
    },
    ProgramEnd {
        sha256: String,
    },
    /// A step with the checkpoint of a tree whose home is the asking node, for that user, called `name` there.
    Keep {
        tree: TreeId,
        uid: u32,
        name: String,
        step: KeepStep,
    },
    /// The checkpoints that are kept there, of one user or of all.
    Kept {
        uid: Option<u32>,
        name: Option<String>,
    },
    /// The boot identifier of the kernel there.
    Boot,
    // --- from a machine that is in no farm (`remote/`) ---
    /// Uses a token of `armento context invite`.
    SignIn {
        token: String,
    },
    SignOut {
        secret: String,
    },
    /// After the answer `Done` the connection carries lines of the control API, for the user of this secret.
    Control {
        secret: String,
    },
    /// The asker leaves the farm for good.
    Left,
    /// A statement of the farm; any member passes it on.
    Said(Signed),
    /// The newest statement, if it is later than `epoch`.
    News {
        epoch: u64,
    },
    /// Of a later version: sent in tests, understood by no daemon.
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
    /// Its machine's hash (`joining/machine_id.rs`); older joiners send none of what follows.
    #[serde(default)]
    pub machine: Option<String>,
    /// Another node may have the same.
    #[serde(default)]
    pub same_machine: bool,
    /// The time of day there.
    #[serde(default)]
    pub asked_ns: Option<i64>,
    /// With which it answers at `addr` while it waits (`joining/reach.rs`); `None`: it need not be reached.
    #[serde(default)]
    pub way_back: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct AdmitAsk {
    pub tree: TreeId,
    pub pid: HomePid,
    pub uid: u32,
    pub need_kib: u64,
    /// Of the keeper that asks; 0 from older ones.
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
    History {
        info: HistoryInfo,
    },
    News {
        said: Option<Signed>,
    },
    /// Where it listens.
    Files {
        addr: SocketAddr,
    },
    Acted {
        answer: Answer,
    },
    SignedIn {
        session: WebSession,
        node: NodeName,
        farm: String,
    },
    Drain {
        info: DrainInfo,
    },
    Versions {
        info: VersionsInfo,
    },
    Keep {
        answer: KeepAnswer,
    },
    Kept {
        kept: Vec<KeptInfo>,
    },
    Boot {
        boot: String,
    },
    /// Number of processes that have not moved yet.
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
    pub news: Option<Signed>,
    pub seeds: Vec<Member>,
    /// The joiner was reached.
    #[serde(default)]
    pub checked: bool,
    #[serde(default)]
    pub moments: Option<Moments>,
}

/// A reply, and the version that its sender speaks.
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
    /// It was not reached, or is not the daemon it should be; nothing was asked.
    #[error("{0}")]
    Link(#[from] LinkError),
    /// The connection ended before the answer; whether the question was read is unknown.
    #[error("{0}")]
    Line(#[from] LineError),
}
