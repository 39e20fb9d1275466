//! The dashboard: its server is told where to listen, browsers are signed in, pages get rows of processes and act on them.

use crate::processes::{Dest, ProcInfo, SafeInfo};
use armento_model::{NodeName, Pid, Stay};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The port of the dashboard when none is set; the one after that of the daemon.
pub const WEB_PORT: u16 = 7118;
/// Most rows in one answer, so that it fits a line ([`crate::api::LINE_MAX`]) with commands of [`ROW_COMMAND_MAX`].
pub const ROWS_MAX: usize = 2_400;
/// Most bytes of a command line in a row; longer ones end with `…`.
pub const ROW_COMMAND_MAX: usize = 120;

/// What the daemon writes to the standard input of the dashboard's server, as its first line. The server ends when its
/// standard input does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WebStart {
    /// `ip:port`.
    pub listen: String,
    /// The control socket.
    pub socket: PathBuf,
    /// With which it speaks TLS; `None`: it listens on a loopback address.
    pub keys: Option<WebKeys>,
    /// Names under which browsers may ask for it, besides `localhost` and IP addresses.
    pub names: Vec<String>,
    /// Directory of the papers' reports, if they are shown.
    pub reports: Option<PathBuf>,
}

/// A certificate and its key, PEM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WebKeys {
    pub chain_pem: String,
    pub key_pem: String,
}

/// What the server answers on its standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum WebUp {
    Up { port: u16 },
    Unable { why: String },
}

/// A token to sign in with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebTicket {
    /// Empty if it was a dry run.
    pub token: String,
    /// Where the dashboard is, `http://127.0.0.1:7118/`, without the token.
    pub url: String,
    /// How long the token can be used, seconds.
    pub valid_s: u64,
    /// How often.
    pub uses: u32,
    /// How long a browser stays signed in, seconds.
    pub session_s: u64,
    /// Of the certificate, SHA-256, `AB:CD:…`; `None` without TLS.
    #[serde(default)]
    pub fingerprint: Option<String>,
}

/// A signed-in browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSession {
    /// What the browser proves itself with; empty in answers that only confirm it.
    pub secret: String,
    pub uid: u32,
    /// The user's name; empty if it has none.
    pub user: String,
    /// Seconds until it ends.
    pub left_s: u64,
}

/// What a user does with one process, or asks about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Action {
    Move {
        pid: Pid,
        to: Dest,
    },
    /// SIGSTOP.
    Stop {
        pid: Pid,
    },
    /// SIGCONT.
    Continue {
        pid: Pid,
    },
    /// Its niceness, -20 to 19. Only root lowers it.
    Renice {
        pid: Pid,
        nice: i32,
    },
    Why {
        pid: Pid,
    },
    /// The newest decisions about it, `count` at most.
    Decisions {
        pid: Pid,
        count: u32,
    },
}

impl Action {
    pub fn pid(&self) -> Pid {
        match self {
            Action::Move { pid, .. }
            | Action::Stop { pid }
            | Action::Continue { pid }
            | Action::Renice { pid, .. }
            | Action::Why { pid }
            | Action::Decisions { pid, .. } => *pid,
        }
    }
}

/// What the dashboard shows of a process: [`ProcInfo`] without what it does not need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcRow {
    pub pid: Pid,
    pub home: NodeName,
    pub place: NodeName,
    pub uid: u32,
    /// At most [`ROW_COMMAND_MAX`] bytes.
    pub command: String,
    pub cpu_ms: u64,
    pub rss_kib: u64,
    pub threads: u32,
    pub busy_percent: u8,
    pub moves: u64,
    pub forwarded: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stay: Option<Stay>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub locked: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub frozen: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_ms: Option<u64>,
    pub age_ms: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub stopped: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub nice: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe: Option<SafeInfo>,
    /// Connections that go from node to node, and busy ones that go over home.
    #[serde(default, skip_serializing_if = "is_default")]
    pub direct: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub over_home: u32,
    /// Reads and writes of direct connections so far, and their bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub messages: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub message_bytes: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl From<ProcInfo> for ProcRow {
    fn from(p: ProcInfo) -> ProcRow {
        let connections = p.connections.unwrap_or_default();
        ProcRow {
            pid: p.pid,
            home: p.home,
            place: p.place,
            uid: p.uid,
            command: shortened(p.command),
            cpu_ms: p.cpu_ms,
            rss_kib: p.rss_kib,
            threads: p.threads,
            busy_percent: p.busy_percent,
            moves: p.moves,
            forwarded: p.forwarded,
            stay: p.stay,
            locked: p.locked,
            frozen: p.frozen,
            lost_ms: p.lost_ms,
            age_ms: p.age_ms,
            stopped: p.stopped,
            nice: p.nice,
            safe: p.safe,
            direct: connections.direct,
            over_home: connections.over_home,
            messages: p.files.messages,
            message_bytes: p.files.message_bytes,
        }
    }
}

fn shortened(mut command: String) -> String {
    const END: &str = "…";
    if command.len() > ROW_COMMAND_MAX {
        let mut end = ROW_COMMAND_MAX - END.len();
        while !command.is_char_boundary(end) {
            end -= 1;
        }
        command.truncate(end);
        command.push_str(END);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut_between_characters() {
        for text in ["a".repeat(500), "ü".repeat(100), "€".repeat(90)] {
            let cut = shortened(text);
            assert!(cut.len() <= ROW_COMMAND_MAX && cut.ends_with('…'));
        }
        assert_eq!(shortened("lame".into()), "lame");
    }
}
