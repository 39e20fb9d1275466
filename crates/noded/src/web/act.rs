//! What a user does with one process at the dashboard, whichever node is its home: its own daemon is asked, which checks the
//! user as it does those of its own machine.

use crate::error::{Result, refusal};
use crate::keepers::Which;
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::state::{Asker, Node, call};
use crate::sys::name_of;
use crate::work::{explain, move_process, move_soon, no_such, renice, resume, stop};
use armento_client::api::{Action, Answer, Refusal};
use armento_model::{NodeName, Pid};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the daemon of another home: it waits up to five seconds for a move.
const PEER: Duration = Duration::from_secs(8);
/// Most decisions in an answer.
const DECISIONS_MAX: usize = 200;

pub async fn act(asker: &Asker, home: NodeName, action: Action) -> Result<Answer> {
    let node = asker.node.clone();
    let uid = asker.uid;
    if home == node.farm.node {
        if let Action::Move { pid, to } = action {
            return move_process(asker, pid, to).await;
        }
        let done = tokio::task::spawn_blocking(move || perform(&node, uid, action)).await;
        return done.map_err(|e| refusal("failed", e.to_string(), "ask again"))?;
    }
    let named = tokio::task::spawn_blocking(move || name_of(uid)).await;
    let name = named.ok().flatten().unwrap_or_default();
    let ask = PeerAsk::Act { uid, name, action };
    match call(&node, &home, ask, PEER).await {
        Ok(PeerAnswer::Acted { answer }) => Ok(answer),
        Ok(_) => Err(refusal(
            "failed",
            format!("{home} gave another answer"),
            "update Armento there",
        )),
        Err(CallError::Refused(no)) => Err(no),
        Err(e) => Err(refusal(
            "no-answer",
            format!("{home} does not answer: {e}; whether it did something is unknown"),
            "armento nodes shows it",
        )),
    }
}

/// As [`act`], for a user of another node, which vouches for its users. Blocks.
pub fn act_for(
    node: &Arc<Node>,
    asker: &NodeName,
    (uid, name): (u32, &str),
    action: Action,
) -> std::result::Result<Answer, Refusal> {
    let me = &node.farm.node;
    if name_of(uid).unwrap_or_default() != name {
        let what = format!("user {uid} of {me} is not user {uid} of {asker}");
        let hint = "users need the same number and name on both nodes";
        return Err(refusal("another-user", what, hint));
    }
    let trust = node.trust();
    if uid == 0 && !trust.allow_root {
        let what = format!("{me} lets root of another node do nothing (allow_root)");
        return Err(refusal(
            "privileged",
            what,
            "use the dashboard of that node",
        ));
    }
    if !trust.lists(asker).has(uid) {
        let what = format!("accept_from of {me} leaves out user {uid} of {asker}");
        return Err(refusal(
            "not-trusted",
            what,
            "change it there: `armento farm trust`",
        ));
    }
    // Another node vouches for its users: it reaches what the farm holds, and no other process of theirs.
    let pid = action.pid();
    if !node.lock().keepers.procs().any(|p| p.pid == pid) {
        return Err(no_such(pid));
    }
    perform(node, uid, action)
}

fn perform(node: &Node, uid: u32, action: Action) -> Result<Answer> {
    match action {
        Action::Move { pid, to } => move_soon(node, uid, pid, to),
        Action::Stop { pid } => stop(node, uid, pid),
        Action::Continue { pid } => resume(node, uid, pid),
        Action::Renice { pid, nice } => renice(node, uid, pid, nice),
        Action::Why { pid } => explain(node, uid, pid),
        Action::Decisions { pid, count } => Ok(decisions(node, uid, pid, count as usize)),
    }
}

/// The newest about one process.
fn decisions(node: &Node, uid: u32, pid: Pid, count: usize) -> Answer {
    let which = Which {
        after: 0,
        since_ms: 0,
        pid: Some(pid),
        uid: (uid != 0).then_some(uid),
    };
    let newest = count.min(DECISIONS_MAX);
    let entries = node.lock().keepers.decisions.newest(&which, newest);
    Answer::Log { entries }
}
