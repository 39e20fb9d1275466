//! Programs that begin from a checkpoint file.
//!
//! ```text
//! exec (nothing of the program has run) ─► its memory is given up, its thread is a deputy ─► more threads
//!     ─► the body is built from the file, on a node or under a host here ─► it runs
//! ```
//!
//! From: `keeper/src/events/exec.rs`. Next: `keeper/src/moves/vacate.rs`, `keeper/src/safe/recover.rs`.

use super::body::{Files, MappedFile, SavedBody};
use super::memory;
use crate::calls::{make_thread, serve_host};
use crate::deputy::HostLink;
use crate::hosts::connect_host;
use crate::moves::{Begun, Shape, begin_at_home, go_on_together, make_room};
use crate::safe::{build, choose};
use crate::state::{Keep, Kept, MoveLock, Process, Restarts, Tree, tell_user};
use crate::sync::lock;
use armento_checkpoint::format::{FormatError, PAGE, Page, Reader};
use armento_checkpoint::home::{Home, sha256};
use armento_client::api::Report;
use armento_migrate::image::files::file_key;
use armento_migrate::pages::PageStore;
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{HomePid, HomeTid, NodeName, Pid, Stay};
use armento_tracee::sys;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::{Arc, Mutex};

/// Builds one body after the other, for ever.
pub fn begin_from_file(keep: &Arc<Keep>) {
    let Some(restarts) = &keep.restarts else {
        return;
    };
    let file = Reader::open(&restarts.how.file);
    let mut sharers = Sharers::default();
    loop {
        let pid = restarts.queue.pop();
        let begun = match &file {
            Ok(file) => begin(keep, restarts, file, pid)
                .and_then(|one| one.map_or(Ok(()), |one| sharers.add(keep, file.home(), one))),
            Err(e) => Err(MigrateError::Stays(Stay::TargetFailed, e.to_string())),
        };
        keep.daemon.report(Report::Placed { pid });
        if let Err(e) = begun {
            let why = match e.detail() {
                detail if detail.is_empty() => e.stay().to_string(),
                detail => detail,
            };
            let line = format!(
                "armento: process {pid} cannot begin from {}: {why}\nhint: the file is as it was; {}\n",
                restarts.how.file.display(),
                e.stay().remedy()
            );
            tell_user(pid, &line);
            // None of them goes on without the others. One that has ended may have left its number to a stranger.
            let alive = keep.pids();
            let of_tree = |other: &Pid| *other == pid || alive.contains(other);
            for pid in restarts.pids().into_iter().filter(of_tree) {
                let _ = sys::kill(pid, libc::SIGKILL);
            }
        }
    }
}

/// Processes that share memory: none of them goes on before all are there.
#[derive(Default)]
struct Sharers<'a>(Vec<Sharer<'a>>);

/// One of them, with what is held until it goes on.
struct Sharer<'a> {
    begun: Begun,
    _turn: MoveLock<'a>,
    _open: Vec<Arc<File>>,
}

impl<'a> Sharers<'a> {
    fn add(&mut self, keep: &Arc<Keep>, home: &Home, one: Sharer<'a>) -> Result<()> {
        self.0.push(one);
        let all: HashSet<u32> = home
            .memory
            .iter()
            .flat_map(|m| m.mapped_by.clone())
            .collect();
        if self.0.len() < all.len() {
            return Ok(());
        }
        let all = std::mem::take(&mut self.0);
        let (begun, _held): (Vec<Begun>, Vec<_>) = all
            .into_iter()
            .map(|s| (s.begun, (s._turn, s._open)))
            .unzip();
        let pids: Vec<Pid> = begun.iter().map(|b| b.pid).collect();
        go_on_together(keep, begun)?;
        eprintln!("processes {pids:?}, which share memory, begin from a checkpoint");
        Ok(())
    }
}

/// `Some`: it shares memory, and waits for the others.
fn begin<'a>(
    keep: &'a Arc<Keep>,
    restarts: &Restarts,
    file: &Reader,
    pid: Pid,
) -> Result<Option<Sharer<'a>>> {
    let turn = keep.move_locks.take(pid)?;
    let missing = || MigrateError::Stays(Stay::TargetFailed, "it is not in the file".into());
    let index = restarts.index(pid).ok_or_else(missing)?;
    let process = file
        .home()
        .processes
        .get(index)
        .cloned()
        .ok_or_else(missing)?;
    let image = file.image(process.pid).map_err(|e| unread(&e))?;
    let body = SavedBody::decode(&image)?;
    // Open until the body is built: they are closed when nothing else of the tree is away.
    let (files, open) = mapped_files(keep, &body.files)?;
    let memory = memory::handed(file.home(), pid, |at| restarts.how.board.memory(at))?;
    let mut pages = pages_of(file, process.pid, &body)?;
    let need_kib = pages.bytes() >> 10;
    let shared = body.shared_views(&memory)?;
    let (node, link) = match shared.is_empty() {
        true => place(keep, pid, restarts.how.on.as_ref(), need_kib)?,
        false => here(keep, pid, need_kib)?,
    };
    let vdso = body.vdso().filter(|v| v.is_ours());
    let foreign = vdso.is_none() && body.vdso().is_some();
    if foreign && !shared.is_empty() {
        let why = "it shares memory, and was begun under another kernel than this one";
        return Err(MigrateError::Stays(Stay::TargetFailed, why.into()));
    }
    let shares = !shared.is_empty();
    restarts.will_have(pid, body.tids().len());
    let shape = Shape {
        vdso,
        files: body.views(&files)?,
        shared,
        handed: restarts.how.board.memories(),
        numbers: body.numbers().clone(),
        kept_stack: body.kept_stack(&pages)?,
    };
    make_room(keep, pid, &link, shape)?;
    // KERNEL: clone3(2): set_tid needs a capability, which other users' processes do not have.
    let same = restarts.how.same_pids && process.uids[1] == 0;
    let tids = make_threads(keep, pid, &body, same)?;
    close_on_exec(keep, pid, &process.close_on_exec())?;
    let new = |old: HomeTid| tids.get(&old).map(|t| t.at_home());
    body.attributes.set(keep, pid, new)?;
    signals_at_home(keep, pid, &body, new)?;
    let unknown = body.renumber(&tids, &mut pages)?;
    if !unknown.is_empty() {
        eprintln!(
            "process {pid}: {} threads keep their old number",
            unknown.len()
        );
    }
    let now = sys::clock_ns(libc::CLOCK_MONOTONIC).local("read the clock")?;
    let begins = body.begin(HomePid::of_home(pid), &tids, (&files, &memory), now)?;
    keep.tracer.run(move |t| {
        if let Some(p) = t.procs.get_mut(&pid) {
            p.begun_elsewhere = foreign;
        }
        hold_signals(t, pid, &begins.waiting);
    });
    let bytes = pages.bytes();
    let kept = Kept {
        image: Arc::new(begins.image),
        pages: Arc::new(Mutex::new(pages)),
        bytes,
    };
    if shares {
        let filled = memory.values().filter(|m| m.filled).map(|m| m.object);
        let begun = begin_at_home(keep, pid, &link, (&kept, filled.collect()))?;
        return Ok(Some(Sharer {
            begun,
            _turn: turn,
            _open: open,
        }));
    }
    build(keep, pid, &node, &kept)?;
    eprintln!("process {pid} begins at {node} from a checkpoint");
    Ok(None)
}

/// Where the body begins: where it is asked for, or where there is room; else here.
fn place(
    keep: &Arc<Keep>,
    pid: Pid,
    on: Option<&NodeName>,
    need_kib: u64,
) -> Result<(NodeName, Arc<HostLink>)> {
    let to = |node: NodeName| {
        let link = connect_host(keep, &node, pid, need_kib, serve_host)?;
        Ok((node, link))
    };
    if let Some(node) = on {
        return to(node.clone());
    }
    let own = keep.settings.node.clone();
    match choose(keep, pid).filter(|node| *node != own).map(to) {
        Some(Ok(there)) => Ok(there),
        _ => here(keep, pid, need_kib),
    }
}

fn here(keep: &Arc<Keep>, pid: Pid, need_kib: u64) -> Result<(NodeName, Arc<HostLink>)> {
    let node = keep.settings.node.clone();
    let link = connect_host(keep, &node, pid, need_kib, serve_host)?;
    Ok((node, link))
}

/// Opens the files that a body maps: their new keys and names. One whose content has changed would show it other bytes.
fn mapped_files(keep: &Keep, files: &[MappedFile]) -> Result<(Files, Vec<Arc<File>>)> {
    let (mut all, mut open) = (HashMap::new(), Vec::new());
    for f in files {
        let path = f.path();
        let stays = |why: String| MigrateError::Stays(Stay::TargetFailed, why);
        let missing = |e: std::io::Error| stays(format!("{}, which it maps: {e}", path.display()));
        if sha256(path).map_err(missing)? != f.digest {
            let why = format!("{}, which it maps, has changed since", path.display());
            return Err(stays(why));
        }
        let file = File::open(path).map_err(missing)?;
        let key = file_key(&file).ok_or_else(|| {
            stays(format!(
                "{}, which it maps, is no regular file",
                path.display()
            ))
        })?;
        let file = Arc::new(file);
        open.push(file.clone());
        lock(&keep.files).insert(key, file);
        all.insert(f.key, (key, path.to_path_buf()));
    }
    Ok((all, open))
}

fn pages_of(file: &Reader, pid: Pid, body: &SavedBody) -> Result<PageStore> {
    let mut pages = PageStore::in_memory(armento_sense::half_of_available())?;
    file.pages(pid, &mut |at, page| match page {
        Page::Bytes(bytes) => pages.stage(at, bytes).map_err(Unread::from),
        Page::Zeros(n) => {
            let all = (0..n).map(|n| at + n * PAGE as u64);
            all.for_each(|at| pages.stage_zeros(at));
            Ok(())
        }
    })
    .map_err(|Unread(e)| e)?;
    pages.commit(&body.there(), true);
    Ok(pages)
}

/// Why the pages of a file could not be kept here.
struct Unread(MigrateError);

impl From<MigrateError> for Unread {
    fn from(e: MigrateError) -> Unread {
        Unread(e)
    }
}

impl From<FormatError> for Unread {
    fn from(e: FormatError) -> Unread {
        Unread(unread(&e))
    }
}

fn unread(e: &dyn std::fmt::Display) -> MigrateError {
    MigrateError::Stays(Stay::TargetFailed, e.to_string())
}

/// A deputy for each thread of the body. Returns their new numbers by the old ones.
fn make_threads(
    keep: &Arc<Keep>,
    pid: Pid,
    body: &SavedBody,
    same: bool,
) -> Result<HashMap<HomeTid, HomeTid>> {
    let leader = keep.deputy(pid).ok_or(MigrateError::Ended)?;
    let mut tids = HashMap::new();
    for (n, old) in body.tids().into_iter().enumerate() {
        let new = match n {
            0 => pid,
            _ => make_thread(keep, &leader, same.then_some(old.at_home())).map_err(|e| {
                let why = match e.raw_os_error() {
                    Some(libc::EEXIST) => {
                        format!("a thread with the number {} lives already", old.at_home())
                    }
                    _ => format!("its thread {} cannot be made: {e}", old.at_home()),
                };
                MigrateError::Stays(Stay::TargetFailed, why)
            })?,
        };
        tids.insert(old, HomeTid::of_home(new));
    }
    Ok(tids)
}

/// They were open over its exec.
fn close_on_exec(keep: &Keep, pid: Pid, fds: &[i32]) -> Result<()> {
    let leader = keep.deputy(pid).ok_or(MigrateError::Ended)?;
    for fd in fds {
        let args = [
            *fd as u64,
            libc::F_SETFD as u64,
            libc::FD_CLOEXEC as u64,
            0,
            0,
            0,
        ];
        leader
            .own(libc::SYS_fcntl, args)
            .ok_or(MigrateError::Ended)?;
    }
    Ok(())
}

/// What of its signals is decided at home: those that it reads from descriptors wait there, and the disposition of SIGCHLD
/// decides about zombies (`host/src/calls/both_sides.rs`).
fn signals_at_home(
    keep: &Keep,
    pid: Pid,
    body: &SavedBody,
    new: impl Fn(HomeTid) -> Option<Pid>,
) -> Result<()> {
    for (tid, mask) in body.waits_at_home() {
        let deputy = new(tid).and_then(|tid| keep.deputy(tid));
        deputy.ok_or(MigrateError::Ended)?.slot.set_idle(mask);
    }
    let leader = keep.deputy(pid).ok_or(MigrateError::Ended)?;
    let [handler, flags] = body.child_action();
    let flags = flags & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    let action = [handler, flags, 0, 0].map(u64::to_le_bytes).concat();
    leader.slot.write_data(0, &action);
    let args = [libc::SIGCHLD as u64, leader.slot.data_addr(), 0, 8, 0, 0];
    let set = leader.own(libc::SYS_rt_sigaction, args);
    set.map(drop).ok_or(MigrateError::Ended)
}

fn hold_signals(t: &mut Tree, pid: Pid, waiting: &[(Option<HomeTid>, armento_wire::talk::Signal)]) {
    let Some(away) = t.procs.get_mut(&pid).and_then(Process::away_mut) else {
        return;
    };
    for (to, info) in waiting {
        if let Ok(info) = info.0.as_slice().try_into() {
            away.signals.hold(to.map(HomeTid::at_home), &info);
        }
    }
}
