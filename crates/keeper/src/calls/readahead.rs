//! Read-ahead at home: whether it is permitted, and the bytes.
//!
//! From: `host/src/calls/readahead.rs`. Permitted for a regular file that is open for reading only, whose description no other
//! descriptor has (so that nothing else moves or sees its offset), under a lease against writers: while it is held the
//! file is not open for writing, and a process that wants to write waits until the host has dropped what it read ahead.

use crate::deputy::{Deputy, HostLink, ReadAhead, STREAMS_MAX};
use crate::descriptors::is_local;
use crate::lifecycle::scan_children;
use crate::record::{Answer, CallId};
use crate::sharing::{maps_shared_object, sharers_of};
use crate::state::{Keep, Tree};
use crate::sync::lock;
use crate::sys;
use armento_abi::{Fault, Mem};
use armento_leases::Leased;
use armento_model::{HomePid, Pid};
use armento_tracee::region::DATA;
use armento_tracee::sys as tsys;
use armento_wire::talk::{From, READAHEAD_MAX, READS_SINCE, ServedRead, ToHost};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// With less to come it is not worth the look at all descriptors.
const WORTH: u64 = 64 << 10;

/// A read of ours that takes longer is not waited for: a disk that hangs must not hold a whole host.
const READ_MAX: Duration = Duration::from_secs(10);
const READ_LOOK: Duration = Duration::from_micros(50);

/// A host asks. Handled in the order of its calls up to where the offset is set; the rest may take its time.
pub fn requested(
    keep: &Arc<Keep>,
    link: &Arc<HostLink>,
    pid: Pid,
    seq: u32,
    fd: i32,
    from: Option<From>,
    len: u32,
) {
    // Only its own host may ask.
    let Some(deputy) = keep.deputy_of(link, pid) else {
        return;
    };
    if !may_read_ahead(keep, link, &deputy) {
        return answer(link, pid, seq, fd, None, 0);
    }
    let mut all = lock(&keep.readaheads);
    let known = all.get(&(pid, fd)).and_then(|s| s.file.clone());
    match (from, known) {
        (None, _) if all.len() < STREAMS_MAX => {
            let s = ReadAhead {
                seq,
                link: link.clone(),
                file: None,
                at: 0,
            };
            all.insert((pid, fd), s);
        }
        (Some(f), Some(_)) => set_offset(pid, fd, f.program),
        _ => {
            drop(all);
            return answer(link, pid, seq, fd, None, 0);
        }
    }
    let known = all.get(&(pid, fd)).and_then(|s| s.file.clone());
    drop(all);
    let (keep, link) = (keep.clone(), link.clone());
    armento_tracee::spawn::soon("ahead", move || {
        let found = match (from, known) {
            (Some(f), Some(file)) => Some((file, f.ahead)),
            _ => {
                let found = first(&keep, pid, fd, seq);
                if found.is_some() && keep.settings.safe.is_some() {
                    let pid = HomePid::of_home(pid);
                    link.send(&ToHost::TellReads { pid, fd });
                }
                found
            }
        };
        answer(&link, pid, seq, fd, found, len);
    });
}

/// Of a program that is kept safe its host tells each read that it answers, and it is recorded as if it had been made here. Not
/// while recorded calls are made again: those are compared here. Not with held output, where a read that moves an offset
/// waits for its checkpoint.
fn may_read_ahead(keep: &Keep, link: &HostLink, d: &Deputy) -> bool {
    if keep.settings.safe.is_none() {
        return !keep.settings.forwards_files();
    }
    let record = d.common.record.as_ref();
    !keep.settings.forward_files
        && link.pass.common_engine() >= READS_SINCE
        && record.is_some_and(|r| !r.exact && !r.replays())
}

/// Records of processes that share memory say what was made before what: reads that are told later do not.
fn shares_nothing(keep: &Keep, pid: Pid) -> bool {
    sharers_of(pid).len() == 1 && !maps_shared_object(keep, pid)
}

/// Reads that a host has answered. They were of bytes under a lease, so that home reads the same: each is noted as if it had been
/// made here.
pub fn reads_served(keep: &Keep, link: &Arc<HostLink>, list: &[ServedRead]) {
    let mut stands: HashMap<(Pid, i32), u64> = HashMap::new();
    for r in list {
        let Some(d) = keep.deputy_of(link, r.tid.at_home()) else {
            continue;
        };
        let Some(record) = &d.common.record else {
            continue;
        };
        let descriptor = (d.pid, r.args[0] as i32);
        match (served(keep, link, descriptor, r), call_id(r)) {
            (Some((at, outs)), Some(call)) => {
                stands.insert(descriptor, at);
                let (ret, nr) = (r.ret, r.nr);
                let answer = Answer {
                    ret,
                    outs,
                    ..Answer::default()
                };
                record.note(d.tid, call, nr, answer);
            }
            // Or its host tells what cannot be: nothing is built from that.
            _ => record.leave_gap(|| "another process writes a file that it reads".into()),
        }
    }
    for ((pid, fd), at) in stands {
        set_offset(pid, fd, at);
    }
}

/// Where the program stands behind such a call, and the bytes that it got. `None`: they may have changed since, or the host says
/// what cannot be.
fn served(
    keep: &Keep,
    link: &Arc<HostLink>,
    descriptor: (Pid, i32),
    r: &ServedRead,
) -> Option<(u64, Vec<u8>)> {
    let mut all = lock(&keep.readaheads);
    let s = all.get_mut(&descriptor)?;
    let file = s.file.clone().filter(|f| !f.is_wanted())?;
    if !Arc::ptr_eq(&s.link, link) {
        return None;
    }
    let (at, then) = match i64::from(r.nr) {
        libc::SYS_read => (s.at, s.at.checked_add_signed(r.ret)?),
        libc::SYS_pread64 => (r.args[3], s.at),
        libc::SYS_lseek => {
            s.at = u64::try_from(r.ret).ok()?;
            return Some((s.at, Vec::new()));
        }
        _ => return None,
    };
    let len = u64::try_from(r.ret).ok()?;
    if len > r.args[2] || len > u64::from(READAHEAD_MAX) {
        return None;
    }
    s.at = then;
    drop(all);
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, at).ok()?;
    // What is wanted now may have been written before it was read.
    (!file.is_wanted()).then_some((then, bytes))
}

/// As its host would have sent the call.
fn call_id(r: &ServedRead) -> Option<CallId> {
    let plan = armento_abi::pack(r.nr.into(), &r.args, &mut NoMem, DATA as usize).ok()?;
    Some(CallId::of(&plan.packed))
}

/// These calls take nothing from the program's memory.
struct NoMem;

impl Mem for NoMem {
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(Fault)
    }

    fn read_some(&mut self, _: u64, _: &mut [u8]) -> usize {
        0
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault)
    }
}

fn answer(
    link: &HostLink,
    pid: Pid,
    seq: u32,
    fd: i32,
    from: Option<(Arc<Leased>, u64)>,
    len: u32,
) {
    let mut bytes = vec![0u8; len.min(READAHEAD_MAX) as usize];
    let piece = from.and_then(|(f, at)| {
        let n = fill(&f, &mut bytes, at).ok()?;
        let size = f.metadata().ok()?.size();
        Some((at, n, at + n as u64 >= size))
    });
    let (at, n, end) = piece.map_or((None, 0, false), |(at, n, end)| (Some(at), n, end));
    bytes.truncate(n);
    link.send(&ToHost::Ahead {
        pid: HomePid::of_home(pid),
        seq,
        fd,
        at,
        bytes,
        end,
    });
}

/// Reads until the buffer or the file ends.
fn fill(f: &File, buf: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match f.read_at(&mut buf[done..], at + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// Looks whether it is permitted, and takes the lease.
fn first(keep: &Keep, pid: Pid, fd: i32, seq: u32) -> Option<(Arc<Leased>, u64)> {
    let found = permitted(keep, pid, fd);
    let mut all = lock(&keep.readaheads);
    // It may be over by now.
    let s = all.get_mut(&(pid, fd)).filter(|s| s.seq == seq)?;
    match found {
        Some((file, at)) => {
            let file = Arc::new(file);
            s.file = Some(file.clone());
            s.at = at;
            Some((file, at))
        }
        None => {
            all.remove(&(pid, fd));
            None
        }
    }
}

fn permitted(keep: &Keep, pid: Pid, fd: i32) -> Option<(Leased, u64)> {
    if keep.settings.safe.is_some() && !shares_nothing(keep, pid) {
        return None;
    }
    let mut theirs = File::from(tsys::steal_fd(pid, fd).ok()?);
    let m = theirs.metadata().ok()?;
    let at = theirs.stream_position().ok()?;
    if !m.is_file() || m.size() < at.saturating_add(WORTH) {
        return None;
    }
    if !sys::only_reads(&theirs) || !is_local(sys::file_system(&theirs)?) {
        return None;
    }
    let leased = Leased::take(theirs)?;
    // Looked for after the lease: a process that could share it can come to it only by a call of the program's.
    is_only_description(keep, pid, fd, (m.dev(), m.ino())).then_some((leased, at))
}

/// Whether no other descriptor, of this or another process, has the same description. A file that the tree opened
/// itself only the tree can have; for any other, every process that we may look into is asked.
fn is_only_description(keep: &Keep, pid: Pid, fd: i32, id: FileId) -> bool {
    let own = keep.inherited.as_ref().is_some_and(|i| !i.contains(&id));
    let tree = |t: &mut Tree| {
        scan_children(t);
        t.procs.keys().copied().collect()
    };
    let pids: Vec<Pid> = if own {
        keep.tracer.run(tree).unwrap_or_default()
    } else {
        armento_tracee::status::processes().collect()
    };
    if !pids.contains(&pid) {
        return false;
    }
    let me = std::process::id() as Pid;
    !pids.into_iter().filter(|p| *p != me).any(|other| {
        open_files(other).any(|(n, its)| {
            its == id && (other, n) != (pid, fd) && sys::same_description((pid, fd), (other, n))
        })
    })
}

type FileId = (u64, u64);

/// Descriptors of a process that we may look into, with device and inode.
pub fn open_files(pid: Pid) -> impl Iterator<Item = (i32, FileId)> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"));
    fds.into_iter().flatten().filter_map(move |e| {
        let n = e.ok()?.file_name().to_str()?.parse().ok()?;
        let m = std::fs::metadata(format!("/proc/{pid}/fd/{n}")).ok()?;
        Some((n, (m.dev(), m.ino())))
    })
}

/// Where the program stands in its file.
fn set_offset(pid: Pid, fd: i32, at: u64) {
    if let Ok(f) = tsys::steal_fd(pid, fd) {
        let _ = File::from(f).seek(SeekFrom::Start(at));
    }
}

/// The host says how far the program has read.
pub fn offsets_read(keep: &Keep, link: &Arc<HostLink>, pid: Pid, list: &[(i32, u64)], fds: &[i32]) {
    let mut all = lock(&keep.readaheads);
    let mine = |s: Option<&ReadAhead<HostLink>>| s.is_some_and(|s| Arc::ptr_eq(&s.link, link));
    for (fd, at) in list {
        if mine(all.get(&(pid, *fd))) {
            set_offset(pid, *fd, *at);
        }
    }
    for fd in fds {
        if mine(all.get(&(pid, *fd)))
            && let Some(file) = all.remove(&(pid, *fd)).and_then(|s| s.file)
            && Arc::strong_count(&file) > 1
        {
            give_back_first(link, file);
        }
    }
}

/// Offsets of files that the host has open itself. It could set them by lseek as well.
pub fn offsets_of(keep: &Keep, link: &Arc<HostLink>, pid: Pid, list: &[(i32, u64)]) {
    if keep.deputy_of(link, pid).is_some() {
        list.iter().for_each(|(fd, at)| set_offset(pid, *fd, *at));
    }
}

/// A thread of ours still reads: the program's close, which follows, must be the last of its description. So all that
/// follows on the host's stream waits for that read.
fn give_back_first(link: &HostLink, file: Arc<Leased>) {
    let read = link.posts.begin_hold();
    armento_tracee::spawn::soon("over", move || {
        let began = Instant::now();
        while Arc::strong_count(&file) > 1 && began.elapsed() < READ_MAX {
            std::thread::sleep(READ_LOOK);
        }
        drop(file);
        drop(read);
    });
}
