//! Checkpoints of bodies that share memory: of all of them at one moment, and all of them built again from it.
//!
//! From: `checkpoint.rs`, `recover.rs`. Next: `migrate/src/stored.rs`, facing `host/src/moves/depart.rs`, whose host lets none
//! go before all stand still.
//!
//! What they share comes with the first of them that maps it, as in a move of the group. Their calls are compared in the order
//! in which they had depended on each other (`keeper/src/calls/replay.rs`).

use super::rebuild::{calls_broken, files_are_as_they_were, flip, kept, reason, send_kept};
use super::take::{Ordered, Outcome, go_on, order_copy, takes_one};
use crate::calls::serve_host;
use crate::deputy::HostLink;
use crate::hosts::{connect_host, open_connection};
use crate::sharing::sharers_of;
use crate::state::{Keep, Kept, Moment, READY_MAX, Safe, Tree, await_ready};
use crate::sync::lock;
use armento_migrate::failpoint::point;
use armento_migrate::image::objects::{self, Views};
use armento_migrate::pages::PageStore;
use armento_migrate::phase::Failpoint;
use armento_migrate::stored::Taking;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, NodeName, Pid, Stay};
use armento_tracee::maps;
use armento_wire::talk::{Purpose, ToHost};
use std::sync::{Arc, Mutex, mpsc};

/// A body that was copied and stands still.
type Copied = (Pid, Arc<Mutex<PageStore>>, Taking, MoveId);

/// The processes that share memory with this one, and itself; none: it maps no memory that could be shared.
pub fn group(pid: Pid) -> Option<Vec<Pid>> {
    let list = maps::read(pid).unwrap_or_default();
    let shares = list.iter().any(|v| objects::of(v).is_some());
    shares.then(|| sharers_of(pid))
}

/// A checkpoint of all of them, which is due for `pid`.
pub fn make(keep: &Arc<Keep>, pid: Pid, group: Vec<Pid>) -> Outcome {
    let Ok(_turn) = keep.move_locks.take_all(&group) else {
        return Outcome::Later;
    };
    let (waits, storm) = (keep.held_output.waits(pid), keep.settings.storm.is_some());
    let members = group.clone();
    let begin = move |t: &mut Tree| -> Option<Option<Arc<HostLink>>> {
        let own = t.procs.get(&pid)?;
        let (link, safe) = (own.link().cloned(), own.safe.as_ref()?);
        // Another of them has asked for it before, and it is made.
        let due = waits || safe.is_due(storm);
        let Some(link) = link.filter(|_| due) else {
            return Some(None);
        };
        let can = |p: &Pid| {
            let p = t.procs.get(p).filter(|p| p.is_at(&link) && takes_one(t, p));
            p.and_then(|p| p.safe.as_ref()).is_some_and(Safe::can)
        };
        if !members.iter().all(can) {
            return Some(None);
        }
        for p in &members {
            if let Some(safe) = t.procs.get_mut(p).and_then(|p| p.safe.as_mut()) {
                safe.begin();
            }
        }
        Some(Some(link))
    };
    let link = match keep.tracer.run(begin).flatten() {
        Some(Some(link)) => link,
        Some(None) => return Outcome::Later,
        None => return Outcome::Refused(Stay::TargetFailed),
    };
    let made = try_make(keep, &group, &link);
    let outcome = match made.as_ref().err().map(MigrateError::stay) {
        None => Outcome::Made,
        Some(Stay::LinkLost) => Outcome::Later,
        Some(stay) => Outcome::Refused(stay),
    };
    keep.tracer.run(move |t| {
        if let Err(e) = &made {
            eprintln!("processes {group:?}: no checkpoint: {e}");
        }
        for p in &group {
            let Some(safe) = t.procs.get_mut(p).and_then(|p| p.safe.as_mut()) else {
                continue;
            };
            if let Err(e) = &made {
                let lasts = !matches!(e.stay(), Stay::Busy | Stay::LinkLost);
                safe.failed(format!("{}: {}", e.stay().code(), e.detail()), lasts);
            }
            safe.end();
        }
    });
    outcome
}

fn try_make(keep: &Arc<Keep>, group: &[Pid], link: &Arc<HostLink>) -> Result<()> {
    for p in group {
        let list = maps::read(*p).map_err(|_| MigrateError::Ended)?;
        if let Some(v) = list.iter().find(|v| objects::persistent(v).is_some()) {
            let why = format!("process {p} maps {}, which others can find", v.name);
            return Err(MigrateError::Stays(Stay::SharedMemory, why));
        }
    }
    point(Failpoint::SafeDue);
    let copied = copy_all(keep, group, link)?;
    point(Failpoint::SafeCame);
    let moves: Vec<(Pid, MoveId)> = copied.iter().map(|(p, .., mv)| (*p, *mv)).collect();
    let l = link.clone();
    let moment = Arc::new(Moment {
        members: group.to_vec(),
    });
    let done = keep
        .tracer
        .run(move |t| commit(t, &l, copied, &moment))
        .unwrap_or(Err(MigrateError::Ended));
    point(Failpoint::SafeCommitted);
    for (p, mv) in moves {
        go_on(keep, p, link, mv);
    }
    point(Failpoint::SafeReleased);
    done
}

/// All at once: their host waits for the last of them to stand still. After an error all go on.
fn copy_all(keep: &Arc<Keep>, group: &[Pid], link: &Arc<HostLink>) -> Result<Vec<Copied>> {
    let store = |p: &Pid| {
        let p = *p;
        let known = move |t: &mut Tree| t.procs.get(&p)?.safe.as_ref()?.pages();
        match keep.tracer.run(known).flatten() {
            Some(pages) => Ok((p, pages)),
            None => Ok((
                p,
                Arc::new(Mutex::new(PageStore::in_memory(
                    armento_sense::half_of_available(),
                )?)),
            )),
        }
    };
    let stores = group.iter().map(store).collect::<Result<Vec<_>>>()?;
    let order = |(p, pages)| (p, pages, order_copy(keep, p, link));
    let ordered: Vec<(Pid, Arc<Mutex<PageStore>>, Ordered)> =
        stores.into_iter().map(order).collect();
    let all: Vec<Result<Copied>> = std::thread::scope(|s| {
        let start = |(p, pages, ordered): (Pid, Arc<Mutex<PageStore>>, Ordered)| {
            let work = move || {
                let (taking, mv) = ordered.fetch(Taking::joint(&pages))?;
                Ok((p, pages, taking, mv))
            };
            std::thread::Builder::new().spawn_scoped(s, work)
        };
        let started: Vec<_> = ordered.into_iter().map(start).collect();
        let wait = |t: std::io::Result<std::thread::ScopedJoinHandle<'_, Result<Copied>>>| match t {
            Ok(t) => t.join().unwrap_or(Err(MigrateError::Ended)),
            Err(e) => Err(MigrateError::Stays(Stay::NoRoom, e.to_string())),
        };
        started.into_iter().map(wait).collect()
    });
    let (mut copied, mut failed) = (Vec::new(), None);
    for one in all {
        match one {
            Ok(one) => copied.push(one),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    let Some(e) = failed else { return Ok(copied) };
    for (p, _, taking, mv) in copied {
        taking.discard();
        go_on(keep, p, link, mv);
    }
    Err(e)
}

/// All of them are kept, or none. In the tracer thread, where a host is lost.
fn commit(
    t: &mut Tree,
    link: &Arc<HostLink>,
    copied: Vec<Copied>,
    moment: &Arc<Moment>,
) -> Result<()> {
    let is_there = |p: &Pid| {
        let p = t.procs.get(p).filter(|p| p.is_at(link));
        p.and_then(|p| p.safe.as_ref())
            .is_some_and(|s| !s.is_recovering())
    };
    if !copied.iter().all(|(p, ..)| is_there(p)) {
        copied
            .into_iter()
            .for_each(|(_, _, taking, _)| taking.discard());
        return Err(MigrateError::Ended);
    }
    let mut kept = Vec::new();
    for (p, pages, taking, mv) in copied {
        let (image, frozen) = taking.commit()?;
        let bytes = lock(&pages).bytes();
        let image = Arc::new(image);
        let one = Kept {
            image,
            pages,
            bytes,
        };
        kept.push((p, one, mv, frozen));
    }
    for (p, one, mv, frozen) in kept {
        let covered = t.keep.held_output.take_covered(p);
        if let Some(safe) = t.procs.get_mut(&p).and_then(|p| p.safe.as_mut()) {
            safe.made_together(one, (mv, covered), frozen.elapsed(), moment);
        }
    }
    Ok(())
}

/// One of them has ended, or is not with the others any more: what the others did since may depend on it.
pub fn watch(t: &Tree) {
    for p in t.procs.values() {
        let Some(safe) = &p.safe else { continue };
        let Some(moment) = safe.moment() else {
            continue;
        };
        let is_with = |o: &Pid| t.procs.get(o).is_some_and(|o| has(o.safe.as_ref(), moment));
        if !safe.is_recovering() && !safe.record.replays() && !moment.members.iter().all(is_with) {
            safe.record
                .leave_gap(|| "a process that shares its memory has ended".into());
        }
    }
}

fn has(safe: Option<&Safe>, moment: &Arc<Moment>) -> bool {
    let its = safe.and_then(Safe::moment);
    its.is_some_and(|its| Arc::ptr_eq(its, moment))
}

/// Whether another of them has still to make calls again.
pub fn others_replay(t: &Tree, safe: Option<&Safe>) -> bool {
    let Some(moment) = safe.and_then(Safe::moment) else {
        return false;
    };
    let replays = |p: &Pid| t.procs.get(p).is_some_and(|p| p.replays());
    moment.members.iter().any(replays)
}

/// Those with which `pid` has to be built again.
pub fn moment_of(keep: &Keep, pid: Pid) -> Option<Arc<Moment>> {
    let look = move |t: &mut Tree| t.procs.get(&pid)?.safe.as_ref()?.moment().cloned();
    keep.tracer.run(look).flatten()
}

/// Whether it is lost, and is not built yet.
pub fn recovers(keep: &Keep, pid: Pid) -> bool {
    let look = move |t: &mut Tree| t.procs.get(&pid)?.safe.as_ref().map(Safe::is_recovering);
    keep.tracer.run(look).flatten() == Some(true)
}

/// What is kept of all of them. `None`: they are built already. Before: their move locks are held.
pub fn all_kept(keep: &Keep, pid: Pid, moment: &Arc<Moment>) -> Result<Option<Vec<(Pid, Kept)>>> {
    let m = moment.clone();
    let lost = move |t: &mut Tree| {
        let recovers = |p: &Pid| {
            let safe = t.procs.get(p).and_then(|p| p.safe.as_ref());
            has(safe, &m) && safe.is_some_and(Safe::is_recovering)
        };
        (recovers(&pid), m.members.iter().all(recovers))
    };
    let strangers = || sharers_of(pid).iter().any(|p| !moment.members.contains(p));
    match keep.tracer.run(lost) {
        Some((true, true)) if !strangers() => {}
        Some((true, _)) => {
            let why = "a process that shares its memory has begun or ended since the checkpoint";
            return Err(MigrateError::Stays(Stay::Busy, why.into()));
        }
        _ => return Ok(None),
    }
    point(Failpoint::SafeLost);
    for p in &moment.members {
        calls_broken(keep, *p)?;
    }
    point(Failpoint::SafeEnded);
    let one = |p: &Pid| {
        let kept = kept(keep, *p)?;
        files_are_as_they_were(keep, &kept)?;
        Ok((*p, kept))
    };
    moment
        .members
        .iter()
        .map(one)
        .collect::<Result<_>>()
        .map(Some)
}

/// Builds all of them on a node; all run there, or none.
pub fn build(keep: &Arc<Keep>, node: &NodeName, all: &[(Pid, Kept)]) -> Result<()> {
    let need_kib: u64 = all.iter().map(|(_, k)| k.bytes >> 10).sum();
    let Some((first, _)) = all.first() else {
        return Err(MigrateError::Ended);
    };
    let link = connect_host(keep, node, *first, need_kib, serve_host)?;
    let mut moves = Vec::new();
    let built = build_bodies(keep, &link, all, &mut moves);
    moves.iter().for_each(|(_, mv)| keep.moves.end(*mv));
    let (l, pids) = (link.clone(), moves.clone());
    let flipped = built.and_then(|()| {
        point(Failpoint::SafeReady);
        let flip = move |t: &mut Tree| flip_all(t, &l, &pids);
        keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended))
    });
    if flipped.is_err() {
        for (p, mv) in moves {
            link.send(&ToHost::Abort {
                mv,
                pid: HomePid::of_home(p),
            });
        }
    }
    flipped
}

fn build_bodies(
    keep: &Arc<Keep>,
    link: &Arc<HostLink>,
    all: &[(Pid, Kept)],
    moves: &mut Vec<(Pid, MoveId)>,
) -> Result<()> {
    let (engine, mut sent) = (link.pass.common_engine(), Views::default());
    let mut connections = Vec::new();
    for (p, kept) in all {
        let (tx, news) = mpsc::channel();
        let mv = keep.moves.begin(tx, &[link]);
        moves.push((*p, mv));
        let mut connection = open_connection(keep, &link.way(), Purpose::Bring(mv))?;
        let areas = &kept.image.layout.areas;
        let brings = sent.lack(areas);
        sent.add(areas);
        let (r, w) = &mut connection;
        send_kept(keep, engine, (r, w), (kept, brings)).map_err(|e| reason(e, &news))?;
        point(Failpoint::SafeSent);
        await_ready(&news, READY_MAX)?;
        connections.push(connection);
    }
    Ok(())
}

fn flip_all(t: &mut Tree, link: &Arc<HostLink>, all: &[(Pid, MoveId)]) -> Result<()> {
    link.ensure_connected()?;
    let records = all.iter().filter_map(|(p, _)| {
        let safe = t.procs.get(p)?.safe.as_ref()?;
        Some(safe.record.clone())
    });
    let records: Vec<_> = records.collect();
    // Before the first of them runs.
    records.iter().for_each(|r| r.start_over());
    records.iter().for_each(|r| r.has_peers(&records));
    for (p, mv) in all {
        match flip(t, *p, link, *mv) {
            // One that has ended just now.
            Err(_) if !t.procs.contains_key(p) => {}
            done => done?,
        }
    }
    point(Failpoint::SafeThawed);
    Ok(())
}
