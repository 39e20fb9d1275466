//! Letting a node in.
//!
//! Order: version, token, name. A token is spent only by a node that can be a member, and a wrong
//! token learns nothing about the farm.

use super::{JoinAsk, Joined, PeerAnswer};
use crate::core::Node;
use crate::daemon::VERSION;
use crate::error::refusal;
use crate::state::Member;
use crate::tokens::{self, Denied, unix_now};
use armento_client::api::Refusal;
use armento_model::ENGINE_VERSION;
use std::sync::Arc;

/// A name given out and never heard of blocks a second node of that name this long, seconds: time
/// enough to start a daemon after joining.
const NAME_KEPT_S: u64 = 600;

pub(crate) fn admit(node: &Arc<Node>, ask: JoinAsk) -> Result<PeerAnswer, Refusal> {
    let failed = |e: crate::FarmError| refusal("failed", format!("{e}"), e.hint());
    let ca = node.state.farm_keys().map_err(|_| {
        refusal(
            "no-farm-key",
            format!(
                "{} does not hold the farm's key and cannot admit nodes",
                node.farm.node
            ),
            "join at the node where `armento farm init` was run",
        )
    })?;
    same_version(&ask)?;
    // One join at a time: two nodes of one name must not both find it free.
    let _turn = node
        .joining
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    spend(node, &ask)?;
    name_is_free(node, &ask)?;
    let node_pem = ca.sign_node(&ask.csr_pem, &ask.name).map_err(|e| {
        refusal(
            "bad-request",
            format!("{e}; nothing was changed"),
            "update Armento there",
        )
    })?;
    let serial = armento_link::serial_of(&node_pem).map_err(|e| {
        let what = format!("{e}; nothing was changed");
        refusal("failed", what, "see the files of the state directory")
    })?;
    node.state
        .note_issued(&ask.name, crate::news::hex(&serial))
        .map_err(failed)?;
    let member = Member {
        name: ask.name.clone(),
        addr: ask.addr,
        admitted: unix_now(),
        heard: false,
    };
    let mut seeds = node.lock().admitted(member);
    seeds.push(Member {
        name: node.farm.node.clone(),
        addr: node.farm.addr,
        admitted: 0,
        heard: true,
    });
    node.save_roster().map_err(failed)?;
    tracing::info!("{} ({}) was admitted", ask.name, ask.addr);
    Ok(PeerAnswer::Joined(Joined {
        ca_pem: ca.ca_pem,
        node_pem,
        wire: node.farm.wire,
        secret: node.news().secret.clone(),
        news: node.said(),
        seeds,
    }))
}

fn same_version(ask: &JoinAsk) -> Result<(), Refusal> {
    let line = |v: &str| v.split('.').take(2).collect::<Vec<_>>().join(".");
    if ask.engine == ENGINE_VERSION && line(&ask.version) == line(VERSION) {
        return Ok(());
    }
    Err(refusal(
        "version-mismatch",
        format!(
            "the farm runs Armento {VERSION} (engine {ENGINE_VERSION}), this node {} (engine {}); nothing was changed",
            ask.version, ask.engine
        ),
        "install the same version on both",
    ))
}

fn spend(node: &Node, ask: &JoinAsk) -> Result<(), Refusal> {
    tokens::spend(&node.state, &ask.token, &ask.secret).map_err(|e| match e {
        Denied::No(refusal) => refusal,
        Denied::State(e) => refusal("failed", format!("{e}; nothing was changed"), e.hint()),
    })
}

fn name_is_free(node: &Node, ask: &JoinAsk) -> Result<(), Refusal> {
    let core = node.lock();
    let taken = match core.members.get(&ask.name) {
        None => ask.name == core.me,
        Some(m) if m.is_up() => true,
        Some(m) => !m.known.heard && unix_now() < m.known.admitted + NAME_KEPT_S,
    };
    if !taken {
        return Ok(());
    }
    Err(refusal(
        "duplicate-name",
        format!(
            "the farm has a node named `{}` already; nothing was changed",
            ask.name
        ),
        "choose another name with --name, or run `armento leave` on the other one",
    ))
}
