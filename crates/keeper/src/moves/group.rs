//! Processes that share memory move together, or not at all.
//!
//! From: `move_process.rs`, `keeper/src/sharing/sharers.rs`. Next: `prepare.rs`, `home.rs` for each.
//!
//! ```text
//! out    halt all · for each: offer, state, memory, Ready? · then for all: deputies, Thaw
//! home   all at once: pre-copy, freeze · when all stand still: state, memory · then for all: restore, flip
//! ```
//! What they share is sent once, by the first that maps it. On the way out nothing is copied while they run:
//! a write of one into what another has sent would be lost.

use super::outcome::{MoveCost, READY_MAX, await_ready, reason_of_target};
use super::restore_threads::Fetched;
use super::{eligibility, freeze, hollow, home, prepare, restore_threads};
use crate::calls::serve_host;
use crate::deputy::HostLink;
use crate::hosts::{connect, open_for_move};
use crate::lifecycle::scan_children;
use crate::observers::untouched;
use crate::sharing::{
    fetch_objects, guard_objects, objects_away, release_objects, shared_only_with,
};
use crate::state::{Keep, MoveEvent, Place, Tree};
use crate::sync::lock;
use armento_migrate::image::areas;
use armento_migrate::image::files::readable;
use armento_migrate::image::flags::Noted;
use armento_migrate::image::objects::{self, Views};
use armento_migrate::source::Job;
use armento_migrate::{MigrateError, Result};
use armento_model::{MoveId, NodeName, Pid, Stay};
use armento_tracee::{maps, status};
use armento_wire::talk::{FileKey, Purpose, ToHost};
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// One move of a group holds all of them still for so long that more would not be bearable.
const MEMBERS_MAX: usize = 256;

/// How long the other node may take to get files that it lacks, before its processes are halted all the same.
const WARM_MAX: Duration = Duration::from_secs(10);

/// Where all of them are. Processes that share memory are always at one place.
pub fn place(keep: &Keep, group: &[Pid]) -> Result<Place> {
    if group.len() > MEMBERS_MAX {
        let why = format!("it shares memory with {} others", group.len() - 1);
        return Err(MigrateError::Stays(Stay::SharedMemory, why));
    }
    let pids = group.to_vec();
    let look = move |t: &mut Tree| -> Result<Place> {
        if pids.iter().any(|p| !t.procs.contains_key(p)) {
            // Its parent's fork was just now.
            scan_children(t);
        }
        let mut place = None;
        for pid in pids {
            if dead(pid) {
                continue;
            }
            let p = t.procs.get(&pid).ok_or_else(|| {
                let why = format!("it shares memory with process {pid}, which is not of its tree");
                MigrateError::Stays(Stay::SharedMemory, why)
            })?;
            place.get_or_insert_with(|| p.place.clone());
        }
        place.ok_or(MigrateError::Ended)
    };
    keep.tracer.run(look).unwrap_or(Err(MigrateError::Ended))
}

/// A member on its way, with what ends its move.
struct Member {
    pid: Pid,
    mv: MoveId,
    news: Receiver<MoveEvent>,
    prep: prepare::Prepared,
}

pub fn out(keep: &Arc<Keep>, group: &[Pid], node: &NodeName) -> Result<MoveCost> {
    let mut need = 0;
    for pid in group {
        need += match eligibility::may_leave(keep, *pid) {
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
    let link = connect(keep, node, group[0], need, serve_host)?;
    warm(keep, group, &link);
    let frozen = Instant::now();
    let mut members = Vec::new();
    // What is on its way is not settled meanwhile.
    let turn = keep.guards.turn();
    let sent = (|| {
        halt(keep, group, &link, &mut members)?;
        let lasting = guard_objects(keep, group, &link)?;
        let areas = members.iter().flat_map(|m| &m.prep.head.areas);
        shared_only_with(group, &areas.cloned().collect::<Vec<_>>())?;
        let bytes = send(keep, &link, &mut members)?;
        let away = hand_over(keep, &link, &members)?;
        keep.guards.gone(&lasting);
        Ok((bytes, away))
    })();
    drop(turn);
    for m in &members {
        keep.moves.end(m.mv);
    }
    match sent {
        Ok((bytes, away)) => {
            for m in members.into_iter().filter(|m| away.contains(&m.pid)) {
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
                link.tell(&ToHost::Abort { mv, pid });
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
        let seen = areas::of_home(*pid, &list, None, &untouched);
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
    link.tell(&ToHost::Warm { mv, files: keys });
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
        let prep = keep.tracer.run(move |t| prepare::prepare(t, pid, true));
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
        let (mut r, mut w) = open_for_move(keep, link, None, Purpose::Bring(m.mv))?;
        let mut job = Job::new(m.pid, &mut r, &mut w);
        m.prep.head.brings = sent.lack(&m.prep.head.areas);
        m.prep.head.lasting = objects::sizes(&m.prep.head.areas)
            .into_iter()
            .map(|(object, _)| object)
            .filter(|o| keep.guards.has(o))
            .collect();
        let one = (|| {
            let noted = Noted::now(m.pid)?;
            eligibility::carried(&noted, false)?;
            noted.mark(&mut m.prep.head.areas);
            m.prep.head.processor = keep.processor(m.pid);
            let foreign = job.offer(&m.prep.head, &mut |k| m.prep.opened(k))?.vdso;
            let how = freeze::Leaves {
                joint: true,
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
            job.finish(&last, state, false, &[])?;
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
        link.whole()?;
        let mut away = Vec::new();
        for (pid, mv) in all {
            match hollow::hand_over(t, pid, &link, mv) {
                Ok((husk, crew)) => {
                    crew.serve();
                    if let Some(husk) = husk {
                        hollow::give_up(t, pid, husk);
                    }
                    away.push(pid);
                }
                // Its end has been reported.
                Err(_) if !t.leaving.contains_key(&pid) => {
                    link.tell(&ToHost::Abort { mv, pid });
                }
                Err(e) => return Err(about(pid, e)),
            }
        }
        Ok(away)
    };
    keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended))
}

/// A member on its way home, and what the host says of it.
type Homeward = (Pid, MoveId, Receiver<MoveEvent>);
/// One that has come.
type Here = (Pid, MoveId, Fetched);

pub fn bring(keep: &Arc<Keep>, group: &[Pid], link: &Arc<HostLink>) -> Result<MoveCost> {
    let moves: Vec<Homeward> = group
        .iter()
        .map(|pid| {
            let (tx, news) = mpsc::channel();
            (*pid, keep.moves.begin(tx, &[link]), news)
        })
        .collect();
    let got: Vec<Result<_>> = std::thread::scope(|s| {
        let fetch = |(pid, mv, _): &Homeward| {
            let (pid, mv) = (*pid, *mv);
            let work = move || home::fetch(keep, pid, link, mv).map_err(|e| about(pid, e));
            std::thread::Builder::new().spawn_scoped(s, work)
        };
        let all: Vec<_> = moves.iter().map(fetch).collect();
        let wait = |t: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match t {
            Ok(t) => t.join().unwrap_or(Err(MigrateError::Ended)),
            Err(e) => Err(MigrateError::Stays(Stay::NoRoom, e.to_string())),
        };
        all.into_iter().map(wait).collect()
    });
    let away = objects_away(keep, group);
    let mut turn = None;
    let flipped = all_here(keep, &moves, got).and_then(|all| {
        turn = Some(keep.guards.turn());
        fetch_objects(keep, &away)?;
        let bytes = all.iter().map(|(.., f)| f.bytes).sum();
        let frozen = all.iter().map(|(.., f)| f.frozen).min();
        let link = link.clone();
        let flip = move |t: &mut Tree| flip(t, &link, &all);
        let flipped = keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended));
        flipped.map(|()| MoveCost {
            bytes,
            pause: frozen.map_or(Duration::ZERO, |f| f.elapsed()),
            ..MoveCost::default()
        })
    });
    if flipped.is_ok() {
        release_objects(keep, &away);
    }
    drop(turn);
    for (pid, mv, news) in &moves {
        if flipped.is_err() {
            home::give_back(keep, *pid, link, *mv);
        }
        keep.moves.end(*mv);
        if let (Err(_), Ok(MoveEvent::Failed { stay, detail })) = (&flipped, news.try_recv()) {
            eprintln!("process {pid} of a group: {stay}: {detail}");
        }
    }
    flipped
}

/// What came of each that still lives: one that ended on the way is no hindrance.
fn all_here(keep: &Keep, moves: &[Homeward], got: Vec<Result<Fetched>>) -> Result<Vec<Here>> {
    let mut all = Vec::new();
    for ((pid, mv, _), one) in moves.iter().zip(got) {
        match one {
            Ok(f) => all.push((*pid, *mv, f)),
            Err(_) if ended(keep, *pid) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

fn ended(keep: &Keep, pid: Pid) -> bool {
    dead(pid) || keep.deputy(pid).is_none()
}

fn dead(pid: Pid) -> bool {
    status::read(pid).map_or(true, |s| s.state == 'Z' || s.state == 'X')
}

/// All of them are programs again, or none.
fn flip(t: &mut Tree, link: &Arc<HostLink>, all: &[Here]) -> Result<()> {
    let mut dressed: Vec<&Here> = Vec::new();
    for one in all {
        let (pid, _, f) = one;
        match restore_threads::restore_threads(t, *pid, f) {
            Ok(()) => dressed.push(one),
            Err(_) if ended(&t.keep, *pid) => {}
            Err(e) => {
                for (pid, _, f) in dressed {
                    restore_threads::forget_registrations(t, *pid, &f.state);
                }
                return Err(about(*pid, e));
            }
        }
    }
    for (pid, mv, _) in dressed {
        match home::flip(t, *pid, link, *mv) {
            Err(e) if !ended(&t.keep, *pid) => return Err(about(*pid, e)),
            _ => {}
        }
    }
    Ok(())
}

/// The error, with the process because of which the group does not move.
fn about(pid: Pid, e: MigrateError) -> MigrateError {
    match e {
        MigrateError::Stays(stay, why) => {
            MigrateError::Stays(stay, format!("process {pid}, which shares memory: {why}"))
        }
        e => e,
    }
}
