//! Trees that have run for long become safe by themselves: `safe_after_s`.
//!
//! From: `noded/src/daemon/start.rs`. Next: the keeper, as for `armento safe` (`noded/src/work/safe.rs`).

use crate::state::{Core, Node};
use armento_client::api::{KeeperHello, Order, SafeWish};
use armento_model::{Pid, TreeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_secs(5);
/// A tree that was told is not told again for so long: it may have refused.
const AGAIN: Duration = Duration::from_secs(600);
/// Checkpoints take at most this part of the memory that is available here, as those of `--safe` may take half.
const MEMORY_PART: u64 = 4;

/// What has been told, by tree; those of trees that have ended are forgotten.
type Told = HashMap<TreeId, Instant>;

pub async fn make_old_trees_safe(node: Arc<Node>) {
    let mut told = Told::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let (after, every_s) = {
            let settings = node.settings();
            (settings.safe_after_s, settings.safe_every_s)
        };
        if after > 0 {
            let wish = SafeWish {
                every_s,
                exact: false,
                remote_s: None,
            };
            let mut core = node.lock();
            tell_next(&mut core, &mut told, Duration::from_secs(after), wish);
        }
    }
}

/// Tells one tree: its processes are at home meanwhile.
fn tell_next(core: &mut Core, told: &mut Told, after: Duration, wish: SafeWish) {
    told.retain(|tree, at| {
        at.elapsed() < AGAIN && core.keepers.all().any(|k| k.hello.tree == *tree)
    });
    let free_kib = armento_sense::available_kib() / MEMORY_PART;
    let me = core.me.clone();
    let next = core.keepers.all().find_map(|k| {
        let away = k.procs.iter().filter(|p| p.place != me);
        let need_kib: u64 = away.map(|p| p.rss_kib).sum();
        let due = may_be_made_safe(&k.hello) && !told.contains_key(&k.hello.tree);
        let fits = need_kib > 0 && need_kib <= free_kib;
        let age_ms = k.procs.iter().map(|p| p.age_ms).max()?;
        let old = Duration::from_millis(age_ms) >= after;
        (due && fits && old).then_some((k.hello.tree, k.hello.root, need_kib))
    });
    let Some((tree, root, need_kib)) = next else {
        return;
    };
    told.insert(tree, Instant::now());
    tracing::info!(
        "process {root} has run for {} s: its tree is kept safe from now on, which takes up to {} MiB here",
        after.as_secs(),
        need_kib.div_ceil(1024)
    );
    order(core, tree, root, wish);
}

fn order(core: &mut Core, tree: TreeId, root: Pid, wish: SafeWish) {
    let ticket = core.next_number();
    let order = Order::Safe {
        ticket,
        safe: Some(wish),
        by_user: false,
    };
    // A keeper that does not listen is told again later.
    core.keepers.order(tree, root, ticket, order, None);
}

/// Not where its user has chosen, nor in a test.
fn may_be_made_safe(hello: &KeeperHello) -> bool {
    hello.safe.is_none() && !hello.safe_chosen && !hello.storm && !hello.stay
}
