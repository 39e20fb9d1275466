//! Links to hosts: one stream of calls each, made when first needed.
//!
//! From: `keeper/src/moves/out.rs`. Next: `reconnect.rs`.

use super::door::{DIAL_MAX, working};
use super::reconnect::{self, Serve};
use super::shared_mounts::prove_mounts;
use crate::deputy::{HostLink, link_lost};
use crate::state::Keep;
use crate::sync::lock;
use armento_client::AskError;
use armento_client::api::{Answer, Ask};
use armento_client::engine;
use armento_link::random_hex;
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{NodeName, Pid, Stay};
use armento_tracee::spawn;
use armento_wire::talk::SessionId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long our daemon may take to agree with that node and start a host there: it gives up itself after 12 s.
const ROUTE_MAX: Duration = Duration::from_secs(15);
/// A host of an earlier keeper of this tree ends, and another is started: a first connection that fails so soon is
/// tried once more after so long.
const SOON: Duration = Duration::from_secs(1);
const ONCE_MORE: Duration = Duration::from_millis(300);

/// The refusal of the daemon, or its silence, as a reason to stay.
fn no_route(e: AskError) -> MigrateError {
    match e {
        AskError::Refused(no) => {
            let stay = Stay::from_code(&no.code).unwrap_or(Stay::NotTrusted);
            MigrateError::Stays(stay, no.detail().to_owned())
        }
        AskError::NoDaemon { .. } | AskError::Line(_) => {
            MigrateError::Stays(Stay::NoDaemon, e.to_string())
        }
        AskError::Late => link_lost(e),
    }
}

/// The link to `node`, made if there is none. `serve`: serves what the host asks.
pub fn connect_host(
    keep: &Arc<Keep>,
    node: &NodeName,
    pid: Pid,
    need_kib: u64,
    serve: Serve,
) -> Result<Arc<HostLink>> {
    let connecting = keep.hosts.connecting(node);
    let _only = lock(&connecting);
    let known = working(keep, node);
    // Where nothing may go any more the daemon is asked again, and says why not.
    let closed = keep.hosts.is_closed(node);
    if let Some(l) = known.clone().filter(|_| !closed) {
        return Ok(l);
    }
    let link = way(keep, node, pid, need_kib)?;
    if let Some(l) = known {
        return Ok(l);
    }
    let begun = Instant::now();
    let (link, r) = match reconnect::begin(keep, &link, DIAL_MAX) {
        Ok(r) => (link, r),
        Err(_) if begun.elapsed() < SOON => {
            std::thread::sleep(ONCE_MORE);
            let link = way(keep, node, pid, need_kib)?;
            let r = reconnect::begin(keep, &link, DIAL_MAX)?;
            (link, r)
        }
        Err(e) => return Err(e),
    };
    keep.hosts.insert(&link);
    let (k, l) = (keep.clone(), link.clone());
    if let Err(e) = spawn::start("calls", move || reconnect::run(&k, &l, r, serve)) {
        link.broken.store(true, Ordering::Release);
        keep.hosts.remove(node);
        link.session.end();
        return Err(e).local("start a thread");
    }
    prove_mounts(keep, &link);
    Ok(link)
}

/// The way to a host that takes `pid`: a link that is not connected yet.
fn way(keep: &Keep, node: &NodeName, pid: Pid, need_kib: u64) -> Result<Arc<HostLink>> {
    let ask = Ask::Route {
        tree: keep.settings.tree,
        pid,
        node: node.clone(),
        need_kib,
        engine: engine(),
        portable: keep.is_portable(pid),
    };
    let pass = match keep.daemon.ask(ask, ROUTE_MAX) {
        Ok(Answer::Route(p)) => p,
        Err(e) => return Err(no_route(e)),
        Ok(_) => {
            return Err(link_lost(format!(
                "this node's daemon knows no way to {node}"
            )));
        }
    };
    keep.hosts.set_identity(pass.identity.clone());
    let id = SessionId(u128::from_str_radix(&random_hex(16), 16).unwrap_or_default());
    Ok(Arc::new(HostLink::new(
        node.clone(),
        pass,
        id,
        keep.readaheads.clone(),
        keep.traffic.clone(),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_client::api::Refusal;
    use std::io::{Error, ErrorKind};

    #[test]
    fn the_peer_that_failed_decides_the_stay_reason() {
        let refused = |code: &str| {
            AskError::Refused(Refusal {
                code: code.into(),
                message: String::new(),
                hint: String::new(),
            })
        };
        let gone = || Error::from(ErrorKind::NotConnected);
        let (path, cause) = (String::new(), gone());
        for (e, want) in [
            (refused("no-room"), Stay::NoRoom),
            (refused("leaving"), Stay::NotTrusted),
            (AskError::NoDaemon { path, cause }, Stay::NoDaemon),
            (AskError::from(gone()), Stay::NoDaemon),
            (AskError::Late, Stay::LinkLost),
        ] {
            assert_eq!(no_route(e).stay(), want);
        }
    }
}
