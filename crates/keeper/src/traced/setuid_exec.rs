//! A traced program at home has exec'd one that gives rights: it execs once more, untraced.
//!
//! From: `keeper/src/events/exec.rs`, which sees such an exec only when it is made. Next: `file_rights.rs` (which programs).

use super::auxv::auxv;
use super::file_rights::{gains_soon, path_at, path_of};
use armento_migrate::stop_threads::StoppedThreads;
use armento_migrate::{Local, Result};
use armento_model::Pid;
use armento_tracee::trace::{self, Stopped};
use armento_tracee::{call, sys};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Address of the program's path, as its caller gave it. KERNEL: elf.h.
const AT_EXECFN: u64 = 31;
/// Bytes below a fresh stack's head: behind them ours cannot be in the way of anything.
const STACK_ROOM: u64 = 8192;

/// A program that stands at its exec, seized and so without the rights that its file gives: it execs itself once more,
/// untraced. Nothing of it has run. Returns the thread, stopped as before, if it is no such program.
pub fn exec_again(thread: Stopped) -> Option<Stopped> {
    let pid = thread.tid();
    let exe = format!("/proc/{pid}/exe");
    let Some(what) = gains_soon(PathBuf::from(&exe)) else {
        return Some(thread);
    };
    let (stands, at_boundary) = to_boundary(thread);
    if let Err(e) = at_boundary.and_then(|()| aim_at_itself(pid, &exe)) {
        // It runs, as it would under any tracer.
        eprintln!("process {pid} is {what} and does not get it: {e}");
    }
    // The threads that the move had stopped are gone with their image.
    if let Some(thread) = stands {
        let _ = trace::detach(thread, 0);
    }
    None
}

/// From the exec event to a stop at the user-mode boundary. The thread comes back from any stop.
fn to_boundary(thread: Stopped) -> (Option<Stopped>, Result<()>) {
    let pid = thread.tid();
    let mut stopped = StoppedThreads::new(pid);
    stopped.seized.insert(pid);
    let halted = trace::interrupt(pid)
        .and_then(|()| trace::resume(thread, 0))
        .map_err(Into::into)
        .and_then(|()| stopped.halt_one(pid));
    let stands = stopped.disband().pop().map(|h| h.thread);
    (stands, halted)
}

fn aim_at_itself(pid: Pid, exe: &str) -> Result<()> {
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
    call::aim_exec(&mut regs, path, u64::from_le_bytes(argc), pid)?;
    trace::set_regs(pid, &regs)?;
    Ok(())
}

/// Whether an exec of `path` by `pid` means the file that it runs.
fn is_file(pid: Pid, path: &[u8], exe: &str) -> bool {
    let id = |p: &Path| std::fs::metadata(p).map(|m| (m.dev(), m.ino())).ok();
    !path.is_empty() && id(&path_of(pid, None, path)) == id(Path::new(exe))
}
