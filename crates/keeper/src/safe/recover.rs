//! The node of a body is lost: the body is built again from its checkpoint.
//!
//! From: `keeper/src/hosts/lost.rs`, through `keeper/src/moves/run.rs`. Next: `host/src/moves/arrive.rs`; then
//! `keeper/src/calls/replay.rs`, for each call that it makes again.
//!
//! It is a move whose source is what was kept. The deputies are where the body left them, behind all calls of the record:
//! what they did is not done again. On this node, too, the body runs under a host, where its calls can be compared; when
//! all were, it comes home.

use crate::calls::serve_host;
use crate::deputy::HostLink;
use crate::hosts::{connect_host, end_lost, open_connection};
use crate::signals::{break_calls, can_break_calls};
use crate::state::{
    Keep, Kept, MoveEvent, Process, READY_MAX, Safe, Task, Tree, Why, await_ready, told_reason,
};
use crate::sync::lock;
use armento_client::api::{Answer, Ask, Dest, Report};
use armento_migrate::image::files::{file_key, rescued};
use armento_migrate::image::{Head, files_of};
use armento_migrate::source::Job;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, NodeName, Pid, Stay};
use armento_tracee::status;
use armento_wire::talk::{Purpose, ToHost};
use std::fs::File;
use std::io::{Read, Write};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long a call at home that must not be broken is waited for.
const DELICATE_MAX: Duration = Duration::from_secs(10);
const DELICATE_LOOK: Duration = Duration::from_millis(20);
/// How long the daemon may take to name a node that has room.
const PLACE_MAX: Duration = Duration::from_secs(2);

/// Builds the body of `pid`, which was lost with the host on `from`. `to`: where; `Balance`: where there is room.
pub fn build_again(keep: &Arc<Keep>, pid: Pid, from: &NodeName, to: &Dest) {
    let begun = Instant::now();
    let Ok(_turn) = keep.move_locks.take(pid) else {
        return end_lost(keep, pid, from, "another move of it does not end");
    };
    let lost = move |t: &mut Tree| {
        let safe = t.procs.get(&pid).and_then(|p| p.safe.as_ref());
        safe.is_some_and(Safe::is_recovering)
    };
    if keep.tracer.run(lost) != Some(true) {
        // A move that was under way has brought it elsewhere.
        return;
    }
    let done = calls_broken(keep, pid)
        .and_then(|()| kept(keep, pid))
        .and_then(|kept| files_are_as_they_were(keep, &kept).map(|()| kept))
        .and_then(|kept| build_somewhere(keep, pid, (from, to), &kept));
    match done {
        Ok(node) => {
            let stopped = begun.elapsed();
            let calls = keep.tracer.run(move |t| recovered(t, pid)).unwrap_or(0);
            let ms = stopped.as_millis();
            eprintln!(
                "process {pid} goes on at {node} after {ms} ms: {from} was lost; {calls} calls are compared"
            );
            keep.daemon.report(Report::Recovered {
                pid,
                from: from.clone(),
                node,
                stopped_us: stopped.as_micros() as u64,
            });
        }
        Err(MigrateError::Ended) => {}
        Err(e) => {
            let why = match e.detail() {
                detail if detail.is_empty() => e.stay().to_string(),
                detail => detail,
            };
            end_lost(keep, pid, from, &why);
        }
    }
}

/// No call of the lost body is under way any more. Those that blocked were not made, and are made again by the new one.
fn calls_broken(keep: &Keep, pid: Pid) -> Result<()> {
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
fn kept(keep: &Keep, pid: Pid) -> Result<Kept> {
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
fn files_are_as_they_were(keep: &Keep, kept: &Kept) -> Result<()> {
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

/// Where there is room; else here.
fn build_somewhere(
    keep: &Arc<Keep>,
    pid: Pid,
    (from, to): (&NodeName, &Dest),
    kept: &Kept,
) -> Result<NodeName> {
    let here = keep.settings.node.clone();
    let there = match to {
        Dest::Balance => choose(keep, pid).filter(|n| n != from && *n != here),
        Dest::Node(node) => Some(node.clone()),
        Dest::Home | Dest::Hold => None,
    };
    let mut failed = MigrateError::Ended;
    for node in there.into_iter().chain([here]) {
        match build(keep, pid, &node, kept) {
            Ok(()) => return Ok(node),
            Err(MigrateError::Ended) => return Err(MigrateError::Ended),
            Err(e) => {
                eprintln!("process {pid} cannot go on at {node}: {e}");
                failed = e;
            }
        }
    }
    Err(failed)
}

/// The node that the daemon would begin such a program at.
pub fn choose(keep: &Keep, pid: Pid) -> Option<NodeName> {
    let look = move |t: &mut Tree| {
        let usage = &t.procs.get(&pid)?.usage;
        Some((usage.program().unwrap_or_default().to_owned(), usage.ppid))
    };
    let (program, parent) = keep.tracer.run(look).flatten()?;
    let ask = Ask::Place {
        tree: keep.settings.tree,
        pid,
        command: status::command(pid),
        portable: keep.is_portable(pid),
        program,
        parent,
        waiting: 0,
        ran: Vec::new(),
    };
    let answer = keep.daemon.ask(ask, PLACE_MAX);
    keep.daemon.report(Report::Placed { pid });
    match answer {
        Ok(Answer::Placed { node }) => node,
        _ => None,
    }
}

/// Builds the body of `pid` on a node from what is kept, and lets it run. Its process is hollow.
pub fn build(keep: &Arc<Keep>, pid: Pid, node: &NodeName, kept: &Kept) -> Result<()> {
    let need_kib = kept.bytes >> 10;
    let link = connect_host(keep, node, pid, need_kib, serve_host)?;
    let (tx, news) = mpsc::channel();
    let mv = keep.moves.begin(tx, &[&link]);
    // The connection is kept until the other node has read all of it.
    let built =
        open_connection(keep, &link.way(), Purpose::Bring(mv)).and_then(|mut connection| {
            let (r, w) = &mut connection;
            let engine = link.pass.common_engine();
            send_kept(keep, engine, (r, w), kept).map_err(|e| reason(e, &news))?;
            await_ready(&news, READY_MAX)
        });
    keep.moves.end(mv);
    let l = link.clone();
    let flipped = built.and_then(|_| {
        let flip = move |t: &mut Tree| flip(t, pid, &l, mv);
        keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended))
    });
    if flipped.is_err() {
        link.send(&ToHost::Abort {
            mv,
            pid: HomePid::of_home(pid),
        });
    }
    flipped
}

/// A target that fails gives its own reason.
fn reason(e: MigrateError, news: &mpsc::Receiver<MoveEvent>) -> MigrateError {
    match told_reason(&e, news) {
        Some((stay, detail)) => MigrateError::Declined(stay, detail),
        None => e,
    }
}

/// Sends everything that was kept, as the source of a move does.
pub fn send_kept<R: Read, W: Write>(
    keep: &Keep,
    engine: u32,
    (r, w): (&mut R, &mut W),
    kept: &Kept,
) -> Result<()> {
    let mut job = Job::new(0, r, w);
    let image = &kept.image;
    let head = Head {
        tids: image.state.threads.iter().map(|t| t.tid).collect(),
        areas: image.layout.areas.clone(),
        mm: image.state.mm.clone(),
        since: None,
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
fn flip(t: &mut Tree, pid: Pid, to: &Arc<HostLink>, mv: MoveId) -> Result<()> {
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

/// How many of its calls are compared.
fn recovered(t: &mut Tree, pid: Pid) -> u64 {
    let p = t.procs.get(&pid);
    let record = p.and_then(|p| p.common.record.as_ref());
    record.map_or(0, |r| r.size().calls)
}

/// A body that was built on this node comes home when its calls were compared.
pub fn watch_recovered(t: &mut Tree) {
    let keep = t.keep.clone();
    let here = |p: &&Process| p.link().is_some_and(|l| l.node == keep.settings.node);
    for p in t.procs.values().filter(here) {
        let replays = p.common.record.as_ref().is_some_and(|r| r.replays());
        if !replays && !p.begun_elsewhere && !keep.move_queue.is_called_home(p.pid) {
            keep.move_queue.push(Task {
                pid: p.pid,
                to: Dest::Home,
                why: Why::Recovered,
            });
        }
    }
}
