//! Carrying out what was decided.
//!
//! From: `balance/src/decide.rs`. Next: `migrate/src/source.rs` (the keeper moves the process).

use crate::core::{Core, Node};
use crate::keepers::needs;
use armento_balance::{Fresh, Kind, Move, Policy, decide, place};
use armento_client::api::{Dest, Order};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid};
use std::sync::Arc;
use std::time::Duration;

/// Once a period: orders what the policy wants.
pub fn act(node: &Node) {
    let now = node.now();
    let mut core = node.lock();
    if core.leaving {
        return;
    }
    let view = node.near(&mut core);
    core.ledger.progress(&view, &node.policy, now);
    for chosen in decide(&view, &node.policy, now) {
        order(&mut core, &chosen, &node.policy, now);
    }
}

/// … and when one of ours has ended, too; more often than once a second where a policy's own period is shorter.
pub async fn use_room(node: Arc<Node>) {
    let pause = Duration::from_millis(node.policy.prompt_ms);
    let period = Duration::from_millis(node.policy.period_ms);
    let is_short = node.policy.kind == Kind::Armento;
    loop {
        let freed = node.freed.notified();
        if is_short {
            let _ = tokio::time::timeout(period, freed).await;
            // Without programs of ours there is nothing to decide.
            if node.lock().keepers.all().next().is_none() {
                continue;
            }
        } else {
            freed.await;
        }
        act(&node);
        // Whoever ended meanwhile is looked at then.
        tokio::time::sleep(pause).await;
    }
}

fn order(core: &mut Core, chosen: &Move, policy: &Policy, now: Tick) {
    let Some(tree) = core.keepers.holder(chosen.pid).map(|k| k.hello.tree) else {
        return;
    };
    let to = if chosen.to == core.me {
        Dest::Home
    } else {
        Dest::Node(chosen.to.clone())
    };
    let (pid, ticket) = (chosen.pid, core.next());
    let order = Order::Move {
        pid,
        to,
        ticket,
        balances: true,
    };
    if core.keepers.order(tree, pid, ticket, order, None) {
        tracing::debug!("{} goes from {} to {}", pid, chosen.from, chosen.to);
        core.ledger.moving(chosen, policy, now);
    }
}

/// Where a fresh program should run; `None` is here. Takes microseconds: everything it needs is
/// known already.
pub fn choose(node: &Node, session: u64, pid: Pid, portable: bool) -> Option<NodeName> {
    let now = node.now();
    let mut core = node.lock();
    let hello = core.keepers.of_session(session)?.hello.clone();
    let stays = hello.stay || core.leaving || (hello.uid == 0 && !node.trust().allow_root);
    if stays {
        return None;
    }
    if hello.pinned.is_some() {
        return hello.pinned;
    }
    let fresh = Fresh {
        uid: hello.uid,
        needs: needs(&hello, portable),
        ..Fresh::default()
    };
    let mut view = node.near(&mut core);
    // Where it is now it is only because it was born there.
    view.procs.retain(|p| p.pid != pid);
    let chosen = place(&view, &node.policy, &fresh).unwrap_or_else(|| core.me.clone());
    core.ledger.placing(pid, &chosen, &fresh, now);
    Some(chosen).filter(|n| *n != core.me)
}
