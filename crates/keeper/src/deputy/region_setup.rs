//! What is set up in a process that is to leave: the region of its deputies, and the watch over its writes.
//!
//! From: `keeper/src/moves/prepare.rs`. Next: `tracee/src/region.rs`.

use super::thread::Deputy;
use crate::sync::lock;
use armento_migrate::{MigrateError, Result};
use armento_model::Stay;
use armento_tracee::call::vdso_syscall;
use armento_tracee::inject::{Hold, ok};
use armento_tracee::region::{BASE, Code, Region, Slot};
use armento_tracee::uffd::{USER_MODE_ONLY, Uffd};
use armento_tracee::{PAGE, maps, sys};
use std::fs::File;
use std::sync::Arc;

const MFD_EXEC: u64 = 0x10;

/// Spare slots for threads and children made away …
const SPARE: u32 = 192;
/// … and how many of them are mapped at once.
const SPARE_MAPPED: u32 = 2;

/// Threads that fit into a region made for `threads`.
pub const fn slots_for(threads: usize) -> usize {
    threads + SPARE as usize
}

/// The process makes a memory file, we take a copy of its descriptor, it maps it and forgets it.
pub fn map_region(h: &mut Hold, threads: usize) -> Result<Arc<Region>> {
    let (at, empty) = vdso_syscall(h.tid)?;
    if locks_future(h, at)? {
        return Err(MigrateError::Stays(
            Stay::UnsupportedCall,
            "it locks all memory to come (mlockall)".into(),
        ));
    }
    let flags = u64::from(libc::MFD_CLOEXEC);
    let mut fd = h.call_at(
        at,
        libc::SYS_memfd_create,
        [empty, flags | MFD_EXEC, 0, 0, 0, 0],
    )?;
    if fd == -i64::from(libc::EINVAL) {
        fd = h.call_at(at, libc::SYS_memfd_create, [empty, flags, 0, 0, 0, 0])?;
    }
    let fd = ok("memfd_create", h.tid, fd)?;
    let region = sys::steal_fd(h.tid, fd as i32).and_then(|f| {
        let first = threads as u32 + SPARE_MAPPED;
        Region::new(File::from(f), slots_for(threads) as u32, first)
    });
    let mapped = match &region {
        Ok(r) => {
            let prot = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
            let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE) as u64;
            h.call_at(
                at,
                libc::SYS_mmap,
                [BASE, r.first_len(), prot, flags, fd, 0],
            )?
        }
        Err(_) => 0,
    };
    h.call_at(at, libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    let region = region.map_err(|e| MigrateError::Stays(Stay::LimitLower, e.to_string()))?;
    if mapped != BASE as i64 {
        return Err(MigrateError::Stays(
            Stay::LimitLower,
            format!("our page cannot be mapped ({mapped})"),
        ));
    }
    Ok(Arc::new(region))
}

/// Has the mapping of the region, `now` bytes long, reach `end`; `call` makes a call in the process. Returns how long
/// it is then. `None`: there is no room.
pub fn grow_region(
    region: &Region,
    now: u64,
    end: u64,
    call: impl FnOnce(i64, [u64; 6]) -> Option<i64>,
) -> Option<u64> {
    if end <= now {
        return Some(now);
    }
    let want = end.max(now * 2).min(region.len());
    let at = call(libc::SYS_mremap, [BASE, now, want, 0, 0, 0])?;
    (at == BASE as i64).then_some(want)
}

/// Whether a deputy has `slot` in its memory, as far as is known at once.
pub fn has_slot(d: &Deputy, slot: &Slot) -> bool {
    let known = d.common.mapped.try_lock();
    known.is_ok_and(|k| slot.end() <= *k)
}

/// Gives a deputy the memory of `slot`, and waits for it.
pub fn map_slot(d: &Deputy, slot: &Slot) -> bool {
    let mut known = lock(&d.common.mapped);
    if slot.end() <= *known {
        return true;
    }
    // One that was forked may have more than it knows of.
    let all = maps::read(d.pid).unwrap_or_default();
    let Some(v) = all.iter().find(|v| v.start == BASE) else {
        return false;
    };
    let grown = grow_region(slot.region(), v.len(), slot.end(), |nr, args| {
        d.own(nr, args)
    });
    *known = grown.unwrap_or(*known);
    grown.is_some()
}

pub fn unmap_region(h: &mut Hold, region: &Region) -> Result<()> {
    let (at, _) = vdso_syscall(h.tid)?;
    h.call_at(at, libc::SYS_munmap, [BASE, region.len(), 0, 0, 0, 0])?;
    Ok(())
}

/// Whether it has called mlockall(MCL_FUTURE). Its next mapping tells, nothing else does. Ours would be locked, too.
/// KERNEL: madvise(2): locked memory cannot be emptied; mmap(2): EAGAIN when more cannot be locked.
fn locks_future(h: &mut Hold, at: u64) -> Result<bool> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let page = h.call_at(at, libc::SYS_mmap, [0, PAGE, 0, flags, u64::MAX, 0])?;
    if page < 0 {
        return Ok(page == -i64::from(libc::EAGAIN));
    }
    let page = page as u64;
    let advice = libc::MADV_DONTNEED as u64;
    let emptied = h.call_at(at, libc::SYS_madvise, [page, PAGE, advice, 0, 0, 0])?;
    h.call_at(at, libc::SYS_munmap, [page, PAGE, 0, 0, 0, 0])?;
    Ok(emptied == -i64::from(libc::EINVAL))
}

pub fn make_uffd(h: &mut Hold, code: &Code) -> Result<Option<Arc<Uffd>>> {
    let flags = libc::O_CLOEXEC as u64 | USER_MODE_ONLY;
    let fd = h
        .call(code, libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0])?
        .0;
    if fd < 0 {
        return Ok(None);
    }
    let u = sys::steal_fd(h.tid, fd as i32)
        .ok()
        .and_then(|f| Uffd::adopt(f).ok());
    h.call(code, libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])?;
    Ok(u.map(Arc::new))
}
