//! Whether a tree of another home may come, and the host that takes it.
//!
//! From: a keeper's `Ask::Route`, through its daemon. Next: `noded/src/work/start_host.rs`.

use super::start_host::{START, start};
use super::target::check_kernel;
use crate::error::{refusal, stays};
use crate::hosts::{Record, Stage, clean_up};
use crate::peer::{AdmitAsk, PeerAnswer};
use crate::state::{Core, Node};
use armento_balance::{Need, admit as weigh};
use armento_client::api::Refusal;
use armento_client::engine;
use armento_model::{NodeName, Stay, common_engine};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Hosts at once; each is a process with an identity of its own.
const HOSTS_MAX: usize = 4096;

/// Takes in a tree of `home`'s, or says why not. Blocks while a host starts.
pub fn admit_guests(
    node: &Arc<Node>,
    home: &NodeName,
    ask: &AdmitAsk,
) -> Result<PeerAnswer, Refusal> {
    let guest_uid = {
        let mut core = node.lock();
        consider(node, &mut core, home, ask)?;
        let until = Instant::now() + START;
        loop {
            match core.hosts.stage(home, ask.tree) {
                None => break,
                Some(Stage::Up(r)) if r.lives() => return Ok(answer(node, r)),
                Some(Stage::Up(r)) => {
                    // The daemon that started it may clean up as well.
                    clean_up(&node.state, r);
                    core.hosts.remove(home, ask.tree);
                    break;
                }
                Some(Stage::Starting { .. }) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(failed(node, "its host takes too long to start"));
                    }
                    let wait = node.hosts_changed.wait_timeout(core, left);
                    core = wait.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        if core.hosts.count() >= HOSTS_MAX {
            return Err(failed(node, "it has too many hosts"));
        }
        let guest_uid = core.hosts.free_uid();
        core.hosts.starting(home, ask.tree, guest_uid);
        guest_uid
    };
    let result = start(node, home, ask, guest_uid);
    let mut core = node.lock();
    match &result {
        Ok(record) => core.hosts.put(record.clone(), false),
        Err(_) => {
            core.hosts.remove(home, ask.tree);
            core.ledger.unexpect(home, ask.pid);
        }
    }
    drop(core);
    node.hosts_changed.notify_all();
    let record = result.map_err(|no| {
        tracing::warn!("no host for {home} tree {}: {}", ask.tree, no.detail);
        let subject = format!("the process (wanted on {})", node.farm.node);
        stays(&subject, no.stay, &no.detail)
    })?;
    Ok(answer(node, &record))
}

fn answer(node: &Node, r: &Record) -> PeerAnswer {
    PeerAnswer::Admitted {
        // Where this node is now: the host may have been started elsewhere.
        addr: SocketAddr::new(node.addr().ip(), r.addr.port()),
        plain: r.plain,
        engine: engine(),
    }
}

fn failed(node: &Node, why: &str) -> Refusal {
    let subject = format!("the process (wanted on {})", node.farm.node);
    stays(&subject, Stay::TargetFailed, why)
}

/// Trust first, then room.
fn consider(node: &Node, core: &mut Core, home: &NodeName, ask: &AdmitAsk) -> Result<(), Refusal> {
    let me = &node.farm.node;
    let no = |stay| Err(stays("the process", stay, &format!("says {me}")));
    if core.leaving {
        return Err(refusal(
            "leaving",
            format!("{me} is leaving the farm"),
            "choose another node",
        ));
    }
    if let Some(what) = core.switches.keeps_out() {
        return Err(stays(
            "the process",
            Stay::SwitchedOff,
            &core.switches.shut_message(me, what),
        ));
    }
    let trust = node.trust();
    // `home` is that of the certificate. It vouches for its users; its keepers' certificates must say the same.
    if core.draining.contains_key(home) || !trust.lists(home).has(ask.uid) {
        let why = format!("accept_from of {me} leaves out user {} of {home}", ask.uid);
        return Err(stays("the process", Stay::NotTrusted, &why));
    }
    if ask.uid == 0 && !trust.allow_root {
        return no(Stay::Privileged);
    }
    let other = core.hosts.owner_of(home, ask.tree);
    if other.is_some_and(|uid| uid != ask.uid) {
        let why = format!("{home} said before that this tree is another user's");
        return Err(stays("the process", Stay::NotTrusted, &why));
    }
    if common_engine(ask.engine, engine()).is_none() {
        let which = format!("{me} runs engine {}, the process {}", engine(), ask.engine);
        return Err(stays("the process", Stay::EngineVersion, &which));
    }
    check_kernel("the process", me)?;
    let need = Need {
        rss_kib: ask.need_kib,
        cpu: None,
        load_there: None,
    };
    let view = node.alone(core);
    if let Err(stay) = weigh(&view, &node.policy, &need) {
        return no(stay);
    }
    let now = node.now();
    core.ledger.expect(home, ask.pid, ask.need_kib, now);
    Ok(())
}
