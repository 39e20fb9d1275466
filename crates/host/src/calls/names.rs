//! Lookups of paths that need no answer from home: of what is not there, and of symbolic links.
//!
//! From: `dispatch.rs`. Next: `state/names.rs`; else home, which sends the directories on the path
//! (`keeper/src/calls/names.rs`).

use crate::state::{Base, BodyMem, Found, GuestThread, Host};
use crate::sync::lock;
use armento_abi::lookup::Wants;
use armento_abi::{Mem, lookup};
use armento_model::HomePid;
use armento_tracee::notify::Notice;
use std::sync::Arc;

/// Longest path that is read from the body's memory.
const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;

/// What becomes of a call.
pub enum Looked {
    /// It was answered.
    Yes,
    /// It goes home; `ask`: with the wish to know the directories on its path.
    No { ask: bool },
}

pub fn looked_up(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) -> Looked {
    const FORWARD: Looked = Looked::No { ask: false };
    if moves_base(n.nr as u16) {
        thread.proc.forget_base(host.home.number());
    }
    let Some(wanted) = lookup(n.nr as u64, &n.args) else {
        return FORWARD;
    };
    // A write that is not made yet may be what another process waits for before it makes the name.
    if host.home.posts_pending() {
        return FORWARD;
    }
    let mut mem = BodyMem(thread);
    let Some(path) = read_path(&mut mem, n.args[wanted.path_arg]) else {
        return FORWARD;
    };
    // Home says it only of a process that sees the same names as the others.
    let Some(base) = lock(&thread.proc.base).base.clone() else {
        return Looked::No { ask: true };
    };
    let names = lock(&host.names);
    let found = names.look_up(&base, &path, wanted.follows);
    let ret = match (found, wanted.wants) {
        (Found::Unknown, _) => return Looked::No { ask: true },
        (Found::Missing, _) => -i64::from(libc::ENOENT),
        (Found::NoDirectory, _) => -i64::from(libc::ENOTDIR),
        (Found::Other(_), Wants::Link { .. }) => -i64::from(libc::EINVAL),
        (Found::Link(target), Wants::Link { buf, size }) => {
            let target = &target[..target.len().min(size as usize)];
            if mem.write(buf, target).is_err() {
                return FORWARD;
            }
            target.len() as i64
        }
        (Found::Other(None), Wants::Attributes { .. }) => return Looked::No { ask: true },
        (Found::Other(Some((told, birth))), Wants::Attributes { buf, form }) => {
            // Nothing: home will not tell it.
            let known = (!told.0.is_empty()).then(|| told.in_form(form, birth));
            match known.flatten() {
                Some(bytes) if mem.write(buf, &bytes).is_ok() => 0,
                _ => return FORWARD,
            }
        }
        (Found::Link(_), Wants::Attributes { .. }) | (_, Wants::File) => return FORWARD,
    };
    drop(names);
    lock(&thread.proc.files).lookups += 1;
    lock(&thread.call).again = None;
    host.listener.reply(n.id, ret);
    Looked::Yes
}

/// Home has told where a process's relative paths begin.
pub fn working_directory(host: &Host, pid: HomePid, seq: u32, base: Base) {
    if let Some(thread) = host.threads.of_home(pid.leader()) {
        let mut known = lock(&thread.proc.base);
        // Numbers wrap.
        if (seq.wrapping_sub(known.moved) as i32) > 0 {
            known.base = Some(base);
        }
    }
}

/// A call after which paths begin elsewhere, or the process may see other names. An exec makes another
/// [`Process`](crate::state::Process); unshare and setns come home.
pub fn moves_base(nr: u16) -> bool {
    const CALLS: [i64; 8] = [
        libc::SYS_chdir,
        libc::SYS_fchdir,
        libc::SYS_chroot,
        libc::SYS_pivot_root,
        libc::SYS_setuid,
        libc::SYS_setreuid,
        libc::SYS_setresuid,
        libc::SYS_setfsuid,
    ];
    CALLS.contains(&i64::from(nr))
}

/// The string at an address. `None`: it is not there, or too long.
fn read_path(mem: &mut BodyMem<'_>, at: u64) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    while path.len() < PATH_MAX {
        let from = at.checked_add(path.len() as u64)?;
        // Not beyond a page at once: the next may not be there.
        let room = (PAGE - from % PAGE).min(256) as usize;
        let mut piece = [0u8; 256];
        let n = mem.read_some(from, &mut piece[..room]);
        if let Some(end) = piece[..n].iter().position(|c| *c == 0) {
            path.extend_from_slice(&piece[..end]);
            return Some(path);
        }
        if n < room {
            return None;
        }
        path.extend_from_slice(&piece[..n]);
    }
    None
}
