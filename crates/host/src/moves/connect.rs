//! The connection of a move, which a body leaves by.
//!
//! From: `depart.rs`. Facing it: `host/src/home/messages.rs` of another host; or home, which connects by itself.

use crate::state::{Host, Pair};
use crate::sync::lock;
use armento_link::{Badge, LinkError, dial};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{MoveId, Stay};
use armento_tracee::sys;
use armento_wire::bulk::HELLO;
use armento_wire::talk::{self, Hello, Purpose, Whither};
use armento_wire::write_frame;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for the connection of the other side.
const MEET_MAX: Duration = Duration::from_secs(10);

pub fn connect(host: &Arc<Host>, mv: MoveId, to: Whither) -> Result<Pair> {
    match to {
        Whither::Home | Whither::Checkpoint { .. } => {
            let rx = host.meetings.wait_for(mv);
            rx.recv_timeout(MEET_MAX).map_err(|_| {
                host.meetings.take(mv);
                MigrateError::Stays(Stay::LinkLost, "home did not fetch it".into())
            })
        }
        Whither::Host { addr, expect } => {
            let expect: Badge = serde_json::from_str(&expect)
                .map_err(|e| MigrateError::Stays(Stay::LinkLost, e.to_string()))?;
            let me = lock(&host.identity).clone();
            let link = dial(&addr, &me, &expect, MEET_MAX)
                .map_err(|e| MigrateError::Stays(stay(&e), format!("{addr}: {e}")))?;
            let hello = Hello {
                engine: host.home.engine,
                tree: host.start.tree,
                purpose: Purpose::Bring(mv),
                monotonic_ns: sys::clock_ns(libc::CLOCK_MONOTONIC).local("read the clock")?,
            };
            let (r, mut w) = link
                .split()
                .map_err(|e| MigrateError::Stays(Stay::LinkLost, e.to_string()))?;
            write_frame(&mut w, HELLO, &[&talk::encode(&hello)])?;
            Ok((r, w))
        }
    }
}

/// Home reaches both nodes. Where this one gets no answer at all from the other, another attempt will not either.
fn stay(e: &LinkError) -> Stay {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    match e {
        LinkError::Io(e) => match e.kind() {
            ConnectionRefused | HostUnreachable | NetworkUnreachable | TimedOut => Stay::NoPath,
            _ => Stay::LinkLost,
        },
        _ => Stay::LinkLost,
    }
}
