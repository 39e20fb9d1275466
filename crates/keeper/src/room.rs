//! What we make in a process that is to leave: our region in its memory, and the watch over its writes.
//!
//! From: `depart.rs`.

use armento_migrate::{MigrateError, Result};
use armento_model::Stay;
use armento_tracee::inject::{Hold, ok, vdso_syscall};
use armento_tracee::region::{BASE, Code, Region};
use armento_tracee::uffd::{USER_MODE_ONLY, Uffd};
use armento_tracee::{PAGE, sys};
use std::fs::File;
use std::sync::Arc;

const MFD_EXEC: u64 = 0x10;

/// The process makes a memory file, we take a copy of its descriptor, it maps it and forgets it.
pub fn map_region(h: &mut Hold, slots: u32) -> Result<Arc<Region>> {
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
    let region = sys::steal_fd(h.tid, fd as i32).and_then(|f| Region::new(File::from(f), slots));
    let mapped = match &region {
        Ok(r) => {
            let prot = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
            let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE) as u64;
            h.call_at(at, libc::SYS_mmap, [BASE, r.len(), prot, flags, fd, 0])?
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

pub fn unmap_region(h: &mut Hold, region: &Region) -> Result<()> {
    let (at, _) = vdso_syscall(h.tid)?;
    h.call_at(at, libc::SYS_munmap, [BASE, region.len(), 0, 0, 0, 0])?;
    Ok(())
}

/// Has it called mlockall(MCL_FUTURE)? Its next mapping tells, nothing else does. Ours would be locked, too.
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
