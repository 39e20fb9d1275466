//! A process moves from one host to another, directly.
//!
//! From: `onward.rs`. Next: `host/src/moves/depart.rs` facing `host/src/moves/arrive.rs`.
//!
//! Both hosts do the work; home breaks calls, waits for Ready, then sends Thaw and Drop. Home is the
//! arbiter: until Thaw is sent the process can go on where it was.

use super::outcome::MoveCost;
use crate::calls::serve_host;
use crate::deputy::HostLink;
use crate::hosts::connect_host;
use crate::state::{Away, Keep, MoveEvent, Process, READY_MAX, Tree, not_finished};
use armento_migrate::failpoint::point;
use armento_migrate::phase::Failpoint;
use armento_migrate::{MigrateError, Result};
use armento_model::{CpuTime, HomePid, MoveId, NodeName, Pid, Stay};
use armento_wire::talk::{ToHost, Whither};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How often the links are looked at while pages are on their way.
const LOOK: Duration = Duration::from_millis(500);

pub fn move_host_to_host(
    keep: &Arc<Keep>,
    pid: Pid,
    from: &Arc<HostLink>,
    node: &NodeName,
) -> Result<MoveCost> {
    let link = connect_host(keep, node, pid, 0, serve_host)?;
    let (tx, news) = mpsc::channel();
    if from.pass.common_engine() != link.pass.common_engine() {
        let why = format!(
            "the hosts at {} and {node} use different engines",
            from.node
        );
        return Err(MigrateError::Stays(Stay::NoPath, why));
    }
    let mv = keep.moves.begin(tx, &[from, &link]);
    let begun = Instant::now();
    // A move that failed may have left it.
    keep.tracer.run(move |t| {
        let away = t.procs.get_mut(&pid).and_then(Process::away_mut);
        away.into_iter().for_each(Away::forget_freeze);
    });
    let expect = serde_json::to_string(&link.pass.expect)
        .map_err(|e| MigrateError::Stays(Stay::LinkLost, e.to_string()))?;
    from.send(&ToHost::Send {
        mv,
        pid: HomePid::of_home(pid),
        to: Whither::Host {
            addr: link.way().addr,
            expect,
        },
    });
    let r = await_built(keep, pid, from, &link, &news);
    point(Failpoint::OnwardReady);
    keep.moves.end(mv);
    let (l, f) = (link.clone(), from.clone());
    let flipped = r.and_then(|(bytes, away)| {
        let froze = keep.tracer.run(move |t| {
            t.used_away(pid, &f.node, away);
            flip(t, pid, &f, &l, mv)
        });
        Ok((bytes, froze.unwrap_or(Err(MigrateError::Ended))?))
    });
    match flipped {
        Ok((bytes, froze)) => Ok(MoveCost {
            pause: froze.unwrap_or(begun).elapsed(),
            bytes,
            ..MoveCost::default()
        }),
        Err(e) => {
            link.send(&ToHost::Abort {
                mv,
                pid: HomePid::of_home(pid),
            });
            keep.tracer.run(move |t| t.release_held(pid));
            from.send(&ToHost::Abort {
                mv,
                pid: HomePid::of_home(pid),
            });
            Err(e)
        }
    }
}

/// Since when it stands still; or an error if it has ended.
fn frozen_since(t: &Tree, pid: Pid) -> Result<Option<Instant>> {
    let p = t.procs.get(&pid).ok_or(MigrateError::Ended)?;
    Ok(p.away().and_then(Away::frozen_since))
}

/// While it runs on, its pages may take as long as they are many; frozen it is not waited for longer than [`READY_MAX`].
fn await_built(
    keep: &Keep,
    pid: Pid,
    from: &HostLink,
    to: &HostLink,
    news: &Receiver<MoveEvent>,
) -> Result<(u64, CpuTime)> {
    loop {
        match news.recv_timeout(LOOK) {
            Ok(e) => return e.ready(),
            Err(RecvTimeoutError::Disconnected) => return Err(not_finished()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        from.ensure_connected()?;
        to.ensure_connected()?;
        let since = keep.tracer.run(move |t| frozen_since(t, pid));
        let since = since.unwrap_or(Err(MigrateError::Ended))?;
        if since.is_some_and(|since| since.elapsed() > READY_MAX) {
            return Err(not_finished());
        }
    }
}

/// The flip: one host forgets its body, the other's runs.
fn flip(
    t: &mut Tree,
    pid: Pid,
    from: &HostLink,
    to: &Arc<HostLink>,
    mv: MoveId,
) -> Result<Option<Instant>> {
    to.ensure_connected()?;
    let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let froze = p.go_to(to).ok_or(MigrateError::Ended)?;
    // Before it runs: what broke its calls comes before their results.
    t.release_held(pid);
    to.send(&ToHost::Thaw {
        mv,
        pid: HomePid::of_home(pid),
    });
    point(Failpoint::OnwardThawed);
    from.send(&ToHost::Drop {
        mv,
        pid: HomePid::of_home(pid),
    });
    Ok(froze)
}
