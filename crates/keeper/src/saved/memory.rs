//! Memory that the processes of a checkpoint share: which of them map it, and what is kept of it.
//!
//! From: `save.rs`. Next: `keeper/src/sharing/sharers.rs`; at a restart `restart.rs`.

use super::refuse::{not_copied, refused};
use crate::sharing::{mapped_for_checkpoint, only_inside};
use armento_checkpoint::home::{Bytes, Home, Memory, copy_content};
use armento_client::api::Refusal;
use armento_migrate::image::objects::{self, Aim, ObjectId};
use armento_migrate::pages::PageStore;
use armento_migrate::{Local, MigrateError};
use armento_model::{Pid, Stay};
use armento_tracee::{PAGE, maps};
use std::collections::{BTreeMap, HashSet};
use std::io;

/// KERNEL: fcntl(2), F_SEAL_FUTURE_WRITE: what maps it for writing could not be mapped again.
const F_SEAL_FUTURE_WRITE: u32 = 0x10;

/// What each of these processes maps.
pub struct Sharing(BTreeMap<Pid, HashSet<ObjectId>>);

impl Sharing {
    pub fn of(pids: &[Pid]) -> Result<Sharing, Refusal> {
        let mut all = BTreeMap::new();
        for pid in pids {
            let mapped = mapped_for_checkpoint(*pid).map_err(|e| not_copied(*pid, &e))?;
            all.insert(*pid, mapped);
        }
        Ok(Sharing(all))
    }

    /// Those that map any, in the order of `pids`.
    pub fn sharers(&self, pids: &[Pid]) -> Vec<Pid> {
        let maps = |pid: &&Pid| self.0.get(pid).is_some_and(|all| !all.is_empty());
        pids.iter().filter(maps).copied().collect()
    }

    /// No other process has any of it, and nothing of it is open but what `home` keeps.
    pub fn is_inside(&self, pids: &[Pid], home: &Home) -> Result<(), Refusal> {
        let all = self.0.values().flatten().copied().collect();
        let sharer = self.sharers(pids).first().copied().unwrap_or(pids[0]);
        only_inside(pids, &all, &open(home)).map_err(|e| not_copied(sharer, &e))
    }
}

/// Memory that processes of the checkpoint have open (memfds): its content is kept by itself.
pub fn open(home: &Home) -> HashSet<ObjectId> {
    let id = |m: &Memory| ObjectId {
        dev: m.dev,
        ino: m.ino,
    };
    home.memory.iter().filter(|m| m.open).map(id).collect()
}

/// Content of memory that is open, as it is now. Before: the processes stand still.
pub fn contents(home: &Home) -> Result<Vec<(u32, PageStore)>, Refusal> {
    let bytes_max = armento_sense::half_of_available();
    let copy = |e: &dyn std::fmt::Display| {
        let what = format!("memory of memfd_create cannot be copied: {e}; nothing was written");
        refused("not-copied", what, "try again when memory is free")
    };
    let mut all = Vec::new();
    for (number, file) in home.open_memory().map_err(|e| copy(&e))? {
        let mut pages = PageStore::in_memory(bytes_max).map_err(|e| copy(&e))?;
        let mut one = |at: u64, page: &[u8; PAGE as usize]| {
            let staged = pages.stage(at, page);
            staged.map_err(|e| io::Error::other(e.to_string()))
        };
        copy_content(&file, &mut one).map_err(|e| copy(&e))?;
        pages.commit(&[(0, u64::MAX)], true);
        all.push((number, pages));
    }
    Ok(all)
}

/// Notes in `home` which processes map what. Before: the processes stand still.
pub fn note(home: &mut Home, mapped: &[(Pid, ObjectId, u64)]) -> Result<(), Refusal> {
    for (pid, object, size) in mapped {
        let ended = || not_copied(*pid, &MigrateError::Ended);
        let index = home.index(*pid).ok_or_else(ended)? as u32;
        let known = home
            .memory
            .iter()
            .position(|m| (m.dev, m.ino) == (object.dev, object.ino));
        let at = match known {
            Some(at) => at,
            None => {
                home.memory.push(Memory {
                    name: name(*pid, *object),
                    dev: object.dev,
                    ino: object.ino,
                    mode: 0o700,
                    ..Memory::default()
                });
                home.memory.len() - 1
            }
        };
        let m = &mut home.memory[at];
        if m.open && m.seals & F_SEAL_FUTURE_WRITE != 0 {
            let why = "it maps a memfd that is sealed against being mapped for writing".into();
            return Err(not_copied(
                *pid,
                &MigrateError::Stays(Stay::SharedMemory, why),
            ));
        }
        if !m.open {
            m.size = m.size.max(*size);
        }
        m.mapped_by.push(index);
    }
    Ok(())
}

/// Of a memfd that no process has open any more.
fn name(pid: Pid, object: ObjectId) -> Option<Bytes> {
    let list = maps::read(pid).unwrap_or_default();
    let of = |v: &&maps::Vma| Aim::Checkpoint.object(v) == Some(object);
    let name = list.iter().find(of).and_then(objects::memfd_name)?;
    Some(Bytes(name.as_bytes().to_vec()))
}

/// Memory of a process that begins: what its mappings name by an object then is this one now.
pub struct Handed {
    /// The descriptor at which it has it open until it is mapped.
    pub fd: i32,
    pub object: ObjectId,
    /// Its content is there already.
    pub filled: bool,
}

/// What the processes of a restart have of `home`'s memory, by the object then.
pub fn handed(
    home: &Home,
    pid: Pid,
    number: impl Fn(usize) -> Option<i32>,
) -> Result<std::collections::HashMap<ObjectId, Handed>, MigrateError> {
    let mut all = std::collections::HashMap::new();
    for (at, m) in home.memory.iter().enumerate() {
        let Some(fd) = number(at) else { continue };
        let path = format!("/proc/{pid}/fd/{fd}");
        let found = std::fs::metadata(path).of_process("look at its memory")?;
        let then = ObjectId {
            dev: m.dev,
            ino: m.ino,
        };
        all.insert(
            then,
            Handed {
                fd,
                object: objects::id(&found),
                filled: m.open,
            },
        );
    }
    Ok(all)
}
