//! Removing a node for good, at a member that holds the farm's key: processes move home, then the node's
//! certificates and the secret that it knows are revoked.
//!
//! From: `noded/src/control/requests.rs`. Next: `noded/src/membership/revoke.rs`.

use super::revoke::apply_statement;
use super::tokens;
use crate::error::{FarmError, Result, refusal};
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::revocation::{REMOVED_MAX, Removed, Revocation, Signed, Statement};
use crate::state::{Asker, Node, call, may, no_such_node};
use crate::sys;
use armento_client::api::{Answer, Refusal};
use armento_client::hex::{hex, unhex};
use armento_link::{FarmKeys, LinkError, random_hex};
use armento_model::NodeName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Time for processes to move home; what has not moved by then is lost.
const HOMEWARD: Duration = Duration::from_secs(30);
/// Keepers and hosts report once a second at least: every process elsewhere was reported by then.
const REPORTED: Duration = Duration::from_secs(2);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A member that does not answer in this time learns it from the others.
const TELL: Duration = Duration::from_secs(3);
/// Members told at once.
const TOLD_AT_ONCE: usize = 64;

pub async fn remove_node(asker: &Asker, name: NodeName, now: bool) -> Result<Answer> {
    let node = &asker.node;
    if !may(asker.uid, sys::euid()) {
        let who = "only root, or the daemon's own user, removes nodes";
        return Err(refusal("not-trusted", who, "use sudo"));
    }
    let ca = farm_keys(node)?;
    if name == node.farm.node {
        let what = "a node does not remove itself; nothing was changed";
        return Err(refusal(
            "itself",
            what,
            "`armento leave` takes this node out",
        ));
    }
    let _turn = node.removing.try_lock().map_err(|_| {
        let what = "a node is being removed just now; nothing was changed";
        refusal("busy", what, "wait for it")
    })?;
    let issued = node.state.issued().map_err(failed)?;
    let before = node.revoked.list();
    let anew = |serials: &&Vec<String>| serials.iter().any(|s| !before.names(s));
    let Some(serials) = issued.get(&name).filter(anew).cloned() else {
        return Err(no_such_node(node, &name));
    };
    let known: usize = before.removed.iter().map(|r| r.serials.len()).sum();
    if known + serials.len() > REMOVED_MAX {
        let what =
            format!("the list of removed nodes is full ({REMOVED_MAX}); nothing was changed");
        return Err(refusal(
            "full",
            what,
            "make a new farm: `armento farm init`",
        ));
    }
    let left = if now {
        remaining(node, &name)
    } else {
        drain(node, &ca, &name).await?
    };
    let mut removed = before.removed.clone();
    removed.retain(|r| r.node != name);
    removed.push(Removed {
        node: name.clone(),
        serials,
    });
    let signed = revocation(&ca, before.epoch + 1, removed)?;
    // The removed node, too, while it still accepts our connection.
    let theirs = call(node, &name, PeerAsk::Said(signed.clone()), TELL);
    if let Err(e) = theirs.await {
        tracing::info!("telling {name}: {e}");
    }
    apply_statement(node, &signed)?;
    tokens::void(&node.state).map_err(failed)?;
    let untold = notify_members(node, &signed).await;
    Ok(Answer::Removed {
        node: name,
        lost: left,
        untold,
    })
}

/// Gives the farm a new secret, with which its datagrams are protected, and makes all tokens invalid. No node is removed.
pub async fn rotate_secret(asker: &Asker) -> Result<Answer> {
    let node = &asker.node;
    if !may(asker.uid, sys::euid()) {
        let who = "only root, or the daemon's own user, gives the farm another secret";
        return Err(refusal("not-trusted", who, "use sudo"));
    }
    let ca = farm_keys(node)?;
    let _turn = node.removing.try_lock().map_err(|_| {
        let what = "a node is being removed just now; nothing was changed";
        refusal("busy", what, "wait for it")
    })?;
    let before = node.revoked.list();
    let signed = revocation(&ca, before.epoch + 1, before.removed.clone())?;
    apply_statement(node, &signed)?;
    tokens::void(&node.state).map_err(failed)?;
    let untold = notify_members(node, &signed).await;
    Ok(Answer::Rotated { untold })
}

pub(super) fn farm_keys(node: &Node) -> Result<FarmKeys> {
    node.state.farm_keys().map_err(|_| {
        let what = format!(
            "{} does not hold the farm's key; nothing was changed",
            node.farm.node
        );
        refusal(
            "no-farm-key",
            what,
            "run it where `armento farm init` was run",
        )
    })
}

/// A signed statement with these removed nodes, and a new secret.
fn revocation(ca: &FarmKeys, epoch: u64, removed: Vec<Removed>) -> Result<Signed> {
    let numbers = removed.iter().flat_map(|r| &r.serials);
    let numbers: Vec<Vec<u8>> = numbers.filter_map(|s| unhex(s)).collect();
    let crl_pem = Some(ca.removed(&numbers, epoch).map_err(unsigned)?);
    let statement = Statement::Revoke(Revocation {
        epoch,
        removed,
        secret: random_hex(32),
        crl_pem,
    });
    sign(ca, &statement)
}

fn failed(e: FarmError) -> Refusal {
    refusal("failed", format!("{e}; nothing was changed"), e.hint())
}

fn unsigned(e: LinkError) -> Refusal {
    refusal(
        "failed",
        format!("{e}; nothing was changed"),
        "see the files of the state directory",
    )
}

pub(super) fn sign(ca: &FarmKeys, word: &Statement) -> Result<Signed> {
    let text = serde_json::to_string(word).map_err(|e| {
        refusal(
            "failed",
            format!("{e}; nothing was changed"),
            "tell us: this is a bug",
        )
    })?;
    let signature = hex(&ca.sign(text.as_bytes()).map_err(unsigned)?);
    Ok(Signed { text, signature })
}

/// Number of our processes at `name`, and of its guests here.
pub fn remaining(node: &Node, name: &NodeName) -> u64 {
    let core = node.lock();
    let ours = core.keepers.procs().filter(|p| p.place == *name).count();
    let theirs = core.hosts.guests().filter(|g| g.home == *name).count();
    (ours + theirs) as u64
}

/// Has every member drain the node. Returns how many processes have not moved.
async fn drain(node: &Arc<Node>, ca: &FarmKeys, name: &NodeName) -> Result<u64> {
    let epoch = node.revoked.list().epoch;
    let signed = sign(
        ca,
        &Statement::Drain {
            node: name.clone(),
            epoch,
        },
    )?;
    let (sure, until) = (Instant::now() + REPORTED, Instant::now() + HOMEWARD);
    apply_statement(node, &signed)?;
    let mut left: BTreeMap<NodeName, u64> = BTreeMap::new();
    let mut open: Vec<NodeName> = node.lock().members.peers();
    open.retain(|n| n != name);
    loop {
        // Again for members with some left: a question that was lost costs one turn.
        let ask = || PeerAsk::Said(signed.clone());
        for (peer, answer) in all(node, &open, ask).await {
            match answer {
                Ok(PeerAnswer::Left { count }) => drop(left.insert(peer, count)),
                Ok(_) => {}
                Err(e) => {
                    // A member that does not answer is not waited for.
                    tracing::info!("{peer}, asked to let go of {name}: {e}");
                    left.remove(&peer);
                }
            }
        }
        left.retain(|_, count| *count > 0);
        let count = remaining(node, name) + left.values().sum::<u64>();
        let now = Instant::now();
        if count == 0 && now >= sure || now >= until {
            return Ok(count);
        }
        if now >= sure {
            open = left.keys().cloned().collect();
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Tells every member; returns those that did not answer.
async fn notify_members(node: &Arc<Node>, signed: &Signed) -> Vec<NodeName> {
    let members: Vec<NodeName> = node.lock().members.names().cloned().collect();
    let answers = all(node, &members, || PeerAsk::Said(signed.clone())).await;
    let silent = answers.into_iter().filter(|(_, answer)| answer.is_err());
    silent.map(|(name, _)| name).collect()
}

type Answers = Vec<(NodeName, std::result::Result<PeerAnswer, CallError>)>;

async fn all(node: &Arc<Node>, names: &[NodeName], ask: impl Fn() -> PeerAsk) -> Answers {
    let mut answers = Vec::new();
    for some in names.chunks(TOLD_AT_ONCE) {
        let mut asked = JoinSet::new();
        for name in some {
            let (node, name, ask) = (node.clone(), name.clone(), ask());
            asked.spawn(async move { (call(&node, &name, ask, TELL).await, name) });
        }
        while let Some(done) = asked.join_next().await {
            if let Ok((answer, name)) = done {
                answers.push((name, answer));
            }
        }
    }
    answers
}
