//! Applying a statement of the farm: a node that will be removed, or one that was.
//!
//! From: `noded/src/membership/remove.rs`. Next: `noded/src/policy/enforce.rs`.

use crate::error::refusal;
use crate::hosts::kill;
use crate::peer::{self, PeerAnswer, PeerAsk};
use crate::policy::{drain, drain_this};
use crate::revocation::{Removed, Revocation, Signed, Stated, Statement};
use crate::state::Node;
use crate::upgrade::announced;
use armento_client::api::{Body, Order, Refusal};
use armento_client::hex::hex;
use armento_link::serial_of;
use armento_model::NodeName;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Another member's answer.
const ASKED: Duration = Duration::from_secs(3);

/// Applies a signed statement, whichever member passed it on. True: it was new, and holds here now.
pub fn apply_statement(node: &Arc<Node>, signed: &Signed) -> Result<bool, Refusal> {
    let forged = || {
        refusal(
            "not-trusted",
            "the farm did not sign this; nothing was changed",
            "only a member that holds the farm's key speaks for the farm",
        )
    };
    let ca_pem = &node.credentials.keys.ca_pem;
    if !signed.is_of(ca_pem) {
        return Err(forged());
    }
    let unknown = || {
        refusal(
            "unknown-question",
            "the farm says what only a later version understands; nothing was changed",
            "update Armento on this node",
        )
    };
    match signed.statement(ca_pem).ok_or_else(unknown)? {
        Statement::Drain { node: name, epoch } => {
            if epoch != node.revoked.list().epoch {
                return Err(refusal(
                    "late",
                    "this was said of another time; nothing was changed",
                    "say it again",
                ));
            }
            drain(node, &name);
            Ok(true)
        }
        Statement::Maintain { node: name, .. } | Statement::Upgrade { node: name, .. }
            if name != node.farm.node =>
        {
            let what = format!("this was said of {name}; nothing was changed");
            Err(refusal("another-node", what, "ask that node"))
        }
        Statement::Upgrade {
            at_ms,
            sha256,
            size,
            ..
        } => {
            announced(node, &Stated::of(signed, at_ms), sha256, size)?;
            Ok(true)
        }
        Statement::Maintain { at_ms, change, .. } => {
            drain_this(node, &change, Some(&Stated::of(signed, at_ms)))?;
            Ok(true)
        }
        Statement::Revoke(revocation) => apply_revocation(node, signed, revocation),
    }
}

fn apply_revocation(
    node: &Arc<Node>,
    signed: &Signed,
    revocation: Revocation,
) -> Result<bool, Refusal> {
    let failed = |e: String| {
        refusal(
            "failed",
            format!("{e}; nothing was changed"),
            "see the daemon's log",
        )
    };
    let _turn = node
        .revoked
        .applying
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let before = node.revoked.list();
    if revocation.epoch <= before.epoch {
        return Ok(false);
    }
    Revocation::write(signed, &node.state).map_err(|e| failed(e.to_string()))?;
    let own = serial_of(&node.credentials.keys.cert_pem).map_err(|e| failed(e.to_string()))?;
    if revocation.names(&hex(&own)) {
        end_membership(node);
        return Ok(true);
    }
    let fresh = |r: &&Removed| r.serials.iter().any(|s| !before.names(s));
    let gone: Vec<NodeName> = revocation
        .removed
        .iter()
        .filter(fresh)
        .map(|r| r.node.clone())
        .collect();
    node.revoked.replace(revocation, signed.clone());
    if let Err(e) = node.renew() {
        tracing::error!("our certificate could not be renewed: {e}");
    }
    for name in gone.iter().filter(|n| **n != node.farm.node) {
        tracing::info!("{name} was removed from the farm");
        cut(node, name);
    }
    if let Err(e) = node.save_roster() {
        tracing::warn!("{e}: a restart will know members that were removed");
    }
    Ok(true)
}

/// Ends the guests of `name` here, and has keepers and hosts drop their links to it.
fn cut(node: &Node, name: &NodeName) {
    let guests = {
        let mut core = node.lock();
        core.member_left(name);
        core.draining.remove(name);
        for out in core
            .keepers
            .all()
            .map(|k| &k.out)
            .chain(core.hosts.senders())
        {
            out.send(0, Body::Order(Order::Cut { node: name.clone() }));
        }
        core.hosts.of_home(name)
    };
    guests.iter().for_each(kill);
}

/// This node itself was removed.
fn end_membership(node: &Arc<Node>) {
    tracing::error!("this node was removed from its farm; join again with a new token");
    let guests = {
        let mut core = node.lock();
        core.leaving = true;
        for keeper in core.keepers.all() {
            let ticket = 0;
            keeper.out.send(0, Body::Order(Order::Recall { ticket }));
        }
        core.hosts.all()
    };
    guests.iter().for_each(kill);
    if let Err(e) = node.state.forget() {
        tracing::warn!("{e}");
    }
    node.stop.send_replace(true);
}

/// Asks one member, in turn, whether it has a newer statement: a node that was down when it was sent learns it in no
/// other way.
pub fn ask_for_statement(node: &Arc<Node>, turn: u64) {
    let chosen = {
        let core = node.lock();
        let up: Vec<_> = core.members.up().collect();
        let all: Vec<_> = core.members.iter().collect();
        // Members that are up, and all members in turn: those that are up here may be the ones that were removed.
        let from = if up.is_empty() || turn % 2 == 1 {
            all
        } else {
            up
        };
        let at = (turn / 2).checked_rem(from.len() as u64).unwrap_or(0) as usize;
        from.get(at).map(|m| (m.known.name.clone(), m.known.addr))
    };
    let Some((name, addr)) = chosen else { return };
    let ask = PeerAsk::News {
        epoch: node.revoked.list().epoch,
    };
    match peer::call(&node.identity(), &name, addr, &ask, ASKED) {
        Ok(PeerAnswer::News { said: Some(signed) }) => {
            if let Err(no) = apply_statement(node, &signed) {
                tracing::warn!("what {name} passed on: {}", no.message);
            }
        }
        Ok(_) => {}
        Err(e) => tracing::debug!("news of {name}: {e}"),
    }
}
