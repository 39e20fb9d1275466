//! Moves that somebody asked for: commands (`migrate`) and keepers (`route`).

use crate::asks::{Asker, Result, call, lacking, may, no_such, owner_of};
use crate::clocks;
use crate::core::Node;
use crate::enforce::REFUSED;
use crate::error::{refusal, stays};
use crate::keepers::{Keeper, needs};
use crate::log::Decided;
use crate::peer::{AdmitAsk, CallError, PeerAnswer, PeerAsk};
use armento_balance::barred;
use armento_client::api::{Answer, CpuSet, Dest, Order, Pass, Refusal};
use armento_link::{Badge, Identity, Role};
use armento_model::{KERNEL_MIN, NodeName, Pid, Stay, TreeId, kernel_version};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A move that has not ended by then is no longer waited for; it may still end well.
const MOVE: Duration = Duration::from_secs(120);
/// Another daemon's answer when it starts a host.
const ADMIT: Duration = Duration::from_secs(12);

/// A node that takes no guests is asked again: whether it takes some again it tells nobody.
const SHUT: Duration = Duration::from_secs(15);
/// Refusals that are remembered.
const REFUSED_MAX: usize = 4096;

pub fn no_such_node(node: &Node, name: &NodeName) -> Refusal {
    let core = node.lock();
    let names: Vec<String> = core.peers().iter().map(|n| n.to_string()).collect();
    let hint = if names.is_empty() {
        "this farm has no other living node; see `armento nodes`".into()
    } else {
        format!("living nodes: {} (see `armento nodes`)", names.join(", "))
    };
    let what = if core.members.contains_key(name) {
        format!("node `{name}` is down; nothing was changed")
    } else {
        format!("the farm has no node `{name}`; nothing was changed")
    };
    refusal("no-such-node", what, hint)
}

/// A node that exists, lives, and that this home sends to.
fn check_target(
    node: &Node,
    subject: &str,
    (uid, needs): (u32, Option<&CpuSet>),
    to: &NodeName,
) -> Result<()> {
    let mut core = node.lock();
    if core.leaving {
        return Err(refusal(
            "leaving",
            "this node is leaving the farm",
            "use another node",
        ));
    }
    if !core.members.get(to).is_some_and(|m| m.is_up()) {
        drop(core);
        return Err(no_such_node(node, to));
    }
    let (trust, me) = (node.trust(), &node.farm.node);
    if core.switches.stopped() {
        let why = format!("{me} keeps its own (armento farm stop)");
        return Err(stays(subject, Stay::SwitchedOff, &why));
    }
    if uid == 0 && !trust.allow_root {
        return Err(stays(subject, Stay::Privileged, "uid 0"));
    }
    if core.draining.contains_key(to) {
        let why = format!("{to} is being removed from the farm");
        return Err(stays(subject, Stay::NotTrusted, &why));
    }
    if !trust.sends_to(to).has(uid) {
        let why = format!("send_to of {me} leaves out {to} for user {uid}");
        return Err(stays(subject, Stay::NotTrusted, &why));
    }
    check_kernel(subject, &node.farm.node)?;
    let view = node.view(&mut core);
    match barred(&view, to, needs) {
        Some((stay, missing)) => Err(stays(subject, stay, &lacking(to, &missing))),
        None => Ok(()),
    }
}

/// Both ends need a kernel that the engine can use.
pub fn check_kernel(subject: &str, me: &NodeName) -> Result<()> {
    let release = crate::sys::kernel_release();
    if kernel_version(&release) >= KERNEL_MIN {
        return Ok(());
    }
    let which = format!("{me} has {release}");
    Err(stays(subject, Stay::KernelTooOld, &which))
}

pub async fn migrate(asker: &Asker, pid: Pid, to: Dest) -> Result<Answer> {
    let node = &asker.node;
    let me = node.farm.node.clone();
    let to = match to {
        Dest::Node(n) if n == me => Dest::Home,
        to => to,
    };
    let (tree, owner, needs) = {
        let core = node.lock();
        let held = core.keepers.holder(pid);
        match held.filter(|k| may(asker.uid, k.hello.uid)) {
            Some(k) => (k.hello.tree, k.hello.uid, k.needs(pid)),
            None => return Err(unheld(asker.uid, pid)),
        }
    };
    if let Dest::Node(target) = &to {
        let whose = (owner, needs.as_ref());
        check_target(node, &format!("process {pid}"), whose, target)?;
    }
    let (waiter, ended) = oneshot::channel();
    let told = {
        let now = node.now();
        let mut core = node.lock();
        let ticket = core.next();
        match &to {
            Dest::Node(target) => core.ledger.flies_to(pid, target, now),
            Dest::Home | Dest::Hold => core.ledger.flies_to(pid, &me, now),
            Dest::Balance => {}
        }
        let free = to == Dest::Balance;
        let order = Order::Move {
            pid,
            to,
            ticket,
            balances: false,
            by_hand: true,
        };
        let waits = (!free).then_some(waiter);
        let target = match &order {
            Order::Move {
                to: Dest::Node(node),
                ..
            } => node.clone(),
            _ => me.clone(),
        };
        let told = core.keepers.order(tree, pid, ticket, order, waits);
        if told && !free {
            let asked = Decided::ordered("asked", ticket);
            core.keepers.note(pid, &me, &target, asked);
        }
        if told && free {
            return Ok(Answer::Done);
        }
        told
    };
    if !told {
        let what = format!("the keeper of process {pid} does not listen; nothing was moved");
        return Err(refusal("busy", what, "try again"));
    }
    match tokio::time::timeout(MOVE, ended).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(no_such(pid)),
        Err(_) => Err(refusal(
            "late",
            format!(
                "the move of process {pid} has not ended after {} s; it goes on",
                MOVE.as_secs()
            ),
            "armento ps shows where it is",
        )),
    }
}

/// Not held by a keeper: the caller may fork one, if the process is its user's.
fn unheld(uid: u32, pid: Pid) -> Refusal {
    match owner_of(pid) {
        Some(owner) if may(uid, owner) => refusal(
            "not-held",
            format!("process {pid} has no keeper yet; nothing was moved"),
            "start it with `armento run`",
        ),
        _ => no_such(pid),
    }
}

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
pub async fn route(asker: &Asker, wants: Wants, target: NodeName) -> Result<Answer> {
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

/// The other daemon is too old for ours, or ours for it.
fn is_of_versions(no: &Refusal) -> bool {
    matches!(no.code.as_str(), "version-mismatch" | "unknown-question")
}

async fn pass(
    node: &Arc<Node>,
    wants: Wants,
    (uid, needs): (u32, Option<&CpuSet>),
    target: &NodeName,
) -> Result<Pass> {
    let Wants { tree, pid, .. } = wants;
    let subject = format!("process {pid}");
    check_target(node, &subject, (uid, needs), target)?;
    clocks::near(node, &subject, target).await?;
    let ask = PeerAsk::Admit(AdmitAsk {
        tree,
        pid,
        uid,
        need_kib: wants.need_kib,
        engine: wants.engine,
    });
    let (addr, plain) = match call(node, target, ask, ADMIT).await {
        Ok(PeerAnswer::Admitted {
            addr,
            plain,
            engine,
        }) if engine == wants.engine => (addr, plain),
        Ok(_) => {
            let which = format!("{target} does not run engine {}", wants.engine);
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
        (true, crate::Wire::Plain) => Identity::Plain,
        (false, crate::Wire::Tls) => node
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
    })
}
