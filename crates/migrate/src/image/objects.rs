//! Memory that processes share and that has no name: MAP_SHARED | MAP_ANONYMOUS.
//!
//! At home the deputies keep such mappings, so that the object lives as long as anybody maps it. At a host a
//! file of memory stands for it; its name, which [`object_of`] parses, tells the next survey whose it is.
//! KERNEL: mmap(2); such a mapping is one of a deleted file of the kernel's own, "/dev/zero", and nobody but
//! children can get at it.

use super::{Area, Kind};
use crate::{MigrateError, Result};
use armento_model::Stay;
use armento_tracee::maps::Vma;
use armento_tracee::pages::{self, Run};
use armento_tracee::{PAGE, sys};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Largest that travels, bytes: it is looked through and sent while its processes stand still.
pub const OBJECT_MAX: u64 = 1 << 30;
/// Bytes looked at in one read.
const LOOK: usize = 1 << 20;

/// As home's kernel numbers it, for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    pub dev: u64,
    pub ino: u64,
}

impl ObjectId {
    /// Name of the file of memory that stands for it at a host.
    pub fn name(&self) -> String {
        format!("as-{:x}-{:x}", self.dev, self.ino)
    }
}

/// The object behind a mapping at home, if it has no name.
pub fn nameless(v: &Vma) -> Option<ObjectId> {
    (v.shared && v.name == "/dev/zero (deleted)").then_some(ObjectId {
        dev: v.dev,
        ino: v.ino,
    })
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

/// Before: frozen, at home. What is not zero of the objects that a process maps. Its page tables do not say
/// which pages an object has: the look reads all of it.
pub fn filled(pid: i32, areas: &[Area]) -> Result<Vec<Run>> {
    let mem = File::open(format!("/proc/{pid}/mem"))?;
    let mut buf = vec![0u8; LOOK];
    let mut runs = Vec::new();
    for (_, _, (mut at, end)) in shared(areas) {
        while at < end {
            let want = ((end - at) as usize).min(LOOK);
            // Behind the end of the object there is nothing (SIGBUS).
            let got = mem.read_at(&mut buf[..want], at).unwrap_or(0);
            let pages = buf[..got].chunks(PAGE as usize).enumerate();
            let full = pages.filter(|(_, page)| page.iter().any(|b| *b != 0));
            runs.extend(full.map(|(n, _)| {
                let from = at + n as u64 * PAGE;
                (from, from + PAGE)
            }));
            at += want as u64;
        }
    }
    Ok(pages::union(runs, &[]))
}

/// Before: frozen, at a host. What `file`, which stands for `object`, holds of the mappings in `areas`: since
/// it came empty, the rest is at home as it was.
pub fn held(file: &File, object: ObjectId, areas: &[Area]) -> Result<Vec<Run>> {
    let extents = sys::extents(file.as_raw_fd())?;
    let mine = shared(areas).filter(|(o, ..)| *o == object);
    let mut runs = Vec::new();
    for (_, off, (start, end)) in mine {
        let view = (off, off + (end - start));
        let there = pages::both(&extents, &[view]);
        runs.extend(
            there
                .iter()
                .map(|(a, b)| (a - off + start, b - off + start)),
        );
    }
    Ok(pages::union(runs, &[]))
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
        };
        let areas = [area(0x1000, 0x3000, 0x4000), area(0x8000, 0x9000, 0)];
        assert_eq!(sizes(&areas), [(object, 0x6000)]);
    }
}
