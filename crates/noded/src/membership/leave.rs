//! Leaving a farm: processes of this home come back, guests go, then members are told and the keys removed.

use crate::config::Config;
use crate::error::{FarmError, refusal};
use crate::hosts::HELLO_MAX;
use crate::kept::kept_here;
use crate::mfs;
use crate::peer::{self, PeerAsk};
use crate::state::Node;
use crate::state_dir::{Member, StateDir};
use armento_client::api::{Answer, Body, Order, Refusal};
use armento_link::{Badge, Identity};
use armento_model::{NodeName, Stay};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for processes to come home and for guests to go.
const HOMEWARD: Duration = Duration::from_secs(60);
/// Between two looks at what is still away.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A member that does not answer in this time learns it from the others.
const TELL: Duration = Duration::from_secs(3);
/// Told at most; the others learn it from these.
const TOLD_MAX: usize = 64;

/// On request of `armento leave`. After `Ok` this node is no member and its daemon ends.
/// After `Err` it is a member as before.
pub async fn leave_farm(node: &Arc<Node>) -> Result<Answer, Refusal> {
    if std::mem::replace(&mut node.lock().leaving, true) {
        return Err(refusal(
            "leaving",
            "this node is leaving already",
            "wait for it",
        ));
    }
    let left = send_home(node).await;
    if let Err(no) = left {
        node.lock().leaving = false;
        return Err(no);
    }
    let blocking = node.clone();
    let forgotten = tokio::task::spawn_blocking(move || {
        let members: Vec<Member> = {
            let core = blocking.lock();
            core.members.iter().map(|m| m.known.clone()).collect()
        };
        notify_members(&blocking.identity(), &blocking.farm.node, &members);
        mfs::end(&blocking);
        // Those of a lost home may be its only ones.
        if kept_here(&blocking, None, None)
            .iter()
            .all(|k| k.home_alive)
        {
            blocking.state.forget_kept();
        }
        blocking.state.forget()
    });
    let failed = |e: String| {
        refusal(
            "failed",
            e,
            "see the state directory, then `armento leave` again",
        )
    };
    let forgotten = forgotten.await.map_err(|e| failed(e.to_string()))?;
    forgotten.map_err(|e| failed(e.to_string()))?;
    node.stop.send_replace(true);
    Ok(Answer::Done)
}

/// To a host, by a node that leaves.
pub fn expel_order() -> Order {
    Order::Expel {
        why: String::new(),
        stay: Stay::NotTrusted,
        for_ms: HOMEWARD.as_millis() as u64,
    }
}

async fn send_home(node: &Node) -> Result<(), Refusal> {
    let ordered = Instant::now();
    {
        let mut core = node.lock();
        let ticket = core.next_number();
        for keeper in core.keepers.all() {
            keeper.out.send(0, Body::Order(Order::Recall { ticket }));
        }
        for host in core.hosts.senders() {
            host.send(0, Body::Order(expel_order()));
        }
    }
    let until = Instant::now() + HOMEWARD;
    loop {
        let (away, guests, unreported) = {
            let core = node.lock();
            let away = core.keepers.procs().filter(|p| p.place != core.me).count();
            let unreported = core.hosts.unreported(ordered, HELLO_MAX);
            (away, core.hosts.guests().count(), unreported)
        };
        if away + guests + unreported == 0 {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(refusal(
                "busy",
                format!(
                    "{away} processes are not home, {guests} guests not gone yet, {unreported} hosts silent; this node stays in the farm"
                ),
                "see `armento ps`; end or move them, then leave again",
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Says goodbye to `members`, all at once.
fn notify_members(me: &Identity, my_name: &NodeName, members: &[Member]) {
    std::thread::scope(|s| {
        for m in members.iter().filter(|m| m.name != *my_name).take(TOLD_MAX) {
            s.spawn(move || {
                if let Err(e) = peer::call(me, &m.name, m.addr, &PeerAsk::Left, TELL) {
                    tracing::info!("telling {}: {e}", m.name);
                }
            });
        }
    });
}

/// `armento leave` when no daemon runs here: there is no process to bring home.
pub fn leave_without_daemon(config: &Config) -> Result<NodeName, FarmError> {
    let dir = StateDir::new(config.state_dir());
    let farm = dir.farm()?;
    let _lock = dir.lock()?;
    let me = dir
        .keys(&farm)?
        .sign_short(&Badge::daemon(&farm.node), Duration::ZERO)
        .map_err(FarmError::Keys)?;
    notify_members(&me, &farm.node, &dir.roster()?);
    mfs::end_without_daemon(&dir);
    dir.forget()?;
    Ok(farm.node)
}

/// Deletes what this node keeps of programs of other homes, which may be all that is left of them.
pub fn forget_kept(config: &Config) {
    StateDir::new(config.state_dir()).forget_kept();
}

/// The name of this node, and whether `leave_without_daemon` would take it out: no daemon runs.
pub fn plan_leave(config: &Config) -> Result<NodeName, FarmError> {
    let dir = StateDir::new(config.state_dir());
    let farm = dir.farm()?;
    let _lock = dir.lock()?;
    Ok(farm.node)
}

/// True when no node can join the farm once this one has left it: it holds the farm's key, and
/// other members remain. False also when this user may not look.
pub fn takes_the_key(config: &Config) -> bool {
    let dir = StateDir::new(config.state_dir());
    let others = dir.farm().and_then(|farm| {
        let roster = dir.roster()?;
        Ok(roster.iter().any(|m| m.name != farm.node))
    });
    dir.farm_keys().is_ok() && others.unwrap_or(false)
}
