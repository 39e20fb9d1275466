//! Answers to what commands, keepers and hosts ask.

use crate::control::Client;
use crate::core::Node;
use crate::error::{refusal, stays};
use crate::peer::{self, AdmitAsk, CallError, PeerAnswer, PeerAsk};
use crate::{daemon, leave};
use armento_balance::why;
use armento_client::api::{Answer, Ask, Dest, KeeperHello, Order, Pass, ProcInfo, Refusal};
use armento_link::{Badge, Identity, Role};
use armento_model::{NodeName, Pid, Stay, TreeId};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A move that has not ended by then is no longer waited for; it may still end well.
const MOVE: Duration = Duration::from_secs(120);
/// Another daemon's answer to a plain question.
const PEER: Duration = Duration::from_secs(3);
/// … and to one that starts a host there.
const ADMIT: Duration = Duration::from_secs(12);

type Result<T> = std::result::Result<T, Refusal>;

/// Who asks something that takes time.
pub struct Asker {
    pub node: Arc<Node>,
    pub session: u64,
    pub uid: u32,
}

fn may(uid: u32, owner: u32) -> bool {
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
            version: daemon::VERSION.into(),
            joined: true,
        }),
        Ask::Keep(hello) => keep(client, hello),
        Ask::Host(hello) => {
            let out = client.out.clone();
            let known = node
                .lock()
                .hosts
                .enter(hello, client.pid, client.session, out);
            known.then_some(Answer::Done).ok_or_else(|| {
                refusal(
                    "not-trusted",
                    "this daemon did not start this host",
                    "it ends by itself",
                )
            })
        }
        Ask::Ps { all: true } | Ask::Migrate { .. } | Ask::Leave => return None,
        Ask::Place { .. } | Ask::Route { .. } => return None,
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
        } => route(asker, tree, pid, node, need_kib).await,
        Ask::Leave => {
            if !may(asker.uid, crate::sys::euid()) {
                let who = "only root, or the daemon's own user, takes a node out of its farm";
                return Err(refusal("not-trusted", who, "use sudo"));
            }
            leave::leave(&asker.node).await
        }
        _ => Err(refusal(
            "unknown-question",
            "this cannot be answered",
            "update Armento on this node",
        )),
    }
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
    let out = client.out.clone();
    core.keepers.enter(client.session, hello.clone(), out);
    Ok(Answer::Done)
}

/// The owner of a process of this machine.
fn owner_of(pid: Pid) -> Option<u32> {
    Some(std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

fn no_such(pid: Pid) -> Refusal {
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
        });
    };
    let proc = keeper.holds(pid);
    let place = proc.map_or_else(|| me.clone(), |p| p.place.clone());
    let own = proc.and_then(|p| p.stay);
    let root = keeper.hello.uid == 0 && !node.config.allow_root;
    let stay = match own {
        Some(stay) => Some(stay),
        None if root => Some(Stay::Privileged),
        None if proc.is_some_and(|p| p.locked) => Some(Stay::Locked),
        None => why(&view, &node.policy, pid, now),
    };
    let (explanation, remedy) = match stay {
        Some(stay) => (stay.explain().to_owned(), stay.remedy().to_owned()),
        None => (
            "it is about to move, or was just started".into(),
            "nothing is wrong: ask again".into(),
        ),
    };
    Ok(Answer::Why {
        pid,
        place: Some(place),
        stay,
        explanation,
        remedy,
    })
}

/// Asks another daemon, off the daemon's own thread.
async fn call(
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
    let asked =
        tokio::task::spawn_blocking(move || peer::call(&node.me(), &to, addr, &ask, timeout));
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
    let mut asked = tokio::task::JoinSet::new();
    for peer in peers {
        let node = asker.node.clone();
        asked.spawn(async move { (call(&node, &peer, PeerAsk::Ps { uid }, PEER).await, peer) });
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

fn no_such_node(node: &Node, name: &NodeName) -> Refusal {
    let core = node.lock();
    let names: Vec<String> = core.peers().iter().map(|n| n.to_string()).collect();
    let hint = if names.is_empty() {
        "this farm has no other living node; see `armento nodes`".into()
    } else {
        format!("living nodes: {} (see `armento nodes`)", names.join(", "))
    };
    let what = if core.members.contains_key(name) {
        format!("node `{name}` is down; nothing was moved")
    } else {
        format!("the farm has no node `{name}`; nothing was moved")
    };
    refusal("no-such-node", what, hint)
}

/// A node that exists, lives, and that this home sends to.
fn check_target(node: &Node, subject: &str, uid: u32, to: &NodeName) -> Result<()> {
    let core = node.lock();
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
    if !node.config.sends_to(to) {
        return Err(stays(subject, Stay::NotTrusted, "send_to"));
    }
    if uid == 0 && !node.config.allow_root {
        return Err(stays(subject, Stay::Privileged, "uid 0"));
    }
    Ok(())
}

async fn migrate(asker: &Asker, pid: Pid, to: Dest) -> Result<Answer> {
    let node = &asker.node;
    let me = node.farm.node.clone();
    let to = match to {
        Dest::Node(n) if n == me => Dest::Home,
        to => to,
    };
    let (tree, owner) = {
        let core = node.lock();
        let held = core.keepers.holder(pid);
        match held.filter(|k| may(asker.uid, k.hello.uid)) {
            Some(k) => (k.hello.tree, k.hello.uid),
            None => return Err(unheld(asker.uid, pid)),
        }
    };
    if let Dest::Node(target) = &to {
        check_target(node, &format!("process {pid}"), owner, target)?;
    }
    let (waiter, ended) = oneshot::channel();
    let told = {
        let now = node.now();
        let mut core = node.lock();
        let ticket = core.next();
        match &to {
            Dest::Node(target) => core.ledger.flies_to(pid, target, now),
            Dest::Home => core.ledger.flies_to(pid, &me, now),
            Dest::Balance => {}
        }
        let free = to == Dest::Balance;
        let order = Order::Move { pid, to, ticket };
        let waits = (!free).then_some(waiter);
        let told = core.keepers.order(tree, pid, ticket, order, waits);
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

/// A keeper wants to go to `target`: ask it for a host, hand out keys.
async fn route(
    asker: &Asker,
    tree: TreeId,
    pid: Pid,
    target: NodeName,
    need_kib: u64,
) -> Result<Answer> {
    let node = &asker.node;
    let uid = {
        let core = node.lock();
        let keeper = core.keepers.of_session(asker.session);
        let own = keeper.filter(|k| k.hello.tree == tree);
        own.map(|k| k.hello.uid).ok_or_else(|| {
            refusal(
                "not-trusted",
                "a keeper asks for its own tree only",
                "say hello first",
            )
        })?
    };
    let now = node.now();
    node.lock().ledger.flies_to(pid, &target, now);
    let passed = pass(node, tree, pid, uid, &target, need_kib).await;
    if let Err(no) = &passed {
        let stay = Stay::ALL.iter().find(|s| s.code() == no.code);
        let stay = stay.copied().unwrap_or(Stay::LinkLost);
        let now = node.now();
        node.lock().ledger.stayed(pid, stay, now);
    }
    passed.map(Answer::Route)
}

async fn pass(
    node: &Arc<Node>,
    tree: TreeId,
    pid: Pid,
    uid: u32,
    target: &NodeName,
    need_kib: u64,
) -> Result<Pass> {
    let subject = format!("process {pid}");
    check_target(node, &subject, uid, target)?;
    let ask = PeerAsk::Admit(AdmitAsk {
        tree,
        pid,
        uid,
        need_kib,
    });
    let (addr, plain) = match call(node, target, ask, ADMIT).await {
        Ok(PeerAnswer::Admitted { addr, plain }) => (addr, plain),
        Ok(_) => return Err(stays(&subject, Stay::EngineVersion, target.as_str())),
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
    })
}
