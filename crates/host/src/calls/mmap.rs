//! mmap of a file by a guest: the deputy maps it (and names the file), then the body maps the copy here. And mincore.

use super::come_home::come_home;
use super::file_fetch::fetch_file;
use super::post::park;
use crate::inject::{map_call, map_file};
use crate::state::{GuestTable, GuestThread, Host, Special, Waiting};
use crate::sync::lock;
use crate::threads;
use armento_abi::maps_shared;
use armento_migrate::Result;
use armento_model::Stay;
use armento_tracee::notify::Notice;
use armento_tracee::trace::{self, Stopped};
use armento_wire::talk::{ToHome, ToHost};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub fn begin(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let flags = n.args[3] as i32;
    if flags & libc::MAP_ANONYMOUS != 0 {
        // The table leaves plain private memory to the body.
        let (stay, why) = if maps_shared(n.args[3]) {
            (Stay::SharedMemory, "it maps memory to share")
        } else {
            (Stay::UnsupportedCall, "it maps huge pages")
        };
        return come_home(host, thread, n.id, stay, why);
    }
    if maps_shared(n.args[3]) && n.args[2] as i32 & libc::PROT_WRITE != 0 {
        return come_home(
            host,
            thread,
            n.id,
            Stay::SharedMemory,
            "it maps a file shared and writable",
        );
    }
    let Some(special) = Special::begin(&thread.proc) else {
        return park(host, thread, n.id);
    };
    lock(&thread.call).waiting = Some(Waiting::Special);
    thread.proc.mapped.fetch_add(1, Ordering::AcqRel);
    let (host, thread, n) = (host.clone(), thread.clone(), *n);
    armento_tracee::spawn::soon("map", move || {
        serve(&host, &thread, &n);
        thread.proc.mapped.fetch_add(1, Ordering::AcqRel);
        drop(special);
    });
}

/// mincore(2) reports which pages are resident: it waits for those that are still to come.
pub fn mincore(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    if !thread.proc.pending_pages.any() {
        host.listener.let_through(n.id);
        return;
    }
    let Some(special) = Special::begin(&thread.proc) else {
        return park(host, thread, n.id);
    };
    lock(&thread.call).waiting = Some(Waiting::Special);
    let (host, thread, id) = (host.clone(), thread.clone(), n.id);
    armento_tracee::spawn::soon("whole", move || {
        match thread.proc.pending_pages.wait() {
            Ok(()) => {
                lock(&thread.call).waiting = None;
                host.listener.let_through(id);
            }
            Err(e) => come_home(&host, &thread, id, e.stay(), "mincore"),
        }
        drop(special);
    });
}

fn serve(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    // Home may map over pages of the deputy that are still to come here.
    if let Err(e) = thread.proc.pending_pages.wait() {
        return come_home(host, thread, n.id, e.stay(), "a file mapping");
    }
    let answer = host.home.ask(|seq| ToHome::Map {
        tid: thread.tid,
        seq,
        args: n.args,
    });
    let (ret, key) = match answer {
        Some(ToHost::Mapped {
            stay: Some(stay), ..
        }) => return come_home(host, thread, n.id, stay, "a file mapping"),
        Some(ToHost::Mapped { ret, key, .. }) => (ret, key),
        // Home is gone: the tree ends with it.
        _ => return,
    };
    let (Ok(at), Some(key)) = (u64::try_from(ret), key) else {
        lock(&thread.call).waiting = None;
        host.listener.reply(n.id, ret);
        return;
    };
    let shared = maps_shared(n.args[3]);
    let Some(file) = fetch_file(host, &key, shared) else {
        return come_home(
            host,
            thread,
            n.id,
            Stay::NoRoom,
            "a mapped file that could not be fetched",
        );
    };
    let (c, args, id) = (thread.clone(), n.args, n.id);
    let done = host.tracer.run(move |guests| {
        lock(&c.call).waiting = None;
        let r = map_in(guests, &c, id, &file, args, at);
        if let Err(e) = &r {
            eprintln!("mapping in {}: {e}", c.pid);
            threads::judge_error(&guests.shared, c.here, e);
        }
        r.ok()
    });
    if let Some(Some((stopped, got))) = done {
        if got > 0 && got as u64 != at {
            // Mapped once more at home, where the body has it. Nothing is moved or unmapped there: what
            // lies at `at` may be memory that is on its way home by now (see `keeper/src/moves/mappings.rs`).
            let mut args = n.args;
            args[0] = got as u64;
            args[3] = (args[3] | libc::MAP_FIXED as u64) & !(libc::MAP_FIXED_NOREPLACE as u64);
            host.home.ask(|seq| ToHome::Map {
                tid: thread.tid,
                seq,
                args,
            });
        }
        host.tracer.post(move |_| drop(trace::resume(stopped, 0)));
    }
}

/// Maps the copy here into the process of the thread, which leaves its notification, at `at` if that is free. The thread
/// stays stopped, with the result in its registers; it is returned with that result.
fn map_in(
    guests: &mut GuestTable,
    thread: &Arc<GuestThread>,
    id: u64,
    file: &File,
    args: [u64; 6],
    at: u64,
) -> Result<(Stopped, i64)> {
    let code = guests.code.clone();
    let shared = guests.shared.clone();
    let (stopped, mut h) = threads::break_out(guests, thread, id)?;
    let fixed = args[3] as i32 & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    let keep = args[3] as i32
        & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_POPULATE | libc::MAP_NORESERVE);
    let flags = keep | libc::MAP_PRIVATE;
    let addr = if fixed { args[0] } else { at };
    let call = map_call((addr, args[1]), args[2] as i32, flags, args[5]);
    let ret = map_file(&mut h, &code, (shared.pass.as_raw_fd(), file), &mut [call])?[0];
    let (mut regs, mask) = (h.regs, h.mask);
    (regs.rax, regs.orig_rax) = (ret as u64, u64::MAX);
    h.finish(regs, mask)?;
    Ok((stopped, ret))
}
