//! The home's side: what the keeper of a tree sends to the node that keeps its checkpoint.
//!
//! From: `noded/src/control/requests.rs`. Next: `receive.rs`, on the other node.

use crate::error::{Result, refusal};
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::state::{Asker, Node, State};
use crate::sys;
use armento_client::api::{Answer, KeepStep, Refusal};
use armento_model::{NodeName, TreeId};
use std::sync::Arc;
use std::time::Duration;

/// The keeping node's answer to one step. Less than the lease, so that a second try fits into it.
const ASKED: Duration = Duration::from_secs(3);

/// Passes on one step of the keeper of this session. `at`: where the checkpoint is kept; `None`: a node is chosen.
pub fn keep_away(asker: &Asker, at: Option<NodeName>, mut step: KeepStep) -> Result<Answer> {
    let node = &asker.node;
    if let KeepStep::Begin { dead_ms, .. } = &mut step {
        *dead_ms = node.config.dead_ms;
    }
    let (tree, uid) = {
        let core = node.lock();
        let keeper = core.keepers.of_session(asker.session);
        let hello = keeper.map(|k| (k.hello.tree, k.hello.uid));
        hello.ok_or_else(|| {
            let what = "only the keeper of a tree has its checkpoint kept";
            refusal("bad-request", what, "armento run --safe=remote")
        })?
    };
    let at = match at {
        Some(at) => at,
        None => choose(node, uid)?,
    };
    let addr = node.lock().members.addr_of(&at).ok_or_else(|| {
        let what = format!("the farm has no node `{at}` any more");
        refusal("no-such-node", what, "another node is chosen")
    })?;
    if matches!(step, KeepStep::Begin { .. }) && !node.trust().sends_to(&at).has(uid) {
        let what = format!("this node sends nothing of user {uid} to {at}");
        let hint = "`armento farm trust` shows the rules";
        return Err(refusal("not-trusted", what, hint));
    }
    let forgets = step == KeepStep::Forget;
    let ask = PeerAsk::Keep {
        tree,
        uid,
        name: match step {
            KeepStep::Begin { .. } => sys::name_of(uid).unwrap_or_default(),
            _ => String::new(),
        },
        step,
    };
    match node.call((&at, addr), &ask, ASKED) {
        Ok(PeerAnswer::Keep { answer }) => {
            let mut core = node.lock();
            match answer.known && !forgets {
                true => core.kept_away.insert(tree, (at.clone(), uid)),
                false => core.kept_away.remove(&tree),
            };
            Ok(Answer::KeptAway { at, answer })
        }
        Ok(_) => Err(refusal(
            "failed",
            format!("{at} gave another answer"),
            "update Armento there",
        )),
        Err(CallError::Refused(no)) => Err(no),
        Err(e) => {
            let what = format!("{at} does not answer: {e}");
            Err(refusal("silent", what, "`armento nodes` shows which do"))
        }
    }
}

/// The keeper of a tree has ended, as far as is known, and has not said that the tree has: the node that keeps its checkpoint
/// learns that no lease speaks for it. A keeper that comes back renews it.
pub fn keeper_gone(node: &Arc<Node>, tree: TreeId) {
    let (at, addr, uid) = {
        let mut core = node.lock();
        let Some((at, uid)) = core.kept_away.remove(&tree) else {
            return;
        };
        let Some(addr) = core.members.addr_of(&at) else {
            return;
        };
        (at, addr, uid)
    };
    let node = node.clone();
    tokio::task::spawn_blocking(move || {
        let ask = PeerAsk::Keep {
            tree,
            uid,
            name: String::new(),
            step: KeepStep::KeeperGone,
        };
        if let Err(e) = node.call((&at, addr), &ask, ASKED) {
            tracing::warn!("{at} does not know that the keeper of tree {tree} has ended: {e}");
        }
    });
}

/// The first of the others, by name, that is alive and to which the user's programs may go.
fn choose(node: &Node, uid: u32) -> std::result::Result<NodeName, Refusal> {
    let trust = node.trust();
    let core = node.lock();
    let mut alive = core.members.iter().filter(|m| m.state == State::Alive);
    let first = alive.find(|m| trust.sends_to(&m.known.name).has(uid));
    first.map(|m| m.known.name.clone()).ok_or_else(|| {
        let what = "no other node is alive and trusted: nothing is kept elsewhere";
        refusal("no-such-node", what, "armento nodes shows the nodes")
    })
}
