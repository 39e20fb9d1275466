//! The mount: one process for a node. It speaks FUSE with the kernel and the protocol with file servers.
//!
//! One thread takes the kernel's requests and sends them on; answers are given by the threads that receive them. None of
//! these waits for anything else. It chooses no node and starts no process. Start at `core.rs`, then `link.rs`.

mod caller;
mod core;
mod dirs;
mod files;
mod keep;
mod lane;
mod link;
mod names;
mod options;
mod owner;
mod root;
mod shown;
mod shown_paths;
mod stats;
mod table;

pub use options::Options;
pub use stats::{NodeStats, Stats};

use crate::MfsError;
use crate::client::core::{Core, Slow};
use crate::farm::Farm;
use crate::fuse::{self, Args, Device, Head, cap, init_out};
use crate::protocol::DATA_MAX;
use crate::sync::{lock, wait};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest read that the kernel asks for: so that the parts of a long one overlap on their way.
const READ_MAX: u32 = 256 << 10;
/// The kernel reads so far ahead: twice the product of 10 Gbit/s and 3 ms.
const AHEAD_KIB: u32 = 8 << 10;
/// Requests that the kernel makes by itself (reading ahead, mostly) at once.
const BACKGROUND: u16 = 128;
/// Questions to the daemon that wait at most.
const ASK_MAX: usize = 1024;
/// Deadlines are kept this exactly.
const TICK: Duration = Duration::from_millis(200);
/// The reading thread ends by itself within so long after an unmount, unless files are open.
const UNMOUNT: Duration = Duration::from_secs(1);

struct End {
    over: Mutex<bool>,
    changed: Condvar,
    stop: AtomicBool,
    tid: AtomicI32,
}

impl End {
    /// True if it is over, now or within so long.
    fn await_over(&self, limit: Duration) -> bool {
        let over = lock(&self.over);
        *over || *wait(&self.changed, over, limit)
    }
}

pub struct Mount {
    core: Arc<Core>,
    end: Arc<End>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

impl Mount {
    /// Mounts at `point` and begins to answer.
    pub fn start(point: &Path, farm: Arc<dyn Farm>, options: Options) -> Result<Mount, MfsError> {
        crate::sys::handle_signals();
        let fail = |cause| MfsError::Mount {
            what: format!("mounting at {}", point.display()),
            cause,
        };
        let device = Arc::new(Device::mount(point, READ_MAX).map_err(fail)?);
        let begun = begin(device.clone(), farm, options);
        begun.map_err(|e| {
            let _ = device.unmount();
            fail(e)
        })
    }

    pub fn stats(&self) -> Stats {
        let mut nodes: Vec<NodeStats> = lock(&self.core.links)
            .values()
            .map(|l| {
                let c = &l.counters;
                NodeStats {
                    node: l.name.clone(),
                    uid: l.uid,
                    connected: l.is_up(),
                    calls: c.calls.load(Relaxed),
                    bytes_read: c.read.load(Relaxed),
                    bytes_written: c.written.load(Relaxed),
                    reconnects: c.reconnects.load(Relaxed),
                    errors: c.errors.load(Relaxed),
                    open_files: c.open.load(Relaxed),
                    latency_p50_us: c.latency.percentile(50),
                    latency_p99_us: c.latency.percentile(99),
                    invalidations: c.invalidations.load(Relaxed),
                }
            })
            .collect();
        nodes.sort_by(|a, b| (a.node.as_str(), a.uid).cmp(&(b.node.as_str(), b.uid)));
        Stats { nodes }
    }

    /// Unmounts. Files that are open give errors from then on.
    pub fn unmount(self) -> Result<(), MfsError> {
        let over = *lock(&self.end.over);
        let unmounted = if over {
            Ok(())
        } else {
            self.core.device.unmount()
        };
        self.finish();
        unmounted.map_err(|cause| MfsError::Mount {
            what: format!("unmounting {}", self.core.device.point().display()),
            cause,
        })
    }

    fn finish(&self) {
        self.end.await_over(UNMOUNT);
        self.end.stop.store(true, Relaxed);
        let reader = lock(&self.reader).take();
        if let Some(r) = reader {
            // No signal once it is over: one after the other would keep the thread from its last instructions.
            while !r.is_finished() && !self.end.await_over(Duration::from_millis(10)) {
                crate::sys::interrupt(self.end.tid.load(Relaxed));
            }
            let _ = r.join();
        }
        lock(&self.core.links).values().for_each(|l| l.close());
        self.core.keep.close();
    }

    /// Waits until it is unmounted, by whomever.
    pub fn wait(&self) {
        let mut over = lock(&self.end.over);
        while !*over {
            over = wait(&self.end.changed, over, Duration::from_secs(60));
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if lock(&self.reader).is_some() {
            let _ = self.core.device.unmount();
            self.finish();
        }
    }
}

fn begin(device: Arc<Device>, farm: Arc<dyn Farm>, options: Options) -> std::io::Result<Mount> {
    let mut buf = lane::buffer();
    handshake(&device, &mut buf)?;
    let (slow, jobs) = sync_channel(ASK_MAX);
    let core = Core::new(device.clone(), farm, options, slow);
    let end = Arc::new(End {
        over: Mutex::new(false),
        changed: Condvar::new(),
        stop: AtomicBool::new(false),
        tid: AtomicI32::new(0),
    });
    ask_in_thread(&core, jobs)?;
    let (me, on) = (core.clone(), end.clone());
    let reader = std::thread::Builder::new()
        .name("mfs-fuse".into())
        .spawn(move || {
            on.tid.store(crate::sys::gettid(), Relaxed);
            requests(&me, &on.stop, &mut buf);
            *lock(&on.over) = true;
            on.changed.notify_all();
        })?;
    let (weak, on) = (Arc::downgrade(&core), end.clone());
    std::thread::Builder::new()
        .name("mfs-tick".into())
        .spawn(move || {
            loop {
                if on.await_over(TICK) {
                    return;
                }
                let Some(core) = weak.upgrade() else { return };
                core.tick();
            }
        })?;
    device.read_ahead(AHEAD_KIB);
    Ok(Mount {
        core,
        end,
        reader: Mutex::new(Some(reader)),
    })
}

fn ask_in_thread(core: &Arc<Core>, jobs: Receiver<Slow>) -> std::io::Result<()> {
    let weak = Arc::downgrade(core);
    std::thread::Builder::new()
        .name("mfs-ask".into())
        .spawn(move || {
            while let Ok(job) = jobs.recv() {
                let Some(core) = weak.upgrade() else { return };
                job(&core);
            }
        })?;
    Ok(())
}

/// KERNEL: FUSE_INIT is the first request.
fn handshake(device: &Device, buf: &mut [u8]) -> std::io::Result<()> {
    let gone = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let n = device.receive(buf)?.ok_or_else(gone)?;
    let (h, mut a) = Head::parse(&buf[..n]).ok_or_else(gone)?;
    let (major, minor, ahead, low, high) = (a.u32(), a.u32(), a.u32(), a.u32(), a.u32());
    if h.op != fuse::INIT || major != fuse::MAJOR || minor < 31 {
        return Err(std::io::Error::other(format!(
            "the kernel's FUSE speaks version {major}.{minor}; 7.31 (Linux 5.4) is needed"
        )));
    }
    let offered = u64::from(low) | u64::from(high) << 32;
    // Not ATOMIC_O_TRUNC: the kernel refuses to truncate a program that runs (ETXTBSY) only after the open.
    let wanted = cap::ASYNC_READ
        | cap::POSIX_LOCKS
        | cap::BIG_WRITES
        | cap::DONT_MASK
        | cap::FLOCK_LOCKS
        | cap::AUTO_INVAL_DATA
        | cap::DO_READDIRPLUS
        | cap::READDIRPLUS_AUTO
        | cap::ASYNC_DIO
        | cap::PARALLEL_DIROPS
        | cap::POSIX_ACL
        | cap::MAX_PAGES
        | cap::HANDLE_KILLPRIV_V2
        | cap::SETXATTR_EXT
        | cap::INIT_EXT
        | cap::HAS_EXPIRE_ONLY
        | cap::DIRECT_IO_ALLOW_MMAP;
    let flags = offered & wanted;
    device
        .expires
        .store(flags & cap::HAS_EXPIRE_ONLY != 0, Relaxed);
    let out = init_out(
        minor.min(fuse::MINOR),
        ahead.max(AHEAD_KIB << 10),
        flags,
        BACKGROUND,
        DATA_MAX as u32,
    );
    device.reply(h.unique, 0, &[&out]);
    Ok(())
}

fn requests(core: &Arc<Core>, stop: &AtomicBool, buf: &mut Vec<u8>) {
    while !stop.load(Relaxed) {
        match core.device.receive(buf) {
            Ok(Some(n)) => {
                match Head::parse(&buf[..n]) {
                    // Its buffer may become the frame.
                    Some((h, _)) if h.op == fuse::WRITE => core.write(&h, buf, n),
                    Some((h, a)) => dispatch(core, &h, a),
                    None => {}
                }
            }
            Ok(None) => return,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => {
                tracing::error!("/dev/fuse: {e}; the mount ends");
                return;
            }
        }
    }
}

fn dispatch(core: &Arc<Core>, h: &Head, mut a: Args<'_>) {
    core.called(h);
    match h.op {
        fuse::FORGET => return core.forget(std::iter::once((h.node, a.u64()))),
        fuse::BATCH_FORGET => {
            let (n, _) = (a.u32(), a.u32());
            return core.forget((0..n).map(|_| (a.u64(), a.u64())));
        }
        fuse::INTERRUPT => return core.interrupt(a),
        fuse::DESTROY => return core.done(h.unique),
        _ if root::is_own(h.node) && !matches!(h.op, fuse::LSEEK | fuse::COPY_FILE_RANGE) => {
            return own(core, h, a);
        }
        _ => {}
    }
    match h.op {
        fuse::LOOKUP => core.lookup(h, a),
        fuse::GETATTR => core.getattr(h),
        fuse::SETATTR => core.setattr(h, a),
        fuse::READLINK => core.readlink(h),
        fuse::SYMLINK => core.symlink(h, a),
        fuse::MKNOD => core.mknod(h, a),
        fuse::MKDIR => core.mkdir(h, a),
        fuse::UNLINK | fuse::RMDIR => core.unlink(h, a),
        fuse::RENAME | fuse::RENAME2 => core.rename(h, a),
        fuse::LINK => core.link_file(h, a),
        fuse::OPEN => core.open(h, a, false),
        fuse::OPENDIR => core.open(h, a, true),
        fuse::CREATE => core.create(h, a, false),
        fuse::TMPFILE => core.create(h, a, true),
        fuse::READ => core.read(h, a),
        fuse::STATFS => core.statfs(h),
        fuse::RELEASE | fuse::RELEASEDIR => core.release(h, a),
        fuse::FSYNC | fuse::FSYNCDIR => core.fsync(h, a),
        fuse::FLUSH => core.flush(h, a),
        fuse::SETXATTR => core.setxattr(h, a),
        fuse::GETXATTR => core.getxattr(h, a),
        fuse::LISTXATTR => core.listxattr(h, a),
        fuse::REMOVEXATTR => core.removexattr(h, a),
        fuse::READDIR => core.readdir(h, a, false),
        fuse::READDIRPLUS => core.readdir(h, a, true),
        fuse::GETLK | fuse::SETLK | fuse::SETLKW => core.locks(h, a),
        fuse::FALLOCATE => core.fallocate(h, a),
        fuse::LSEEK => core.lseek(h, a),
        fuse::COPY_FILE_RANGE => core.copy_file_range(h, a),
        _ => core.error(h.unique, libc::ENOSYS),
    }
}

/// Calls on the mount's own directory and links.
fn own(core: &Arc<Core>, h: &Head, a: Args<'_>) {
    if shown_paths::is_shown(h.node) {
        return core.shown(h, a);
    }
    match h.op {
        fuse::LOOKUP => core.root_lookup(h, a),
        fuse::GETATTR => core.root_getattr(h),
        fuse::READLINK => core.root_readlink(h),
        fuse::READDIR => core.root_readdir(h, a, false),
        fuse::READDIRPLUS => core.root_readdir(h, a, true),
        _ => core.own_directory(h),
    }
}

impl Core {
    /// Calls that all of the mount's own files answer alike: they cannot be written.
    fn own_directory(&self, h: &Head) {
        match h.op {
            fuse::STATFS => self.root_statfs(h),
            fuse::OPENDIR => self.device.reply(h.unique, 0, &[&[0; 16]]),
            fuse::RELEASEDIR | fuse::FSYNCDIR => self.done(h.unique),
            fuse::GETXATTR | fuse::REMOVEXATTR => self.error(h.unique, libc::ENODATA),
            fuse::LISTXATTR => self.device.reply(h.unique, 0, &[&[0; 8]]),
            fuse::SETATTR
            | fuse::SYMLINK
            | fuse::MKNOD
            | fuse::MKDIR
            | fuse::UNLINK
            | fuse::RMDIR
            | fuse::RENAME
            | fuse::RENAME2
            | fuse::CREATE
            | fuse::TMPFILE
            | fuse::SETXATTR => self.error(h.unique, libc::EROFS),
            fuse::LINK => self.error(h.unique, libc::EXDEV),
            _ => self.error(h.unique, libc::ENOSYS),
        }
    }
}
