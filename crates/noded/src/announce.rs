//! Announces the farm on the interfaces of the setting `discover`, so that `armento farm discover` finds it.

use crate::state::Node;
use crate::version::VERSION;
use armento_discover::{Announced, Announcement, CA_DIGITS};
use std::sync::Arc;
use std::time::Duration;

/// Between two looks whether this node's address has changed, and between two tries after a failure.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Until the daemon ends.
pub async fn announce(node: Arc<Node>) {
    if node.config.discover.is_empty() {
        return;
    }
    let mut stop = node.stop.subscribe();
    let mut running: Option<(Announced, Announcement)> = None;
    let mut failed = false;
    loop {
        match announced(&node) {
            Some(now) if running.as_ref().is_none_or(|(before, _)| *before != now) => {
                // The earlier one is withdrawn first: both have one name.
                running = None;
                match Announcement::start(&node.config.discover, &now) {
                    Ok(started) => (running, failed) = (Some((now, started)), false),
                    Err(e) if !failed => {
                        tracing::warn!("the farm is not announced: {e}; tried again every 5 s");
                        failed = true;
                    }
                    Err(_) => {}
                }
            }
            _ => {}
        }
        tokio::select! {
            _ = stop.wait_for(|s| *s) => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn announced(node: &Node) -> Option<Announced> {
    let ca = node.credentials.keys.ca_sha256().ok()?;
    let digits: String = ca.iter().map(|b| format!("{b:02x}")).collect();
    Some(Announced {
        farm: node.farm.farm.clone(),
        node: node.farm.node.to_string(),
        address: node.addr(),
        version: VERSION.into(),
        ca: digits[..CA_DIGITS].to_owned(),
        admits: node.farm.admits,
    })
}
