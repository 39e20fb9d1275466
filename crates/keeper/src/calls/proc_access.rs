//! A body opens a file of /proc about another process that is away: that one comes home first.
//!
//! From: `dispatch.rs` (an open came). Next: `keeper/src/moves/come_home.rs`;
//! `keeper/src/signals/interrupted_calls.rs` turns back calls that are held.
//!
//! ```text
//! open ──held──► the other comes home ──► turned back unmade ──► issued again: made
//! ```
//! An idle deputy would be seen instead of the body. An open of the same file by a process at home is not seen.

use crate::deputy::Deputy;
use crate::observers::{is_stopped, looks_on_purpose};
use crate::state::Keep;
use armento_abi::{Owner, Packed, body_file, cmdline_owner};
use armento_model::{Pid, Tid};
use armento_wire::call::Call;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The process that is away and whose deputy this call would show in place of its body.
pub fn target(keep: &Keep, d: &Deputy, c: &Packed) -> Option<Pid> {
    let path = path_of(d, c)?;
    let of = |whose| match whose {
        Owner::Own => keep.deputy(d.pid),
        Owner::Of(n) => keep.deputy(n as Tid),
    };
    if let Some(of) = cmdline_owner(&path).and_then(of) {
        // On its way home they are not kept up to date.
        return of
            .common
            .coming_home
            .load(Ordering::Acquire)
            .then_some(of.pid);
    }
    let f = body_file(&path)?;
    let target = of(f.owner)?.pid;
    ((f.memory || !is_stopped(target)) && looks_on_purpose(d.pid, target, f)).then_some(target)
}

/// The path that a call opens, from the root if we can tell.
fn path_of(d: &Deputy, c: &Packed) -> Option<Vec<u8>> {
    let (dir, at) = match i64::from(c.nr) {
        libc::SYS_open => (None, 0),
        libc::SYS_openat | libc::SYS_openat2 => (Some(c.args[0] as i32), 1),
        _ => return None,
    };
    let path = c.data.get(c.args[at] as usize..)?;
    let path = path.split(|b| *b == 0).next()?;
    match dir.filter(|fd| *fd >= 0) {
        Some(fd) if !path.starts_with(b"/") => {
            let dir = std::fs::read_link(format!("/proc/{}/fd/{fd}", d.tid)).ok()?;
            let full = [dir.as_os_str().as_bytes(), path].join(&b'/');
            full.starts_with(b"/proc/").then_some(full)
        }
        _ => Some(path.to_vec()),
    }
}

/// Holds a call until `target` is home.
pub fn hold(keep: &Keep, target: Pid, by: Arc<Deputy>, call: Box<Call>) {
    let opener = by.pid;
    let ask = || keep.move_queue.come_first(target, opener);
    keep.held_opens.hold(target, by, call, ask);
}
