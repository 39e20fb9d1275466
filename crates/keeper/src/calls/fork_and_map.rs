//! Forks, file mappings and file bytes: what a host asks beside plain calls.
//!
//! From: `dispatch.rs`. Next: `host/src/calls/fork.rs`.

use super::replay::{note_mapping, replayed_mapping};
use crate::deputy::{Deputy, HostLink, Waiter, Work, has_slot, map_slot};
use crate::hosts::lose;
use crate::signals::{child_known, inherit_blocked};
use crate::state::{Away, Keep, Process, Tree};
use crate::sync::lock;
use armento_client::api::Dest;
use armento_migrate::failpoint::point;
use armento_migrate::image::files::{FILE_MAX, file_key, unwritable};
use armento_migrate::phase::Failpoint;
use armento_model::{HomeTid, Pid, Stay, Tid};
use armento_tracee::region::{self, Slot};
use armento_tracee::status::{self, ProcStatus};
use armento_tracee::{maps, spawn, sys};
use armento_wire::talk::{FileKey, ToHost};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Bytes of a file in one message.
const BLOCK: usize = 1 << 20;

/// A child comes to where it waits within a few milliseconds, or when the tracer thread has let it go.
const UNBORN_LOOK: Duration = Duration::from_millis(100);
const UNBORN_LOOKS: u32 = 20;

/// Flags of clone(2) that have an effect between deputies.
const PROCESS_FLAGS: u64 =
    (libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_IO | libc::CLONE_SYSVSEM) as u64;
const THREAD_FLAGS: u64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM) as u64;

pub fn fork(
    keep: &Arc<Keep>,
    d: &Arc<Deputy>,
    seq: u32,
    flags: u64,
    exit_signal: i32,
    thread: bool,
) {
    let tid = d.tid;
    let Some(child) = d.slot.region().slot() else {
        // Its region was made for the threads it had when it left, and some more. The next will be bigger.
        return d
            .link()
            .send(&forked(tid, seq, 0, Some(Stay::UnsupportedCall)));
    };
    let Ok(waiter) = Waiter::begin() else {
        return d.link().send(&forked(tid, seq, 0, Some(Stay::LimitLower)));
    };
    let flags = if thread {
        THREAD_FLAGS
    } else {
        flags & PROCESS_FLAGS | (exit_signal as u64 & 0xff)
    };
    let shares = !thread && flags & (libc::CLONE_FILES | libc::CLONE_FS) as u64 != 0;
    if shares {
        d.common.shares_files.store(true, Ordering::Release);
    }
    let (keep, d, at) = (keep.clone(), d.clone(), child.addr());
    // At once, while the thread that waits for it is begun; unless its slot has to be mapped first.
    let made = match has_slot(&d, &child) {
        true => Ok(clone(&d, flags, None, child)),
        false => Err(child),
    };
    spawn::soon("fork", move || {
        let made = made.or_else(|child| match map_slot(&d, &child) {
            true => Ok(clone(&d, flags, None, child)),
            false => Err(child),
        });
        let Ok(made) = made else {
            return d.link().send(&forked(tid, seq, 0, Some(Stay::LimitLower)));
        };
        let Ok((ret, slot)) = made.recv() else {
            return end_unborn(&keep, at);
        };
        if ret > 0 {
            point(Failpoint::HomeBorn);
            // Registered before the host knows its number, so that its first call finds its deputy.
            let parent = d.clone();
            keep.tracer
                .run(move |t| born(t, &parent, ret as i32, (*slot, waiter), thread));
        }
        d.link().send(&forked(tid, seq, ret, None));
    });
}

/// A deputy's child: a thread, or a process of its own.
fn born(
    t: &mut Tree,
    parent: &Arc<Deputy>,
    tid: Tid,
    (slot, waiter): (Slot, Waiter),
    thread: bool,
) {
    let link = parent.link();
    let p = t.procs.get(&parent.pid);
    let locked = p.is_some_and(|p| p.pins.by_option());
    let elsewhere = p.is_some_and(|p| p.begun_elsewhere);
    let ignored = p.and_then(Process::away).map_or(0, Away::ignored);
    let pid = if thread { parent.pid } else { tid };
    if thread && !p.is_some_and(Process::is_away) {
        // Its process has exec'd or ended meanwhile, and the thread with it.
        return;
    }
    let p = t.procs.entry(pid).or_insert_with(|| {
        Process::new(&t.keep.cpu, pid, locked, t.keep.settings.safe).child_of(parent.pid)
    });
    if !thread {
        let read = parent.common.signalfds.load(Ordering::Relaxed);
        p.common.signalfds.store(read, Ordering::Relaxed);
        let shares = t.keep.settings.forwards_files() || crate::sys::share_files(pid, parent.pid);
        p.common.shares_files.store(shares, Ordering::Release);
        *lock(&p.common.mapped) = slot.end();
        lock(&p.common.limits).clone_from(&lock(&parent.common.limits));
        p.begun_elsewhere = elsewhere;
        p.become_away(Away::new(link.clone(), slot.region().clone(), ignored));
    }
    let (to, common) = (link.clone(), p.common.clone());
    let d = Deputy::new(tid, pid, slot, to, common, None, Some(parent));
    d.attend(waiter);
    t.keep.deputies.insert(&d);
    p.add_deputy(&d);
    inherit_blocked(t, &d);
    child_known(t, pid, tid);
    // A process that was lost with the host was counted before.
    let keep = t.keep.clone();
    if let Some(p) = t.procs.get_mut(&pid)
        && !thread
        && link.broken.load(Ordering::Acquire)
    {
        lose(&keep, p, &link, Dest::Balance);
    }
}

/// A deputy was killed in its clone, by the loss of its host or by a signal. Its child, if it has made one, is not
/// known and would wait for work for ever, with all its parent's descriptors. `at`: where it waits; a thread has ended
/// with its process.
fn end_unborn(keep: &Keep, at: u64) {
    for _ in 0..UNBORN_LOOKS {
        for pid in status::processes().filter(|pid| is_unborn(keep, *pid, at)) {
            let _ = sys::kill(pid, libc::SIGKILL);
        }
        std::thread::sleep(UNBORN_LOOK);
    }
}

/// A process that we trace, that is not known, idles where a child of that clone would, and whose parent is no deputy
/// any more.
fn is_unborn(keep: &Keep, pid: Pid, at: u64) -> bool {
    let me = std::process::id() as i32;
    let unknown = |s: &ProcStatus| {
        s.tracer == me && keep.deputy(pid).is_none() && keep.deputy(s.ppid).is_none()
    };
    // KERNEL: proc_pid_syscall(5): number, then arguments in hexadecimal.
    let idle = format!("{} {at:#x} ", libc::SYS_futex);
    status::read(pid).is_ok_and(|s| unknown(&s))
        && std::fs::read_to_string(format!("/proc/{pid}/syscall"))
            .is_ok_and(|call| call.starts_with(&idle))
}

/// Makes one more deputy of a process that has no body yet, for a thread of the body that will be built. `tid`: the number
/// that it must have. Returns its number.
pub fn make_thread(keep: &Arc<Keep>, d: &Arc<Deputy>, tid: Option<Tid>) -> io::Result<Tid> {
    let none = |what: &str| io::Error::other(what.to_owned());
    let region = d.slot.region();
    let child = region.slot().ok_or_else(|| none("it has too many"))?;
    let waiter = Waiter::begin()?;
    if !has_slot(d, &child) && !map_slot(d, &child) {
        return Err(none("there is no memory for it"));
    }
    let made = clone(d, THREAD_FLAGS, tid, child).recv();
    let (ret, slot) = made.map_err(|_| none("the process has ended"))?;
    if ret <= 0 {
        return Err(io::Error::from_raw_os_error(-ret as i32));
    }
    let parent = d.clone();
    keep.tracer
        .run(move |t| born(t, &parent, ret as i32, (*slot, waiter), true));
    Ok(ret as i32)
}

/// The result is received; or the channel closes, when the deputy ends.
fn clone(d: &Deputy, flags: u64, tid: Option<Tid>, child: Slot) -> Receiver<(i64, Box<Slot>)> {
    let (done, made) = std::sync::mpsc::channel();
    let child = Box::new(child);
    d.submit(Work::Clone {
        flags,
        tid,
        child,
        done,
    });
    made
}

fn forked(tid: Tid, seq: u32, ret: i64, stay: Option<Stay>) -> ToHost {
    ToHost::Forked {
        tid: HomeTid::of_home(tid),
        seq,
        ret,
        stay,
    }
}

/// Sets which signals the deputy ignores, for the exec that will inherit them. It is not waited for: the thread that
/// reads the host's stream reads nothing else meanwhile, and a deputy that is killed just now does nothing more.
pub fn ignore(d: &Deputy, changed: u64, ignored: u64) {
    for sig in (1..=64u64).filter(|s| changed >> (s - 1) & 1 == 1 && *s != libc::SIGCHLD as u64) {
        let yes = ignored >> (sig - 1) & 1 == 1;
        d.submit(Work::Ignore { sig, yes });
    }
}

pub fn map(keep: &Arc<Keep>, d: &Arc<Deputy>, seq: u32, args: [u64; 6]) {
    if replayed_mapping(keep, d, seq, &args) {
        return;
    }
    let (keep, d) = (keep.clone(), d.clone());
    spawn::soon("map", move || {
        let answer = match look(&keep, &d, args) {
            Err(stay) => ToHost::Mapped {
                seq,
                ret: 0,
                key: None,
                stay: Some(stay),
            },
            Ok(key) => {
                let ret = d
                    .own(libc::SYS_mmap, args)
                    .unwrap_or(-i64::from(libc::ENOMEM));
                if let (Some(key), Ok(at)) = (key, u64::try_from(ret)) {
                    learn_name(&keep, d.pid, at, key);
                }
                note_mapping(&d, &args, ret, key);
                ToHost::Mapped {
                    seq,
                    ret,
                    key,
                    stay: None,
                }
            }
        };
        d.link().send(&answer);
    });
}

/// Home's kernel calls the file just mapped at `at` by a number of its own: it is known by that when it comes home.
fn learn_name(keep: &Keep, pid: Pid, at: u64, key: FileKey) {
    let all = maps::read(pid).unwrap_or_default();
    if let Some(v) = all.iter().find(|v| v.start <= at && at < v.end) {
        lock(&keep.names).learn(v, key);
    }
}

/// Which file a mapping would show. `Ok(None)`: the kernel will refuse, and says why itself.
fn look(keep: &Keep, d: &Deputy, args: [u64; 6]) -> Result<Option<FileKey>, Stay> {
    // An honest host asks for neither.
    if args[3] as i32 & libc::MAP_ANONYMOUS != 0 || !region::apart(args[0], args[1]) {
        return Err(Stay::UnsupportedCall);
    }
    if lock(&keep.files).len() >= keep.files_max {
        return Err(Stay::NoRoom);
    }
    let fd = match sys::steal_fd(d.pid, args[4] as i32) {
        Ok(fd) => fd,
        // We have no room for it: the program may.
        Err(e) if sys::is_short(&e) => return Err(Stay::NoRoom),
        Err(_) => return Ok(None),
    };
    let f = File::from(fd);
    let kind = f.metadata().map_err(|_| Stay::UnsupportedCall)?.file_type();
    let Some(key) = file_key(&f) else {
        // KERNEL: directories and pipes cannot be mapped; devices, sockets of TCP and some anonymous inodes can.
        let refused = kind.is_dir() || kind.is_fifo();
        return if refused {
            Ok(None)
        } else {
            Err(Stay::DeviceMapping)
        };
    };
    if key.size > FILE_MAX {
        return Err(Stay::NoRoom);
    }
    let shared = armento_abi::maps_shared(args[3]);
    let leased = shared && !unwritable(d.pid, &f);
    if leased && !armento_leases::take(&f) {
        return Err(Stay::SharedMemory);
    }
    let f = Arc::new(f);
    if leased {
        lock(&keep.leases).push((d.pid, f.clone()));
    }
    lock(&keep.files).insert(key, f);
    Ok(Some(key))
}

/// Closes the files that were mapped away, once nothing of this tree is: its programs may have let them go, and unmount
/// their file system. What is being sent, or waits to be (`keeper/src/moves/group.rs`), is open a second time.
pub fn close_mapped_files(t: &Tree) {
    if !t.procs.values().any(Process::is_away) {
        lock(&t.keep.leases).clear();
        lock(&t.keep.files).retain(|_, f| Arc::strong_count(f) > 1);
    }
}

pub fn fetch(keep: &Arc<Keep>, link: &Arc<HostLink>, seq: u32, key: FileKey) {
    let file = lock(&keep.files).get(&key).cloned();
    let link = link.clone();
    spawn::soon("fetch", move || {
        let mut off = 0;
        loop {
            let mut bytes = vec![0u8; BLOCK];
            let n = file
                .as_ref()
                .and_then(|f| f.read_at(&mut bytes, off).ok())
                .unwrap_or(0);
            bytes.truncate(n);
            let end = n == 0 || off + n as u64 >= key.size;
            link.send(&ToHost::FileBytes {
                seq,
                off,
                bytes,
                end,
            });
            off += n as u64;
            if end {
                return;
            }
        }
    });
}
