//! A program that stands at its exec makes room for a body from a checkpoint file: its memory is given up, its mappings of
//! files and the vDSO lie where the body has them, and its thread becomes a deputy.
//!
//! From: `keeper/src/saved/restart.rs`. Next: the body is built as one that was lost (`keeper/src/safe/recover.rs`).

use super::freeze::{Leaves, freeze};
use super::hollow::hollow_out;
use super::prepare::{Company, prepare, undo};
use super::tear_down::tear_down_memory;
use crate::deputy::HostLink;
use crate::state::{Keep, Tree};
use crate::sync::lock;
use armento_migrate::image::mm::{self, Mm};
use armento_migrate::image::objects::Views;
use armento_migrate::image::vdso::{ELSEWHERE, Vdso};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::call::Call;
use armento_tracee::inject::{Hold, Unfiltered, ok};
use armento_tracee::maps::{self, Vma};
use armento_tracee::region::{BASE, Code, ROOM};
use armento_tracee::sys;
use armento_wire::talk::FileKey;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A mapping of a file that the body has.
#[derive(Clone, Debug)]
pub struct FileView {
    pub start: u64,
    pub end: u64,
    pub prot: i32,
    pub off: u64,
    pub shared: bool,
    pub path: PathBuf,
    pub key: FileKey,
}

/// A mapping of memory that processes share, which it has open.
#[derive(Clone, Debug)]
pub struct SharedView {
    pub start: u64,
    pub end: u64,
    pub prot: i32,
    pub off: u64,
    pub fd: i32,
}

/// What the process must look like at home.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Where the body has its vDSO, if it is this kernel's.
    pub vdso: Option<Vdso>,
    pub files: Vec<FileView>,
    pub shared: Vec<SharedView>,
    /// Descriptors that it has for these mappings only, or for those of others: they are closed.
    pub handed: Vec<i32>,
    /// The numbers of its memory map, by which the kernel knows stack, heap and arguments.
    pub numbers: Mm,
    /// Of its stack, what a deputy keeps: arguments and environment. Where it begins, and the bytes up to the stack's end.
    pub kept_stack: Option<(u64, Vec<u8>)>,
}

/// After `Ok` its leader is a deputy that waits for work of a body at `link`, and there is none yet. After an error it
/// cannot go on: nothing of its program is left.
pub fn make_room(keep: &Arc<Keep>, pid: Pid, link: &Arc<HostLink>, shape: Shape) -> Result<()> {
    let gone = || Err(MigrateError::Ended);
    keep.tracer
        .run(move |t| prepare(t, pid, Company::Alone).map(drop))
        .unwrap_or_else(gone)?;
    let link = link.clone();
    let vacated = move |t: &mut Tree| {
        reshape(t, pid, &shape)?;
        let alone = Leaves {
            company: Company::Alone,
            foreign: false,
        };
        freeze(t, pid, alone, &Views::default())?;
        let (teardown, deputies) = hollow_out(t, pid, &link)?;
        deputies.serve();
        if let Some(teardown) = teardown {
            tear_down_memory(t, pid, teardown);
        }
        // Its signals are held until it has a body.
        let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
        p.begin_breaking();
        Ok(())
    };
    keep.tracer
        .run(move |t| {
            let done = vacated(t);
            if done.is_err() {
                // It is half one program and half another.
                let _ = sys::kill(pid, libc::SIGKILL);
                undo(t, pid);
            }
            done
        })
        .unwrap_or_else(gone)
}

/// Changes the mappings of the halted process, but for the region.
fn reshape(t: &mut Tree, pid: Pid, shape: &Shape) -> Result<()> {
    let leaving = t.leaving.get(&pid).ok_or(MigrateError::Ended)?;
    let code = leaving.region.code();
    let mut h = Hold::take(pid, Arc::new(Unfiltered))?;
    let list = maps::read(pid).map_err(|_| MigrateError::Ended)?;
    let (kernels, others): (Vec<Vma>, Vec<Vma>) = list.into_iter().partition(Vma::is_vdso);
    give_up(&mut h, &code, &others)?;
    if let Some(vdso) = &shape.vdso {
        move_vdso(&mut h, &code, &kernels, vdso)?;
    }
    for view in &shape.files {
        map_view(&mut h, &code, view)?;
    }
    map_shared(&mut h, &code, shape)?;
    if let Some((at, bytes)) = &shape.kept_stack {
        map_stack(&mut h, &code, *at, bytes)?;
    }
    h.batch_ok(&code, "prctl", &[mm::set_call(&code, &shape.numbers)])?;
    drop(h);
    if let Some(leaving) = t.leaving.get_mut(&pid) {
        // What of it is given up is decided by these.
        leaving.numbers = shape.numbers.clone();
    }
    let mut names = lock(&t.keep.names);
    for v in maps::read(pid).map_err(|_| MigrateError::Ended)? {
        let of = |f: &&FileView| f.start <= v.start && v.end <= f.end;
        if let Some(view) = shape.files.iter().find(of).filter(|_| v.is_file()) {
            names.learn(&v, view.key);
        }
    }
    Ok(())
}

/// Calls that fit into one batch, with room to spare (`tracee/src/region.rs`).
const BATCH: usize = 256;

fn give_up(h: &mut Hold, code: &Code, all: &[Vma]) -> Result<()> {
    let ours = |v: &Vma| v.start >= BASE && v.start < BASE + ROOM;
    let goes = |v: &&Vma| !ours(v) && !v.is_vsyscall();
    let unmap = |v: &Vma| (libc::SYS_munmap, [v.start, v.len(), 0, 0, 0, 0]);
    let calls: Vec<Call> = all.iter().filter(goes).map(unmap).collect();
    for some in calls.chunks(BATCH) {
        h.batch_ok(code, "munmap", some)?;
    }
    Ok(())
}

/// KERNEL: mremap(2) of the vDSO tells the kernel its new place (arch/x86/entry/vdso/vma.c, vdso_mremap).
fn move_vdso(h: &mut Hold, code: &Code, pages: &[Vma], to: &Vdso) -> Result<()> {
    let mut pages: Vec<&Vma> = pages.iter().collect();
    pages.sort_by_key(|v| v.start);
    let (Some(first), Some(last)) = (pages.first(), pages.last()) else {
        return Ok(());
    };
    let (start, end) = (first.start, last.end);
    if start == to.first {
        return Ok(());
    }
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    let step = |from: u64, at: u64| {
        let one = |v: &&Vma| {
            let (old, new) = (v.start - start + from, v.start - start + at);
            (libc::SYS_mremap, [old, v.len(), v.len(), flags, new, 0])
        };
        pages.iter().map(one).collect::<Vec<Call>>()
    };
    // KERNEL: mremap(2): old and new place must not overlap.
    let overlaps = to.first < end && start < to.first + (end - start);
    let calls = match overlaps {
        true => [step(start, ELSEWHERE), step(ELSEWHERE, to.first)].concat(),
        false => step(start, to.first),
    };
    h.batch_ok(code, "mremap", &calls)?;
    Ok(())
}

fn map_view(h: &mut Hold, code: &Code, view: &FileView) -> Result<()> {
    let mut path = view.path.as_os_str().as_bytes().to_vec();
    path.push(0);
    let at = code.scratch(0, &path);
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    let cwd = libc::AT_FDCWD as u64;
    let fd = h.call(code, libc::SYS_openat, [cwd, at, flags, 0, 0, 0])?.0;
    let fd = ok("open", h.tid, fd).map_err(|e| unmapped(view.path.as_os_str(), &e))?;
    let kind = if view.shared {
        libc::MAP_SHARED
    } else {
        libc::MAP_PRIVATE
    };
    let flags = (kind | libc::MAP_FIXED) as u64;
    let (len, prot) = (view.end - view.start, view.prot as u64);
    let args = [view.start, len, prot, flags, fd, view.off];
    let mapped = h.call(code, libc::SYS_mmap, args)?.0;
    h.call(code, libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    ok("mmap", h.tid, mapped).map_err(|e| unmapped(view.path.as_os_str(), &e))?;
    Ok(())
}

fn map_shared(h: &mut Hold, code: &Code, shape: &Shape) -> Result<()> {
    let flags = (libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
    let map = |v: &SharedView| {
        let args = [
            v.start,
            v.end - v.start,
            v.prot as u64,
            flags,
            v.fd as u64,
            v.off,
        ];
        (libc::SYS_mmap, args)
    };
    let close = |fd: &i32| (libc::SYS_close, [*fd as u64, 0, 0, 0, 0, 0]);
    let mapped: Vec<Call> = shape.shared.iter().map(map).collect();
    let closed: Vec<Call> = shape.handed.iter().map(close).collect();
    for some in mapped.chunks(BATCH) {
        h.batch_ok(code, "map shared memory", some)?;
    }
    for some in closed.chunks(BATCH) {
        h.batch_ok(code, "close", some)?;
    }
    Ok(())
}

/// It grows down when the body's stack comes (`mappings.rs`), as the stack of an exec does.
fn map_stack(h: &mut Hold, code: &Code, at: u64, bytes: &[u8]) -> Result<()> {
    let plain = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let flags = (plain | libc::MAP_GROWSDOWN) as u64;
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let args = [at, bytes.len() as u64, prot, flags, u64::MAX, 0];
    h.batch_ok(code, "mmap", &[(libc::SYS_mmap, args)])?;
    let wrote = sys::vm_write(h.tid, at, bytes).of_process("write its arguments")?;
    match wrote == bytes.len() {
        true => Ok(()),
        false => Err(MigrateError::Ended),
    }
}

fn unmapped(path: &OsStr, e: &dyn std::fmt::Display) -> MigrateError {
    let why = format!("{} cannot be mapped: {e}", path.display());
    MigrateError::Stays(Stay::TargetFailed, why)
}
