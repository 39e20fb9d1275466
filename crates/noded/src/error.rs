//! What can go wrong with a farm, and what to do about it.

use armento_client::api::Refusal;
use armento_link::{BadToken, LinkError};
use armento_model::NodeName;
use std::io;
use std::net::IpAddr;

/// What a client of this daemon is answered.
pub type Result<T> = std::result::Result<T, Refusal>;

/// An address at which others may reach this node, and its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub interface: String,
    pub ip: IpAddr,
}

#[derive(Debug, thiserror::Error)]
pub enum FarmError {
    #[error("this node has joined no farm (nothing in {0})")]
    NotJoined(String),
    #[error("this node is `{0}` of a farm already; nothing was changed")]
    AlreadyJoined(NodeName),
    #[error("this name cannot be used: {0}; nothing was changed")]
    Name(#[from] armento_model::BadName),
    #[error("{0}; nothing was sent")]
    Token(#[from] BadToken),
    #[error("{addr} does not answer: {cause}; nothing was changed")]
    Unreachable {
        addr: String,
        cause: String,
        hint: String,
    },
    #[error("`{text}` is no address: {why}; nothing was changed")]
    Written { text: String, why: String },
    /// Where others reach this node is for a person to choose.
    #[error("this machine has several addresses ({}), and which of them the other nodes reach is not known; nothing was changed", listed(.0))]
    Choose(Vec<Candidate>),
    #[error(
        "this machine has no address that another machine reaches: only loopback, or interfaces that are down; nothing was changed"
    )]
    NoAddress,
    #[error(
        "{addr} could not prove that it is of this token's farm ({why}); the secret was not sent"
    )]
    Foreign { addr: String, why: String },
    /// A refusal of another node or of the daemon.
    #[error("{}", .0.message)]
    Refused(Refusal),
    #[error("another daemon{} uses {dir}", pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    Locked { dir: String, pid: Option<i32> },
    #[error("{what}: {cause}")]
    State { what: String, cause: io::Error },
    #[error("{path}: {why}")]
    Config { path: String, why: String },
    #[error("cannot listen on {addr}: {cause}")]
    Listen {
        addr: String,
        cause: String,
        hint: String,
    },
    #[error("{0}; nothing was changed")]
    Keys(LinkError),
    #[error("only a member that holds the farm's key can do this; this one does not")]
    NoFarmKey,
}

fn listed(all: &[Candidate]) -> String {
    let one = |c: &Candidate| format!("{} on {}", c.ip, c.interface);
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl FarmError {
    /// What to do about it, for the `hint:` line.
    pub fn hint(&self) -> String {
        match self {
            FarmError::NotJoined(_) => {
                "`armento farm init` makes a farm, `armento join TOKEN A:P` joins one".into()
            }
            FarmError::AlreadyJoined(_) => "`armento leave` first".into(),
            FarmError::Name(_) => "choose one with --name".into(),
            FarmError::Token(_) => {
                "copy the whole line that `armento farm init` or `armento farm invite` printed".into()
            }
            FarmError::Unreachable { hint, .. } => hint.clone(),
            FarmError::Written { .. } => {
                "write 10.0.0.1:7117, [fd00::1]:7117, or a host's name; without a port it is 7117".into()
            }
            FarmError::Choose(all) => {
                let first = all.first().map_or_else(String::new, |c| c.ip.to_string());
                format!("say it: --address {first}")
            }
            FarmError::NoAddress => {
                "bring the network up, or say the address with --address; `--listen 127.0.0.1:7117` makes a farm of this machine alone".into()
            }
            FarmError::Foreign { .. } => {
                "check the address; make a new token on that farm with `armento farm invite`".into()
            }
            FarmError::Refused(r) => r.hint.clone(),
            FarmError::Locked { .. } => "stop it first, or choose another state directory".into(),
            FarmError::State { .. } if self.disk_takes_nothing() => {
                "free some room on that disk (`df` shows it), or mount it for writing".into()
            }
            FarmError::State { .. } => {
                "does the directory exist, and may this user write there? ARMENTO_STATE chooses another".into()
            }
            FarmError::Config { .. } => "correct the file; `armento node --help` lists the keys".into(),
            FarmError::Listen { hint, .. } => hint.clone(),
            FarmError::Keys(_) => "see the files of the state directory; joining again makes new ones".into(),
            FarmError::NoFarmKey => "run it on the node where `armento farm init` was run".into(),
        }
    }

    /// The disk is full, or over a quota, or read-only; what is there can be read.
    pub(crate) fn disk_takes_nothing(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        matches!(self, FarmError::State { cause, .. }
            if matches!(cause.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem))
    }

    pub(crate) fn state(what: impl Into<String>) -> impl FnOnce(io::Error) -> FarmError {
        let what = what.into();
        move |cause| FarmError::State { what, cause }
    }
}

/// A refusal for a client of this daemon.
pub(crate) fn refusal(code: &str, message: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal {
        code: code.into(),
        message: message.into(),
        hint: hint.into(),
    }
}

/// A [`Stay`](armento_model::Stay) as a refusal.
pub(crate) fn stays(subject: &str, stay: armento_model::Stay, detail: &str) -> Refusal {
    let more = if detail.is_empty() {
        String::new()
    } else {
        format!(" ({detail})")
    };
    refusal(
        stay.code(),
        format!("{subject} stays where it is: {stay}{more}"),
        stay.remedy(),
    )
}
