//! What daemons send to each other: questions over TLS, and sealed datagrams.
//!
//! It decides nothing and holds no state of the farm. Public so that the fuzzer reaches it, and tests can send what no
//! honest node would. Start at `protocol.rs`.

mod connection;
mod connections;
mod datagram;
mod protocol;

pub use connection::talk;
pub(crate) use connection::{Connection, call, set_timeouts};
pub(crate) use connections::Connections;
pub use datagram::{Kind, Seal};
pub use protocol::{
    AdmitAsk, CallError, JoinAsk, Joined, PeerAnswer, PeerAsk, Question, Replied, Reply,
};
