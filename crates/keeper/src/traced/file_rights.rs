//! Programs that give their caller rights it does not have: set-uid, set-gid, file capabilities.
//!
//! The kernel gives no rights to a program that is traced (ptrace(2), execve(2)), so such a program runs at home,
//! untraced. From: `cli/src/run.rs` (the first program), `keeper/src/signals/untraced_exec.rs` (a body's exec).
//! Next: `setuid_exec.rs`.

use armento_model::{Pid, Tid};
use armento_tracee::{PAGE, spawn, sys};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// What the command would give its caller, if anything. Looked for as execvp(3) does.
pub fn command_gains(command: &[OsString]) -> Option<&'static str> {
    let name = command.first()?;
    if name.as_bytes().contains(&b'/') {
        return gains(Path::new(name));
    }
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|d| d.join(name));
    gains(&found.into_iter().find(|p| p.is_file())?)
}

/// What an exec of `path` by process `pid` would give it; `dir`: the descriptor it is relative to.
pub fn exec_gains(pid: Pid, dir: Option<i32>, path: &[u8]) -> Option<&'static str> {
    gains_soon(path_of(pid, dir, path))
}

/// A file system that does not answer by then gives no rights: one that a process serves may wait for the caller, which
/// follows that process. What a user mounts gives none anyway (fusermount3(1): nosuid).
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// [`gains`], in bounded time.
pub fn gains_soon(path: PathBuf) -> Option<&'static str> {
    if is_root() {
        return None;
    }
    let (tx, found) = mpsc::channel();
    let look = move || _ = tx.send(gains(&path));
    spawn::start("gains", look).ok()?;
    found.recv_timeout(ANSWER_MAX).ok().flatten()
}

/// A path as `pid` means it.
pub fn path_of(pid: Pid, dir: Option<i32>, path: &[u8]) -> PathBuf {
    let base = match dir {
        Some(fd) if fd >= 0 => format!("/proc/{pid}/fd/{fd}"),
        _ => format!("/proc/{pid}/cwd"),
    };
    let path = Path::new(OsStr::from_bytes(path));
    match path.strip_prefix("/") {
        Ok(rest) => PathBuf::from(format!("/proc/{pid}/root")).join(rest),
        Err(_) if path.as_os_str().is_empty() => base.into(),
        Err(_) => Path::new(&base).join(path),
    }
}

/// Bytes of a program's path. KERNEL: PATH_MAX.
const PATH_MAX: usize = 4096;

/// A path in the memory of a thread.
pub fn path_at(tid: Tid, path: u64) -> Vec<u8> {
    let mut b = vec![0u8; PATH_MAX];
    let mut have = 0;
    // A path may end at the last page that is mapped.
    while have < PATH_MAX {
        let at = path + have as u64;
        let room = ((PAGE - at % PAGE) as usize).min(PATH_MAX - have);
        let got = sys::vm_read(tid, at, &mut b[have..have + room]).unwrap_or(0);
        have += got;
        if got < room || b[..have].contains(&0) {
            break;
        }
    }
    let len = b[..have].iter().position(|c| *c == 0).unwrap_or(have);
    b.truncate(len);
    b
}

/// Root has every right already, and the kernel lets a tracer with CAP_SYS_PTRACE keep them.
fn is_root() -> bool {
    crate::sys::uid() == 0
}

fn gains(path: &Path) -> Option<&'static str> {
    if is_root() {
        return None;
    }
    let uid = crate::sys::uid();
    let m = std::fs::metadata(path).ok()?;
    if !m.is_file() {
        return None;
    }
    let (mode, group) = (m.mode(), libc::S_ISGID | libc::S_IXGRP);
    if mode & libc::S_ISUID != 0 && m.uid() != uid {
        Some("set-uid")
    } else if mode & group == group {
        Some("set-gid")
    } else if has_capabilities(path) {
        Some("given capabilities")
    } else {
        None
    }
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().to_owned().into_vec()) else {
        return false;
    };
    crate::sys::has_attribute(&path, c"security.capability")
}
