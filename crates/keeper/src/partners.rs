//! Who else maps the memory that a process shares: without them it cannot leave.
//!
//! From: `depart.rs`.

use armento_migrate::image::Area;
use armento_migrate::image::objects::{self, ObjectId};
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::{maps, status};
use std::collections::HashSet;

/// Nobody else maps what `areas`, those of `pid`, share.
pub fn none(pid: Pid, areas: &[Area]) -> Result<()> {
    let mine: HashSet<ObjectId> = objects::shared(areas).map(|(o, ..)| o).collect();
    if mine.is_empty() {
        return Ok(());
    }
    match all(&mine).into_iter().find(|p| *p != pid) {
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
    let Ok(dir) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let number = |e: std::fs::DirEntry| e.file_name().to_str()?.parse::<Pid>().ok();
    let maps_one = |pid: &Pid| {
        let list = maps::read(*pid).unwrap_or_default();
        let mut theirs = list.iter().filter_map(objects::nameless);
        theirs.any(|o| objects.contains(&o))
    };
    dir.flatten().filter_map(number).filter(maps_one).collect()
}
