//! Who else maps the memory that a process shares: without them it cannot move.
//!
//! From: `mover.rs`, `depart.rs`. Next: `group.rs`.

use armento_migrate::image::Area;
use armento_migrate::image::objects::{self, ObjectId};
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::{maps, status};
use std::collections::HashSet;

/// Who shares memory with `pid`, directly or through others, and itself, in order. Away, its deputy still maps
/// at home what it maps, and perhaps something that the body has given up: then more move than have to.
pub fn of(pid: Pid) -> Vec<Pid> {
    let objects_of = |p: Pid| -> HashSet<ObjectId> {
        let list = maps::read(p).unwrap_or_default();
        list.iter().filter_map(objects::nameless).collect()
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

/// Nobody but those in `with` maps what `areas` share.
pub fn only(with: &[Pid], areas: &[Area]) -> Result<()> {
    let mine: HashSet<ObjectId> = objects::shared(areas).map(|(o, ..)| o).collect();
    if mine.is_empty() {
        return Ok(());
    }
    if let Some(p) = all_pids().into_iter().find(|p| has_open(*p, &mine)) {
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

/// Every process that maps one of `objects`. What has no name goes to children only, and a child that may have
/// become another user is one of a process, and so of a keeper, that may look at any.
fn all(objects: &HashSet<ObjectId>) -> Vec<Pid> {
    let maps_one = |pid: &Pid| {
        let list = maps::read(*pid).unwrap_or_default();
        let mut theirs = list.iter().filter_map(objects::nameless);
        theirs.any(|o| objects.contains(&o))
    };
    all_pids().into_iter().filter(maps_one).collect()
}

fn all_pids() -> Vec<Pid> {
    let Ok(dir) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let number = |e: std::fs::DirEntry| e.file_name().to_str()?.parse::<Pid>().ok();
    dir.flatten().filter_map(number).collect()
}

/// Through a descriptor it could be read and written at home, or mapped by others.
fn has_open(pid: Pid, objects: &HashSet<ObjectId>) -> bool {
    let Ok(dir) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut opened = dir.flatten().filter_map(|e| objects::opened(&e.path()));
    opened.any(|o| objects.contains(&o))
}
