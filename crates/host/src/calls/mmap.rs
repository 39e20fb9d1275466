//! mmap of a file by a guest: the deputy maps it (and says which file), then the body maps our copy.

use crate::calls::dispatch::come_home;
use crate::calls::fork::break_out;
use crate::calls::forward;
use crate::moves::postcopy;
use crate::state::guests::Zoo;
use crate::state::shared::{Cell, Shared, Special, Waiting, lock};
use crate::sys;
use armento_abi::maps_shared;
use armento_migrate::image::areas::memfd_name;
use armento_migrate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::inject::{Call, Hold, ok};
use armento_tracee::notify::Notice;
use armento_tracee::region::Code;
use armento_tracee::{sys as tsys, trace};
use armento_wire::talk::{FileKey, ToHome, ToHost};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long another host may take to fetch the same file before we do it ourselves.
pub const OTHER_MAX: Duration = Duration::from_secs(5);
/// How long home may take to send the bytes of one block of a file.
const BLOCK_MAX: Duration = Duration::from_secs(30);

pub fn begin(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let flags = n.args[3] as i32;
    if flags & libc::MAP_ANONYMOUS != 0 {
        // The table leaves plain private memory to the body.
        let (stay, why) = if maps_shared(n.args[3]) {
            (Stay::SharedMemory, "it maps memory to share")
        } else {
            (Stay::UnsupportedCall, "it maps huge pages")
        };
        return come_home(sh, cell, n.id, stay, why);
    }
    if maps_shared(n.args[3]) && n.args[2] as i32 & libc::PROT_WRITE != 0 {
        return come_home(
            sh,
            cell,
            n.id,
            Stay::SharedMemory,
            "it maps a file shared and writable",
        );
    }
    let Some(special) = Special::begin(&cell.proc) else {
        return forward::park(sh, cell, n.id);
    };
    lock(&cell.st).waiting = Some(Waiting::Special);
    cell.proc.mapped.fetch_add(1, Ordering::AcqRel);
    let (sh, cell, n) = (sh.clone(), cell.clone(), *n);
    armento_tracee::aside::soon("map", move || {
        serve(&sh, &cell, &n);
        cell.proc.mapped.fetch_add(1, Ordering::AcqRel);
        drop(special);
    });
}

/// mincore(2) tells which pages are there: those that still come are, too.
pub fn look(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    if !cell.proc.coming.any() {
        sh.listener.let_through(n.id);
        return;
    }
    let Some(special) = Special::begin(&cell.proc) else {
        return forward::park(sh, cell, n.id);
    };
    lock(&cell.st).waiting = Some(Waiting::Special);
    let (sh, cell, id) = (sh.clone(), cell.clone(), n.id);
    armento_tracee::aside::soon("whole", move || {
        match postcopy::whole(&cell.proc) {
            Ok(()) => {
                lock(&cell.st).waiting = None;
                sh.listener.let_through(id);
            }
            Err(e) => come_home(&sh, &cell, id, e.stay(), "mincore"),
        }
        drop(special);
    });
}

fn serve(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    // What home maps may lie where its deputy holds pages that are still to come.
    if let Err(e) = postcopy::whole(&cell.proc) {
        return come_home(sh, cell, n.id, e.stay(), "a file mapping");
    }
    let answer = sh.ask(|seq| ToHome::Map {
        tid: cell.tid,
        seq,
        args: n.args,
    });
    let (ret, key) = match answer {
        Some(ToHost::Mapped {
            stay: Some(stay), ..
        }) => return come_home(sh, cell, n.id, stay, "a file mapping"),
        Some(ToHost::Mapped { ret, key, .. }) => (ret, key),
        _ => return, // home is gone: the tree ends with it
    };
    let (Ok(at), Some(key)) = (u64::try_from(ret), key) else {
        lock(&cell.st).waiting = None;
        sh.listener.reply(n.id, ret);
        return;
    };
    let shared = maps_shared(n.args[3]);
    let Some(file) = fetch(sh, &key, shared) else {
        return come_home(
            sh,
            cell,
            n.id,
            Stay::NoRoom,
            "a mapped file that could not be fetched",
        );
    };
    let (c, args, id) = (cell.clone(), n.args, n.id);
    let done = sh.hand.run(move |zoo| {
        lock(&c.st).waiting = None;
        let r = map_in(zoo, &c, id, &file, args, at);
        if let Err(e) = &r {
            eprintln!("mapping in {}: {e}", c.pid);
            crate::inject::allowed_calls::judge(&zoo.sh(), c.here, e);
        }
        r.ok()
    });
    if let Some(Some(got)) = done {
        if got > 0 && got as u64 != at {
            // Mapped once more at home, where the body has it. Nothing is moved or unmapped there: what
            // lies at `at` may be memory that is on its way home by now (see `keeper/src/mappings.rs`).
            let mut args = n.args;
            args[0] = got as u64;
            args[3] = (args[3] | libc::MAP_FIXED as u64) & !(libc::MAP_FIXED_NOREPLACE as u64);
            sh.ask(|seq| ToHome::Map {
                tid: cell.tid,
                seq,
                args,
            });
        }
        let here = cell.here;
        sh.hand.post(move |_| drop(trace::resume(here, 0)));
    }
}

/// Maps our copy into the broken-out thread's process, at `at` if that is free. The thread stays stopped,
/// with the result in its registers.
fn map_in(
    zoo: &mut Zoo,
    cell: &Arc<Cell>,
    id: u64,
    file: &File,
    args: [u64; 6],
    at: u64,
) -> Result<i64> {
    let code = zoo.code.clone();
    let sh = zoo.sh();
    let mut h = break_out(zoo, cell, id)?;
    let fixed = args[3] as i32 & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    let keep = args[3] as i32
        & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_POPULATE | libc::MAP_NORESERVE);
    let flags = keep | libc::MAP_PRIVATE;
    let addr = if fixed { args[0] } else { at };
    let call = map_call((addr, args[1]), args[2] as i32, flags, args[5]);
    let ret = map_file(&mut h, &code, (sh.pass.as_raw_fd(), file), &mut [call])?[0];
    let (mut regs, mask) = (h.regs, h.mask);
    (regs.rax, regs.orig_rax) = (ret as u64, u64::MAX);
    h.finish(regs, mask)?;
    Ok(ret)
}

/// For [`map_file`]: mmap of `len` bytes at `addr`.
pub fn map_call((addr, len): (u64, u64), prot: i32, flags: i32, off: u64) -> Call {
    (
        libc::SYS_mmap,
        [addr, len, prot as u64, flags as u64, 0, off],
    )
}

/// Passes `file` into the held process, makes these calls of [`map_call`] with it, closes it again. Returns their
/// results.
pub fn map_file(
    h: &mut Hold,
    code: &Code,
    (pass, file): (i32, &File),
    maps: &mut [Call],
) -> Result<Vec<i64>> {
    let fd = pass_in(h, code, pass, file)?;
    maps.iter_mut().for_each(|call| call.1[4] = fd);
    let close = (libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    let mut results = h.batch(code, &[&*maps, &[close]].concat())?;
    results.pop();
    Ok(results)
}

/// Gives the held process a descriptor of `file`; it must not keep it. Returns its number there.
pub fn pass_in(h: &mut Hold, code: &Code, pass: i32, file: &File) -> Result<u64> {
    sys::send_fd(pass, file.as_raw_fd()).local("hand a descriptor over")?;
    // struct msghdr with one byte of data and room for one descriptor.
    let control = code.scratch(0x500, &[0u8; 32]);
    let byte = code.scratch(0x520, &[0u8; 8]);
    let iov: Vec<u8> = [byte, 1].iter().flat_map(|w| w.to_le_bytes()).collect();
    let iov = code.scratch(0x530, &iov);
    let msg: Vec<u8> = [0, 0, iov, 1, control, 24, 0]
        .iter()
        .flat_map(|w: &u64| w.to_le_bytes())
        .collect();
    let msg = code.scratch(0x540, &msg);
    let got = h.call(code, libc::SYS_recvmsg, [0, msg, 0, 0, 0, 0])?.0;
    ok("recvmsg", h.tid, got)?;
    let mut raw = [0u8; 24];
    code.read_scratch(0x500, &mut raw);
    Ok(u64::from(u32::from_le_bytes(
        raw[16..20].try_into().unwrap_or_default(),
    )))
}

/// Our copy of a home file: from the cache, or fetched whole.
pub fn fetch(sh: &Shared, key: &FileKey, shared: bool) -> Option<Arc<File>> {
    if let Some(f) = lock(&sh.files).get(key) {
        return Some(f.clone());
    }
    if !sh.has_file_room(0) {
        return None;
    }
    if let Some(f) = sh.cache.get(key, shared) {
        return Some(known(sh, key, f));
    }
    let draft = match sh.cache.draft(key, shared, OTHER_MAX).ok()? {
        Ok(done) => return Some(known(sh, key, done)),
        Err(draft) => draft,
    };
    let answer = sh.ask_stream(|seq| ToHome::Fetch { seq, key: *key })?;
    let mut have = 0;
    loop {
        match answer.recv_timeout(BLOCK_MAX) {
            Ok(ToHost::FileBytes {
                off, bytes, end, ..
            }) => {
                draft.file.write_all_at(&bytes, off).ok()?;
                have += bytes.len() as u64;
                if end {
                    break;
                }
            }
            _ => return None,
        }
    }
    // Home has it no more, or it was cut meanwhile: nobody is to see zeros for it.
    (have == key.size).then(|| known(sh, key, sh.cache.publish(draft)))
}

fn known(sh: &Shared, key: &FileKey, file: File) -> Arc<File> {
    let file = Arc::new(file);
    lock(&sh.files).insert(*key, file.clone());
    file
}

/// An empty memory file of a home file's size and name.
pub fn new_copy(key: &FileKey, shared: bool) -> Result<File> {
    tsys::memfd(&memfd_name(key, shared), key.size)
        .map_err(|e| MigrateError::Stays(Stay::NoRoom, e.to_string()))
}
