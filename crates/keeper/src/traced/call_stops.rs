//! A thread at home that stands at the entry or the end of a call, and calls that only an untraced thread can make.

use super::file_rights;
use armento_model::{Pid, Tid};
use armento_tracee::trace::{self, Regs};

/// A thread at the entry or the end of a call. KERNEL: rax is -ENOSYS at every entry; one of our calls that
/// ends so has told nothing.
pub struct At {
    pub regs: Regs,
    pub nr: i64,
    pub entry: bool,
}

/// Whether a thread that stands at a call stands at its entry.
pub fn at_entry(regs: &Regs) -> bool {
    regs.rax as i64 == -i64::from(libc::ENOSYS)
}

pub fn at(tid: Tid) -> Option<At> {
    let regs = trace::regs(tid).ok()?;
    let entry = at_entry(&regs);
    let nr = regs.orig_rax as i64;
    // KERNEL: __USER_CS; 32-bit programs number their calls differently.
    (regs.cs == 0x33).then_some(At { regs, nr, entry })
}

/// Whether the thread is at the entry of a call that would not do what it does untraced.
pub fn must_be_untraced(pid: Pid, tid: Tid) -> bool {
    at(tid).is_some_and(|a| a.entry && needs_untraced(pid, tid, &a))
}

pub fn needs_untraced(pid: Pid, tid: Tid, a: &At) -> bool {
    let r = &a.regs;
    match a.nr {
        libc::SYS_ptrace => r.rdi == u64::from(libc::PTRACE_TRACEME),
        libc::SYS_execve => gains(pid, tid, None, r.rdi),
        libc::SYS_execveat => gains(pid, tid, Some(r.rdi as i32), r.rsi),
        _ => false,
    }
}

fn gains(pid: Pid, tid: Tid, dir: Option<i32>, path: u64) -> bool {
    file_rights::exec_gains(pid, dir, &file_rights::path_at(tid, path)).is_some()
}
