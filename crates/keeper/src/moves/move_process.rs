//! One process, or those that share its memory, from where it is to where it is to be.
//!
//! From: `run.rs`, `placement.rs`, `come_home.rs`. Next: `out.rs`, `home.rs`, `onward.rs`, `group.rs`.

use super::group::place_of_group;
use super::group_home::group_home;
use super::group_out::group_out;
use super::outcome::MoveCost;
use super::{home, onward, out};
use crate::sharing::{maps_shared_object, partner_of_stay, sharers_of};
use crate::state::{Keep, MoveLock, Place, Process, StayReason, Tree};
use crate::traced::refuses_move;
use armento_client::api::Dest;
use armento_migrate::{MigrateError, Result};
use armento_model::{NodeName, Pid, Stay};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `armento run` becomes its program within milliseconds; `--on` is checked for 15 s at most (`refusal.rs`).
const EXEC_MAX: Duration = Duration::from_secs(20);
const EXEC_LOOK: Duration = Duration::from_millis(5);

/// Where a process is now, as the tracer thread knows it.
pub fn place(keep: &Keep, pid: Pid) -> Result<(Place, bool)> {
    keep.tracer
        .run(move |t: &mut Tree| t.procs.get(&pid).map(|p| (p.place(), p.held_after_call())))
        .flatten()
        .ok_or(MigrateError::Ended)
}

/// Waits until `armento run` has become its program: an order that comes before is for that. Where `--on` is checked
/// first, that takes as long as a node may take to answer; a program that is later stays, and `prepare.rs` says why.
fn await_exec(keep: &Keep, pid: Pid) {
    let until = Instant::now() + EXEC_MAX;
    let before = move |t: &mut Tree| t.procs.get(&pid).is_some_and(Process::is_before_exec);
    while keep.tracer.run(before) == Some(true) && Instant::now() < until {
        std::thread::sleep(EXEC_LOOK);
    }
}

/// Moves one process when no other move of it is under way.
pub fn move_process(
    keep: &Arc<Keep>,
    pid: Pid,
    to: &Dest,
    storm: bool,
) -> Result<(NodeName, MoveCost)> {
    await_exec(keep, pid);
    let mut turn = keep.move_locks.take(pid)?;
    if keep.settings.spread && is_at_exec(keep, pid) {
        let why = "its program is just being placed".into();
        return Err(MigrateError::Stays(Stay::Busy, why));
    }
    move_now(keep, &mut turn, pid, to, storm)
}

/// Moves one process; remembers why when it stays. `turn`: of it; those that share its memory are added.
pub fn move_now(
    keep: &Arc<Keep>,
    turn: &mut MoveLock<'_>,
    pid: Pid,
    to: &Dest,
    storm: bool,
) -> Result<(NodeName, MoveCost)> {
    let begun = Instant::now();
    let group = sharers_of(pid);
    let joint = group.len() > 1 || maps_shared_object(keep, pid);
    if joint && *to != Dest::Balance {
        // It may wait, and another move may come before: what follows looks at them as they are then.
        turn.widen(&group)?;
    }
    let (now, held) = place(keep, pid)?;
    if storm || matches!(to, Dest::Node(_)) {
        refuses_move(keep, pid, storm)?;
    }
    if held && (storm || *to == Dest::Balance) {
        return Err(MigrateError::Stays(
            Stay::UnsupportedCall,
            "it came home for a call a moment ago".into(),
        ));
    }
    // Those that share memory go from one host to another by way of home.
    let homeward = matches!(to, Dest::Home | Dest::Hold) || joint && *to != Dest::Balance;
    if homeward && group.iter().any(|p| replays(keep, *p)) {
        let why = "it makes the calls again that it had made before its node was lost".into();
        return Err(MigrateError::Stays(Stay::Busy, why));
    }
    if matches!(to, Dest::Home | Dest::Hold) && is_begun_elsewhere(keep, pid) {
        let why = "its checkpoint was made under another kernel: it runs under a host here".into();
        return Err(MigrateError::Stays(Stay::KernelState, why));
    }
    let r = match (to, &now) {
        _ if joint && *to != Dest::Balance => together(keep, (pid, &group), to, storm),
        (Dest::Balance, _) => {
            keep.tracer.run(move |t| t.unlock(pid));
            Ok(MoveCost::default())
        }
        (Dest::Home | Dest::Hold, Place::Home) => Ok(MoveCost::default()),
        (Dest::Home | Dest::Hold, Place::Away(l)) => home::bring(keep, pid, l),
        (Dest::Node(n), _) if *n == keep.settings.node => {
            return move_now(keep, turn, pid, &Dest::Home, storm);
        }
        (Dest::Node(n), Place::Home) => out::out(keep, pid, n),
        (Dest::Node(n), Place::Away(l)) if l.node == *n => Ok(MoveCost::default()),
        (Dest::Node(n), Place::Away(l)) => onward::onward(keep, pid, l, n),
    };
    let here = match to {
        Dest::Node(n) => n.clone(),
        _ => keep.settings.node.clone(),
    };
    // Storms fail all the time: their partner is not searched for.
    let kept = r.as_ref().err().map(|e| match storm {
        true => StayReason::new(e.stay(), &e.detail()),
        false => StayReason::new(e.stay(), &e.detail()).with(partner_of_stay(pid, e.stay())),
    });
    keep.tracer.run(move |t| t.note(pid, kept));
    if let Err(e) = &r {
        eprintln!("process {pid} to {here}: {e}");
    } else if keep.settings.safe.is_some() && here != keep.settings.node {
        // The first checkpoint of those that were at home comes at once.
        ask_for_first(keep, group);
    }
    r.map(|mut d| {
        d.total = begun.elapsed();
        let from = match &now {
            Place::Home => &keep.settings.node,
            Place::Away(l) => &l.node,
        };
        if *from != here && *to != Dest::Balance {
            let home = &keep.settings.node;
            keep.job.moved(&here, home, d.pause, d.bytes);
        }
        (here, d)
    })
}

fn ask_for_first(keep: &Keep, group: Vec<Pid>) {
    let none = move |t: &mut Tree| -> Vec<Pid> {
        let none = |p: &Pid| {
            let safe = t.procs.get(p).and_then(|p| p.safe.as_ref());
            safe.is_some_and(|s| s.age().is_none())
        };
        group.into_iter().filter(none).collect()
    };
    let none = keep.tracer.run(none).unwrap_or_default();
    none.into_iter().for_each(|p| keep.checkpoints.push(p));
}

/// Processes that share memory move as one. Between two hosts their way is over home. Before: the turns of all are held.
fn together(
    keep: &Arc<Keep>,
    (first, group): (Pid, &[Pid]),
    to: &Dest,
    storm: bool,
) -> Result<MoveCost> {
    let node = match to {
        Dest::Node(n) if *n != keep.settings.node => Some(n),
        _ => None,
    };
    for pid in group {
        if storm && node.is_some() && place(keep, *pid).is_ok_and(|(_, held)| held) {
            let why = format!("process {pid}, which shares its memory, came home for a call");
            return Err(MigrateError::Stays(Stay::UnsupportedCall, why));
        }
    }
    let mut done = MoveCost::default();
    if let Place::Away(link) = place_of_group(keep, group)? {
        if node == Some(&link.node) {
            return Ok(done);
        }
        done = group_home(keep, group, &link)?;
    }
    if let Some(node) = node {
        done = group_out(keep, group, node)?;
    }
    let others: Vec<Pid> = group.iter().copied().filter(|p| *p != first).collect();
    keep.tracer
        .run(move |t| others.into_iter().for_each(|p| t.note(p, None)));
    Ok(done)
}

fn replays(keep: &Keep, pid: Pid) -> bool {
    let replays = move |t: &mut Tree| t.procs.get(&pid).is_some_and(Process::replays);
    keep.tracer.run(replays) == Some(true)
}

pub fn is_begun_elsewhere(keep: &Keep, pid: Pid) -> bool {
    let begun = move |t: &mut Tree| {
        let p = t.procs.get(&pid)?;
        Some(p.begun_elsewhere && p.is_away())
    };
    keep.tracer.run(begun).flatten() == Some(true)
}

pub fn is_at_exec(keep: &Keep, pid: Pid) -> bool {
    let at_exec = move |t: &mut Tree| t.procs.get(&pid).is_some_and(Process::is_at_exec);
    keep.tracer.run(at_exec) == Some(true)
}
