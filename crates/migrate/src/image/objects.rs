//! Memory that processes share: objects of the kernel's that are not of a file system on a disk.
//!
//! Some have no name: MAP_SHARED | MAP_ANONYMOUS, and files of /dev/shm that are unlinked and that nobody has open any
//! more (glibc's semaphores after sem_unlink). Others last, whoever maps them: System V segments and files in
//! /dev/shm; they travel under a guard (`keeper/src/sharing/named_shm.rs`).
//!
//! At home the deputies keep such mappings, so that the object lives as long as anybody maps it. At a host a
//! file of memory stands for it; its name, which [`object_of`] parses, tells the next survey whose it is.
//! KERNEL: mmap(2); such a mapping is one of a deleted file of the kernel's own, "/dev/zero", and nobody but
//! children can get at it.

use super::area::{Area, Kind};
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::inject::{Call, Hold};
use armento_tracee::maps::Vma;
use armento_tracee::pages::{self, Run};
use armento_tracee::region::Code;
use armento_tracee::{PAGE, sys};
pub use armento_wire::talk::ObjectId;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::sync::Arc;

/// Largest that travels, bytes: it is looked through and sent while its processes stand still.
pub const OBJECT_MAX: u64 = 1 << 30;
const SHM: &str = "/dev/shm/";
/// Pages that one mincore tells of: a byte each, in the scratch memory.
const VECTOR: u64 = 0x8000;
const EMPTY: [u8; PAGE as usize] = [0; PAGE as usize];
/// Bytes looked at in one read.
const LOOK: usize = 1 << 20;

/// The object behind a mapping at home, if it has no name. Somebody may yet have it open: [`opened`].
pub fn nameless(v: &Vma) -> Option<ObjectId> {
    let name = v.name.strip_suffix(" (deleted)")?;
    // A file that was opened for reading only can never be mapped writable again: nothing could be brought home.
    let writable = v.prot & libc::PROT_WRITE != 0;
    let unlinked = || name == "/dev/zero" || name.starts_with(SHM) && writable && !linked(v);
    (v.shared && unlinked()).then_some(ObjectId {
        dev: v.dev,
        ino: v.ino,
    })
}

/// How others can find an object that outlives its mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// By key or number, which is the inode's. KERNEL: ipc/shm.c, newseg.
    SystemV,
    /// In /dev/shm.
    Named,
}

/// Has a file of /dev/shm a name there, whatever its mapping is called? glibc's sem_open maps it under a name for the
/// moment, links it to its own and unlinks the first, which maps go on to show as deleted.
fn linked(v: &Vma) -> bool {
    let here = std::fs::metadata(SHM).is_ok_and(|m| id(&m).dev == v.dev);
    let entries = || std::fs::read_dir(SHM).into_iter().flatten().flatten();
    here && entries().any(|e| e.ino() == v.ino)
}

/// The object behind a mapping at home that lasts.
pub fn lasting(v: &Vma) -> Option<(ObjectId, Lasting)> {
    let unlinked = v.name.ends_with(" (deleted)");
    let how = match &*v.name {
        name if name.starts_with("/SYSV") && unlinked => Lasting::SystemV,
        name if v.shared && name.starts_with(SHM) && (!unlinked || linked(v)) => Lasting::Named,
        _ => return None,
    };
    let object = ObjectId {
        dev: v.dev,
        ino: v.ino,
    };
    v.shared.then_some((object, how))
}

/// The object behind a mapping at home.
pub fn of(v: &Vma) -> Option<ObjectId> {
    nameless(v).or_else(|| lasting(v).map(|(object, _)| object))
}

/// A descriptor of a process, if it may be one of an object.
pub fn opened(fd: &std::path::Path) -> Option<ObjectId> {
    let m = std::fs::metadata(fd).ok()?;
    m.file_type().is_file().then(|| id(&m))
}

/// As maps have it, where device numbers are written apart.
pub fn id(m: &std::fs::Metadata) -> ObjectId {
    let dev = u64::from(libc::major(m.dev())) << 32 | u64::from(libc::minor(m.dev()));
    ObjectId { dev, ino: m.ino() }
}

/// The object that a host's file of memory stands for.
pub fn object_of(name: &str) -> Option<ObjectId> {
    let rest = name
        .strip_prefix("/memfd:as-")?
        .strip_suffix(" (deleted)")?;
    let (dev, ino) = rest.split_once('-')?;
    let hex = |s| u64::from_str_radix(s, 16).ok();
    Some(ObjectId {
        dev: hex(dev)?,
        ino: hex(ino)?,
    })
}

/// The mappings of objects among `areas`: object, offset, mapping.
pub fn shared(areas: &[Area]) -> impl Iterator<Item = (ObjectId, u64, Run)> {
    areas.iter().filter_map(|a| match a.kind {
        Kind::Shared { object, off } => Some((object, off, a.run())),
        _ => None,
    })
}

/// Each object and how far `areas` map it, bytes.
pub fn sizes(areas: &[Area]) -> Vec<(ObjectId, u64)> {
    let mut all: Vec<(ObjectId, u64)> = Vec::new();
    for (object, off, run) in shared(areas) {
        let end = off + (run.1 - run.0);
        match all.iter_mut().find(|(o, _)| *o == object) {
            Some((_, size)) => *size = end.max(*size),
            None => all.push((object, end)),
        }
    }
    all
}

pub fn travels(areas: &[Area]) -> Result<()> {
    if sizes(areas).iter().any(|(_, size)| *size > OBJECT_MAX) {
        let why = "shared memory too big to travel";
        return Err(MigrateError::Stays(Stay::NoRoom, why.into()));
    }
    Ok(())
}

/// `areas`, with those of objects whose pages are `sent` with their processes open for reading and writing: so they are
/// mapped until their pages are there.
/// KERNEL: access_remote_vm; what a shared mapping forbids cannot be forced from outside, unlike in a private one.
pub fn opened_up(areas: &[Area], sent: impl Fn(&ObjectId) -> bool) -> Vec<Area> {
    let mut all = areas.to_vec();
    for a in &mut all {
        if matches!(&a.kind, Kind::Shared { object, .. } if sent(object)) {
            a.prot |= libc::PROT_READ | libc::PROT_WRITE;
        }
    }
    all
}

/// Calls that give the mappings in `areas` their own protection again.
pub fn close_calls(areas: &[Area]) -> Vec<Call> {
    let open = libc::PROT_READ | libc::PROT_WRITE;
    let shared = |a: &&Area| matches!(a.kind, Kind::Shared { .. });
    let closed = areas.iter().filter(shared);
    let closed = closed.filter(|a| a.prot & open != open);
    let call = |a: &Area| {
        let args = [a.start, a.end - a.start, a.prot as u64, 0, 0, 0];
        (libc::SYS_mprotect, args)
    };
    closed.map(call).collect()
}

/// What some processes map of each object, as offsets in it.
#[derive(Clone, Debug, Default)]
pub struct Views(BTreeMap<ObjectId, Vec<Run>>);

impl Views {
    pub fn add(&mut self, areas: &[Area]) {
        for (object, off, (start, end)) in shared(areas) {
            let all = self.0.entry(object).or_default();
            all.push((off, off + (end - start)));
            *all = pages::union(std::mem::take(all), &[]);
        }
    }

    /// Objects that `areas` map and these do not.
    pub fn lack(&self, areas: &[Area]) -> Vec<ObjectId> {
        let all = sizes(areas).into_iter().map(|(object, _)| object);
        all.filter(|o| !self.0.contains_key(o)).collect()
    }

    /// What of a mapping these do not have: addresses.
    fn beyond(&self, object: ObjectId, off: u64, (start, end): Run) -> Vec<Run> {
        let mine = [(off, off + (end - start))];
        let theirs = self.0.get(&object).map_or(&[][..], |all| all);
        let rest = pages::minus(&mine, theirs);
        rest.iter()
            .map(|(a, b)| (a - off + start, b - off + start))
            .collect()
    }
}

/// Before: frozen, at home. What of the objects that `areas` map has pages. Page tables do not say that, since
/// others fill objects, too, and a look at each page would make those that are not there.
/// KERNEL: mincore(2) knows the pages of such an object, but not those that are swapped out: where there is
/// swap, all of it counts.
pub fn resident(h: &mut Hold, code: &Code, areas: &[Area]) -> Result<Vec<Run>> {
    let all: Vec<Run> = shared(areas).map(|(_, _, run)| run).collect();
    if swaps() {
        return Ok(all);
    }
    let mut found = Vec::new();
    for (mut at, end) in all {
        while at < end {
            let pages = ((end - at) / PAGE).min(VECTOR);
            let to = code.scratch(0, &vec![0u8; pages as usize]);
            let call = (libc::SYS_mincore, [at, pages * PAGE, to, 0, 0, 0]);
            h.batch_ok(code, "mincore", &[call])?;
            let mut there = vec![0u8; pages as usize];
            code.read_scratch(0, &mut there);
            let there = there.iter().enumerate().filter(|(_, b)| **b & 1 != 0);
            let page = |(n, _): (usize, &u8)| (at + n as u64 * PAGE, at + (n as u64 + 1) * PAGE);
            found.extend(there.map(page));
            at += pages * PAGE;
        }
    }
    Ok(pages::union(found, &[]))
}

fn swaps() -> bool {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps.lines().nth(1).is_some()
}

/// Before: frozen, at home. What is not zero of the objects that a process maps and `others`, which are sent
/// already, do not. `known`: what has pages at all.
pub fn filled(pid: i32, areas: &[Area], others: &Views, known: &[Run]) -> Result<Vec<Run>> {
    let mem = File::open(format!("/proc/{pid}/mem")).of_process("open its memory")?;
    let mut buf = vec![0u8; LOOK];
    let mut runs = Vec::new();
    let parts = shared(areas).flat_map(|(object, off, run)| others.beyond(object, off, run));
    let parts: Vec<Run> = parts.collect();
    for (mut at, end) in pages::both(&pages::union(parts, &[]), known) {
        while at < end {
            let want = ((end - at) as usize).min(LOOK);
            let got = match mem.read_at(&mut buf[..want], at) {
                Ok(got) if got > 0 => got,
                // Behind the end of the object there is nothing (SIGBUS).
                _ if swaps() && readable(areas, at) => {
                    at += PAGE;
                    continue;
                }
                r => return Err(hidden(at, r)),
            };
            let pages = buf[..got].chunks(PAGE as usize).enumerate();
            let full = pages.filter(|(_, page)| *page != &EMPTY[..page.len()]);
            runs.extend(full.map(|(n, _)| {
                let from = at + n as u64 * PAGE;
                (from, from + PAGE)
            }));
            at += got as u64;
        }
    }
    Ok(pages::union(runs, &[]))
}

fn readable(areas: &[Area], at: u64) -> bool {
    let mut here = areas.iter().filter(|a| a.start <= at && at < a.end);
    here.any(|a| a.prot & libc::PROT_READ != 0)
}

/// KERNEL: proc_mem.force_override=never hides from us what the process itself may not read.
fn hidden(at: u64, r: std::io::Result<usize>) -> MigrateError {
    let why = r.map_or_else(|e| e.to_string(), |_| "nothing".into());
    let why = format!("shared memory at {at:#x} cannot be read from outside: {why}");
    MigrateError::Stays(Stay::SharedMemory, why)
}

/// A host's file of memory that stands for an object.
pub struct Object {
    pub file: Arc<File>,
    /// What came with the move, as offsets: home has it, too. All else came to be here.
    arrived: Vec<Run>,
    /// Home asks for it as a whole; until then it is kept, whoever maps it.
    pub lasts: bool,
}

impl Object {
    pub fn new(file: File, lasts: bool) -> Object {
        Object {
            file: Arc::new(file),
            arrived: Vec::new(),
            lasts,
        }
    }

    /// The pages are there and nobody has run yet.
    pub fn arrived(&mut self) -> Result<()> {
        let now = sys::extents(self.file.as_raw_fd()).local("look at shared memory")?;
        self.arrived = pages::union(now, &self.arrived);
        Ok(())
    }

    /// What home must be told of it as a whole, as offsets.
    pub fn all(&self) -> Result<Vec<Run>> {
        let now = sys::extents(self.file.as_raw_fd()).local("look at shared memory")?;
        Ok(pages::union(now, &self.arrived))
    }

    /// Before: frozen. What home must be told of the mappings in `areas` beyond what `others` tell it: what is
    /// here, and what came and was emptied.
    pub fn held(&self, object: ObjectId, areas: &[Area], others: &Views) -> Result<Vec<Run>> {
        let known = self.all()?;
        let mut runs = Vec::new();
        for (_, off, run) in shared(areas).filter(|(o, ..)| *o == object) {
            let at = |(a, b): &Run| (a - off + run.0, b - off + run.0);
            let view = (off, off + (run.1 - run.0));
            let known: Vec<Run> = pages::both(&known, &[view]).iter().map(at).collect();
            runs.extend(pages::both(&known, &others.beyond(object, off, run)));
        }
        Ok(pages::union(runs, &[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_memory_says_what_it_stands_for() {
        let object = ObjectId { dev: 1, ino: 0x2f };
        let name = format!("/memfd:{} (deleted)", object.name());
        assert_eq!(object_of(&name), Some(object));
        assert_eq!(object_of("/memfd:other (deleted)"), None);
    }

    #[test]
    fn an_object_is_as_big_as_its_mappings_reach() {
        let object = ObjectId { dev: 1, ino: 2 };
        let area = |start, end, off| Area {
            start,
            end,
            prot: 3,
            kind: Kind::Shared { object, off },
            flags: Default::default(),
        };
        let areas = [area(0x1000, 0x3000, 0x4000), area(0x8000, 0x9000, 0)];
        assert_eq!(sizes(&areas), [(object, 0x6000)]);
    }
}
