//! `armento history`: what jobs of this home used, or of every home of the farm; for their user, or all of them for root.

use super::processes::{name, seen_by};
use crate::error::{Result, refusal};
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::state::{Asker, call};
use armento_client::api::{Answer, HISTORY_ROWS_MAX, HistoryBy, HistoryInfo, HistoryQuery};
use armento_model::NodeName;
use std::time::Duration;

/// Another daemon's answer: it may write first what has come so far, and read a large file.
const PEER: Duration = Duration::from_secs(12);

pub async fn history(asker: &Asker, query: HistoryQuery) -> Result<Answer> {
    own(asker, query).await.map(Answer::History)
}

async fn own(asker: &Asker, query: HistoryQuery) -> Result<HistoryInfo> {
    let (node, uid) = (asker.node.clone(), seen_by(asker.uid));
    let read = tokio::task::spawn_blocking(move || node.history.info(&query, uid)).await;
    let read = read.map_err(|e| refusal("failed", e.to_string(), "ask again"))?;
    read.map_err(|e| refusal("history", e.to_string(), e.hint()))
}

/// Every home is asked at the same time; the rows of those that answer become one list. Of another home `trouble` is said with its name.
pub async fn history_of_farm(asker: &Asker, query: HistoryQuery) -> Result<Answer> {
    let uid = seen_by(asker.uid);
    let peers = asker.node.lock().members.peers();
    let name = match uid {
        Some(uid) => Some(name(uid).await),
        None => None,
    };
    // What is summed up over homes may be small at each of them.
    let each = HistoryQuery {
        rows: match query.by {
            HistoryBy::Job => query.rows,
            _ => HISTORY_ROWS_MAX,
        },
        ..query.clone()
    };
    let mut asked = tokio::task::JoinSet::new();
    for peer in peers {
        let node = asker.node.clone();
        let ask = PeerAsk::History {
            uid,
            name: name.clone(),
            query: each.clone(),
        };
        asked.spawn(async move { (call(&node, &peer, ask, PEER).await, peer) });
    }
    let mut info = own(asker, each).await?;
    let mut answers = vec![std::mem::take(&mut info.rows)];
    while let Some(done) = asked.join_next().await {
        let Ok((answer, peer)) = done else { continue };
        match answer {
            Ok(PeerAnswer::History { info: theirs }) => {
                take(&mut info, &mut answers, theirs, &peer)
            }
            // This user is another there.
            Err(CallError::Refused(no)) if no.code == "another-user" => {}
            Err(e) => {
                tracing::debug!("history of {peer}: {e}");
                info.silent.push(peer);
            }
            Ok(_) => info.silent.push(peer),
        }
    }
    info.silent.sort();
    let (rows, more) = armento_history::merge_answers(query.by, answers, query.rows);
    info.rows = rows;
    info.more |= more;
    Ok(Answer::History(info))
}

fn take(
    all: &mut HistoryInfo,
    answers: &mut Vec<Vec<armento_client::api::HistoryRow>>,
    mut theirs: HistoryInfo,
    peer: &NodeName,
) {
    // A node speaks for its own jobs only.
    theirs
        .rows
        .retain(|r| r.job.as_ref().is_none_or(|j| j.home == *peer));
    theirs.rows.truncate(HISTORY_ROWS_MAX as usize);
    answers.push(theirs.rows);
    all.more |= theirs.more;
    all.lost = all.lost.saturating_add(theirs.lost);
    if !theirs.trouble.is_empty() {
        let line = format!("{peer}: {}", theirs.trouble);
        let between = if all.trouble.is_empty() { "" } else { "; " };
        all.trouble += &format!("{between}{line}");
    }
}
