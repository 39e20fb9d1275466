//! Shared memory that others can find and that outlives its mappings: System V segments, files in /dev/shm.
//!
//! From: `keeper/src/moves/group.rs` (its processes leave or come home), `keeper/src/lifecycle/scan.rs` (they ended).
//! Next: `host/src/moves/depart.rs`.
//!
//! While its processes are away home's object is as they left it. Fanotify holds an open of such a file until all are home
//! again. A segment has no such guard: it leaves only when no other process has attached it and only its owner may;
//! when the owner attaches it by number all the same, it sees the segment as it was. What the object holds comes back
//! as a whole, with its processes or after the last of them.

use super::{sharers, sys};
use crate::deputy::HostLink;
use crate::hosts::open_connection;
use crate::state::{Guarded, Keep, Task, Why};
use crate::sync::lock;
use armento_client::api::Dest;
use armento_migrate::image::objects::{self, ObjectId, Persistent};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::{maps, spawn};
use armento_wire::codec::Grow;
use armento_wire::pages::{self, Holds};
use armento_wire::talk::{Purpose, ToHost};
use armento_wire::{WireError, bulk, read_frame};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An open of a guarded file waits so long at most, then is refused: a tree that lost its host ends after 30 s.
const OPEN_MAX: Duration = Duration::from_secs(40);
/// The move home is asked for again as often: it may be busy.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Objects that are away at a time.
const HELD_MAX: usize = 4096;

/// Whether `pid` maps memory that others can find, or that is away.
pub fn maps_shared_object(keep: &Keep, pid: Pid) -> bool {
    let list = maps::read(pid).unwrap_or_default();
    let away = |v| objects::nameless(v).is_some_and(|o| keep.shm_guards.has(&o));
    list.iter()
        .any(|v| objects::persistent(v).is_some() || away(v))
}

/// Before: all of `group` stand still at home and are about to go to `link`. From now on what they map is guarded; or
/// the reason why they stay.
pub fn guard_objects(
    keep: &Arc<Keep>,
    group: &[Pid],
    link: &Arc<HostLink>,
) -> Result<HashSet<ObjectId>> {
    let mut attached: HashMap<ObjectId, u64> = HashMap::new();
    for pid in group {
        for v in maps::read(*pid).unwrap_or_default() {
            let Some((object, how)) = objects::persistent(&v) else {
                continue;
            };
            *attached.entry(object).or_default() += 1;
            if !keep.shm_guards.has(&object) {
                let file = Arc::new(open(*pid, &v)?);
                if how == Persistent::Named {
                    watch(keep, &file)?;
                }
                let (link, away) = (link.clone(), false);
                let held = Guarded {
                    file,
                    how,
                    link,
                    away,
                };
                hold(keep, object, held)?;
            }
        }
    }
    for (object, n) in &attached {
        let how = lock(&keep.shm_guards.held).get(object).map(|h| h.how);
        if how == Some(Persistent::SystemV) {
            sole(*object, *n, group)?;
        }
    }
    Ok(attached.into_keys().collect())
}

fn stays<T>(why: String) -> Result<T> {
    Err(MigrateError::Stays(Stay::SharedMemory, why))
}

/// KERNEL: proc_map_files_get_link asks for CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
fn open(pid: Pid, v: &maps::Vma) -> Result<File> {
    let path = format!("/proc/{pid}/map_files/{:x}-{:x}", v.start, v.end);
    let file = File::options().read(true).write(true).open(path);
    file.or_else(|e| stays(format!("only root can guard {}: {e}", v.name)))
}

fn hold(keep: &Keep, object: ObjectId, held: Guarded) -> Result<()> {
    let mut all = lock(&keep.shm_guards.held);
    if all.len() >= HELD_MAX {
        return stays(format!(
            "{HELD_MAX} pieces of shared memory are away already"
        ));
    }
    all.insert(object, held);
    Ok(())
}

/// A segment that all of `group` map `n` times in all, that no other process has attached, and that only its owner may
/// attach. KERNEL: /proc/sysvipc/shm, proc(5): key, shmid, perms, size, cpid, lpid, nattch.
fn sole(object: ObjectId, n: u64, group: &[Pid]) -> Result<()> {
    let ours = std::fs::read_link("/proc/self/ns/ipc").local("look at System V shared memory")?;
    let theirs = |p: &Pid| std::fs::read_link(format!("/proc/{p}/ns/ipc")).ok();
    if group.iter().filter_map(theirs).any(|ns| ns != ours) {
        return stays("a System V segment of another IPC namespace".into());
    }
    let id = object.ino;
    let table =
        std::fs::read_to_string("/proc/sysvipc/shm").local("look at System V shared memory")?;
    let rows = table.lines().skip(1);
    let mut rows = rows.map(|l| l.split_whitespace().collect::<Vec<_>>());
    let Some(row) = rows.find(|r| r.get(1).is_some_and(|s| *s == id.to_string())) else {
        return stays(format!("System V segment {id} is not known here"));
    };
    let perms = u32::from_str_radix(row.get(2).unwrap_or(&"777"), 8).unwrap_or(0o777);
    let attached = row.get(6).and_then(|n| n.parse::<u64>().ok());
    if perms & 0o077 != 0 {
        return stays(format!(
            "others may attach System V segment {id} (mode {:o})",
            perms & 0o777
        ));
    }
    if attached != Some(n) {
        let all = attached.unwrap_or(0);
        return stays(format!(
            "System V segment {id} is attached {all} times, {n} of them by its group"
        ));
    }
    Ok(())
}

/// Has the kernel hold opens of `file`.
fn watch(keep: &Arc<Keep>, file: &File) -> Result<()> {
    let mut watch = lock(&keep.shm_guards.watch);
    let fan = match &*watch {
        Some(fan) => fan.clone(),
        None => {
            let fan = match sys::fanotify() {
                Ok(fan) => Arc::new(fan),
                Err(e) => return stays(format!("only root can guard a file in /dev/shm: {e}")),
            };
            let (k, f) = (keep.clone(), fan.clone());
            spawn::start("guard", move || opens(&k, &f)).local("start a thread")?;
            *watch = Some(fan.clone());
            fan
        }
    };
    let marked = sys::watch_opens(&fan, file.as_fd(), true);
    marked.or_else(|e| stays(format!("a file in /dev/shm cannot be guarded: {e}")))
}

/// A guarded file is opened: the processes whose memory it is come home first.
fn opens(keep: &Arc<Keep>, fan: &Arc<OwnedFd>) {
    while let Ok(list) = sys::held_opens(fan) {
        for (file, pid) in list {
            // The keeper itself, and processes that are away: they would wait for themselves.
            let ours = pid == std::process::id() as Pid || keep.deputy(pid).is_some();
            let object = file.metadata().map(|m| objects::id(&m)).ok();
            match object.filter(|o| !ours && keep.shm_guards.has(o)) {
                None => sys::answer_open(fan, &file, true),
                Some(object) => {
                    let (keep, fan) = (keep.clone(), fan.clone());
                    spawn::soon("opened", move || {
                        let home = come_home(&keep, object, pid);
                        sys::answer_open(&fan, &file, home);
                    });
                }
            }
        }
    }
}

fn come_home(keep: &Arc<Keep>, object: ObjectId, opener: Pid) -> bool {
    let until = Instant::now() + OPEN_MAX;
    let mut asked: Option<Instant> = None;
    while keep.shm_guards.has(&object) {
        if Instant::now() > until {
            eprintln!(
                "process {opener} was refused a file in /dev/shm: its memory did not come home"
            );
            return false;
        }
        if asked.is_none_or(|t| t.elapsed() > ASK_AGAIN) {
            asked = Some(Instant::now());
            let one = sharers::all(&HashSet::from([object]));
            if let Some(pid) = one.into_iter().find(|p| keep.deputy(*p).is_some()) {
                let why = format!("process {opener} opens memory that it shares");
                let why = Why::Call(Stay::SharedMemory, why);
                let to = Dest::Home;
                keep.move_queue.push_urgent(Task { pid, to, why });
            }
        }
        let held = lock(&keep.shm_guards.held);
        let away = |held: &mut HashMap<_, _>| held.contains_key(&object);
        // It is looked at again above.
        drop(
            keep.shm_guards
                .released
                .wait_timeout_while(held, ASK_AGAIN, away),
        );
    }
    true
}

/// Before: the objects are not written where they are: the processes that map them stand still, or have ended. Brings
/// home the contents of those of `wanted` that are away.
pub fn fetch_objects(keep: &Arc<Keep>, wanted: &HashSet<ObjectId>) -> Result<()> {
    for object in wanted {
        let held = lock(&keep.shm_guards.held).get(object).cloned();
        if let Some(held) = held {
            fetch_one(keep, *object, &held)?;
        }
    }
    Ok(())
}

fn fetch_one(keep: &Keep, object: ObjectId, held: &Guarded) -> Result<()> {
    let (mut r, _w) = open_connection(keep, &held.link.way(), Purpose::Object(object))?;
    let size = held.file.metadata().local("look at shared memory")?.len();
    let (mut buf, mut grow) = (Vec::new(), Grow::default());
    while read_frame(&mut r, &mut buf)? == bulk::PAGES {
        let (parts, mut rest) = pages::decode(&buf, &mut grow)?;
        for p in parts {
            if p.holds != Holds::Bytes {
                return Err(WireError::Garbled("piece of shared memory").into());
            }
            let (bytes, others) = rest.split_at(p.len);
            rest = others;
            // The last page of a file is more than the file.
            let n = p.len.min(size.saturating_sub(p.at) as usize);
            held.file
                .write_all_at(&bytes[..n], p.at)
                .local("write shared memory")?;
        }
    }
    Ok(())
}

/// They are home, or never left: opens are not held any more.
pub fn release_objects(keep: &Keep, wanted: &HashSet<ObjectId>) {
    for object in wanted {
        let Some(held) = lock(&keep.shm_guards.held).remove(object) else {
            continue;
        };
        let fan = lock(&keep.shm_guards.watch).clone();
        if let Some(fan) = fan.filter(|_| held.how == Persistent::Named) {
            let _ = sys::watch_opens(&fan, held.file.as_fd(), false);
        }
        held.link.send(&ToHost::Forget { object: *object });
    }
    keep.shm_guards.released.notify_all();
}

/// What of it is away that `group` maps.
pub fn objects_away(keep: &Keep, group: &[Pid]) -> HashSet<ObjectId> {
    let list = group
        .iter()
        .flat_map(|p| maps::read(*p).unwrap_or_default());
    let all: HashSet<ObjectId> = list.filter_map(|v| objects::of(&v)).collect();
    all.into_iter().filter(|o| keep.shm_guards.has(o)).collect()
}

/// `pid` ends, or has: objects that no other process maps which is away come home after it.
pub fn settle_ended(keep: &Arc<Keep>, ended: Pid) {
    let _turn = keep.shm_guards.lock_settling();
    let held = lock(&keep.shm_guards.held).clone();
    let away = held.into_iter().filter(|(_, h)| h.away).map(|(o, _)| o);
    let alone = |o: &ObjectId| {
        let all = sharers::all(&HashSet::from([*o]));
        all.iter().all(|p| *p == ended || keep.deputy(*p).is_none())
    };
    let last: HashSet<ObjectId> = away.filter(alone).collect();
    if let Err(e) = fetch_objects(keep, &last) {
        eprintln!(
            "what process {ended} shared did not come home: {e}; in /dev/shm and System V segments is what it had when \
             it left: start it again"
        );
    }
    release_objects(keep, &last);
}

/// The same from the tracer thread, which does not wait for it.
pub fn settle_later(keep: &Arc<Keep>, pid: Pid) {
    if !keep.shm_guards.is_empty() {
        let keep = keep.clone();
        spawn::soon("settle", move || settle_ended(&keep, pid));
    }
}
