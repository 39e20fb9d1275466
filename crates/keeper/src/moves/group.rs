//! Processes that share memory move together, or not at all.
//!
//! From: `move_process.rs`, `keeper/src/sharing/sharers.rs`. Next: `group_out.rs`, `group_home.rs`.

use crate::lifecycle::scan_children;
use crate::state::{Keep, Place, Tree};
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::status;

/// One move of a group holds all of them still for so long that more would not be bearable.
const MEMBERS_MAX: usize = 256;

/// Where all of them are. Processes that share memory are always at one place.
pub fn place_of_group(keep: &Keep, group: &[Pid]) -> Result<Place> {
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
            if is_dead(pid) {
                continue;
            }
            let p = t.procs.get(&pid).ok_or_else(|| {
                let why = format!("it shares memory with process {pid}, which is not of its tree");
                MigrateError::Stays(Stay::SharedMemory, why)
            })?;
            place.get_or_insert_with(|| p.place());
        }
        place.ok_or(MigrateError::Ended)
    };
    keep.tracer.run(look).unwrap_or(Err(MigrateError::Ended))
}

pub fn ended(keep: &Keep, pid: Pid) -> bool {
    is_dead(pid) || keep.deputy(pid).is_none()
}

pub fn is_dead(pid: Pid) -> bool {
    status::read(pid).map_or(true, |s| s.state == 'Z' || s.state == 'X')
}

/// The error, with the process because of which the group does not move.
pub fn about(pid: Pid, e: MigrateError) -> MigrateError {
    match e {
        MigrateError::Stays(stay, why) => {
            MigrateError::Stays(stay, format!("process {pid}, which shares memory: {why}"))
        }
        e => e,
    }
}
