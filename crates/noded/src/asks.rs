//! Answers to what commands, keepers and hosts ask.

use crate::control::Client;
use crate::core::{Core, Node, Outlet};
use crate::error::{refusal, stays};
use crate::moves::{Wants, migrate, no_such_node, route};
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::{clocks, daemon, leave, remove, yama};
use armento_balance::{barred, common, why};
use armento_client::api::{Answer, Ask, Body, KeeperHello, Order, ProcInfo, Refusal};
use armento_client::version;
use armento_link::{Badge, Role};
use armento_model::{NodeName, Pid, Stay};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// Another daemon's answer to a plain question.
const PEER: Duration = Duration::from_secs(3);

pub type Result<T> = std::result::Result<T, Refusal>;

/// Who asks something that takes time.
pub struct Asker {
    pub node: Arc<Node>,
    pub session: u64,
    pub uid: u32,
}

pub fn may(uid: u32, owner: u32) -> bool {
    uid == 0 || uid == owner
}

/// Answers that need nobody else; `None` for the others.
pub fn at_once(client: &Client, ask: &Ask) -> Option<Result<Answer>> {
    let node = &client.node;
    Some(match ask {
        Ask::Nodes => Ok(Answer::Nodes {
            nodes: node.nodes(),
        }),
        Ask::Ps { all: false } => Ok(Answer::Ps {
            procs: node.lock().procs(seen_by(client.uid)),
        }),
        Ask::Why { pid } => explain(node, client.uid, *pid),
        Ask::Status => Ok(Answer::Status {
            node: node.farm.node.clone(),
            farm: node.farm.farm.clone(),
            version: daemon::version(),
            joined: true,
        }),
        Ask::Log { after, count } => {
            let uid = seen_by(client.uid);
            let core = node.lock();
            let entries = core.keepers.log.since(*after, *count as usize, uid);
            Ok(Answer::Log { entries })
        }
        Ask::Common => Ok(in_common(node)),
        Ask::Keep(hello) => keep(client, hello),
        Ask::Host(hello) => {
            let out = client.out.clone();
            let mut core = node.lock();
            let leaving = core.leaving.then(|| out.clone());
            to_come(&out);
            let known = core.hosts.enter(hello, client.pid, client.session, out);
            if let Some(out) = leaving.filter(|_| known) {
                out.send(0, Body::Order(leave::expel()));
            }
            if known && core.hosts.was_there(client.session) {
                // Of those that were removed meanwhile one is enough: it renews what it knows of all.
                let gone = core.removed(&node.news()).pop_first();
                gone.map(|node| client.out.send(0, Body::Order(Order::Cut { node })));
            }
            known.then_some(Answer::Done).ok_or_else(|| {
                refusal(
                    "not-trusted",
                    "this daemon did not start this host",
                    "it ends by itself",
                )
            })
        }
        Ask::Identity => identity(client),
        Ask::Address { node: name } => {
            let addr = node.lock().addr_of(name);
            Ok(Answer::Address {
                ip: addr.map(|a| a.ip()),
                port: addr.map(|a| a.port()),
            })
        }
        Ask::Trust { change } => {
            let changes = change.as_ref().is_some_and(|c| !c.dry_run);
            if changes && !may(client.uid, crate::sys::euid()) {
                let who = "only root, or the daemon's own user, changes whom a node trusts";
                return Some(Err(refusal("not-trusted", who, "use sudo")));
            }
            node.change_trust(change.as_ref()).map(Answer::Trust)
        }
        Ask::Switch { change } => {
            if change.is_some() && !may(client.uid, crate::sys::euid()) {
                let who = "only root, or the daemon's own user, switches a node on and off";
                return Some(Err(refusal("not-trusted", who, "use sudo")));
            }
            node.switch(change.as_ref()).map(Answer::Switches)
        }
        Ask::Reload => {
            if !may(client.uid, crate::sys::euid()) {
                let who = "only root, or the daemon's own user, has the configuration read again";
                return Some(Err(refusal("not-trusted", who, "use sudo")));
            }
            let failed = |e: crate::FarmError| {
                let what = format!("{e}; what held before holds");
                refusal("bad-configuration", what, e.hint())
            };
            node.reload().map(Answer::Trust).map_err(failed)
        }
        Ask::Ps { all: true } | Ask::Migrate { .. } | Ask::Leave | Ask::Remove { .. } => {
            return None;
        }
        Ask::AllowKeeper { keeper } => yama::allow_keeper(client, *keeper),
        Ask::Place { .. } | Ask::Route { .. } | Ask::LetTrace { .. } | Ask::ToCome => return None,
    })
}

/// Answers that need other nodes, keepers, or time.
pub async fn in_time(asker: &Asker, ask: Ask) -> Result<Answer> {
    match ask {
        Ask::Ps { .. } => everywhere(asker).await,
        Ask::Migrate { pid, to } => migrate(asker, pid, to).await,
        Ask::Route {
            tree,
            pid,
            node,
            need_kib,
            engine,
            portable,
        } => {
            let wants = Wants {
                tree,
                pid,
                need_kib,
                engine,
                portable,
            };
            route(asker, wants, node).await
        }
        Ask::LetTrace { pid } => yama::let_trace(asker, pid).await,
        Ask::Leave => {
            if !may(asker.uid, crate::sys::euid()) {
                let who = "only root, or the daemon's own user, takes a node out of its farm";
                return Err(refusal("not-trusted", who, "use sudo"));
            }
            leave::leave(&asker.node).await
        }
        Ask::Remove { node, now } => remove::remove(asker, node, now).await,
        _ => Err(refusal(
            "unknown-question",
            "this cannot be answered",
            "update Armento on this node",
        )),
    }
}

/// What `--portable` starts with.
fn in_common(node: &Node) -> Answer {
    let view = node.view(&mut node.lock());
    let own = view
        .own()
        .map(|own| own.entry.cpu.clone())
        .unwrap_or_default();
    let cpu = common(&view).unwrap_or_else(|| own.clone());
    let hwcaps = own.hwcaps_off(&cpu);
    let cpu = own.portable(&cpu);
    Answer::Common { cpu, hwcaps }
}

/// Root sees everybody's.
fn seen_by(uid: u32) -> Option<u32> {
    (uid != 0).then_some(uid)
}

fn keep(client: &Client, hello: &KeeperHello) -> Result<Answer> {
    if !may(client.uid, hello.uid) {
        let what = "a keeper may speak for its own user only";
        return Err(refusal("not-trusted", what, "start it as that user"));
    }
    let mut core = client.node.lock();
    let other = core
        .keepers
        .all()
        .any(|k| k.hello.tree == hello.tree && k.hello.uid != hello.uid);
    if other {
        let what = "this tree is another user's";
        return Err(refusal("not-trusted", what, "start it again"));
    }
    if let Some(held) = core.keepers.held_above(hello) {
        let what = format!("process {held} has a keeper, which keeps what it starts, too");
        return Err(refusal("held", what, "armento migrate moves it"));
    }
    if hello.was_there() {
        core.awaited.came(client.pid.unwrap_or(0));
        // What the daemon before us could not tell any more.
        for node in core.removed(&client.node.news()) {
            client.out.send(0, Body::Order(Order::Cut { node }));
        }
    }
    let out = client.out.clone();
    to_come(&out);
    let hello = KeeperHello {
        // Its work counts as the farm's: that of no other process.
        keeper: client.pid.unwrap_or(hello.keeper),
        ..hello.clone()
    };
    core.keepers.enter(client.session, hello, out);
    // Who waits for somebody to decide about.
    client.node.freed.notify_one();
    Ok(Answer::Done)
}

/// What a keeper or host of today must pass over.
fn to_come(out: &Outlet) {
    if version::is_to_come() {
        out.send(0, Body::Order(Order::ToCome));
    }
}

/// A new identity for the keeper or host of this session; it can have that of no other.
fn identity(client: &Client) -> Result<Answer> {
    let node = &client.node;
    let (role, tree) = {
        let core = node.lock();
        let keeper = core.keepers.of_session(client.session);
        let keeper = keeper.map(|k| (Role::Keeper, (k.hello.tree, k.hello.uid)));
        keeper.or_else(|| {
            let host = core.hosts.of_session(client.session)?;
            Some((Role::Host, (host.tree, host.uid)))
        })
    }
    .ok_or_else(|| {
        let what = "only a keeper or host that said hello has an identity";
        refusal("not-trusted", what, "say hello first")
    })?;
    let badge = Badge {
        node: node.farm.node.clone(),
        tree: Some(tree),
        role,
    };
    let signed = node.short(&badge);
    let identity = signed.map_err(|e| stays("the tree", Stay::LinkLost, &e.to_string()))?;
    Ok(Answer::Identity { identity })
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

fn explain(node: &Node, uid: u32, pid: Pid) -> Result<Answer> {
    let now = node.now();
    let mut core = node.lock();
    let view = node.view(&mut core);
    let me = core.me.clone();
    let held = core.keepers.holder(pid).filter(|k| may(uid, k.hello.uid));
    let Some(keeper) = held else {
        owner_of(pid)
            .filter(|o| may(uid, *o))
            .ok_or_else(|| no_such(pid))?;
        return Ok(Answer::Why {
            pid,
            place: Some(me),
            stay: None,
            explanation: "it was not started by `armento run`, so nothing moves it by itself"
                .into(),
            remedy: format!("armento migrate {pid} NODE moves it"),
            detail: String::new(),
            partner: None,
        });
    };
    let proc = keeper.holds(pid);
    let place = proc.map_or_else(|| me.clone(), |p| p.place.clone());
    let out = proc.and_then(|p| Some((p, p.lost_ms?)));
    let own = out
        .map(|_| Stay::LinkLost)
        .or_else(|| proc.and_then(|p| p.stay));
    let root = keeper.hello.uid == 0 && !node.trust().allow_root;
    let kept = core.switches.keeps_home().filter(|_| place == me);
    let stay = match own {
        Some(stay) => Some(stay),
        None if root => Some(Stay::Privileged),
        None if proc.is_some_and(|p| p.locked) => Some(Stay::Locked),
        None if kept.is_some() => Some(Stay::SwitchedOff),
        None => why(&view, &node.policy, pid, now),
    };
    // Who takes no guests refuses as those do who do not trust us.
    let shut = shut_out(&core, keeper.hello.uid).filter(|_| stay == Some(Stay::NotTrusted));
    let stay = stay.map(|s| if shut.is_some() { Stay::SwitchedOff } else { s });
    // So do those whose clocks are apart from ours.
    let apart =
        clocks::all_apart(&core).filter(|_| own.is_none() && stay == Some(Stay::NotTrusted));
    let stay = stay.map(|s| {
        if apart.is_some() {
            Stay::ClocksApart
        } else {
            s
        }
    });
    let (explanation, remedy) = match stay {
        Some(stay) => (stay.explain().to_owned(), stay.remedy().to_owned()),
        None => (
            "it is about to move, or was just started".into(),
            "nothing is wrong: ask again".into(),
        ),
    };
    // What processors lack is known of all; what the keeper knows more of is its own reason.
    let lacks = |to: &NodeName| {
        let (_, missing) = barred(&view, to, keeper.needs(pid).as_ref())?;
        Some(lacking(to, &missing))
    };
    let others = view.nodes.iter().map(|node| &node.entry.node);
    let all_lack: Vec<String> = match stay {
        Some(Stay::CpuFeatures) => others.filter_map(lacks).collect(),
        _ => Vec::new(),
    };
    let (detail, partner) = match (out, proc.filter(|_| own.is_some())) {
        (Some((p, ms)), _) => (lost(p, ms, node.config.dead_ms), None),
        _ if !all_lack.is_empty() => (all_lack.join("; "), None),
        (None, Some(p)) => (p.detail.clone(), p.partner),
        (None, None) => {
            let kept = kept.map(|what| format!("{me} keeps its own (armento farm {what})"));
            (kept.or(shut).or(apart).unwrap_or_default(), None)
        }
    };
    Ok(Answer::Why {
        pid,
        place: Some(place),
        stay,
        explanation,
        remedy,
        detail,
        partner,
    })
}

/// The nodes that said they take no guests, where nobody said anything worse to this user.
fn shut_out(core: &Core, uid: u32) -> Option<String> {
    let said = core.refused.iter().filter(|((_, who), _)| *who == uid);
    let names: Option<Vec<&str>> = said
        .map(|((node, _), (_, stay))| (*stay == Stay::SwitchedOff).then(|| node.as_str()))
        .collect();
    let names = names.filter(|names| !names.is_empty())?;
    Some(format!("no guests at {}", names.join(", ")))
}

/// For people: what a node's processor has not.
pub fn lacking(node: &NodeName, missing: &[String]) -> String {
    format!("{node} lacks {}", missing.join(" "))
}

fn lost(p: &ProcInfo, ms: u64, dead_ms: u64) -> String {
    let state = match p.frozen {
        true => "it is frozen there",
        false => "it goes on when the link does",
    };
    let (for_s, dead_s) = (ms / 1000, dead_ms / 1000);
    let node = &p.place;
    format!(
        "nothing was heard from {node} for {for_s} s: {state}; home declares it dead at {dead_s} s"
    )
}

/// Asks another daemon, off the daemon's own thread.
pub async fn call(
    node: &Arc<Node>,
    to: &NodeName,
    ask: PeerAsk,
    timeout: Duration,
) -> std::result::Result<PeerAnswer, CallError> {
    let addr = node.lock().addr_of(to);
    let (node, to) = (node.clone(), to.clone());
    let Some(addr) = addr else {
        return Err(CallError::Refused(no_such_node(&node, &to)));
    };
    let asked = tokio::task::spawn_blocking(move || {
        let lines = &node.lines;
        lines.call(&node, (&to, addr), &ask, timeout)
    });
    match asked.await {
        Ok(answer) => answer,
        Err(e) => Err(CallError::Line(std::io::Error::other(e).into())),
    }
}

/// Processes of the whole farm. Nodes that do not answer are left out: `nodes` shows which.
async fn everywhere(asker: &Asker) -> Result<Answer> {
    let uid = seen_by(asker.uid);
    let (mut procs, peers) = {
        let core = asker.node.lock();
        (core.procs(uid), core.peers())
    };
    // Numbers of users are each node's own: who has another name there is another person.
    let name = match uid {
        Some(uid) => {
            let name = tokio::task::spawn_blocking(move || crate::sys::name_of(uid)).await;
            // A number without a name is one everywhere.
            Some(name.ok().flatten().unwrap_or_default())
        }
        None => None,
    };
    let mut asked = tokio::task::JoinSet::new();
    for peer in peers {
        let node = asker.node.clone();
        let ask = PeerAsk::Ps {
            uid,
            name: name.clone(),
        };
        asked.spawn(async move { (call(&node, &peer, ask, PEER).await, peer) });
    }
    while let Some(done) = asked.join_next().await {
        match done {
            Ok((Ok(PeerAnswer::Ps { procs: theirs }), peer)) => {
                // A node speaks for its own processes only.
                let honest = |p: &ProcInfo| p.home == peer && uid.is_none_or(|u| u == p.uid);
                procs.extend(theirs.into_iter().filter(honest));
            }
            Ok((Err(e), peer)) => tracing::info!("ps of {peer}: {e}"),
            _ => {}
        }
    }
    Ok(Answer::Ps { procs })
}
