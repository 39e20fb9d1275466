//! Trees that are kept safe from now on, or no more: `armento safe`.
//!
//! From: `noded/src/control/requests.rs`. Next: the keeper of the process, which begins its program anew.

use super::migrate::{no_such, unheld};
use crate::error::{Result, refusal};
use crate::state::{Asker, may};
use armento_client::SAFE;
use armento_client::api::{Answer, Order, SafeWish};
use armento_model::{Pid, TreeId};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// A day.
const SECONDS_MAX: u64 = 86_400;
/// A keeper that begins its program anew says hello within this time …
const HELLO_MAX: Duration = Duration::from_secs(10);
/// … and is looked for so often.
const LOOK: Duration = Duration::from_millis(50);

pub async fn make_safe(asker: &Asker, pid: Pid, safe: Option<SafeWish>) -> Result<Answer> {
    let seconds = safe.iter().flat_map(|s| [Some(s.every_s), s.remote_s]);
    if let Some(bad) = seconds.flatten().find(|s| !(1..=SECONDS_MAX).contains(s)) {
        let what = format!("{bad} seconds are not from 1 to {SECONDS_MAX}; nothing was changed");
        return Err(refusal("bad-request", what, "armento safe --help"));
    }
    let (waiter, ended) = oneshot::channel();
    let tree = {
        let mut core = asker.node.lock();
        let held = core.keepers.holder(pid);
        let keeper = held.filter(|k| may(asker.uid, k.hello.uid));
        let hello = &keeper.ok_or_else(|| unheld(asker.uid, pid))?.hello;
        if hello.safe == safe {
            return Ok(Answer::Done);
        }
        let tree = hello.tree;
        let ticket = core.next_number();
        let order = Order::Safe {
            ticket,
            safe,
            by_user: true,
        };
        if !core.keepers.order(tree, pid, ticket, order, Some(waiter)) {
            let what = format!("the keeper of process {pid} does not listen; nothing was changed");
            return Err(refusal("busy", what, "try again"));
        }
        tree
    };
    match timeout(SAFE, ended).await {
        Ok(Ok(Err(no))) if no.code != "gone" => Err(no),
        // Its session has ended: another begins.
        Ok(_) => says_hello(asker, pid, tree, safe).await,
        Err(_) => {
            let what = format!("the keeper of process {pid} does not answer");
            let hint =
                "one of an earlier version does not know `armento safe`: armento farm upgrade";
            Err(refusal("late", what, hint))
        }
    }
}

async fn says_hello(
    asker: &Asker,
    pid: Pid,
    tree: TreeId,
    safe: Option<SafeWish>,
) -> Result<Answer> {
    let until = Instant::now() + HELLO_MAX;
    loop {
        let now = {
            let core = asker.node.lock();
            let keeper = core.keepers.all().find(|k| k.hello.tree == tree);
            keeper.map(|k| k.hello.safe)
        };
        match now {
            Some(now) if now == safe => return Ok(Answer::Done),
            Some(_) => {
                let what = format!("the keeper of process {pid} goes on as before");
                return Err(refusal("busy", what, "try again later"));
            }
            None if Instant::now() >= until => return Err(no_such(pid)),
            None => sleep(LOOK).await,
        }
    }
}
