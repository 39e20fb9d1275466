//! `armento node drain`: this node is emptied, and how far that is.
//!
//! From: `noded/src/membership/order_drain.rs`. Next: `noded/src/policy/enforce.rs` (guests), `noded/src/policy/act.rs` (own
//! processes).

use super::enforce::enforce_settings;
use crate::clock::unix_ms;
use crate::error::refusal;
use crate::hosts::HELLO_MAX;
use crate::revocation::Stated;
use crate::state::{Core, Drain, Node};
use armento_balance::{View, drain as decide_drain};
use armento_client::api::{
    DRAIN_LISTED_MAX, DRAIN_WHY_MAX, DrainChange, DrainInfo, DrainedProcess, GuestInfo, ProcInfo,
    Refusal,
};
use armento_model::{NodeName, Pid, Stay, clean};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

/// It has to go, and nothing is known that keeps it.
const LEAVING: &str = "leaving";
/// A guest whose home does not answer: it goes when the link is back.
const HOME_SILENT: &str = "home-silent";

/// Reasons that other nodes have count only so long after the order, and after this daemon's start: by then every node has
/// reported its load some times.
const SETTLED: Duration = Duration::from_secs(5);

/// Refuses what no daemon carries out.
pub fn check_drain(change: &DrainChange) -> Result<(), Refusal> {
    if change.why.len() > DRAIN_WHY_MAX || clean(&change.why) != change.why {
        let what = format!(
            "the reason is longer than {DRAIN_WHY_MAX} bytes, or not one line of text; nothing was changed"
        );
        return Err(refusal("bad-reason", what, "say it in a few words"));
    }
    Ok(())
}

/// Carries it out, and stores it for the next start. `stated`: it comes as a statement of the farm.
pub fn drain_this(
    node: &Node,
    change: &DrainChange,
    stated: Option<&Stated>,
) -> Result<(), Refusal> {
    check_drain(change)?;
    {
        // One change of switches at a time, as in `switches.rs`.
        let _turn = node.given.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = node.lock().switches.clone();
        if let Some(stated) = stated {
            match fresh.compare_statement(stated) {
                Ordering::Greater => fresh.takes_statement(stated),
                Ordering::Equal => return Ok(()),
                Ordering::Less => return Err(out_of_date(&node.farm.node)),
            }
        }
        let before = fresh.drain_order().map(|d| d.since_ms);
        fresh.order_drain(change.drained.then(|| Drain {
            since_ms: before.unwrap_or_else(unix_ms),
            why: change.why.clone(),
            all_home: change.all_home,
        }));
        let written = fresh.write(&node.state);
        written.map_err(|e| refusal("failed", format!("{e}; nothing was changed"), e.hint()))?;
        fresh.changed_now();
        let mut core = node.lock();
        core.switches = fresh;
        // The others are told at once, and more of them.
        core.vector.urge();
    }
    match change.drained {
        true => tracing::info!("this node is drained: {}", change.why),
        false => tracing::info!("this node is drained no more"),
    }
    enforce_settings(node);
    Ok(())
}

/// A statement that is older than the last one that was carried out.
pub fn out_of_date(me: &NodeName) -> Refusal {
    let what = format!("{me} was told something later; nothing was changed");
    let hint =
        "say it again; if it is refused again, the clock of the node that says it was set back";
    refusal("late", what, hint)
}

/// How far it is. `shown`: the asker may see processes.
pub fn drain_info(node: &Node, shown: bool) -> DrainInfo {
    let now = node.now();
    let mut core = node.lock();
    let view = node.near(&mut core);
    let me = core.me.clone();
    let order = core.switches.drain_order().cloned();
    let drained = core.switches.drains();
    let mut processes: Vec<DrainedProcess> = core.hosts.guests().map(|g| guest(g, &me)).collect();
    let all_home = order.as_ref().is_some_and(|d| d.all_home);
    processes.extend(match (&order, all_home) {
        (None, _) => Vec::new(),
        (Some(_), true) => coming_home(&core),
        (Some(_), false) => {
            let early = [Some(node.started), core.switches.since()]
                .into_iter()
                .flatten()
                .any(|at| at.elapsed() < SETTLED);
            let stays = decide_drain(&view, &node.policy, now).stays;
            leaving(&core, &view, stays, early)
        }
    });
    let staying = processes.iter().filter(|p| p.stays).count() as u64;
    let leaving = processes.len() as u64 - staying;
    if !drained {
        processes.clear();
    }
    processes.sort_by_key(|p| (p.stays, p.pid));
    processes.truncate(if shown { DRAIN_LISTED_MAX } else { 0 });
    let own_here = core.keepers.procs().filter(|p| p.place == me).count() as u64;
    DrainInfo {
        drained,
        why: order.as_ref().map_or_else(String::new, |d| d.why.clone()),
        all_home,
        since_ms: order.as_ref().map(|d| d.since_ms),
        guests: core.hosts.guests().count() as u64,
        unheard: core
            .switches
            .since()
            .map_or(0, |at| core.hosts.unreported(at, HELLO_MAX)) as u64,
        own_here,
        own_away: core.away().len() as u64,
        leaving: if drained { leaving } else { 0 },
        staying,
        processes,
        node: me,
    }
}

fn guest(g: &GuestInfo, me: &NodeName) -> DrainedProcess {
    DrainedProcess {
        pid: g.pid.in_program(),
        home: g.home.clone(),
        place: me.clone(),
        command: g.command.clone(),
        stays: false,
        reason: if g.frozen { HOME_SILENT } else { LEAVING }.into(),
        detail: String::new(),
    }
}

fn own(p: &ProcInfo, stays: bool, reason: &str) -> DrainedProcess {
    DrainedProcess {
        pid: p.pid,
        home: p.home.clone(),
        place: p.place.clone(),
        command: p.command.clone(),
        stays,
        reason: reason.into(),
        detail: p.detail.clone(),
    }
}

/// Own processes that are still elsewhere.
fn coming_home(core: &Core) -> Vec<DrainedProcess> {
    let away = core.keepers.procs().filter(|p| p.place != core.me);
    let reason = |p: &ProcInfo| p.lost_ms.map_or(LEAVING, |_| Stay::LinkLost.code());
    away.map(|p| own(p, false, reason(p))).collect()
}

/// Whether it is a reason of the process itself, as opposed to one of other nodes, which may pass.
fn is_its_own(stay: Stay) -> bool {
    !matches!(
        stay,
        Stay::NoRoom
            | Stay::LinkLost
            | Stay::NoPath
            | Stay::NotTrusted
            | Stay::SwitchedOff
            | Stay::ClocksApart
            | Stay::TargetFailed
            | Stay::NodeFailed
    )
}

/// Own processes that are still here, those that stay with the reason. `early`: other nodes may not have reported yet.
fn leaving(core: &Core, view: &View, stays: Vec<(Pid, Stay)>, early: bool) -> Vec<DrainedProcess> {
    let stays: BTreeMap<Pid, Stay> = stays.into_iter().collect();
    let quiet = core.switches.quiet() || core.switches.keeps_home().is_some();
    let each = core.keepers.procs().filter(|p| p.place == core.me);
    each.map(|p| {
        let stay = match stays.get(&p.pid) {
            _ if quiet => Some(Stay::SwitchedOff),
            Some(Stay::Busy | Stay::TooYoung) => None,
            Some(stay) if early && !is_its_own(*stay) => None,
            Some(stay) => Some(*stay),
            // The keeper knows it already.
            None => p
                .stay
                .filter(|_| !view.procs.iter().any(|v| v.pid == p.pid)),
        };
        own(p, stay.is_some(), stay.map_or(LEAVING, Stay::code))
    })
    .collect()
}
