//! Checkpoint files that a person asked for: `armento checkpoint`.
//!
//! From: `noded/src/control/requests.rs`. Next: the keeper of the processes, which writes the file as their user.

use super::migrate::{no_such, unheld};
use crate::error::{Result, refusal};
use crate::state::{Asker, may};
use armento_client::CHECKPOINT;
use armento_client::api::{Answer, CHECKPOINT_PIDS_MAX, CheckpointOrder, Order, Refusal};
use armento_model::TreeId;
use tokio::sync::oneshot;

pub async fn write_checkpoint(asker: &Asker, order: CheckpointOrder) -> Result<Answer> {
    let pid = *order.pids.first().ok_or_else(|| {
        let what = "no process is named; nothing was written";
        refusal("bad-request", what, "armento ps lists them")
    })?;
    if order.pids.len() > CHECKPOINT_PIDS_MAX {
        let what =
            format!("more than {CHECKPOINT_PIDS_MAX} processes are named; nothing was written");
        let hint = "name the first of a tree: those that it has started are included";
        return Err(refusal("bad-request", what, hint));
    }
    let tree = tree_of(asker, &order)?;
    let (waiter, ended) = oneshot::channel();
    {
        let mut core = asker.node.lock();
        let ticket = core.next_number();
        let order = Order::Checkpoint { ticket, order };
        if !core.keepers.order(tree, pid, ticket, order, Some(waiter)) {
            let what = format!("the keeper of process {pid} does not listen; nothing was written");
            return Err(refusal("busy", what, "try again"));
        }
    }
    match tokio::time::timeout(CHECKPOINT, ended).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(no_such(pid)),
        Err(_) => {
            let after = CHECKPOINT.as_secs();
            let what = format!("the checkpoint is not written after {after} s; its keeper goes on");
            Err(refusal(
                "late",
                what,
                "the file appears when it is complete",
            ))
        }
    }
}

/// The tree of them all.
fn tree_of(asker: &Asker, order: &CheckpointOrder) -> Result<TreeId> {
    let core = asker.node.lock();
    let mut tree: Option<TreeId> = None;
    for pid in &order.pids {
        let held = core.keepers.holder(*pid);
        let keeper = held.filter(|k| may(asker.uid, k.hello.uid));
        let keeper = keeper.ok_or_else(|| -> Refusal { unheld(asker.uid, *pid) })?;
        match tree {
            Some(first) if first != keeper.hello.tree => {
                let what = format!("process {pid} is of another tree; nothing was written");
                let hint = "a checkpoint holds processes that one `armento run` has started";
                return Err(refusal("other-tree", what, hint));
            }
            _ => tree = Some(keeper.hello.tree),
        }
    }
    tree.ok_or_else(|| {
        refusal(
            "bad-request",
            "no process is named",
            "armento ps lists them",
        )
    })
}
