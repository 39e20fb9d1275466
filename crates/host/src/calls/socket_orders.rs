//! Home's orders about connections that go, or are to go, directly to another host.
//!
//! From: `host/src/home/messages.rs`. Next: `sockets.rs`, `socket_link.rs`.

use super::sockets::Start;
use super::{dispatch, socket_link, sockets};
use crate::state::Host;
use armento_wire::sockets::SocketOrder;
use std::sync::Arc;

/// About a connection that goes, or is to go, directly to another host.
pub fn socket_order(host: &Arc<Host>, order: SocketOrder) {
    match order {
        SocketOrder::Meet {
            end,
            pid,
            fd,
            meeting,
        } => socket_link::meet(host, end, (pid, fd), meeting, sockets::arrived),
        SocketOrder::Hold { end } => sockets::hold(host, end),
        SocketOrder::Go {
            end,
            window,
            first,
            theirs,
            nonblocking,
        } => {
            let start = Start {
                window,
                first,
                theirs,
                nonblocking,
            };
            sockets::go(host, end, start, dispatch::again);
        }
        SocketOrder::End { end } => sockets::end(host, end),
        SocketOrder::Home { end } => sockets::home(host, end, dispatch::again),
    }
}
