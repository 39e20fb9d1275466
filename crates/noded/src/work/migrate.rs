//! Moves that a person asked for: `armento migrate`.
//!
//! From: `noded/src/control/requests.rs`. Next: the keeper, which moves the process.

use super::target::check_target;
use crate::error::{Result, refusal};
use crate::keepers::Decided;
use crate::state::{Asker, Node, may};
use armento_client::api::{Answer, Dest, Order, Refusal};
use armento_model::Pid;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A move that has not ended by then is no longer waited for; it may still end well.
const MOVE: Duration = Duration::from_secs(120);
/// … where another daemon asks, which waits for its answer.
const SOON: Duration = Duration::from_secs(5);
const SOON_LOOK: Duration = Duration::from_millis(10);

/// What became of an order.
enum Ordered {
    /// The policy chooses; nobody waits.
    Free,
    Waits(oneshot::Receiver<Result<Answer>>),
}

pub async fn move_process(asker: &Asker, pid: Pid, to: Dest) -> Result<Answer> {
    match order(&asker.node, asker.uid, pid, to)? {
        Ordered::Free => Ok(Answer::Done),
        Ordered::Waits(ended) => match tokio::time::timeout(MOVE, ended).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(no_such(pid)),
            Err(_) => Err(late(pid, MOVE)),
        },
    }
}

/// As [`move_process`], for another daemon that asks: a short wait, then it is told that the move goes on. Blocks.
pub fn move_soon(node: &Node, uid: u32, pid: Pid, to: Dest) -> Result<Answer> {
    let Ordered::Waits(mut ended) = order(node, uid, pid, to)? else {
        return Ok(Answer::Done);
    };
    let until = Instant::now() + SOON;
    loop {
        match ended.try_recv() {
            Ok(result) => return result,
            Err(oneshot::error::TryRecvError::Closed) => return Err(no_such(pid)),
            Err(oneshot::error::TryRecvError::Empty) if Instant::now() >= until => {
                return Err(late(pid, SOON));
            }
            Err(oneshot::error::TryRecvError::Empty) => thread::sleep(SOON_LOOK),
        }
    }
}

fn late(pid: Pid, limit: Duration) -> Refusal {
    let after = limit.as_secs();
    refusal(
        "late",
        format!("the move of process {pid} has not ended after {after} s; it goes on"),
        "armento ps shows where it is",
    )
}

fn order(node: &Node, uid: u32, pid: Pid, to: Dest) -> Result<Ordered> {
    let me = node.farm.node.clone();
    let to = match to {
        Dest::Node(n) if n == me => Dest::Home,
        to => to,
    };
    let (tree, owner, needs) = {
        let core = node.lock();
        let held = core.keepers.holder(pid);
        match held.filter(|k| may(uid, k.hello.uid)) {
            Some(k) => (k.hello.tree, k.hello.uid, k.needs(pid)),
            None => return Err(unheld(uid, pid)),
        }
    };
    if let Dest::Node(target) = &to {
        let whose = (owner, needs.as_ref());
        check_target(node, &format!("process {pid}"), whose, target)?;
    }
    let (waiter, ended) = oneshot::channel();
    let now = node.now();
    let mut core = node.lock();
    let ticket = core.next_number();
    match &to {
        Dest::Node(target) => core.ledger.flies_to(pid, target, now),
        Dest::Home | Dest::Hold => core.ledger.flies_to(pid, &me, now),
        Dest::Balance => {}
    }
    let free = to == Dest::Balance;
    let target = match &to {
        Dest::Node(node) => node.clone(),
        _ => me.clone(),
    };
    let order = Order::Move {
        pid,
        to,
        ticket,
        balances: false,
        together: false,
        by_hand: true,
    };
    let waits = (!free).then_some(waiter);
    if !core.keepers.order(tree, pid, ticket, order, waits) {
        let what = format!("the keeper of process {pid} does not listen; nothing was moved");
        return Err(refusal("busy", what, "try again"));
    }
    if free {
        return Ok(Ordered::Free);
    }
    let asked = Decided::ordered("asked", ticket);
    core.keepers.log_decision(pid, &me, &target, asked);
    Ok(Ordered::Waits(ended))
}

/// Not held by a keeper: the caller may fork one, if the process is its user's.
pub fn unheld(uid: u32, pid: Pid) -> Refusal {
    match owner_of(pid) {
        Some(owner) if may(uid, owner) => refusal(
            "not-held",
            format!("process {pid} has no keeper yet; nothing was done"),
            "start it with `armento run`",
        ),
        _ => no_such(pid),
    }
}

/// The owner of a process of this machine.
pub fn owner_of(pid: Pid) -> Option<u32> {
    Some(std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

pub fn no_such(pid: Pid) -> Refusal {
    refusal(
        "no-such-process",
        format!("there is no process {pid} of yours whose home is here"),
        "armento ps --all shows them all",
    )
}
