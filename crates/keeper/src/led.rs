//! Calls at home that slept on something which may be gone before they are issued again.
//!
//! From: `watch.rs`, whose stops lead their threads; `depart.rs`.
//!
//! ```text
//! interrupted by a stop ──look──► issued again by the kernel ──► its end: the result is set right
//! ```
//! The kernel issues such a call again by itself, but semop, msgrcv and msgsnd then find nothing where they
//! slept and say EINVAL. Away the host does the same by its own books (`host/src/forward.rs`).

use crate::keep::lock;
use armento_migrate::image::thread;
use armento_migrate::stop::Halted;
use armento_model::{Pid, Tid};
use armento_tracee::inject::bit;
use armento_tracee::trace::{self, Regs};
use armento_tracee::{status, sys};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// By thread: its process, and the number of its call. Grips look here, too.
#[derive(Clone, Default)]
pub struct Led(Arc<Mutex<HashMap<Tid, (Pid, i64)>>>);

impl Led {
    pub fn call(&self, tid: Tid) -> Option<i64> {
        lock(&self.0).get(&tid).map(|(_, nr)| *nr)
    }

    pub fn forget(&self, tid: Tid) {
        lock(&self.0).remove(&tid);
    }

    pub fn forget_process(&self, pid: Pid) {
        lock(&self.0).retain(|_, (p, _)| *p != pid);
    }

    /// Forgets those of a process whose threads another's exec has ended: they go without a word.
    pub fn forget_ended(&self, pid: Pid) {
        let traced = |tid| status::read(tid).is_ok_and(|s| s.tracer != 0);
        lock(&self.0).retain(|tid, (p, _)| *p != pid || traced(*tid));
    }

    /// A thread is in our hand and not yet let go: the call that must be led, if it is in one.
    pub fn look(&self, pid: Pid, h: &Halted) -> Option<i64> {
        let nr = self.slept_in(h);
        match nr {
            Some(nr) => drop(lock(&self.0).insert(h.tid, (pid, nr))),
            None => self.forget(h.tid),
        }
        nr
    }

    fn slept_in(&self, h: &Halted) -> Option<i64> {
        // A handler ends it: EINTR. So does a stop by job control, or natively it is issued again, too.
        if h.signal.is_some_and(|(sig, _)| catches(h.tid, sig)) || trace::in_group_stop(h.tid) {
            return None;
        }
        let r = trace::regs(h.tid).ok()?;
        if let Some(nr) = sleeper(&r) {
            return Some(nr);
        }
        self.call(h.tid).filter(|nr| turned_back(h.tid, &r, *nr))
    }

    /// It begins a call: another than the one it was led to ends the story.
    pub fn at_entry(&self, tid: Tid, nr: i64) {
        if self.call(tid).is_some_and(|led| led != nr) {
            self.forget(tid);
        }
    }

    /// A call ended, or was interrupted by something that is no business of the program's.
    pub fn at_end(&self, pid: Pid, tid: Tid, r: &mut Regs) -> trace::Result<()> {
        if let Some(nr) = sleeper(r) {
            lock(&self.0).insert(tid, (pid, nr));
            return Ok(());
        }
        let Some((_, nr)) = lock(&self.0).remove(&tid) else {
            return Ok(());
        };
        let ret = armento_abi::begun_again(nr as u64, r.rax as i64) as u64;
        if nr == r.orig_rax as i64 && ret != r.rax {
            r.rax = ret;
            trace::set_regs(tid, r)?;
        }
        Ok(())
    }

    /// A signal is about to be delivered.
    pub fn at_signal(&self, tid: Tid, sig: i32) {
        if self.call(tid).is_some() && catches(tid, sig) {
            self.forget(tid);
        }
    }
}

/// The call in which it slept until it was interrupted. -513 would be one that was not made yet.
fn sleeper(r: &Regs) -> Option<i64> {
    let slept = r.rax as i64 == thread::ERESTARTNOHAND && armento_abi::removable(r.orig_rax);
    slept.then_some(r.orig_rax as i64)
}

/// Has the kernel turned it back to its `syscall` instruction? (A tick may have taken orig_rax since.)
fn turned_back(tid: Tid, r: &Regs, nr: i64) -> bool {
    let mut code = [0u8; 2];
    r.rax as i64 == nr
        && matches!(sys::vm_read(tid, r.rip, &mut code), Ok(2))
        && code == thread::SYSCALL
}

fn catches(tid: Tid, sig: i32) -> bool {
    status::read(tid).is_ok_and(|s| s.caught & bit(sig) != 0)
}
