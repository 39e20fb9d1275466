//! Messages about connections between two processes of a tree that go directly from host to host, and the frames between these hosts.
//!
//! ```text
//! home                          both hosts of a connection
//! Meet ────────────────────────► one dials the other (`Purpose::Socket`)
//!      ◄──────────────────────── Met
//! Hold ────────────────────────► calls on the descriptor wait from now on
//!      ◄──────────────────────── Held, behind all calls on it that were sent
//! Go (bytes that home's socket had) ► calls are answered there
//!      ◄──────────────────────── Recall, when a call or a move needs the connection at home
//! End  ────────────────────────►
//!      ◄──────────────────────── Ended (bytes that were sent or came, and no program has read)
//! Home ────────────────────────► home's sockets have these bytes: calls go home
//! ```

use armento_model::HomePid;
use serde::{Deserialize, Serialize};

/// One end of such a connection: the connection's number, and which of its two ends it is. Chosen by home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndId(u64);

impl EndId {
    /// `side`: 0 or 1.
    pub fn new(connection: u64, side: usize) -> EndId {
        EndId(connection << 1 | (side as u64 & 1))
    }

    pub fn connection(self) -> u64 {
        self.0 >> 1
    }

    pub fn side(self) -> usize {
        (self.0 & 1) as usize
    }

    pub fn other(self) -> EndId {
        EndId(self.0 ^ 1)
    }
}

/// How the two hosts of a connection meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Meeting {
    /// Connect to the other host; `expect` is the badge it must show, as JSON.
    Dial { addr: String, expect: String },
    /// The other host connects.
    Await,
    /// Both ends are at this host.
    Here,
}

/// Home to host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketOrder {
    Meet {
        end: EndId,
        pid: HomePid,
        fd: i32,
        meeting: Meeting,
    },
    Hold {
        end: EndId,
    },
    Go {
        end: EndId,
        /// Bytes of each direction that may be under way or not read.
        window: u32,
        /// What home's socket had received and the program has not read.
        #[serde(with = "serde_bytes")]
        first: Vec<u8>,
        /// How many such bytes the other end gets.
        theirs: u32,
        /// O_NONBLOCK.
        nonblocking: bool,
    },
    End {
        end: EndId,
    },
    /// The end is forgotten; calls on the descriptor are forwarded. Sent in any state.
    Home {
        end: EndId,
    },
}

/// Why a connection comes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recall {
    /// Its process moves or ends: it may be direct again at once.
    Moves,
    /// A call that only home makes: it will come again.
    Call,
    /// The connection between the two hosts failed.
    Link,
}

/// Host to home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketNews {
    Met {
        end: EndId,
        failed: Option<String>,
    },
    Held {
        end: EndId,
    },
    Recall {
        end: EndId,
        why: Recall,
    },
    Ended {
        end: EndId,
        /// Bytes of this end, counted from those of [`SocketOrder::Go`] on.
        sent: u64,
        /// The last of those, which the other end has not confirmed.
        #[serde(with = "serde_bytes")]
        tail: Vec<u8>,
        received: u64,
        /// The last of those, which the program has not read.
        #[serde(with = "serde_bytes")]
        unread: Vec<u8>,
    },
}

impl SocketNews {
    pub fn end(&self) -> EndId {
        match self {
            SocketNews::Met { end, .. }
            | SocketNews::Held { end }
            | SocketNews::Recall { end, .. }
            | SocketNews::Ended { end, .. } => *end,
        }
    }
}

/// Frame between two hosts: how far the sender has received and consumed (u64 each, little endian), then bytes.
pub const SOCKET_DATA: u8 = 48;
/// Length of what precedes the bytes.
pub const SOCKET_HEAD: usize = 16;
/// Most bytes of one such frame.
pub const SOCKET_FRAME_MAX: usize = 128 << 10;
/// Largest window.
pub const SOCKET_WINDOW_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_belong_together() {
        let e = EndId::new(7, 1);
        assert_eq!((e.connection(), e.side()), (7, 1));
        assert_eq!(e.other(), EndId::new(7, 0));
        assert_eq!(e.other().other(), e);
    }
}
