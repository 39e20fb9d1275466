//! `armento ps --all`: processes of the whole farm.

use crate::error::Result;
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::state::{Asker, call};
use crate::sys::name_of;
use armento_client::api::{Answer, LINE_MAX, ProcInfo, ProcRow, ROWS_MAX};
use armento_model::NodeName;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Another daemon's answer to a plain question.
const PEER: Duration = Duration::from_secs(3);
/// … when rows are asked for, once a second.
const PEER_OF_ROWS: Duration = Duration::from_secs(1);

/// How long a user's name is remembered, and of how many users.
const NAME_HOLDS: Duration = Duration::from_secs(60);
const NAMES_MAX: usize = 256;

/// Owner processes `uid` sees; root sees all.
pub fn seen_by(uid: u32) -> Option<u32> {
    (uid != 0).then_some(uid)
}

/// Processes of the whole farm. Nodes that do not answer are left out: `nodes` shows which.
pub async fn everywhere(asker: &Asker) -> Result<Answer> {
    let (procs, _) = gather(asker, PEER).await;
    Ok(Answer::Ps { procs })
}

/// The same as rows, and the nodes that did not answer within a second: a screen shows that instead of waiting.
pub async fn rows(asker: &Asker) -> Result<Answer> {
    let (procs, silent) = gather(asker, PEER_OF_ROWS).await;
    let (rows, left_out) = fitting(procs);
    Ok(Answer::Rows {
        rows,
        left_out,
        silent,
    })
}

/// Bytes of rows in one answer: what is left of a line is for the rest of it.
const ROWS_BYTES_MAX: usize = LINE_MAX - (64 << 10);

/// As many rows as fit into one answer, of more the busiest; and how many are left out.
fn fitting(mut procs: Vec<ProcInfo>) -> (Vec<ProcRow>, u64) {
    let all = procs.len();
    if all > ROWS_MAX {
        busiest_first(&mut procs);
        procs.truncate(ROWS_MAX);
    }
    let bytes = |p: &ProcInfo| {
        let row = serde_json::to_vec(&ProcRow::from(p.clone()));
        // A comma follows it.
        row.map_or(0, |r| r.len() + 1)
    };
    let sizes: usize = procs.iter().map(bytes).sum();
    if sizes > ROWS_BYTES_MAX {
        busiest_first(&mut procs);
        let mut left = ROWS_BYTES_MAX;
        let fit = procs.iter().take_while(|p| {
            let rest = left.checked_sub(bytes(p));
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let fit = fit.count();
        procs.truncate(fit);
    }
    let left_out = (all - procs.len()) as u64;
    (procs.into_iter().map(ProcRow::from).collect(), left_out)
}

fn busiest_first(procs: &mut [ProcInfo]) {
    procs.sort_by_key(|p| std::cmp::Reverse((p.busy_percent, p.cpu_ms)));
}

/// Processes of the farm that the asker sees, and members that did not answer within `limit`.
async fn gather(asker: &Asker, limit: Duration) -> (Vec<ProcInfo>, Vec<NodeName>) {
    let uid = seen_by(asker.uid);
    let (mut procs, peers) = {
        let core = asker.node.lock();
        (core.procs(uid), core.members.peers())
    };
    // Numbers of users are each node's own: a user with another name there is another person.
    let name = match uid {
        // A number without a name is one everywhere.
        Some(uid) => Some(name(uid).await),
        None => None,
    };
    let mut silent = Vec::new();
    let mut asked = tokio::task::JoinSet::new();
    for peer in peers {
        let node = asker.node.clone();
        let ask = PeerAsk::Ps {
            uid,
            name: name.clone(),
        };
        asked.spawn(async move { (call(&node, &peer, ask, limit).await, peer) });
    }
    while let Some(done) = asked.join_next().await {
        match done {
            Ok((Ok(PeerAnswer::Ps { procs: theirs }), peer)) => {
                // A node speaks for its own processes only.
                let honest = |p: &ProcInfo| p.home == peer && uid.is_none_or(|u| u == p.uid);
                procs.extend(theirs.into_iter().filter(honest));
            }
            Ok((Err(e), peer)) => {
                tracing::debug!("ps of {peer}: {e}");
                // One that refuses has answered: this user is another there.
                if !matches!(e, CallError::Refused(_)) {
                    silent.push(peer);
                }
            }
            _ => {}
        }
    }
    (procs, silent)
}

/// The name of a user, as it was within the last minute: finding it costs a process (`sys.rs`).
pub(super) async fn name(uid: u32) -> String {
    static KNOWN: Mutex<Vec<(u32, String, Instant)>> = Mutex::new(Vec::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut known = known();
        known.retain(|(_, _, at)| at.elapsed() < NAME_HOLDS);
        if let Some((_, name, _)) = known.iter().find(|(u, ..)| *u == uid) {
            return name.clone();
        }
    }
    let found = tokio::task::spawn_blocking(move || name_of(uid)).await;
    let name = found.ok().flatten().unwrap_or_default();
    let mut known = known();
    if known.len() >= NAMES_MAX {
        known.remove(0);
    }
    known.push((uid, name.clone(), Instant::now()));
    name
}
