//! The steps by which a body is built from what was kept of it: its calls at home are over, what was kept is sent, it runs.
//!
//! From: `recover.rs`, `together.rs`. Next: `host/src/moves/arrive.rs`; then `keeper/src/calls/replay.rs`.

use crate::deputy::HostLink;
use crate::signals::{break_calls, can_break_calls};
use crate::state::{Keep, Kept, MoveEvent, Safe, Tree, told_reason};
use crate::sync::lock;
use armento_migrate::image::files::{file_key, rescued};
use armento_migrate::image::objects::ObjectId;
use armento_migrate::image::{Head, files_of};
use armento_migrate::source::Job;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, Pid, Stay};
use armento_wire::talk::ToHost;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long a call at home that must not be broken is waited for.
const DELICATE_MAX: Duration = Duration::from_secs(10);
const DELICATE_LOOK: Duration = Duration::from_millis(20);
/// No call of the lost body is under way any more. Those that blocked were not made, and are made again by the new one.
pub fn calls_broken(keep: &Keep, pid: Pid) -> Result<()> {
    let until = Instant::now() + DELICATE_MAX;
    loop {
        let broken = keep.tracer.run(move |t| {
            can_break_calls(t, pid)?;
            break_calls(t, pid);
            let p = t.procs.get(&pid).ok_or(MigrateError::Ended)?;
            Ok(p.deputies().all(|d| !d.in_call()))
        });
        match broken.unwrap_or(Err(MigrateError::Ended)) {
            Ok(true) => return Ok(()),
            Err(MigrateError::Ended) => return Err(MigrateError::Ended),
            Err(e) if Instant::now() > until => return Err(e),
            Ok(false) if Instant::now() > until => {
                let why = "a call of it does not end".into();
                return Err(MigrateError::Stays(Stay::Busy, why));
            }
            _ => std::thread::sleep(DELICATE_LOOK),
        }
    }
}

/// What is kept of it. A call that was broken just now may have left a gap.
pub fn kept(keep: &Keep, pid: Pid) -> Result<Kept> {
    let look = move |t: &mut Tree| {
        let safe = t.procs.get(&pid)?.safe.as_ref()?;
        Some(safe.recoverable().map(|()| safe.kept()))
    };
    match keep.tracer.run(look).flatten() {
        Some(Ok(Some(kept))) => Ok(kept),
        Some(Err(gap)) => Err(MigrateError::Stays(Stay::Busy, gap)),
        _ => Err(MigrateError::Ended),
    }
}

/// The body that was lost had mapped these files as they were then: one that has changed would show it other bytes.
pub fn files_are_as_they_were(keep: &Keep, kept: &Kept) -> Result<()> {
    let known = lock(&keep.files);
    for key in files_of(&kept.image.layout.areas) {
        let file = known.get(&key).filter(|_| !rescued(&key));
        if file.is_some_and(|f| file_key(f) != Some(key)) {
            let why = "a file that it maps has changed since".into();
            return Err(MigrateError::Stays(Stay::Busy, why));
        }
    }
    Ok(())
}

/// A target that fails gives its own reason.
pub fn reason(e: MigrateError, news: &mpsc::Receiver<MoveEvent>) -> MigrateError {
    match told_reason(&e, news) {
        Some((stay, detail)) => MigrateError::Declined(stay, detail),
        None => e,
    }
}

/// Sends everything that was kept, as the source of a move does. `brings`: what it shares with others that no other has
/// brought.
pub fn send_kept<R: Read, W: Write>(
    keep: &Keep,
    engine: u32,
    (r, w): (&mut R, &mut W),
    (kept, brings): (&Kept, Vec<ObjectId>),
) -> Result<()> {
    let mut job = Job::new(0, r, w);
    let image = &kept.image;
    let head = Head {
        tids: image.state.threads.iter().map(|t| t.tid).collect(),
        areas: image.layout.areas.clone(),
        mm: image.state.mm.clone(),
        since: None,
        brings,
        engine,
        ..image.head.clone()
    };
    let mut opened = |key: &_| -> Option<File> {
        let file = lock(&keep.files).get(key).cloned();
        file.and_then(|f| f.try_clone().ok())
    };
    job.offer(&head, &mut opened)?;
    job.stored(&image.layout, &lock(&kept.pages))?;
    let mut state = image.state.clone();
    if !job.needs_vdso() {
        state.vdso.clear();
    }
    job.state(state)
}

/// The flip: the body runs there. Its calls are compared from the first on; signals that came meanwhile wait until all
/// were.
pub fn flip(t: &mut Tree, pid: Pid, to: &Arc<HostLink>, mv: MoveId) -> Result<()> {
    to.ensure_connected()?;
    let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
    // One that begins from a file has no record: nothing is compared.
    let record = p
        .common
        .record
        .as_ref()
        .filter(|_| p.safe.as_ref().is_some_and(Safe::is_recovering));
    let signals = record.map_or_else(Vec::new, |r| r.rewind());
    p.go_to(to).ok_or(MigrateError::Ended)?;
    for (tid, info) in signals {
        let away = p.away_mut().into_iter();
        away.for_each(|a| a.signals.hold(tid, &info));
    }
    t.release_held(pid);
    to.send(&ToHost::Thaw {
        mv,
        pid: HomePid::of_home(pid),
    });
    Ok(())
}
