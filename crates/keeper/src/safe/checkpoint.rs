//! A checkpoint of a body that runs on.
//!
//! From: `keeper/src/events/dispatch.rs`, several times a second. Next: `migrate/src/stored.rs`, facing
//! `host/src/moves/depart.rs`.
//!
//! It is a move up to the flip, which never comes: home keeps what has come, and tells the host that the move is
//! cancelled. From the freeze to that the program stands still.

use super::take::{Outcome, ask_for_it, go_on, reason_of_source, takes_one};
use super::together;
use crate::calls::make_call;
use crate::deputy::HostLink;
use crate::state::{Keep, Kept, Place, Tree};
use crate::sync::lock;
use armento_migrate::failpoint::point;
use armento_migrate::pages::PageStore;
use armento_migrate::phase::Failpoint;
use armento_migrate::stored::Taking;
use armento_migrate::target;
use armento_migrate::{MigrateError, Result};
use armento_model::{MoveId, Pid, Stay};
use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often, and at what distance, a checkpoint is tried for which calls wait: a program that is just being stopped by its
/// user, or is in the midst of a fork, can have one a moment later.
const TRIES: u32 = 100;
const AGAIN: Duration = Duration::from_millis(20);

/// Finds the checkpoints that are due.
pub fn watch_checkpoints(t: &mut Tree) {
    let storm = t.keep.settings.storm.is_some();
    for p in t.procs.values().filter(|p| takes_one(t, p)) {
        if p.safe.as_ref().is_some_and(|s| s.is_due(storm)) {
            t.keep.checkpoints.push(p.pid);
        }
    }
    together::watch(t);
}

/// Makes one checkpoint after the other, for ever.
pub fn make_checkpoints(keep: &Arc<Keep>) {
    let mut tries: HashMap<Pid, u32> = HashMap::new();
    loop {
        let pid = keep.checkpoints.pop();
        let outcome = make(keep, pid);
        let waits = keep.held_output.waits(pid);
        let tried = match outcome {
            Outcome::Refused(Stay::Busy) => tries.get(&pid).copied().unwrap_or(0) + 1,
            Outcome::Refused(_) => TRIES,
            Outcome::Made | Outcome::Later => 0,
        };
        if !waits || tried == 0 {
            tries.remove(&pid);
        }
        match outcome {
            // What waits by now has asked for the next one.
            Outcome::Made => {}
            _ if !waits => {}
            // A link that is lost for good takes its process along, or has its body built again.
            _ if tried < TRIES => {
                if tried > 0 {
                    tries.insert(pid, tried);
                }
                std::thread::sleep(AGAIN);
                keep.checkpoints.push(pid);
            }
            _ => {
                tries.remove(&pid);
                make_uncovered(keep, pid);
            }
        }
    }
}

/// No checkpoint can be made of it: the calls that wait are made all the same.
fn make_uncovered(keep: &Keep, pid: Pid) {
    for h in keep.held_output.give_up(pid) {
        if let Some(record) = &h.by.common.record {
            record.leave_gap(|| "a call was made that no checkpoint covers".into());
        }
        make_call(keep, h.by, h.call);
    }
}

fn make(keep: &Arc<Keep>, pid: Pid) -> Outcome {
    if let Some(group) = together::group(pid) {
        return together::make(keep, pid, group);
    }
    let Ok(_turn) = keep.move_locks.take(pid) else {
        return Outcome::Later;
    };
    let begins = move |t: &mut Tree| {
        let takes = takes_one(t, t.procs.get(&pid)?);
        let safe = t.procs.get_mut(&pid)?.safe.as_mut()?;
        Some(takes && safe.can()).inspect(|can| {
            if *can {
                safe.begin();
            }
        })
    };
    match keep.tracer.run(begins).flatten() {
        Some(true) => {}
        // It is moving, is built again, or makes its calls again.
        Some(false) => return Outcome::Later,
        None => return Outcome::Refused(Stay::TargetFailed),
    }
    let made = try_make(keep, pid);
    let outcome = match made.as_ref().err().map(MigrateError::stay) {
        None => Outcome::Made,
        Some(Stay::LinkLost) => Outcome::Later,
        Some(stay) => Outcome::Refused(stay),
    };
    keep.tracer.run(move |t| {
        if let Some(safe) = t.procs.get_mut(&pid).and_then(|p| p.safe.as_mut()) {
            if let Err(e) = made {
                eprintln!("process {pid}: no checkpoint: {e}");
                let lasts = !matches!(e.stay(), Stay::Busy | Stay::LinkLost);
                safe.failed(format!("{}: {}", e.stay().code(), e.detail()), lasts);
            }
            safe.end();
        }
    });
    outcome
}

fn try_make(keep: &Arc<Keep>, pid: Pid) -> Result<()> {
    let look = move |t: &mut Tree| {
        let p = t.procs.get(&pid)?;
        let safe = p.safe.as_ref()?;
        Some((p.place(), safe.pages(), safe.before()))
    };
    let (place, pages, before) = keep.tracer.run(look).flatten().ok_or(MigrateError::Ended)?;
    let Place::Away(link) = place else {
        return Err(MigrateError::Ended);
    };
    let pages = match pages {
        Some(pages) => pages,
        None => Arc::new(Mutex::new(PageStore::in_memory(
            armento_sense::half_of_available(),
        )?)),
    };
    point(Failpoint::SafeDue);
    let (tx, news) = mpsc::channel();
    let mv = keep.moves.begin(tx, &[&link]);
    let done = take(keep, pid, (&link, mv), (&pages, before));
    go_on(keep, pid, &link, mv);
    point(Failpoint::SafeReleased);
    let done = done.map_err(|e| reason_of_source(e, &news));
    keep.moves.end(mv);
    done
}

/// Everything that comes is kept, and the record begins anew, before the body goes on.
fn take(
    keep: &Arc<Keep>,
    pid: Pid,
    (link, mv): (&Arc<HostLink>, MoveId),
    (pages, before): (&Arc<Mutex<PageStore>>, Option<MoveId>),
) -> Result<()> {
    let (mut r, mut w) = ask_for_it(keep, pid, (link, mv), before)?;
    point(Failpoint::SafeAsked);
    let closer = r.closer().ok();
    keep.tracer.run(move |t| {
        if let Some(safe) = t.procs.get_mut(&pid).and_then(|p| p.safe.as_mut()) {
            safe.comes_over(closer);
        }
    });
    let mut taking = Taking::new(pages, before);
    let came = target::receive(&mut r, &mut w, &mut taking);
    point(Failpoint::SafeCame);
    let (l, pages) = (link.clone(), pages.clone());
    let done = keep
        .tracer
        .run(move |t| match came {
            Ok(_) => commit(t, pid, (&l, mv), taking, pages),
            Err(e) => {
                taking.discard();
                Err(e)
            }
        })
        .unwrap_or(Err(MigrateError::Ended));
    point(Failpoint::SafeCommitted);
    done
}

/// In the tracer thread, where a host is lost: one that is has taken the body with it, and the checkpoint before holds.
fn commit(
    t: &mut Tree,
    pid: Pid,
    (link, mv): (&Arc<HostLink>, MoveId),
    taking: Taking,
    pages: Arc<Mutex<PageStore>>,
) -> Result<()> {
    let there = t.procs.get_mut(&pid).filter(|p| p.is_at(link));
    let safe = there.and_then(|p| p.safe.as_mut());
    let Some(safe) = safe.filter(|s| !s.is_recovering()) else {
        taking.discard();
        return Err(MigrateError::Ended);
    };
    let (image, frozen) = taking.commit()?;
    let image = Arc::new(image);
    let bytes = lock(&pages).bytes();
    let covered = t.keep.held_output.take_covered(pid);
    safe.made(
        Kept {
            image,
            pages,
            bytes,
        },
        (mv, covered),
        frozen.elapsed(),
    );
    Ok(())
}
