//! A process comes home: its mappings, before its pages.
//!
//! From: `home.rs`. Next: `migrate/src/pages/writer.rs`.

use crate::calls::argument_pages;
use crate::signals::{break_calls, in_order, is_thread_directed};
use crate::state::{Keep, Tree};
use crate::sync::lock;
use armento_migrate::image::Area;
use armento_migrate::image::Kind;
use armento_migrate::image::areas::{self, Step};
use armento_migrate::image::flags::{self, Noted};
use armento_migrate::image::objects::{Aim, ObjectId};
use armento_migrate::image::{Layout, objects};
use armento_migrate::pages::StandIns;
use armento_migrate::stop_threads::StoppedThreads;
use armento_migrate::target::{self, relayout};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::call::Call;
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::pages::{self, Run};
use armento_tracee::region::Code;
use armento_tracee::{PAGE, maps, sys, trace};
use armento_wire::talk::FileKey;
use std::collections::HashSet;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What has been mapped while the body runs.
#[derive(Default)]
pub struct MappedEarly {
    /// Its flags. `None`: nothing could be mapped, and the pages come with the freeze.
    pub noted: Option<Noted>,
    pub stand_ins: StandIns,
    /// It begins from a checkpoint: the shared memory whose content is here already.
    pub begins: Option<HashSet<ObjectId>>,
}

/// Stops the deputies and gives the process its mappings back. `early`: by [`map_early`].
pub fn rebuild(t: &mut Tree, pid: Pid, layout: &Layout, early: &MappedEarly) -> Result<()> {
    let stand_ins = &early.stand_ins;
    let begins = early.begins.as_ref();
    let aim = begins.map_or(Aim::Move, |_| Aim::Checkpoint);
    let early = early.noted.as_ref();
    let keep = t.keep.clone();
    let code = t.code_of(pid).ok_or(MigrateError::Ended)?;
    break_calls(t, pid);
    let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let away = p.away_mut().ok_or(MigrateError::Ended)?;
    let mut stopped = StoppedThreads::new(pid);
    stopped.seized.extend(away.deputies().keys());
    let all_stopped = stopped
        .seized
        .iter()
        .copied()
        .collect::<Vec<_>>()
        .into_iter()
        .try_for_each(|tid| {
            trace::interrupt(tid)?;
            stopped.halt_one(tid)
        });
    for (tid, info) in in_order(&stopped.halted) {
        let to = is_thread_directed(&keep, pid, tid, &info).then_some(tid);
        away.signals.hold(to, &info);
    }
    away.halted = stopped.disband();
    all_stopped?;
    let now = || -> Result<Vec<Area>> {
        let list = maps::read(pid).map_err(|_| MigrateError::Ended)?;
        let mut areas = areas::of_deputy(&list, &lock(&keep.names), aim);
        match early {
            Some(noted) => noted.mark(&mut areas),
            None => Noted::now(pid)?.mark(&mut areas),
        }
        Ok(if early.is_some() {
            areas
        } else {
            without_kept_stack(areas, &layout.areas)
        })
    };
    let mut h = Hold::take(pid, Arc::new(Unfiltered))?;
    let busy = keep.deputies.kept_memory(pid);
    let grow = grow_stack_calls(pid, &layout.areas, &busy, stand_ins)?;
    h.batch(&code, &grow)?;
    let mut old = now()?;
    // Before the layout, which may bring a file's bytes to where pages were sent. Holes do not matter.
    let drop = match early {
        Some(_) => layout.dropped.clone(),
        None => unneeded(pid, &old, &[], stand_ins),
    };
    h.batch(&code, &flags::unlock_calls(&old))?;
    h.batch(&code, &target::drop_calls(&drop))?;
    let comes =
        |o: &ObjectId| !keep.shm_guards.has(o) && !begins.is_some_and(|known| known.contains(o));
    let open = objects::opened_up(&layout.areas, comes);
    let new = areas::bare(&open);
    let viewed = restore_views(&mut h, &code, &old, &new)?;
    let moved = files_moved(&mut h, &code, &old, &new)?;
    if viewed || moved {
        old = now()?;
    }
    let one = |h: &mut Hold, a: &Area| match &a.kind {
        Kind::File { off, .. } => copy_file(&keep, &code, h, a, version(&layout.areas, a), *off),
        _ => Err(MigrateError::Stays(
            Stay::TargetFailed,
            "memory that it shared is gone here".into(),
        )),
    };
    let mut map = |h: &mut Hold, all: &[Area]| all.iter().try_for_each(|a| one(h, a));
    relayout(&mut h, &code, &old, &new, &mut map)
}

/// Views of shared memory that the body has elsewhere than home, made from those that the deputy kept. Before
/// anything is unmapped: what has no name cannot be mapped again. Returns whether there were any.
/// KERNEL: mremap(2) with an old size of 0 makes another view of a shared mapping.
fn restore_views(h: &mut Hold, code: &Code, old: &[Area], new: &[Area]) -> Result<bool> {
    let lacks = |s: &Step| match s {
        Step::Map(a) if matches!(a.kind, Kind::Shared { .. }) => Some(a.clone()),
        _ => None,
    };
    let lacking: Vec<Area> = areas::steps(old, new).iter().filter_map(lacks).collect();
    for a in &lacking {
        let from = old.iter().find_map(|o| match (&o.kind, &a.kind) {
            (Kind::Shared { object: x, off: p }, Kind::Shared { object: y, off: q }) if x == y => {
                let at = (o.start + q).checked_sub(*p)?;
                (at >= o.start && at < o.end).then_some(at)
            }
            _ => None,
        });
        let Some(from) = from else { continue };
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let len = a.end - a.start;
        let calls = [
            (libc::SYS_mremap, [from, 0, len, flags, a.start, 0]),
            (libc::SYS_mprotect, [a.start, len, a.prot as u64, 0, 0, 0]),
        ];
        h.batch_ok(code, "mremap", &calls)?;
    }
    Ok(!lacking.is_empty())
}

/// The body moved mappings of files with mremap: so does home with those that the deputy kept, since the file may have
/// no name any more by which it could be opened. Its pages come with the others. Returns whether there were any.
fn files_moved(h: &mut Hold, code: &Code, old: &[Area], new: &[Area]) -> Result<bool> {
    let file = |a: &Area| match a.kind {
        Kind::File { key, off, .. } => Some((key, off)),
        _ => None,
    };
    let steps = areas::steps(old, new);
    let mapped = |s: &Step| match s {
        Step::Map(a) => Some(a.clone()),
        _ => None,
    };
    let lacking: Vec<Area> = steps.iter().filter_map(mapped).collect();
    // What the new layout has no use for where it is.
    let spare = |at: u64, end: u64| {
        let kept = areas::in_both(old, new);
        kept.iter().all(|k| k.end <= at || end <= k.start)
    };
    let mut taken: Vec<(u64, u64)> = Vec::new();
    let apart = |a: u64, b: u64, list: &[(u64, u64)]| list.iter().all(|t| t.1 <= a || b <= t.0);
    for a in &lacking {
        let Some((key, off)) = file(a) else { continue };
        let from = old.iter().find_map(|o| {
            let (_, begins) = file(o).filter(|(k, _)| *k == key)?;
            let at = o.start + off.checked_sub(begins)?;
            let end = o.end.min(at.saturating_add(a.end - a.start));
            let free = apart(at, end, &taken) && apart(at, end, &[a.run()]);
            (at < end && free && spare(at, end)).then_some((at, end))
        });
        let Some((at, end)) = from else { continue };
        taken.extend([(at, end), a.run()]);
        let len = a.end - a.start;
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let empty = libc::MADV_DONTNEED as u64;
        let calls = [
            (libc::SYS_mremap, [at, end - at, len, flags, a.start, 0]),
            (libc::SYS_mprotect, [a.start, len, a.prot as u64, 0, 0, 0]),
            (libc::SYS_madvise, [a.start, len, empty, 0, 0, 0]),
        ];
        h.batch_ok(code, "mremap", &calls)?;
    }
    Ok(!taken.is_empty())
}

/// The file of `a`, one of `areas` but for its version.
fn version(areas: &[Area], a: &Area) -> Option<FileKey> {
    let own = areas
        .iter()
        .find(|o| o.start <= a.start && a.start < o.end)?;
    match own.kind {
        Kind::File { key, .. } => Some(key),
        _ => None,
    }
}

/// What a deputy kept of the stack (arguments, environment) is no part of the stack that comes unless it has grown to
/// it: that is mapped as one, or the kernel would know only a piece of it by its name.
pub fn without_kept_stack(mut areas: Vec<Area>, new: &[Area]) -> Vec<Area> {
    let whole = new.iter().find(|a| a.kind == Kind::Stack).map(Area::run);
    for a in &mut areas {
        if a.kind == Kind::Stack && Some(a.run()) != whole {
            a.kind = Kind::Anon;
        }
    }
    areas
}

/// Has the deputy's piece of the stack grow to what the body has of it, so that others can read arguments and
/// environment there at all times. The kernel grows it at a write below, unless something lies there: what lay below, and
/// was kept for a call that has ended, goes first. `busy`: what calls under way write to; the piece stays as it is then.
/// KERNEL: clock_gettime(2) writes 16 bytes.
pub fn grow_stack_calls(
    pid: Pid,
    new: &[Area],
    busy: &[Run],
    stand_ins: &StandIns,
) -> Result<Vec<Call>> {
    let list = maps::read(pid).map_err(|_| MigrateError::Ended)?;
    let stack = new.iter().find(|a| a.kind == Kind::Stack).map(Area::run);
    let all: Vec<Run> = list.iter().map(|v| (v.start, v.end)).collect();
    let Some((stack, below)) = stack.and_then(|s| Some((s, below_top(s, &all)?))) else {
        return Ok(Vec::new());
    };
    if !pages::both(&below, busy).is_empty() {
        return Ok(Vec::new());
    }
    stand_ins.add((stack.0, stack.0 + PAGE));
    let grow = [libc::CLOCK_MONOTONIC as u64, stack.0, 0, 0, 0, 0];
    let unmap = |(start, end): &Run| (libc::SYS_munmap, [*start, end - start, 0, 0, 0, 0]);
    let mut calls: Vec<Call> = below.iter().map(unmap).collect();
    calls.push((libc::SYS_clock_gettime, grow));
    Ok(calls)
}

/// What the stack has to grow over from its topmost piece. `None`: it is whole, or not there.
fn below_top(stack: Run, all: &[Run]) -> Option<Vec<Run>> {
    // Its name is that of the piece with the first frame, which may lie lower.
    let top = all.iter().find(|v| v.1 == stack.1 && stack.0 < v.0)?;
    Some(pages::both(all, &[(stack.0, top.0)]))
}

/// What a deputy has of memory that comes: it is not needed until the body's pages are there, but for what ps reads,
/// and `busy`, which calls under way read.
pub fn unneeded(pid: Pid, old: &[Area], busy: &[Run], stand_ins: &StandIns) -> Vec<Run> {
    let all: Vec<Run> = old.iter().map(Area::run).collect();
    let (from, to) = argument_pages(pid);
    let stack = old.iter().find(|a| a.kind == Kind::Stack);
    let mut needed = busy.to_vec();
    if stack.is_some_and(|s| s.start <= from && from < to && to <= s.end) {
        needed.push((from, to));
    }
    needed.sort_unstable();
    for run in pages::both(&all, &needed) {
        stand_ins.add(run);
    }
    pages::minus(&all, &needed)
}

/// A file mapping that the deputy does not hold (the body moved it): an anonymous copy of its bytes.
fn copy_file(
    keep: &Keep,
    code: &Code,
    h: &mut Hold,
    a: &Area,
    key: Option<FileKey>,
    off: u64,
) -> Result<()> {
    let file = key.and_then(|k| lock(&keep.files).get(&k).cloned());
    let file = file.ok_or_else(|| {
        MigrateError::Stays(Stay::TargetFailed, "a mapped file is not known here".into())
    })?;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let len = a.end - a.start;
    h.batch_ok(
        code,
        "map",
        &[(libc::SYS_mmap, [a.start, len, rw, flags, u64::MAX, 0])],
    )?;
    let mut buf = vec![0u8; 256 << 10];
    let mut at = 0;
    while at < len {
        let want = ((len - at) as usize).min(buf.len());
        let n = file
            .read_at(&mut buf[..want], off + at)
            .local("read a mapped file")?;
        if n == 0 {
            break;
        }
        sys::vm_write(h.tid, a.start + at, &buf[..n]).of_process("write its memory")?;
        at += n as u64;
    }
    h.batch_ok(
        code,
        "mprotect",
        &[(libc::SYS_mprotect, [a.start, len, a.prot as u64, 0, 0, 0])],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_grows_over_what_was_kept_of_it() {
        let (stack, top, kept) = ((0x1000, 0x9000), (0x6000, 0x9000), (0x3000, 0x4000));
        assert_eq!(below_top(stack, &[kept, top]), Some(vec![kept]));
        assert_eq!(below_top(stack, &[top]), Some(vec![]));
        let meets = (0, 0x2000);
        let part = (0x1000, 0x2000);
        assert_eq!(below_top(stack, &[meets, top]), Some(vec![part]));
        assert_eq!(below_top(stack, &[stack]), None, "it is whole");
        assert_eq!(below_top(stack, &[kept]), None);
    }
}
