//! Processes that share memory leave home together.
//!
//! From: `move_process.rs`. Next: `prepare.rs`, `freeze.rs`, `hollow.rs` for each.
//!
//! ```text
//! halt all · for each: offer, state, memory, Ready? · then for all: deputies, Thaw
//! ```
//! What they share is sent once, by the first that maps it. Nothing is copied while they run: a write of one into what
//! another has sent would be lost.

use super::group::about;
use super::outcome::{MoveCost, reason_of_target};
use super::prepare::Company;
use super::tear_down::tear_down_memory;
use super::{eligibility, freeze, hollow, prepare};
use crate::calls::serve_host;
use crate::deputy::HostLink;
use crate::hosts::{connect_host, open_for_move};
use crate::observers::untouched;
use crate::sharing::{guard_objects, objects_away, release_objects, shared_only_with};
use crate::state::{Keep, MoveEvent, READY_MAX, Tree, await_ready};
use crate::sync::lock;
use armento_migrate::image::areas;
use armento_migrate::image::files::readable;
use armento_migrate::image::flags::Noted;
use armento_migrate::image::objects::{self, Aim, Views};
use armento_migrate::source::Job;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, NodeName, Pid};
use armento_tracee::maps;
use armento_wire::talk::{FileKey, Purpose, ToHost};
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// How long the other node may take to get files that it lacks, before its processes are halted all the same.
const WARM_MAX: Duration = Duration::from_secs(10);

/// A member on its way, with what ends its move.
struct Member {
    pid: Pid,
    mv: MoveId,
    news: Receiver<MoveEvent>,
    prep: prepare::Prepared,
}

pub fn group_out(keep: &Arc<Keep>, group: &[Pid], node: &NodeName) -> Result<MoveCost> {
    let mut need = 0;
    for pid in group {
        need += match eligibility::may_leave(keep, *pid, Aim::Move) {
            Err(MigrateError::Ended) => 0,
            need => need.map_err(|e| about(*pid, e))?,
        };
    }
    for pid in group {
        match eligibility::noted(*pid) {
            Ok(_) | Err(MigrateError::Ended) => {}
            Err(e) => return Err(about(*pid, e)),
        }
    }
    let link = connect_host(keep, node, group[0], need, serve_host)?;
    warm(keep, group, &link);
    let frozen = Instant::now();
    let mut members = Vec::new();
    // What is on its way is not settled meanwhile.
    let turn = keep.shm_guards.lock_settling();
    let sent = (|| {
        halt(keep, group, &link, &mut members)?;
        let persistent = guard_objects(keep, group, &link)?;
        let areas = members.iter().flat_map(|m| &m.prep.head.areas);
        shared_only_with(group, &areas.cloned().collect::<Vec<_>>())?;
        let bytes = send(keep, &link, &mut members)?;
        let away = hand_over(keep, &link, &members)?;
        keep.shm_guards.mark_away(&persistent);
        Ok((bytes, away))
    })();
    drop(turn);
    for m in &members {
        keep.moves.end(m.mv);
    }
    match sent {
        Ok((bytes, away)) => {
            for m in members.into_iter().filter(|m| away.contains(&m.pid)) {
                m.prep.keep_files(keep);
                m.prep.keep_leases(keep, m.pid);
            }
            Ok(MoveCost {
                pause: frozen.elapsed(),
                bytes,
                ..MoveCost::default()
            })
        }
        Err(e) => {
            release_objects(keep, &objects_away(keep, group));
            for m in &members {
                let (pid, mv) = (m.pid, m.mv);
                link.send(&ToHost::Abort {
                    mv,
                    pid: HomePid::of_home(pid),
                });
                // Those that were handed over are not in `leaving` any more.
                keep.tracer.run(move |t| prepare::undo(t, pid));
            }
            Err(e)
        }
    }
}

/// Sends the files that they map while they run: programs and libraries are the most of a small process. What is not
/// there in time comes with its process.
fn warm(keep: &Arc<Keep>, group: &[Pid], link: &Arc<HostLink>) {
    let mut files = HashMap::new();
    for pid in group {
        let list = maps::read(*pid).unwrap_or_default();
        let untouched = || untouched(keep, *pid);
        let seen = areas::of_home(*pid, &list, None, &untouched, Aim::Move);
        files.extend(seen.unwrap_or_default().files);
    }
    let mut known = lock(&keep.files);
    files.retain(|key, _| !known.contains_key(key));
    let keys: Vec<FileKey> = files.keys().copied().collect();
    let open = |(k, f): (FileKey, File)| Some((k, Arc::new(readable(&f).ok()?)));
    let files: HashMap<FileKey, Arc<File>> = files.into_iter().filter_map(open).collect();
    known.extend(files.iter().map(|(key, f)| (*key, f.clone())));
    drop(known);
    let (tx, news) = mpsc::channel();
    let mv = keep.moves.begin(tx, &[link]);
    link.send(&ToHost::Warm { mv, files: keys });
    let _ = news.recv_timeout(WARM_MAX);
    keep.moves.end(mv);
    // One that a body mapped meanwhile is its own.
    let ours =
        |key: &FileKey, f: &Arc<File>| files.get(key).is_some_and(|mine| Arc::ptr_eq(mine, f));
    lock(&keep.files).retain(|key, f| !ours(key, f));
}

/// Halts one after the other: from then on no process writes into what they share.
fn halt(
    keep: &Arc<Keep>,
    group: &[Pid],
    link: &Arc<HostLink>,
    members: &mut Vec<Member>,
) -> Result<()> {
    for &pid in group {
        let prep = keep
            .tracer
            .run(move |t| prepare::prepare(t, pid, Company::Group));
        let prep = match prep.unwrap_or(Err(MigrateError::Ended)) {
            Err(MigrateError::Ended) => continue,
            prep => prep.map_err(|e| about(pid, e))?,
        };
        let (tx, news) = mpsc::channel();
        let mv = keep.moves.begin(tx, &[link]);
        members.push(Member {
            pid,
            mv,
            news,
            prep,
        });
    }
    Ok(())
}

/// Sends state and memory of all; the target then holds all of them, complete and stopped.
fn send(keep: &Arc<Keep>, link: &Arc<HostLink>, members: &mut [Member]) -> Result<u64> {
    let (mut sent, mut bytes) = (Views::default(), 0);
    for m in members {
        let (mut r, w) = open_for_move(keep, link, None, Purpose::Bring(m.mv))?;
        let transfer = keep.transfers.begin(m.pid, link.node.clone());
        let mut w = transfer.counted(w);
        let mut job = Job::new(m.pid, &mut r, &mut w);
        m.prep.head.brings = sent.lack(&m.prep.head.areas);
        m.prep.head.persistent = objects::sizes(&m.prep.head.areas)
            .into_iter()
            .map(|(object, _)| object)
            .filter(|o| keep.shm_guards.has(o))
            .collect();
        let one = (|| {
            let noted = Noted::now(m.pid)?;
            eligibility::carried(&noted, false)?;
            noted.mark(&mut m.prep.head.areas);
            m.prep.head.processor = keep.processor(m.pid);
            m.prep.head.engine = link.pass.common_engine();
            let foreign = job.offer(&m.prep.head, &mut |k| m.prep.opened(k))?.vdso;
            let how = freeze::Leaves {
                company: Company::Group,
                foreign,
            };
            let (pid, others) = (m.pid, sent.clone());
            let frozen = keep
                .tracer
                .run(move |t| freeze::freeze(t, pid, how, &others));
            let (mut last, mut state) = frozen.unwrap_or(Err(MigrateError::Ended))?;
            noted.mark(&mut last.areas);
            state.names = noted.names;
            sent.add(&last.areas);
            job.dirty(&last, &mut state, false, &[])?;
            job.state(state)?;
            await_ready(&m.news, READY_MAX)
        })();
        bytes += job.bytes;
        one.map_err(|e| about(m.pid, reason_of_target(e, &m.news)))?;
    }
    Ok(bytes)
}

/// All of them, or none: one that ended meanwhile is no hindrance, and nothing else can fail once the link is whole.
/// Returns the processes that are away now.
fn hand_over(keep: &Arc<Keep>, link: &Arc<HostLink>, members: &[Member]) -> Result<Vec<Pid>> {
    let all: Vec<_> = members.iter().map(|m| (m.pid, m.mv)).collect();
    let link = link.clone();
    let flip = move |t: &mut Tree| -> Result<Vec<Pid>> {
        link.ensure_connected()?;
        let mut away = Vec::new();
        for (pid, mv) in all {
            match hollow::hand_over(t, pid, &link, mv) {
                Ok((teardown, deputies)) => {
                    deputies.serve();
                    if let Some(teardown) = teardown {
                        tear_down_memory(t, pid, teardown);
                    }
                    away.push(pid);
                }
                // Its end has been reported.
                Err(_) if !t.leaving.contains_key(&pid) => {
                    link.send(&ToHost::Abort {
                        mv,
                        pid: HomePid::of_home(pid),
                    });
                }
                Err(e) => return Err(about(pid, e)),
            }
        }
        Ok(away)
    };
    keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended))
}
