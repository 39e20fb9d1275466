//! The mount wants a stream to a node's file server: ask there for one, hand out keys.
//!
//! From: `noded/src/control/requests.rs`. Next: `noded/src/mfs/serve.rs`, on the other node.

use super::serve::serve_files;
use crate::error::{Result, refusal};
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::state::{Node, call, no_such_node};
use crate::sys;
use armento_client::api::{Answer, MfsRoute};
use armento_link::Badge;
use armento_model::NodeName;
use std::sync::Arc;
use std::time::Duration;

/// Another daemon's answer when it starts a file server: a program waits in open(2).
const STARTED: Duration = Duration::from_secs(6);

pub async fn route(node: &Arc<Node>, to: NodeName, uid: u32) -> Result<Answer> {
    let named = tokio::task::spawn_blocking(move || sys::name_of(uid)).await;
    let Some(name) = named.ok().flatten() else {
        let what = format!("user {uid} has no name on {}", node.farm.node);
        let hint = "users need the same number and name on both nodes";
        return Err(refusal("another-user", what, hint));
    };
    let addr = if to == node.farm.node {
        let node = node.clone();
        let served = move || serve_files(&node, &node.farm.node, uid, &name);
        let served = tokio::task::spawn_blocking(served).await;
        served.map_err(|e| lost(&to, &e.to_string()))??
    } else {
        // A member that is down now may be up before gossip knows; it is asked all the same.
        let known = node.lock().members.contains(&to);
        if !known {
            return Err(refusal("unknown-node", no_such_node(node, &to).message, ""));
        }
        match call(node, &to, PeerAsk::Files { uid, name }, STARTED).await {
            Ok(PeerAnswer::Files { addr }) => addr,
            Ok(_) => return Err(lost(&to, "it did not understand the question")),
            Err(CallError::Refused(no)) => return Err(no),
            Err(e) => return Err(lost(&to, &e.to_string())),
        }
    };
    let badge = Badge::files(&node.farm.node, uid);
    let identity = node.credentials.signed(&badge, &node.revoked);
    let identity = identity.map_err(|e| lost(&to, &e.to_string()))?;
    Ok(Answer::MfsRoute(MfsRoute {
        addr: addr.to_string(),
        identity,
        expect: Badge::files(&to, uid),
    }))
}

fn lost(to: &NodeName, why: &str) -> armento_client::api::Refusal {
    refusal(
        "link-lost",
        format!("{to}: {why}"),
        "armento nodes shows which nodes live",
    )
}
