//! Asking other members.

use super::node::Node;
use crate::error::refusal;
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use armento_client::api::Refusal;
use armento_model::NodeName;
use std::sync::Arc;
use std::time::Duration;

/// Asks another daemon, off the daemon's own thread.
pub async fn call(
    node: &Arc<Node>,
    to: &NodeName,
    ask: PeerAsk,
    timeout: Duration,
) -> Result<PeerAnswer, CallError> {
    let addr = node.lock().members.addr_of(to);
    let (node, to) = (node.clone(), to.clone());
    let Some(addr) = addr else {
        return Err(CallError::Refused(no_such_node(&node, &to)));
    };
    let asked = tokio::task::spawn_blocking(move || node.call((&to, addr), &ask, timeout));
    match asked.await {
        Ok(answer) => answer,
        Err(e) => Err(CallError::Line(std::io::Error::other(e).into())),
    }
}

/// No member of that name can be asked.
pub fn no_such_node(node: &Node, name: &NodeName) -> Refusal {
    let core = node.lock();
    let names: Vec<String> = core.members.peers().iter().map(|n| n.to_string()).collect();
    let hint = if names.is_empty() {
        "this farm has no other living node; see `armento nodes`".into()
    } else {
        format!("living nodes: {} (see `armento nodes`)", names.join(", "))
    };
    let what = if core.members.contains(name) {
        format!("node `{name}` is down; nothing was changed")
    } else {
        format!("the farm has no node `{name}`; nothing was changed")
    };
    refusal("no-such-node", what, hint)
}
