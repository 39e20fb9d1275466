//! The processes that map the memory which a process shares: without them it cannot move. And the process because of
//! which one stayed: such a process, or its tracer.
//!
//! From: `keeper/src/moves/move_process.rs`, `keeper/src/moves/prepare.rs`. Next: `keeper/src/moves/group.rs`.

use armento_migrate::image::Area;
use armento_migrate::image::objects::{self, Aim, ObjectId};
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::maps::{self, Vma};
use armento_tracee::status;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A partner that is not found by then is not named: the move is over, but others of the tree wait for theirs.
const SEARCH_MAX: Duration = Duration::from_millis(200);

/// The processes that share memory with `pid`, directly or through others, and itself, in order. Away, its deputy still
/// maps at home what it maps, and perhaps something that the body has given up: then more move than have to.
pub fn sharers_of(pid: Pid) -> Vec<Pid> {
    let objects_of = |p: Pid| -> HashSet<ObjectId> {
        let list = maps::read(p).unwrap_or_default();
        list.iter().filter_map(objects::of).collect()
    };
    let (mut group, mut seen) = (vec![pid], objects_of(pid));
    loop {
        if seen.is_empty() {
            return group;
        }
        let now = all(&seen);
        if now.len() <= group.len() {
            return group;
        }
        for p in &now {
            seen.extend(objects_of(*p));
        }
        group = now;
        group.sort_unstable();
    }
}

/// Only those in `with` map what `areas` share.
pub fn shared_only_with(with: &[Pid], areas: &[Area]) -> Result<()> {
    let mine: HashSet<ObjectId> = objects::shared(areas).map(|(o, ..)| o).collect();
    if mine.is_empty() {
        return Ok(());
    }
    // The keeper has open what it guards.
    let me = std::process::id() as Pid;
    if let Some(p) = status::processes().find(|p| *p != me && has_open(*p, &mine)) {
        let name = status::comm(p, p);
        let why = format!("process {p} ({name}) has a file open that it maps shared");
        return Err(MigrateError::Stays(Stay::SharedMemory, why));
    }
    match all(&mine).into_iter().find(|p| !with.contains(p)) {
        Some(p) => {
            let name = status::comm(p, p);
            let why = format!("it shares memory with process {p} ({name})");
            Err(MigrateError::Stays(Stay::SharedMemory, why))
        }
        None => Ok(()),
    }
}

/// The memory that a process shares, or could share, as far as a checkpoint can hold it.
pub fn mapped_for_checkpoint(pid: Pid) -> Result<HashSet<ObjectId>> {
    let list = maps::read(pid).map_err(|_| MigrateError::Ended)?;
    if let Some(v) = list.iter().find(|v| objects::persistent(v).is_some()) {
        let name = v.name.strip_suffix(" (deleted)").unwrap_or(&v.name);
        let why = match name.starts_with("/SYSV") {
            true => "it has System V shared memory attached (shmat), which others can find".into(),
            false => format!("it maps {name} shared, which others can find by its name"),
        };
        return Err(MigrateError::Stays(Stay::SharedMemory, why));
    }
    let object = |v: &Vma| Aim::Checkpoint.object(v);
    Ok(list.iter().filter_map(object).collect())
}

/// No process but those of `pids` maps `objects`, and none at all has those of them open that are not in `open`.
pub fn only_inside(
    pids: &[Pid],
    objects: &HashSet<ObjectId>,
    open: &HashSet<ObjectId>,
) -> Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    let me = std::process::id() as Pid;
    let named = |p: Pid| format!("process {p} ({})", status::comm(p, p));
    let stays = |why: String| Err(MigrateError::Stays(Stay::SharedMemory, why));
    let one = |v: &Vma| {
        let object = ObjectId {
            dev: v.dev,
            ino: v.ino,
        };
        v.shared && objects.contains(&object)
    };
    let others = || status::processes().filter(|p| *p != me);
    if let Some(p) = others().find(|p| !pids.contains(p) && maps_one(*p, one)) {
        let named = named(p);
        return stays(format!(
            "it shares memory with {named}, which is not in the checkpoint"
        ));
    }
    let unnamed: HashSet<ObjectId> = objects.difference(open).copied().collect();
    match others().find(|p| !unnamed.is_empty() && has_open(*p, &unnamed)) {
        Some(p) => stays(format!("{} has a file open that it maps shared", named(p))),
        None => Ok(()),
    }
}

/// Every process that maps one of `objects`. What has no name goes to children only, and a child that may have
/// become another user is one of a process, and so of a keeper, that may look at any; what has one leaves only
/// with a keeper that may.
pub fn all(objects: &HashSet<ObjectId>) -> Vec<Pid> {
    let one = |v: &Vma| objects::of(v).is_some_and(|o| objects.contains(&o));
    status::processes().filter(|p| maps_one(*p, one)).collect()
}

/// Through a descriptor it could be read and written at home, or mapped by others.
fn has_open(pid: Pid, objects: &HashSet<ObjectId>) -> bool {
    let Ok(dir) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut opened = dir.flatten().filter_map(|e| objects::opened(&e.path()));
    opened.any(|o| objects.contains(&o))
}

/// Whether it has a mapping that is `wanted`, as far as we may look.
fn maps_one(pid: Pid, wanted: impl Fn(&Vma) -> bool) -> bool {
    maps::read(pid).unwrap_or_default().iter().any(wanted)
}

/// The process because of which `pid` stays; `None` when the reason has no partner, or it is not to be seen from here.
pub fn partner_of_stay(pid: Pid, stay: Stay) -> Option<Pid> {
    search(pid, stay, SEARCH_MAX)
}

fn search(pid: Pid, stay: Stay, max: Duration) -> Option<Pid> {
    match stay {
        Stay::Traced => tracer(pid),
        Stay::SharedMemory => sharer(pid, max),
        _ => None,
    }
}

/// Threads are traced one by one.
fn tracer(pid: Pid) -> Option<Pid> {
    let me = std::process::id() as Pid;
    let tids = status::threads(pid).ok()?.into_iter();
    let mut tracers = tids.filter_map(|t| Some(status::read(t).ok()?.tracer));
    tracers.find(|t| *t != 0 && *t != me)
}

/// A process with the same file, nameless memory or System V segment; all have device and inode.
fn sharer(pid: Pid, max: Duration) -> Option<Pid> {
    let writable = |v: &&Vma| v.shared && v.prot & libc::PROT_WRITE != 0 && v.is_file();
    let key = |v: &Vma| (v.dev, v.ino);
    let maps = maps::read(pid).ok()?;
    let mine: HashSet<(u64, u64)> = maps.iter().filter(writable).map(key).collect();
    if mine.is_empty() {
        return None;
    }
    let end = Instant::now() + max;
    let wanted = |v: &Vma| writable(&v) && mine.contains(&key(v));
    // Our region, should it still be there, is mapped by us, too.
    let me = std::process::id() as Pid;
    let mut others = status::processes().take_while(|_| Instant::now() < end);
    others.find(|p| *p != pid && *p != me && maps_one(*p, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// A program that says a line when it is ready and ends with its standard input.
    fn perl(script: &str, arg: &str) -> Child {
        let mut child = Command::new("perl")
            .args([
                "-e",
                &format!("{script}; $|=1; print qq(ready\\n); <STDIN>"),
                arg,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("perl");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        child
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }

    #[test]
    fn a_process_that_shares_memory_is_found() {
        let path = std::env::temp_dir().join(format!("armento-partner-{}", std::process::id()));
        File::create(&path)
            .and_then(|f| f.set_len(4096))
            .expect("a file");
        let name = path.to_str().expect("a plain name");
        // KERNEL: mmap is call 9; PROT_READ | PROT_WRITE, MAP_SHARED.
        let map = "open F, '+<', $ARGV[0]; syscall(9, 0, 4096, 3, 1, fileno(F), 0)";
        let (one, two, other) = (perl(map, name), perl(map, name), perl("1", name));
        let pid = |c: &Child| c.id() as Pid;
        // A loaded machine may be slow: how quick the search is, is not asked here.
        let partner_of_stay = |pid, stay| search(pid, stay, Duration::from_secs(60));
        assert_eq!(
            partner_of_stay(pid(&one), Stay::SharedMemory),
            Some(pid(&two))
        );
        assert_eq!(
            partner_of_stay(pid(&two), Stay::SharedMemory),
            Some(pid(&one))
        );
        assert_eq!(partner_of_stay(pid(&other), Stay::SharedMemory), None);
        assert_eq!(partner_of_stay(pid(&one), Stay::Busy), None);
        assert_eq!(partner_of_stay(pid(&one), Stay::Traced), None);
        for child in [one, two, other] {
            end(child);
        }
        std::fs::remove_file(&path).expect("our file");
    }
}
