//! A program that is placed at its exec runs at home up to its entry point first.
//!
//! From: `keeper/src/moves/placement.rs`. Next: `keeper/src/moves/out.rs`.
//!
//! Until there the dynamic loader opens, reads and maps a library after the other: some hundred calls, each a
//! round trip when made from away. Natively they take a millisecond or two. A debug register stops the
//! program there: nothing in its memory changes. KERNEL: PTRACE_POKEUSER, struct user's u_debugreg.

use super::auxv::auxv;
use super::resume::let_go;
use crate::state::{Keep, Loaded, Loading, Process, Tree};
use armento_migrate::stop_threads::Halted;
use armento_model::{Pid, Tid};
use armento_tracee::call::bit;
use armento_tracee::trace::{self, Stop, Stopped};
use armento_tracee::{status, sys};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

/// Loading takes milliseconds, more on a throttled node; what takes longer waits for something.
const LOAD_MAX: Duration = Duration::from_millis(500);
/// An interrupted program stops at once, unless its disk is in the way.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Entries of the auxiliary vector: the interpreter's base, the program's entry. KERNEL: elf.h.
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;

/// Runs `pid` from its exec stop to its entry. Not from the tracer thread.
pub fn run_until_entry(keep: &Keep, pid: Pid) -> Loaded {
    let (done, loaded) = mpsc::channel();
    if keep.tracer.run(move |t| begin(t, pid, done)) != Some(true) {
        return Loaded::Stands;
    }
    match loaded.recv_timeout(LOAD_MAX) {
        Ok(l) => return l,
        Err(mpsc::RecvTimeoutError::Disconnected) => return Loaded::Gone,
        Err(mpsc::RecvTimeoutError::Timeout) => {}
    }
    keep.tracer.run(move |t| {
        if let Some(l) = t.procs.get_mut(&pid).and_then(Process::loading) {
            l.late = true;
            let _ = trace::interrupt(pid);
        }
    });
    if let Ok(l) = loaded.recv_timeout(STOP_MAX) {
        return l;
    }
    // Dropped in the tracer thread, which lets a program go that stops later.
    let said = keep.tracer.run(move |_| loaded.try_recv().ok());
    said.flatten().unwrap_or(Loaded::Gone)
}

fn begin(t: &mut Tree, pid: Pid, done: Sender<Loaded>) -> bool {
    let p = t.procs.get_mut(&pid).filter(|p| p.stands_at_exec());
    let Some(p) = p else {
        return false;
    };
    // A forced SIGTRAP that is ignored or blocked would be so no more. KERNEL: force_sig_info_to_task.
    let trap = bit(libc::SIGTRAP);
    if !status::read(pid).is_ok_and(|s| (s.ignored | s.blocked) & trap == 0) {
        return false;
    }
    let Some(entry) = entry(pid) else {
        return false;
    };
    if trace::set_break(pid, Some(entry)).is_err() {
        return false;
    }
    let stands = p.take_standing().and_then(Halted::deliver);
    p.begin_loading(Loading { done, late: false });
    let runs = stands.is_some_and(|(thread, sig)| trace::resume(thread, sig).is_ok());
    if !runs {
        p.end_loading();
    }
    true
}

/// Where a dynamically linked program begins; `None` for others, which load nothing.
fn entry(pid: Pid) -> Option<u64> {
    let auxv = auxv(pid)?;
    auxv.get(&AT_BASE).filter(|base| **base != 0)?;
    auxv.get(&AT_ENTRY).copied().filter(|entry| *entry != 0)
}

/// Whether it has reached the breakpoint already, and our interruption only came first. KERNEL: get_signal looks at
/// traps of ptrace before it takes a signal; left there, the breakpoint's would end the program.
fn arrived(tid: Tid) -> bool {
    status::read(tid).is_ok_and(|s| s.sig_pending & bit(libc::SIGTRAP) != 0)
}

/// A stop of a program that is loading. Returns the thread when it is an ordinary one.
pub fn entry_stopped(t: &mut Tree, thread: Stopped, stop: Stop) -> Option<Stopped> {
    let tid = thread.tid();
    let loading = t.procs.get_mut(&tid).and_then(Process::loading);
    let Some(late) = loading.map(|l| l.late) else {
        return Some(thread);
    };
    let there = matches!(stop, Stop::Signal(libc::SIGTRAP))
        && trace::siginfo(tid).is_ok_and(|i| sys::siginfo_code(&i) == libc::TRAP_HWBKPT);
    if !(there || late && stop == Stop::Trap) {
        return Some(thread);
    }
    if !there && arrived(tid) {
        // The breakpoint's own stop comes next, if it has not died.
        let _ = trace::resume(thread, 0);
        return None;
    }
    let Some(l) = t.procs.get_mut(&tid).and_then(Process::end_loading) else {
        return Some(thread);
    };
    let _ = trace::set_break(tid, None);
    let signal = None;
    t.keep_standing(tid, [Halted { thread, signal }]);
    let alone = status::threads(tid).is_ok_and(|t| t.len() == 1);
    if there && alone && l.done.send(Loaded::Stands).is_ok() {
        return None;
    }
    let_go(t, tid);
    let _ = l.done.send(Loaded::Runs);
    None
}
