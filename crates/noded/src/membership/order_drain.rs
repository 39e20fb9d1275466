//! `armento node drain` and `undrain`: of this node, or, by a member that holds the farm's key, of another.
//!
//! From: `noded/src/control/requests.rs`. Next: `noded/src/policy/drained.rs`.

use super::remove::{farm_keys, sign};
use crate::clock::unix_ms;
use crate::error::{Result, refusal};
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::policy::{check_drain, drain_info, drain_this};
use crate::revocation::Statement;
use crate::state::{Asker, call, may, no_such_node};
use crate::sys;
use armento_client::api::{Answer, DrainChange, DrainInfo, Refusal};
use armento_model::NodeName;
use std::time::Duration;

/// Another daemon's answer.
const ASKED: Duration = Duration::from_secs(3);

/// Changes whether a node is drained, and says how far it is.
pub async fn drain_node(
    asker: &Asker,
    name: Option<NodeName>,
    change: Option<DrainChange>,
) -> Result<Answer> {
    let node = &asker.node;
    let administers = may(asker.uid, sys::euid());
    if change.is_some() && !administers {
        let who = "only root, or the daemon's own user, drains a node";
        return Err(refusal("not-trusted", who, "use sudo"));
    }
    let other = name.filter(|n| *n != node.farm.node);
    let Some(other) = other else {
        if let Some(change) = &change {
            drain_this(node, change, None)?;
        }
        return Ok(Answer::Drain(drain_info(node, administers)));
    };
    if let Some(change) = change {
        order(asker, &other, change).await?;
    }
    let mut info = look(asker, &other).await?;
    if !administers {
        info.processes.clear();
    }
    Ok(Answer::Drain(info))
}

async fn order(asker: &Asker, other: &NodeName, change: DrainChange) -> Result<()> {
    let node = &asker.node;
    check_drain(&change)?;
    if !node.lock().members.contains(other) {
        return Err(no_such_node(node, other));
    }
    let ca = farm_keys(node)?;
    let statement = Statement::Maintain {
        node: other.clone(),
        at_ms: unix_ms(),
        change,
    };
    let signed = sign(&ca, &statement)?;
    match call(node, other, PeerAsk::Said(signed), ASKED).await {
        Ok(_) => Ok(()),
        Err(e) => Err(no_answer(other, e, "whether it was changed is unknown")),
    }
}

async fn look(asker: &Asker, other: &NodeName) -> Result<DrainInfo> {
    match call(&asker.node, other, PeerAsk::Drain, ASKED).await {
        Ok(PeerAnswer::Drain { info }) if info.node == *other => Ok(info),
        Ok(_) => Err(refusal(
            "failed",
            format!("{other} gave another answer"),
            "update Armento there",
        )),
        Err(e) => Err(no_answer(other, e, "it goes on as it was told before")),
    }
}

pub(super) fn no_answer(other: &NodeName, e: CallError, left: &str) -> Refusal {
    match e {
        CallError::Refused(no) => no,
        e => refusal(
            "no-answer",
            format!("{other} does not answer: {e}; {left}"),
            "armento nodes shows it",
        ),
    }
}
