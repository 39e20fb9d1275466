//! Programs that give their caller rights it does not have: set-uid, set-gid, file capabilities.
//!
//! The kernel gives no rights to a program that is traced (ptrace(2), execve(2)), so such a program runs at
//! home untraced, whoever execs it. From: `cli/src/run.rs` (the first program), `signals.rs` (a body's exec),
//! `tree.rs` (an exec at home that nobody saw before it was made).

use crate::deputy::thread::{Deputy, Work};
use crate::state::keeper::Keep;
use crate::state::tree::Tree;
use crate::traced::run_to_entry::auxv;
use armento_migrate::stop::Grip;
use armento_migrate::{Local, Result};
use armento_model::{Pid, Tid};
use armento_tracee::PAGE;
use armento_tracee::region::BASE;
use armento_tracee::{aside, inject, maps, sys, trace};
use armento_wire::call::Call;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

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
fn gains_soon(path: PathBuf) -> Option<&'static str> {
    if is_root() {
        return None;
    }
    let (tell, told) = mpsc::channel();
    let look = move || _ = tell.send(gains(&path));
    aside::start("gains", look).ok()?;
    told.recv_timeout(ANSWER_MAX).ok().flatten()
}

/// A path as `pid` means it.
fn path_of(pid: Pid, dir: Option<i32>, path: &[u8]) -> PathBuf {
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

/// Address of the program's path, as its caller gave it. KERNEL: elf.h.
const AT_EXECFN: u64 = 31;
/// Bytes below a fresh stack's head: behind them ours cannot be in the way of anything.
const STACK_ROOM: u64 = 8192;

/// A program that stands at its exec, in our hand and so without the rights that its file gives: it execs
/// itself once more, untraced. Nothing of it has run. False: it is no such program.
pub fn exec_again(pid: Pid) -> bool {
    let exe = format!("/proc/{pid}/exe");
    let Some(what) = gains_soon(PathBuf::from(&exe)) else {
        return false;
    };
    if let Err(e) = aim_at_itself(pid, &exe) {
        // It runs, as it would under any tracer.
        eprintln!("process {pid} is {what} and does not get it: {e}");
    }
    // The move's grip is gone with the image that it held.
    let _ = trace::detach(pid, 0);
    true
}

fn aim_at_itself(pid: Pid, exe: &str) -> Result<()> {
    let mut grip = Grip::new(pid);
    grip.seized.insert(pid);
    // From the exec event to a stop at the user-mode boundary.
    let stopped = trace::interrupt(pid)
        .and_then(|()| trace::resume(pid, 0))
        .map_err(Into::into)
        .and_then(|()| grip.halt_one(pid));
    drop(grip.disband());
    stopped?;
    let mut regs = trace::regs(pid)?;
    let given = auxv(pid).and_then(|a| a.get(&AT_EXECFN).copied());
    let path = match given.filter(|at| is_file(pid, &path_at(pid, *at), exe)) {
        Some(at) => at,
        None => {
            let mut path = std::fs::read_link(exe)
                .of_process("look at its program")?
                .into_os_string()
                .into_vec();
            path.push(0);
            let at = regs.rsp - STACK_ROOM;
            sys::vm_write(pid, at, &path).of_process("write its memory")?;
            at
        }
    };
    let mut argc = [0u8; 8];
    sys::vm_read(pid, regs.rsp, &mut argc).of_process("read its memory")?;
    inject::aim_exec(&mut regs, path, u64::from_le_bytes(argc), pid)?;
    trace::set_regs(pid, &regs)?;
    Ok(())
}

/// Does an exec of `path` by `pid` mean the file that it runs?
fn is_file(pid: Pid, path: &[u8], exe: &str) -> bool {
    let id = |p: &Path| std::fs::metadata(p).map(|m| (m.dev(), m.ino())).ok();
    !path.is_empty() && id(&path_of(pid, None, path)) == id(Path::new(exe))
}

/// An exec takes milliseconds; a slow disk may take longer.
const EXEC_MAX: Duration = Duration::from_secs(30);

/// Lets go of the deputy and lets it exec. Whether it did, nobody reports: we look.
pub fn exec_untraced(t: &mut Tree, d: &Deputy, c: Box<Call>) {
    let (tid, pid, keep) = (d.tid, d.pid, t.keep.clone());
    let Some(code) = t.code_of(pid) else { return };
    // First the thread that looks after it: nobody else would notice what becomes of the deputy.
    let (go, told) = mpsc::channel();
    let look = move || {
        if told.recv().is_ok() {
            see_exec(&keep, tid, pid);
        }
    };
    if aside::start("exec", look).is_err() {
        let no_room = -i64::from(libc::EAGAIN);
        return d.link().reply(tid, c.seq, no_room, &[]);
    }
    if !t.stop_one(tid, &code) || trace::detach(tid, 0).is_err() {
        // It does not stop just now, or is about to end: the body asks again.
        return d
            .link()
            .reply(tid, c.seq, crate::deputy::thread::AGAIN, &[]);
    }
    d.submit(Work::Call(c));
    let _ = go.send(());
}

fn see_exec(keep: &Keep, tid: Tid, pid: Pid) {
    let until = Instant::now() + EXEC_MAX;
    while Instant::now() < until {
        if !is_deputy(tid) {
            keep.hand.run(move |t| t.execed(pid, false));
            return;
        }
        if keep.deputy(tid).is_none_or(|d| !d.in_call()) && is_deputy(tid) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // It failed; the deputy is one again.
    keep.hand
        .run(move |_| trace::seize(tid, trace::FOLLOW | trace::EXITKILL).is_ok());
}

/// Our region is there as long as the image is the deputy's. Another user's memory we may not see.
fn is_deputy(tid: i32) -> bool {
    maps::read(tid).is_ok_and(|m| m.iter().any(|v| v.start == BASE))
}
