//! The node of a body is lost: the body is built again from its checkpoint.
//!
//! From: `keeper/src/hosts/lost.rs`, through `keeper/src/moves/run.rs`. Next: `host/src/moves/arrive.rs`; then
//! `keeper/src/calls/replay.rs`, for each call that it makes again.
//!
//! It is a move whose source is what was kept. The deputies are where the body left them, behind all calls of the record:
//! what they did is not done again. On this node, too, the body runs under a host, where its calls can be compared; when
//! all were, it comes home.

use super::rebuild::{calls_broken, files_are_as_they_were, flip, kept, reason, send_kept};
use super::together;
use crate::calls::serve_host;
use crate::hosts::{connect_host, end_lost, open_connection};
use crate::state::{Keep, Kept, Moment, Process, READY_MAX, Safe, Task, Tree, Why, await_ready};
use armento_client::api::{Answer, Ask, Dest, Report};
use armento_migrate::failpoint::point;
use armento_migrate::phase::Failpoint;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, NodeName, Pid, Stay};
use armento_tracee::status;
use armento_wire::talk::{Purpose, ToHost};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long nodes are tried for a body, and how long after one that failed: a daemon that is replaced is back within seconds.
const SOMEWHERE_MAX: Duration = Duration::from_secs(30);
const SOMEWHERE_AGAIN: Duration = Duration::from_millis(500);
/// How long the daemon may take to name a node that has room.
const PLACE_MAX: Duration = Duration::from_secs(2);

/// Builds the body of `pid`, which was lost with the host on `from`. `to`: where; `Balance`: where there is room.
pub fn build_again(keep: &Arc<Keep>, pid: Pid, from: &NodeName, to: &Dest) {
    if let Some(moment) = together::moment_of(keep, pid) {
        return build_together(keep, pid, &moment, (from, to));
    }
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
    point(Failpoint::SafeLost);
    let done = calls_broken(keep, pid)
        .and_then(|()| kept(keep, pid))
        .and_then(|kept| files_are_as_they_were(keep, &kept).map(|()| kept))
        .and_then(|kept| {
            point(Failpoint::SafeEnded);
            somewhere(keep, pid, (from, to), |node| build(keep, pid, node, &kept))
        });
    match done {
        Ok(node) => goes_on(keep, pid, (from, node), begun.elapsed()),
        Err(MigrateError::Ended) => {}
        Err(e) => end_lost(keep, pid, from, &why(&e)),
    }
}

fn goes_on(keep: &Arc<Keep>, pid: Pid, (from, node): (&NodeName, NodeName), stopped: Duration) {
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

fn why(e: &MigrateError) -> String {
    match e.detail() {
        detail if detail.is_empty() => e.stay().to_string(),
        detail => detail,
    }
}

/// The same for those that share memory with `pid`: all of them are built again, or all of them end.
fn build_together(
    keep: &Arc<Keep>,
    pid: Pid,
    moment: &Arc<Moment>,
    (from, to): (&NodeName, &Dest),
) {
    let begun = Instant::now();
    let turn = keep.move_locks.take_all(&moment.members);
    if turn.is_err() && !together::recovers(keep, pid) {
        return;
    }
    let built = turn.and_then(|turn| {
        let Some(all) = together::all_kept(keep, pid, moment)? else {
            return Ok(None);
        };
        let node = somewhere(keep, pid, (from, to), |node| {
            together::build(keep, node, &all)
        });
        drop(turn);
        node.map(Some)
    });
    match built {
        // Another of them was the first.
        Ok(None) => {}
        Ok(Some(node)) => {
            for p in &moment.members {
                goes_on(keep, *p, (from, node.clone()), begun.elapsed());
            }
        }
        Err(e) => {
            for p in &moment.members {
                end_lost(keep, *p, from, &why(&e));
            }
        }
    }
}

/// Where there is room; else here.
fn somewhere(
    keep: &Arc<Keep>,
    pid: Pid,
    (from, to): (&NodeName, &Dest),
    build: impl Fn(&NodeName) -> Result<()>,
) -> Result<NodeName> {
    let here = keep.settings.node.clone();
    let there = match to {
        Dest::Balance => choose(keep, pid).filter(|n| n != from && *n != here),
        Dest::Node(node) => Some(node.clone()),
        Dest::Home | Dest::Hold => None,
    };
    let until = Instant::now() + SOMEWHERE_MAX;
    loop {
        let mut failed = MigrateError::Ended;
        for node in there.iter().chain([&here]) {
            match build(node) {
                Ok(()) => return Ok(node.clone()),
                Err(MigrateError::Ended) => return Err(MigrateError::Ended),
                Err(e) => {
                    eprintln!("process {pid} cannot go on at {node}: {e}");
                    failed = e;
                }
            }
        }
        if !passes(failed.stay()) || Instant::now() > until {
            let what = format!("no node could build it: {}", why(&failed));
            return Err(MigrateError::Stays(failed.stay(), what));
        }
        std::thread::sleep(SOMEWHERE_AGAIN);
    }
}

/// Whether what failed at home, which was tried last, may be over in a moment: its daemon begins anew, or its host has ended.
fn passes(stay: Stay) -> bool {
    matches!(
        stay,
        Stay::NoDaemon | Stay::LinkLost | Stay::NodeFailed | Stay::TargetFailed | Stay::Busy
    )
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
            send_kept(keep, engine, (r, w), (kept, Vec::new())).map_err(|e| reason(e, &news))?;
            point(Failpoint::SafeSent);
            await_ready(&news, READY_MAX)
        });
    keep.moves.end(mv);
    let l = link.clone();
    let flipped = built.and_then(|_| {
        point(Failpoint::SafeReady);
        let flip = move |t: &mut Tree| flip(t, pid, &l, mv);
        keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended))
    });
    if flipped.is_err() {
        link.send(&ToHost::Abort {
            mv,
            pid: HomePid::of_home(pid),
        });
    } else {
        point(Failpoint::SafeThawed);
    }
    flipped
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
        let replays = p.common.record.as_ref().is_some_and(|r| r.replays())
            || together::others_replay(t, p.safe.as_ref());
        if !replays && !p.begun_elsewhere && !keep.move_queue.is_called_home(p.pid) {
            keep.move_queue.push(Task {
                pid: p.pid,
                to: Dest::Home,
                why: Why::Recovered,
            });
        }
    }
}
