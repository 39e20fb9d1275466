//! Forwards a guest's call to its home.
//!
//! From: `dispatch.rs`. Next: `wire/src/call.rs`, then `keeper/src/calls/dispatch.rs`; its answer comes to `reply.rs`.

use super::come_home::come_home;
use super::post::post;
use super::then::then;
use super::{cmdline, partial_io};
use crate::state::{Ask, BodyMem, GuestThread, Host, Shared, Then};
use crate::sync::lock;
use crate::threads;
use armento_abi::Refuse;
use armento_migrate::image::restarts::ERESTARTNOHAND;
use armento_model::Stay;
use armento_tracee::call::bit;
use armento_tracee::notify::Notice;
use armento_tracee::region::DATA;
use armento_tracee::{maps, status, sys};
use std::sync::Arc;

pub fn send(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    send_asking(host, thread, n, Ask::default());
}

/// `ask`: what home is to say beside the result.
pub fn send_asking(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice, ask: Ask) {
    if partial_io::go_on(host, thread, n) {
        return;
    }
    let mut mem = BodyMem(thread);
    let wait_mask = match armento_abi::read_mask(n.nr as u64, &n.args, &mut mem) {
        Ok(m) => m,
        Err(errno) => {
            host.listener.reply(n.id, -i64::from(errno));
            return;
        }
    };
    if let Some(mask) = wait_mask
        && pending_outside(thread, mask)
    {
        // A signal that only this call lets in is pending already: the call ends before it begins.
        let (thread, id) = (thread.clone(), n.id);
        let mut st = lock(&thread.call);
        st.wait_mask = wait_mask;
        st.again = Some(n.nr);
        drop(st);
        host.tracer
            .post(move |guests| threads::restart_call(guests, &thread, id, ERESTARTNOHAND));
        return;
    }
    if let Some(path) = opens_proc(thread, n) {
        if armento_abi::proc_self_needs_home(&path, thread.pid.in_program() as u32) {
            let why = "it reads its own /proc files";
            return come_home(host, thread, n.id, Stay::UnsupportedCall, why);
        }
        if armento_abi::cmdline_owner(&path).is_some() {
            cmdline::send_cmdlines(host);
        }
    }
    if opens_shared_memory(host, thread, n) {
        let why = "it opens a file in /dev/shm";
        return come_home(host, thread, n.id, Stay::SharedMemory, why);
    }
    let args = fitting(thread, n);
    match armento_abi::pack(n.nr as u64, &args, &mut mem, DATA as usize) {
        Ok(plan) => {
            let mask = if i64::from(n.nr) == libc::SYS_ioctl {
                tty_mask(thread)
            } else {
                0
            };
            lock(&thread.call).ask = ask;
            let then = then(n);
            post(host, thread, n, plan, wait_mask, mask, then);
        }
        Err(Refuse::Errno(e)) => {
            host.listener.reply(n.id, -i64::from(e));
        }
        Err(Refuse::ComeHome(why)) => come_home(host, thread, n.id, Stay::UnsupportedCall, why),
    }
}

/// Is a signal pending at the body that `mask` does not block?
fn pending_outside(thread: &GuestThread, mask: u64) -> bool {
    status::read(thread.here).is_ok_and(|s| (s.sig_pending | s.shared_pending) & !mask != 0)
}

/// The arguments of a read, of no more bytes than fit into the guest's memory from there: what does not fit stays in the
/// file. Of scattered bytes, and where the end of the buffer is there but not all of it, `reply.rs` sets the offset back.
fn fitting(thread: &GuestThread, n: &Notice) -> [u64; 6] {
    let mut args = n.args;
    let [_, at, len, ..] = args;
    let last = at.checked_add(len.saturating_sub(1));
    let there = |at| matches!(sys::vm_read(thread.here, at, &mut [0]), Ok(1));
    if i64::from(n.nr) != libc::SYS_read || len == 0 || last.is_none_or(there) {
        return args;
    }
    let mut end = at;
    for v in maps::read(thread.here).unwrap_or_default() {
        if v.start <= end && end < v.end && v.prot & libc::PROT_WRITE != 0 {
            end = v.end;
        }
    }
    if end > at {
        args[2] = len.min(end - at);
    }
    args
}

/// Terminals ask whether the caller blocks or ignores SIGTTOU and SIGTTIN before they stop it.
fn tty_mask(thread: &GuestThread) -> u64 {
    let jobs = bit(libc::SIGTTOU) | bit(libc::SIGTTIN);
    status::read(thread.here).map_or(0, |s| (s.blocked | s.ignored) & jobs)
}

/// Forwards a call that never waits; `then`: what to do with its result.
pub fn send_then(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice, then: Then) {
    match armento_abi::pack(n.nr as u64, &n.args, &mut BodyMem(thread), DATA as usize) {
        Ok(plan) => post(host, thread, n, plan, None, 0, then),
        Err(Refuse::Errno(e)) => {
            host.listener.reply(n.id, -i64::from(e));
        }
        Err(Refuse::ComeHome(why)) => come_home(host, thread, n.id, Stay::UnsupportedCall, why),
    }
}

/// Shared memory in /dev/shm may be here with bodies of the tree. An open of it at home waits until they have come home; a
/// deputy cannot wait for its own body.
fn opens_shared_memory(shared: &Shared, thread: &GuestThread, n: &Notice) -> bool {
    const SHM: &[u8] = b"/dev/shm/";
    let at = match i64::from(n.nr) {
        libc::SYS_open | libc::SYS_creat | libc::SYS_truncate => n.args[0],
        libc::SYS_openat | libc::SYS_openat2 => n.args[1],
        _ => return false,
    };
    let mut b = [0u8; SHM.len()];
    shared.has_named_objects()
        && matches!(sys::vm_read(thread.here, at, &mut b), Ok(n) if n == b.len())
        && b == SHM
}

/// The path of a file in /proc that a call is about.
fn opens_proc(thread: &GuestThread, n: &Notice) -> Option<Vec<u8>> {
    let at = match i64::from(n.nr) {
        libc::SYS_open | libc::SYS_creat | libc::SYS_stat | libc::SYS_access => n.args[0],
        libc::SYS_openat | libc::SYS_openat2 => n.args[1],
        _ => return None,
    };
    let mut b = [0u8; 64];
    let got = sys::vm_read(thread.here, at, &mut b[..6]).unwrap_or(0);
    if got != 6 || &b[..6] != b"/proc/" {
        return None;
    }
    let room = (4096 - (at & 4095)).min(64) as usize;
    let got = sys::vm_read(thread.here, at, &mut b[..room]).unwrap_or(0);
    Some(b[..got].split(|c| *c == 0).next()?.to_vec())
}
