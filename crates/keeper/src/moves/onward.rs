//! A process moves from one host to another: directly, or through home where the two nodes cannot reach each other.
//!
//! From: `move_process.rs`. Next: `host_to_host.rs`, or `home.rs` and then `out.rs`.

use super::host_to_host::move_host_to_host;
use super::outcome::MoveCost;
use super::{home, out};
use crate::deputy::HostLink;
use crate::state::Keep;
use armento_migrate::{MigrateError, Result};
use armento_model::{NodeName, Pid, Stay};
use std::sync::Arc;

pub fn onward(
    keep: &Arc<Keep>,
    pid: Pid,
    from: &Arc<HostLink>,
    node: &NodeName,
) -> Result<MoveCost> {
    if !keep.no_paths.has(&from.node, node) {
        match move_host_to_host(keep, pid, from, node) {
            Err(e) if e.stay() == Stay::NoPath => {
                keep.no_paths.note(&from.node, node);
                eprintln!("process {pid}: {e}; it passes through home");
            }
            done => return done,
        }
    }
    let first = home::bring(keep, pid, from)?;
    let then = out::out(keep, pid, node).map_err(at_home)?;
    Ok(MoveCost {
        pause: first.pause + then.pause,
        bytes: first.bytes + then.bytes,
        ..MoveCost::default()
    })
}

/// Half of the way is done: unlike after other failures it is not where it was.
fn at_home(e: MigrateError) -> MigrateError {
    match e {
        MigrateError::Ended => MigrateError::Ended,
        e => MigrateError::Stays(e.stay(), format!("{}; it is at home now", e.detail())),
    }
}
