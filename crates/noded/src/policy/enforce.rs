//! What is not allowed where it is goes home: guests away, our own back. Looked at once a period, and at once when the
//! settings change.

use crate::hosts::{Record, Whom, kill, weigh};
use crate::keepers::Decided;
use crate::state::{Core, Node};
use armento_client::api::{Dest, Order};
use armento_model::{NodeName, Pid, Stay};
use std::time::{Duration, Instant};

/// A process that has not come home by then is ordered again.
const AGAIN: Duration = Duration::from_secs(5);
/// A host asked to send its guests away takes none for so long; it is asked again before.
const SHUT: Duration = Duration::from_secs(15);
/// Guests that their home has not fetched by then are ended, with their host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Guests that leave a node have this weight, together, until they may come again: with the least, beside a program of the
/// owner's, the milliseconds of a departure took four seconds.
const LEAVING_WEIGHT: u64 = 50;

/// Sets the weight of these hosts, where a process of this node has 100. `None`: guests have no weight of their own.
fn weigh_all(records: &[Record], weight: Option<u64>) {
    let all = weight
        .into_iter()
        .flat_map(|w| records.iter().map(move |r| (r, w)));
    all.for_each(|(record, w)| weigh(record, w));
}

/// Orders home every process that is not allowed where it is.
pub fn enforce_settings(node: &Node) {
    let weight = node.settings().guest_weight();
    let mut core = node.lock();
    if core.leaving {
        return;
    }
    let core = &mut *core;
    core.draining.retain(|_, until| Instant::now() < *until);
    core.refused.retain(|_, (until, _)| Instant::now() < *until);
    let (away, guests) = (core.away(), core.hosts.guests().count());
    core.switches.settle(&away, guests);
    close(node, core);
    for pid in astray(node, core) {
        recall(node, core, pid, Stay::NotTrusted.code());
    }
    for pid in away {
        if let Some(what) = core.switches.brings(pid) {
            recall(node, core, pid, what);
        }
    }
    let mut leave = Vec::new();
    for (home, uid) in core.hosts.owners() {
        let Some((stay, why, whom, patience)) = unwelcome(node, core, &home, uid) else {
            let opened = core.hosts.welcome(&home, uid);
            weigh_all(&opened, weight);
            continue;
        };
        let order = Order::Expel {
            why,
            stay,
            for_ms: SHUT.as_millis() as u64,
        };
        let whose = (&home, uid);
        let (newly, lost) = core.hosts.expel(whose, whom, &order, AGAIN, patience);
        leave.extend(newly);
        lost.iter().for_each(kill);
    }
    let each = LEAVING_WEIGHT / leave.len().max(1) as u64;
    weigh_all(&leave, weight.map(|w| w.max(each)));
}

/// Why that user's guests must go, or none may come, and how long they may take before they are ended: without limit
/// where they only make room.
fn unwelcome(
    node: &Node,
    core: &Core,
    home: &NodeName,
    uid: u32,
) -> Option<(Stay, String, Whom, Duration)> {
    let me = &node.farm.node;
    if core.draining.contains_key(home) {
        let why = format!("{home} is being removed from the farm");
        return Some((Stay::NotTrusted, why, Whom::All, PATIENCE));
    }
    if !node.trust().accepts_from(home).has(uid) {
        let why = format!("accept_from of {me} leaves out user {uid} of {home}");
        return Some((Stay::NotTrusted, why, Whom::All, PATIENCE));
    }
    let what = core.switches.keeps_out()?;
    let whom = match core.switches.sends_away() {
        Some(_) => Whom::All,
        None => Whom::Idle,
    };
    Some((
        Stay::SwitchedOff,
        core.switches.shut_message(me, what),
        whom,
        Duration::MAX,
    ))
}

/// Processes of this home on nodes that may not have them.
pub fn astray(node: &Node, core: &Core) -> Vec<Pid> {
    let trust = node.trust();
    let strays = core.keepers.procs().filter(|p| {
        p.place != core.me
            && (core.draining.contains_key(&p.place) || !trust.sends_to(&p.place).has(p.uid))
    });
    strays.map(|p| p.pid).collect()
}

fn recall(node: &Node, core: &mut Core, pid: Pid, cause: &str) {
    let asked = core.recalled.get(&pid);
    if asked.is_some_and(|at| at.elapsed() < AGAIN) {
        return;
    }
    core.recalled.retain(|_, at| at.elapsed() < AGAIN);
    core.recalled.insert(pid, Instant::now());
    let Some(tree) = core.keepers.holder(pid).map(|k| k.hello.tree) else {
        return;
    };
    let ticket = core.next_number();
    let order = Order::Move {
        pid,
        to: Dest::Home,
        ticket,
        balances: false,
        together: false,
        by_hand: false,
    };
    if core.keepers.order(tree, pid, ticket, order, None) {
        tracing::info!("{pid} comes home: {cause}");
        let (now, me) = (node.now(), core.me.clone());
        core.ledger.flies_to(pid, &me, now);
        core.keepers
            .log_decision(pid, &me, &me, Decided::ordered(cause, ticket));
    }
}

/// Tells keepers which nodes are closed to them, when that has changed.
fn close(node: &Node, core: &mut Core) {
    let trust = node.trust();
    let Core {
        keepers,
        members,
        draining,
        ..
    } = core;
    keepers.close(|uid| {
        let shut = |n: &&NodeName| draining.contains_key(*n) || !trust.sends_to(n).has(uid);
        members.names().filter(shut).cloned().collect()
    });
}

/// `name` is to be removed: its guests go, our processes there come home, and none goes there.
pub fn drain(node: &Node, name: &NodeName) {
    node.lock()
        .draining
        .insert(name.clone(), Instant::now() + PATIENCE);
    enforce_settings(node);
}
