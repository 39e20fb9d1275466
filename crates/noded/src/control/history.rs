//! `armento history`: what jobs of this home used, for their user, or all of them for root.

use super::processes::seen_by;
use crate::error::{Result, refusal};
use crate::state::Asker;
use armento_client::api::{Answer, HistoryQuery};

pub async fn history(asker: &Asker, query: HistoryQuery) -> Result<Answer> {
    let (node, uid) = (asker.node.clone(), seen_by(asker.uid));
    let read = tokio::task::spawn_blocking(move || node.history.info(&query, uid)).await;
    let read = read.map_err(|e| refusal("failed", e.to_string(), "ask again"))?;
    let no = |e: armento_history::HistoryError| refusal("history", e.to_string(), e.hint());
    read.map(Answer::History).map_err(no)
}
