//! A keeper asks for the way to a node: a host there, and keys.
//!
//! From: `noded/src/control/requests.rs`. Next: `noded/src/work/admit.rs`, on the other node.

use super::admit::admit_guests;
use super::clocks;
use super::target::check_target;
use crate::config::Wire;
use crate::dfsa;
use crate::error::{Result, refusal, stays};
use crate::keepers::{Keeper, needs};
use crate::peer::{AdmitAsk, CallError, PeerAnswer, PeerAsk};
use crate::state::{Asker, Node, call};
use armento_client::api::{Answer, CpuSet, Pass, Refusal};
use armento_link::{Badge, Identity, Role};
use armento_model::{HomePid, NodeName, Pid, Stay, TreeId, common_engine};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Another daemon's answer when it starts a host.
const ADMIT: Duration = Duration::from_secs(12);
/// A target that did not trust us is not tried again for so long.
const REFUSED: Duration = Duration::from_secs(60);
/// A node that takes no guests is asked again after this: it does not announce that it takes some again.
const SHUT: Duration = Duration::from_secs(15);
/// Refusals that are remembered.
const REFUSED_MAX: usize = 4096;

/// What a keeper wants to take elsewhere.
#[derive(Clone, Copy)]
pub struct Wants {
    pub tree: TreeId,
    pub pid: Pid,
    pub need_kib: u64,
    /// The keeper's.
    pub engine: u32,
    /// It was told to use only what is common.
    pub portable: bool,
}

/// A keeper wants to go to `target`: ask it for a host, hand out keys.
pub async fn find_route(asker: &Asker, wants: Wants, target: NodeName) -> Result<Answer> {
    let (node, pid) = (&asker.node, wants.pid);
    let (uid, needs) = {
        let core = node.lock();
        let keeper = core.keepers.of_session(asker.session);
        let own = keeper.filter(|k| k.hello.tree == wants.tree);
        let of = |k: &Keeper| (k.hello.uid, needs(&k.hello, wants.portable));
        own.map(of).ok_or_else(|| {
            refusal(
                "not-trusted",
                "a keeper asks for its own tree only",
                "say hello first",
            )
        })?
    };
    let now = node.now();
    node.lock().ledger.flies_to(pid, &target, now);
    let passed = pass(node, wants, (uid, needs.as_ref()), &target).await;
    if let Err(no) = &passed {
        let stay = Stay::ALL.iter().find(|s| s.code() == no.code);
        let stay = stay.copied().unwrap_or(Stay::LinkLost);
        let now = node.now();
        let mut core = node.lock();
        if let Some(wait) = unwanted(stay)
            && core.refused.len() < REFUSED_MAX
        {
            let until = Instant::now() + wait;
            core.refused.insert((target, uid), (until, stay));
        }
        core.ledger.stayed(pid, stay, now);
    }
    passed.map(Answer::Route)
}

/// How long a target that says so is not tried again.
fn unwanted(stay: Stay) -> Option<Duration> {
    match stay {
        Stay::NotTrusted => Some(REFUSED),
        Stay::SwitchedOff => Some(SHUT),
        _ => None,
    }
}

/// The two daemons are of versions that do not understand each other.
fn is_of_versions(no: &Refusal) -> bool {
    matches!(no.code.as_str(), "version-mismatch" | "unknown-question")
}

/// A body that was lost with its node can be built again on its home.
async fn admit_here(node: &Arc<Node>, ask: AdmitAsk) -> std::result::Result<PeerAnswer, CallError> {
    let node = node.clone();
    let admits = move || admit_guests(&node, &node.farm.node, &ask);
    let done = tokio::task::spawn_blocking(admits).await;
    match done {
        Ok(admitted) => admitted.map_err(CallError::Refused),
        Err(e) => Err(CallError::Link(std::io::Error::other(e).into())),
    }
}

async fn pass(
    node: &Arc<Node>,
    wants: Wants,
    (uid, needs): (u32, Option<&CpuSet>),
    target: &NodeName,
) -> Result<Pass> {
    let Wants { tree, pid, .. } = wants;
    let subject = format!("process {pid}");
    let own = *target == node.farm.node;
    if !own {
        check_target(node, &subject, (uid, needs), target)?;
        clocks::near(node, &subject, target).await?;
    }
    let ask = AdmitAsk {
        tree,
        pid: HomePid::of_home(pid),
        uid,
        need_kib: wants.need_kib,
        engine: wants.engine,
    };
    let admitted = match own {
        true => admit_here(node, ask).await,
        false => call(node, target, PeerAsk::Admit(ask), ADMIT).await,
    };
    let (addr, plain, engine) = match admitted {
        Ok(PeerAnswer::Admitted {
            addr,
            plain,
            engine,
        }) => match common_engine(engine, wants.engine) {
            Some(common) => (addr, plain, common),
            None => {
                let which = format!(
                    "{target} runs engine {engine}, the process {}",
                    wants.engine
                );
                return Err(stays(&subject, Stay::EngineVersion, &which));
            }
        },
        Ok(_) => {
            let which = format!("{target} gives another answer");
            return Err(stays(&subject, Stay::EngineVersion, &which));
        }
        Err(CallError::Refused(no)) if is_of_versions(&no) => {
            return Err(stays(&subject, Stay::EngineVersion, &no.message));
        }
        Err(CallError::Refused(no)) => return Err(no),
        Err(e) => return Err(stays(&subject, Stay::LinkLost, &format!("{target}: {e}"))),
    };
    let badge = |node: &NodeName, role| Badge {
        node: node.clone(),
        tree: Some((tree, uid)),
        role,
    };
    // The listening side decides; a home that insists on TLS does not speak plainly.
    let identity = match (plain, node.wire) {
        (true, Wire::Plain) => Identity::Plain,
        (false, Wire::Tls) => node
            .short(&badge(&node.farm.node, Role::Keeper))
            .map_err(|e| stays(&subject, Stay::LinkLost, &e.to_string()))?,
        _ => {
            let how = format!("{target} speaks another wire (tls, plain) than this node");
            return Err(stays(&subject, Stay::NotTrusted, &how));
        }
    };
    Ok(Pass {
        node: target.clone(),
        addr: addr.to_string(),
        identity,
        expect: badge(target, Role::Host),
        freeze_ms: node.config.freeze_ms,
        dead_ms: node.config.dead_ms,
        dfsa: dfsa::declared(node),
        engine,
    })
}
