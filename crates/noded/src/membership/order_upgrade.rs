//! `armento farm upgrade`: what runs on a node, and the replacement of another node's program by a holder of the farm's key.
//!
//! From: `noded/src/control/requests.rs`. Next: `noded/src/upgrade/receive.rs`, on the other node.

use super::order_drain::no_answer;
use super::remove::{farm_keys, sign};
use crate::clock::unix_ms;
use crate::error::{Result, refusal};
use crate::peer::{PeerAnswer, PeerAsk};
use crate::revocation::Statement;
use crate::state::{Asker, call, may, no_such_node};
use crate::sys;
use crate::upgrade::{restart, versions_info};
use armento_client::api::{Answer, PROGRAM_MAX, UpgradeStep};
use armento_model::NodeName;
use std::time::Duration;

/// Another daemon's answer to a plain question, or to a part.
const ASKED: Duration = Duration::from_secs(10);
/// … when it tries the program and puts it in place.
const INSTALLED: Duration = Duration::from_secs(30);

/// What runs on a node. Any user may know.
pub async fn versions_at(asker: &Asker, name: Option<NodeName>) -> Result<Answer> {
    let node = &asker.node;
    let other = name.filter(|n| *n != node.farm.node);
    let Some(other) = other else {
        let node = node.clone();
        let told = tokio::task::spawn_blocking(move || versions_info(&node)).await;
        return told
            .map(Answer::Versions)
            .map_err(|e| refusal("failed", e.to_string(), "ask again"));
    };
    match call(node, &other, PeerAsk::Versions, ASKED).await {
        Ok(PeerAnswer::Versions { info }) if info.node == other => Ok(Answer::Versions(info)),
        Ok(_) => Err(refusal(
            "failed",
            format!("{other} gave another answer"),
            "update Armento there",
        )),
        Err(e) => Err(no_answer(&other, e, "nothing was changed")),
    }
}

/// The daemon becomes the program at its path.
pub fn restart_this(asker: &Asker) -> Result<Answer> {
    if !may(asker.uid, sys::euid()) {
        let who = "only root, or the daemon's own user, starts the daemon again";
        return Err(refusal("not-trusted", who, "use sudo"));
    }
    restart(&asker.node).map(|()| Answer::Done)
}

/// One step of replacing another node's program.
pub async fn upgrade_node(asker: &Asker, name: NodeName, step: UpgradeStep) -> Result<Answer> {
    let node = &asker.node;
    if !may(asker.uid, sys::euid()) {
        let who = "only root, or the daemon's own user, replaces a node's program";
        return Err(refusal("not-trusted", who, "use sudo"));
    }
    if name == node.farm.node {
        let what = "this node's own program is replaced by the command itself";
        return Err(refusal("itself", what, "armento farm upgrade"));
    }
    if !node.lock().members.contains(&name) {
        return Err(no_such_node(node, &name));
    }
    let (ask, limit) = match step {
        UpgradeStep::Begin { size, .. } if size > PROGRAM_MAX => {
            let what = format!("a program of {size} bytes is too large; nothing was changed");
            return Err(refusal("too-large", what, "is it the right file?"));
        }
        UpgradeStep::Begin { sha256, size } => {
            (statement(asker, &name, Some(sha256), size)?, ASKED)
        }
        UpgradeStep::Rollback => (statement(asker, &name, None, 0)?, INSTALLED),
        UpgradeStep::Part { offset, data } => (PeerAsk::ProgramPart { offset, data }, ASKED),
        UpgradeStep::Install { sha256 } => (PeerAsk::ProgramEnd { sha256 }, INSTALLED),
    };
    match call(node, &name, ask, limit).await {
        Ok(_) => Ok(Answer::Done),
        Err(e) => Err(no_answer(&name, e, "whether it was changed is unknown")),
    }
}

fn statement(asker: &Asker, name: &NodeName, sha256: Option<String>, size: u64) -> Result<PeerAsk> {
    let ca = farm_keys(&asker.node)?;
    let statement = Statement::Upgrade {
        node: name.clone(),
        at_ms: unix_ms(),
        sha256,
        size,
    };
    Ok(PeerAsk::Said(sign(&ca, &statement)?))
}
