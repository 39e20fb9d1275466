//! Memory that processes share: kernel objects that belong to no file system on a disk.
//!
//! Some have no name: MAP_SHARED | MAP_ANONYMOUS, files of /dev/shm that are unlinked and that no process has open
//! any more (glibc's semaphores after sem_unlink), and memfds of just-in-time compilers ([`foreign_memfd`]). Others
//! persist without any mapping: System V segments and files in /dev/shm; they travel under extra checks
//! (`keeper/src/sharing/named_shm.rs`).
//!
//! At home the deputies keep such mappings, so that the object exists as long as a process maps it. At a host a memfd
//! represents it; from its name, which [`object_of`] parses, the next survey knows the object.
//! KERNEL: mmap(2); such a mapping is one of a deleted file of the kernel's own, "/dev/zero", and only children can get
//! at it.

use super::area::{Area, Kind};
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::maps::Vma;
use armento_tracee::pages::{self, Run};
use armento_tracee::region::{Code, apart};
use armento_tracee::{PAGE, sys};
pub use armento_wire::talk::ObjectId;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::sync::Arc;

/// Largest object that travels, bytes: it is read and sent while its processes are frozen.
pub const OBJECT_MAX: u64 = 1 << 30;
const SHM: &str = "/dev/shm/";
const MEMFD: &str = "/memfd:";
/// Pages that one mincore reports: a byte each, in the scratch memory.
const VECTOR: u64 = 0x8000;
const EMPTY: [u8; PAGE as usize] = [0; PAGE as usize];
/// Bytes per read.
const LOOK: usize = 1 << 20;

/// The object behind a mapping at home, if it has no name. A process may still have it open: [`opened`].
pub fn nameless(v: &Vma) -> Option<ObjectId> {
    let name = v.name.strip_suffix(" (deleted)")?;
    // A file that was opened for reading only can never be mapped writable again: its content could not be brought
    // home.
    let writable = v.prot & libc::PROT_WRITE != 0;
    // A memfd that is only read travels as a file.
    let used = writable || v.prot & libc::PROT_EXEC != 0;
    let unlinked = || {
        name == "/dev/zero"
            || is_memfd(v) && used
            || name.starts_with(SHM) && writable && !linked(v)
    };
    (v.shared && unlinked()).then_some(ObjectId {
        dev: v.dev,
        ino: v.ino,
    })
}

/// A mapping of a memfd that a process which we cannot see may have, too: descriptors of memfds are made to be sent over
/// sockets, also to other users. What is executed at one address and written at another is a compiler's and no
/// other process's. (BEAM, .NET: /memfd:vmem, /memfd:doublemapper.) Such a mapping that can only be read is none of those
/// that travel as objects, and is refused, too.
pub fn foreign_memfd(maps: &[Vma]) -> Option<&Vma> {
    let key = |v: &Vma| (v.dev, v.ino);
    let memfds = || maps.iter().filter(|v| v.shared && is_memfd(v));
    let executed: HashSet<(u64, u64)> = memfds()
        .filter(|v| v.prot & libc::PROT_EXEC != 0)
        .map(key)
        .collect();
    let mut all = memfds();
    all.find(|v| nameless(v).is_some() != executed.contains(&key(v)))
}

fn is_memfd(v: &Vma) -> bool {
    v.name.starts_with(MEMFD) && apart(v.start, v.len())
}

/// Whether a memfd is mapped so that it can never be written through this mapping, by its flags: sealed, or opened for
/// reading only. What is in it could not be brought home.
pub fn unwritable_memfd(v: &Vma, may_write: bool) -> bool {
    !may_write && is_memfd(v) && nameless(v).is_some()
}

/// How other processes can find an object that outlives its mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistent {
    /// By key or number, which is the inode's. KERNEL: ipc/shm.c, newseg.
    SystemV,
    /// In /dev/shm.
    Named,
}

/// Whether a file of /dev/shm has a name there, although its mapping shows it as deleted: glibc's sem_open maps it
/// under a temporary name, links it to the final one and unlinks the first.
fn linked(v: &Vma) -> bool {
    let here = std::fs::metadata(SHM).is_ok_and(|m| id(&m).dev == v.dev);
    let entries = || std::fs::read_dir(SHM).into_iter().flatten().flatten();
    here && entries().any(|e| e.ino() == v.ino)
}

/// The persistent object behind a mapping at home.
pub fn persistent(v: &Vma) -> Option<(ObjectId, Persistent)> {
    let unlinked = v.name.ends_with(" (deleted)");
    let how = match &*v.name {
        name if name.starts_with("/SYSV") && unlinked => Persistent::SystemV,
        name if v.shared && name.starts_with(SHM) && (!unlinked || linked(v)) => Persistent::Named,
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
    nameless(v).or_else(|| persistent(v).map(|(object, _)| object))
}

/// What a process at home is looked at for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// It moves. What another process could have open, or change, keeps it.
    #[default]
    Move,
    /// It is in one checkpoint with all that share its memory, and with what they have open.
    Checkpoint,
}

impl Aim {
    /// The object behind a mapping.
    pub fn object(self, v: &Vma) -> Option<ObjectId> {
        match self {
            Aim::Checkpoint if v.shared && (is_memfd(v) || is_unlinked(v)) => Some(ObjectId {
                dev: v.dev,
                ino: v.ino,
            }),
            _ => of(v),
        }
    }

    /// A mapping of a memfd that keeps the process.
    pub fn foreign_memfd(self, maps: &[Vma]) -> Option<&Vma> {
        match self {
            Aim::Move => foreign_memfd(maps),
            Aim::Checkpoint => None,
        }
    }
}

/// A file of /dev/shm without a name there.
fn is_unlinked(v: &Vma) -> bool {
    v.name.starts_with(SHM) && v.name.ends_with(" (deleted)") && !linked(v)
}

/// The name of a memfd, from a mapping of it.
pub fn memfd_name(v: &Vma) -> Option<&str> {
    let name = v.name.strip_prefix(MEMFD).filter(|_| is_memfd(v))?;
    Some(name.strip_suffix(" (deleted)").unwrap_or(name))
}

/// The object of a process's descriptor, if it may be one.
pub fn opened(fd: &std::path::Path) -> Option<ObjectId> {
    let m = std::fs::metadata(fd).ok()?;
    m.file_type().is_file().then(|| id(&m))
}

/// As in maps, where device numbers have another encoding.
pub fn id(m: &std::fs::Metadata) -> ObjectId {
    let dev = u64::from(libc::major(m.dev())) << 32 | u64::from(libc::minor(m.dev()));
    ObjectId { dev, ino: m.ino() }
}

/// The object that a host's memfd represents.
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

/// Each object and the highest offset that `areas` map, bytes.
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

/// `areas`, with mappings of the objects whose pages are `sent` made readable and writable: they are mapped so until
/// their pages are there. KERNEL: access_remote_vm; the protection of a shared mapping cannot be overridden from
/// outside, unlike that of a private one.
pub fn opened_up(areas: &[Area], sent: impl Fn(&ObjectId) -> bool) -> Vec<Area> {
    let mut all = areas.to_vec();
    for a in &mut all {
        if matches!(&a.kind, Kind::Shared { object, .. } if sent(object)) {
            a.prot |= libc::PROT_READ | libc::PROT_WRITE;
        }
    }
    all
}

/// Calls that set the mappings in `areas` to their own protection again.
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

/// The ranges of each object that some processes map, as offsets.
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

    /// All of an object, whatever is mapped of it.
    pub fn add_whole(&mut self, object: ObjectId) {
        self.0.insert(object, vec![(0, !(PAGE - 1))]);
    }

    /// Objects that `areas` map and these views do not.
    pub fn lack(&self, areas: &[Area]) -> Vec<ObjectId> {
        let all = sizes(areas).into_iter().map(|(object, _)| object);
        all.filter(|o| !self.0.contains_key(o)).collect()
    }

    /// The part of a mapping that these views do not cover: addresses.
    fn beyond(&self, object: ObjectId, off: u64, (start, end): Run) -> Vec<Run> {
        let mine = [(off, off + (end - start))];
        let theirs = self.0.get(&object).map_or(&[][..], |all| all);
        let rest = pages::minus(&mine, theirs);
        rest.iter()
            .map(|(a, b)| (a - off + start, b - off + start))
            .collect()
    }
}

/// Before: frozen, at home. The parts of the objects mapped by `areas` that have pages. Page tables do not show that,
/// since other processes fill objects, too, and reading each page would create missing ones. KERNEL: mincore(2) reports
/// the pages of such an object, but not swapped-out ones: if the machine has swap, the whole object counts.
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

/// Before: frozen, at home. The non-zero parts of the objects that a process maps, except those in `others`, which are
/// sent already. `known`: the parts that have pages.
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
                // There is nothing beyond the end of the object (SIGBUS).
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

/// KERNEL: proc_mem.force_override=never denies us memory that the process itself may not read.
fn hidden(at: u64, r: std::io::Result<usize>) -> MigrateError {
    let why = r.map_or_else(|e| e.to_string(), |_| "nothing".into());
    let why = format!("shared memory at {at:#x} cannot be read from outside: {why}");
    MigrateError::Stays(Stay::SharedMemory, why)
}

/// A host's memfd that represents an object.
pub struct Object {
    pub file: Arc<File>,
    /// What came with the move, as offsets: home has it, too. All other data was created here.
    arrived: Vec<Run>,
    /// Home asks for it as a whole; until then it is kept, mapped or not.
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

    /// Before: the pages are there and no process of it has run yet.
    pub fn arrived(&mut self) -> Result<()> {
        let now = sys::extents(self.file.as_raw_fd()).local("look at shared memory")?;
        self.arrived = pages::union(now, &self.arrived);
        Ok(())
    }

    /// What must be sent home of it as a whole, as offsets.
    pub fn all(&self) -> Result<Vec<Run>> {
        let now = sys::extents(self.file.as_raw_fd()).local("look at shared memory")?;
        Ok(pages::union(now, &self.arrived))
    }

    /// Before: frozen. What must be sent home of the mappings in `areas`, beyond what is sent for `others`: pages that
    /// exist here, and pages that came and were emptied.
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
    fn memfd_name_identifies_the_object() {
        let object = ObjectId { dev: 1, ino: 0x2f };
        let name = format!("/memfd:{} (deleted)", object.name());
        assert_eq!(object_of(&name), Some(object));
        assert_eq!(object_of("/memfd:other (deleted)"), None);
    }

    #[test]
    fn only_memfds_that_are_executed_travel() {
        let map = |start, ino, prot| Vma {
            start,
            end: start + 0x1000,
            prot,
            shared: true,
            off: 0,
            dev: 1,
            ino,
            name: "/memfd:jit (deleted)".into(),
        };
        let (r, w, x) = (libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC);
        let check = |maps: &[Vma], foreign: Option<u64>| {
            assert_eq!(foreign_memfd(maps).map(|v| v.start), foreign, "{maps:?}");
        };
        check(&[map(0x1000, 1, r | w), map(0x2000, 1, r | x)], None);
        check(
            &[map(0x1000, 1, r | w), map(0x2000, 2, r | x)],
            Some(0x1000),
        );
        check(&[map(0x1000, 1, r | x), map(0x2000, 1, r)], Some(0x2000));
        check(&[map(0x1000, 1, r)], None);
        assert_eq!(nameless(&map(0x1000, 1, r)), None);
        assert_eq!(nameless(&map(armento_tracee::region::BASE, 1, r | w)), None);
    }

    #[test]
    fn object_size_is_the_highest_mapped_offset() {
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
