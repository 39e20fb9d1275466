//! Memory without a file, made again: memfds, and what was mapped without any.

use super::how::How;
use super::sys;
use crate::home::{Bytes, Home, Memory, Process};
use rustix::fs::{Gid, Uid};
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fchmod, fchown, fcntl_add_seals, ftruncate, memfd_create,
    open,
};
use rustix::process::getuid;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Where memory without a name is a file without one: what was mapped without a file has a device of the kernel's own,
/// which nothing but a fork hands on. KERNEL: tmpfs(5).
const UNNAMED: &str = "/dev/shm";
/// KERNEL: fcntl(2), F_SEAL_EXEC, Linux 6.3: not executable for ever.
const F_SEAL_EXEC: u32 = 0x20;

/// Each at a number not below `least`, open over an exec.
pub fn make_all(home: &Home, how: &How, least: i32) -> io::Result<Vec<OwnedFd>> {
    let owner = home.root().filter(|_| getuid().is_root());
    let mut all = Vec::with_capacity(home.memory.len());
    for (number, memory) in (0..).zip(&home.memory) {
        let made = make(memory, owner)?;
        if let Some(pages) = how.memory.filter(|_| memory.open) {
            let file = File::from(made.try_clone()?);
            pages(number, &mut |at, bytes| {
                let left = memory.size.saturating_sub(at);
                file.write_all_at(&bytes[..left.min(bytes.len() as u64) as usize], at)
            })?;
        }
        seal(memory, &made)?;
        all.push(sys::duplicate_above_over_exec(made.as_fd(), least)?);
    }
    Ok(all)
}

fn make(memory: &Memory, owner: Option<&Process>) -> io::Result<OwnedFd> {
    let made = match &memory.name {
        Some(name) => memfd(name, memory.seals)?,
        None => unnamed()?,
    };
    ftruncate(&made, memory.size)?;
    if memory.open {
        fchmod(&made, Mode::from_raw_mode(memory.mode))?;
    }
    if let Some(p) = owner {
        let (uid, gid) = (Uid::from_raw(p.uids[1]), Gid::from_raw(p.gids[1]));
        fchown(&made, Some(uid), Some(gid))?;
    }
    Ok(made)
}

/// KERNEL: memfd_create(2): whether it may be executed is to be said since Linux 6.3; before, that is an error.
fn memfd(name: &Bytes, seals: u32) -> io::Result<OwnedFd> {
    let name = CString::new(name.0.clone())?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let executed = match seals & F_SEAL_EXEC {
        0 => MemfdFlags::EXEC,
        _ => MemfdFlags::NOEXEC_SEAL,
    };
    match memfd_create(&name, flags | executed) {
        Err(rustix::io::Errno::INVAL) => Ok(memfd_create(&name, flags)?),
        other => Ok(other?),
    }
}

fn unnamed() -> io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match open(UNNAMED, flags, Mode::RUSR | Mode::WUSR) {
        Ok(made) => Ok(made),
        Err(_) => memfd(&Bytes(b"shared".to_vec()), 0),
    }
}

/// The content is in it by now. What made it has set some already.
fn seal(memory: &Memory, made: &OwnedFd) -> io::Result<()> {
    match memory.seals & !F_SEAL_EXEC {
        0 => Ok(()),
        seals => Ok(fcntl_add_seals(made, SealFlags::from_bits_retain(seals))?),
    }
}
