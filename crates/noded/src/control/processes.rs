//! `armento ps --all`: processes of the whole farm.

use crate::error::Result;
use crate::peer::{PeerAnswer, PeerAsk};
use crate::state::{Asker, call};
use crate::sys::name_of;
use armento_client::api::{Answer, ProcInfo};
use std::time::Duration;

/// Another daemon's answer to a plain question.
const PEER: Duration = Duration::from_secs(3);

/// Owner processes `uid` sees; root sees all.
pub fn seen_by(uid: u32) -> Option<u32> {
    (uid != 0).then_some(uid)
}

/// Processes of the whole farm. Nodes that do not answer are left out: `nodes` shows which.
pub async fn everywhere(asker: &Asker) -> Result<Answer> {
    let uid = seen_by(asker.uid);
    let (mut procs, peers) = {
        let core = asker.node.lock();
        (core.procs(uid), core.members.peers())
    };
    // Numbers of users are each node's own: a user with another name there is another person.
    let name = match uid {
        Some(uid) => {
            let name = tokio::task::spawn_blocking(move || name_of(uid)).await;
            // A number without a name is one everywhere.
            Some(name.ok().flatten().unwrap_or_default())
        }
        None => None,
    };
    let mut asked = tokio::task::JoinSet::new();
    for peer in peers {
        let node = asker.node.clone();
        let ask = PeerAsk::Ps {
            uid,
            name: name.clone(),
        };
        asked.spawn(async move { (call(&node, &peer, ask, PEER).await, peer) });
    }
    while let Some(done) = asked.join_next().await {
        match done {
            Ok((Ok(PeerAnswer::Ps { procs: theirs }), peer)) => {
                // A node speaks for its own processes only.
                let honest = |p: &ProcInfo| p.home == peer && uid.is_none_or(|u| u == p.uid);
                procs.extend(theirs.into_iter().filter(honest));
            }
            Ok((Err(e), peer)) => tracing::info!("ps of {peer}: {e}"),
            _ => {}
        }
    }
    Ok(Answer::Ps { procs })
}
