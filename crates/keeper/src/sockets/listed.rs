//! What is said of the busy connections of a process.
//!
//! From: `keeper/src/events/report.rs`.

use super::pair;
use crate::state::Keep;
use armento_client::api::{CONNECTIONS_LISTED_MAX, Connection, Connections};
use armento_model::Pid;
use std::time::Instant;

/// `None`: no busy connection of it was looked at lately.
pub fn busy_connections(keep: &Keep, pid: Pid) -> Option<Connections> {
    let now = Instant::now();
    let mut all = keep.busy_sockets.of(pid, now);
    // A descriptor may have been closed, and lead to something else by now.
    all.retain(|n| pair::socket_inode(pid, n.end.fd) == Some(n.end.ino));
    if all.is_empty() {
        return None;
    }
    let direct = all.iter().filter(|n| n.over_home.is_none()).count();
    let listed = all.iter().take(CONNECTIONS_LISTED_MAX).map(|n| Connection {
        fd: n.end.fd,
        peer: n.peer,
        over_home: n.over_home.map(str::to_owned),
        for_ms: now.duration_since(n.since).as_millis() as u64,
    });
    Some(Connections {
        direct: direct as u32,
        over_home: (all.len() - direct) as u32,
        listed: listed.collect(),
    })
}
