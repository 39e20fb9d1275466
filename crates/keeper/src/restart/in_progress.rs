//! Calls at home that a stop has changed, and that are restarted until their end.
//!
//! From: `keeper/src/traced/cpu_clock_fixup.rs`, whose stops see their threads; `keeper/src/moves/prepare.rs`.
//! Next: `partial_io.rs`.
//!
//! ```text
//! interrupted by a stop ──look──► issued again, by the kernel or by us ──► its end: the result is set right
//! ```
//! - semop, msgrcv and msgsnd slept on an object which may be gone when the kernel issues them again: they
//!   then return EINVAL. Away the host does the same from its own notes (`host/src/calls/forward.rs`).
//! - recv with MSG_WAITALL and a terminal's read with MIN have ended with what there was: the thread asks for the
//!   rest, and stays so long. So have writes that wait until all bytes are written, which may travel meanwhile.

use super::partial_io::{self, PartialIo};
use crate::sync::lock;
use armento_migrate::image::restarts;
use armento_migrate::image::thread;
use armento_migrate::stop_threads::{Halted, without_effect};
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay, Tid};
use armento_tracee::call::bit;
use armento_tracee::trace::{self, Regs};
use armento_tracee::{status, sys};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// A call, by its number, that slept on an object which may be gone.
    Slept(i64),
    Rest(PartialIo),
}

impl Call {
    fn number(self) -> i64 {
        match self {
            Call::Slept(nr) => nr,
            Call::Rest(rest) => rest.asks,
        }
    }
}

/// By thread: its process and the call. The threads that halt a process look here, too.
#[derive(Clone, Default)]
pub struct RestartedCalls(Arc<Mutex<HashMap<Tid, (Pid, Call)>>>);

impl RestartedCalls {
    /// As another process image had them.
    pub fn of(all: HashMap<Tid, (Pid, Call)>) -> RestartedCalls {
        RestartedCalls(Arc::new(Mutex::new(all)))
    }

    pub fn all(&self) -> HashMap<Tid, (Pid, Call)> {
        lock(&self.0).clone()
    }

    fn call(&self, tid: Tid) -> Option<Call> {
        lock(&self.0).get(&tid).map(|(_, call)| *call)
    }

    pub fn has(&self, tid: Tid) -> bool {
        self.call(tid).is_some()
    }

    /// The call in which a thread slept, for the registers that travel (`ThreadState::slept_in`).
    pub fn slept(&self, tid: Tid) -> Option<i64> {
        match self.call(tid)? {
            Call::Slept(nr) => Some(nr),
            Call::Rest(_) => None,
        }
    }

    pub fn forget(&self, tid: Tid) {
        lock(&self.0).remove(&tid);
    }

    pub fn forget_process(&self, pid: Pid) {
        lock(&self.0).retain(|_, (p, _)| *p != pid);
    }

    /// Forgets those of a process whose threads were ended by another's exec: their end is not reported.
    pub fn forget_ended(&self, pid: Pid) {
        let traced = |tid| status::read(tid).is_ok_and(|s| s.tracer != 0);
        lock(&self.0).retain(|tid, (p, _)| *p != pid || traced(*tid));
    }

    /// All threads of a process were stopped to move it: none may still have to ask for the rest of a message.
    pub fn ensure_input_complete(&self, pid: Pid, halted: &[Halted]) -> Result<()> {
        for h in halted {
            self.look(pid, h);
        }
        let why = halted.iter().find_map(|h| self.rest(h.tid())?.why());
        why.map_or(Ok(()), |why| {
            Err(MigrateError::Stays(Stay::Busy, why.into()))
        })
    }

    /// What a thread still has to ask for.
    pub fn rest(&self, tid: Tid) -> Option<PartialIo> {
        match self.call(tid)? {
            Call::Rest(rest) => Some(rest),
            Call::Slept(_) => None,
        }
    }

    /// Whether a stopped thread has done a part of its call. Then it asks for the rest. Before: nothing ends the call.
    pub fn cut(&self, pid: Pid, tid: Tid) -> trace::Result<bool> {
        let mut r = trace::regs(tid)?;
        let Some(mut rest) = partial_io::cut(pid, tid, &r) else {
            return Ok(false);
        };
        rest.ask(tid, &mut r);
        trace::set_regs(tid, &r)?;
        lock(&self.0).insert(tid, (pid, Call::Rest(rest)));
        Ok(true)
    }

    /// A thread has come home in the midst of a write: it goes on with what is left. `r` are its registers.
    pub fn came(&self, (pid, tid): (Pid, Tid), r: &mut Regs, written: u64) {
        if let Some(rest) = PartialIo::of_traveller(tid, r, written) {
            lock(&self.0).insert(tid, (pid, Call::Rest(rest)));
        }
    }

    /// A stopped thread is about to go on: whether it is in a call that must be restarted until its end.
    pub fn look(&self, pid: Pid, h: &Halted) -> bool {
        if self.rest(h.tid()).is_some() {
            return self.rest_of(h);
        }
        // A handler ends it: EINTR. So does a stop by job control, or natively it is issued again, too.
        let ends = h.signal.is_some_and(|(sig, _)| catches(h.tid(), sig));
        if ends || trace::in_group_stop(h.tid()) {
            self.forget(h.tid());
            return false;
        }
        match sleeper_of(h.tid(), self.slept(h.tid())) {
            Some(nr) => drop(lock(&self.0).insert(h.tid(), (pid, Call::Slept(nr)))),
            None => self.forget(h.tid()),
        }
        // One that died meanwhile needs nothing. Most are in no such call, and what waits is asked last: it takes long.
        let in_part =
            || trace::regs(h.tid()).is_ok_and(|r| partial_io::cut(pid, h.tid(), &r).is_some());
        self.has(h.tid())
            || in_part() && !signal_ends_call(h.tid()) && self.cut(pid, h.tid()).unwrap_or(false)
    }

    /// Whether it still has to ask. Not when a handler is about to run.
    fn rest_of(&self, h: &Halted) -> bool {
        if let Some((sig, _)) = h.signal {
            self.at_signal(h.tid(), sig);
        }
        self.has(h.tid())
    }

    /// It begins a call: a different call cancels the restart.
    pub fn at_entry(&self, tid: Tid, nr: i64) {
        if self
            .call(tid)
            .is_some_and(|restarted| restarted.number() != nr)
        {
            self.forget(tid);
        }
    }

    /// A call ended, or was interrupted by a stop that is not the program's.
    pub fn at_end(&self, pid: Pid, tid: Tid, r: &mut Regs) -> trace::Result<()> {
        let (before, restarted) = (*r, self.call(tid));
        let next = match restarted {
            Some(Call::Rest(mut rest)) => {
                let over = rest.ended(tid, r, signal_ends_call(tid));
                (!over).then_some(Call::Rest(rest))
            }
            _ if sleeper(r).is_some() => sleeper(r).map(Call::Slept),
            Some(Call::Slept(nr)) if nr == r.orig_rax as i64 => {
                r.rax = armento_abi::begun_again(nr as u64, r.rax as i64) as u64;
                None
            }
            // Traced, it is woken by signals without effect.
            _ => partial_io::cut(pid, tid, r)
                .filter(|_| woken(tid))
                .map(|mut rest| {
                    rest.ask(tid, r);
                    Call::Rest(rest)
                }),
        };
        match next {
            Some(call) => drop(lock(&self.0).insert(tid, (pid, call))),
            None => self.forget(tid),
        }
        if thread::words(r) != thread::words(&before) {
            trace::set_regs(tid, r)?;
        }
        Ok(())
    }

    /// A signal is about to be delivered: a handler ends the call.
    pub fn at_signal(&self, tid: Tid, sig: i32) {
        let Some(call) = self.call(tid).filter(|_| catches(tid, sig)) else {
            return;
        };
        self.forget(tid);
        if let (Call::Rest(rest), Ok(mut r)) = (call, trace::regs(tid)) {
            rest.give_up(&mut r);
            // One that died meanwhile needs nothing.
            let _ = trace::set_regs(tid, &r);
        }
    }

    /// It stops by job control, which ends a call that slept or leaves it to the kernel, as natively.
    pub fn at_group_stop(&self, tid: Tid) {
        if self.slept(tid).is_some() {
            self.forget(tid);
        }
    }
}

/// The call in which a stopped thread slept. `restarted`: the one that was restarted before.
fn sleeper_of(tid: Tid, restarted: Option<i64>) -> Option<i64> {
    let r = trace::regs(tid).ok()?;
    sleeper(&r).or_else(|| restarted.filter(|nr| turned_back(tid, &r, *nr)))
}

/// The call in which it slept until it was interrupted. -513 would be one that was not made yet.
fn sleeper(r: &Regs) -> Option<i64> {
    let slept = r.rax as i64 == restarts::ERESTARTNOHAND && armento_abi::removable(r.orig_rax);
    slept.then_some(r.orig_rax as i64)
}

/// Whether the kernel has turned it back to its `syscall` instruction. (A tick may have taken orig_rax since.)
fn turned_back(tid: Tid, r: &Regs, nr: i64) -> bool {
    let mut code = [0u8; 2];
    r.rax as i64 == nr
        && matches!(sys::vm_read(tid, r.rip, &mut code), Ok(2))
        && code == restarts::SYSCALL
}

fn catches(tid: Tid, sig: i32) -> bool {
    status::read(tid).is_ok_and(|s| s.caught & bit(sig) != 0)
}

/// Whether a signal waits that would have ended its call untraced, by a handler or by stopping it.
pub fn signal_ends_call(tid: Tid) -> bool {
    status::read(tid)
        .is_ok_and(|s| (s.sig_pending | s.shared_pending) & !s.blocked & !without_effect(&s) != 0)
}

/// Whether a signal waits that would not have been seen untraced.
fn woken(tid: Tid) -> bool {
    status::read(tid).is_ok_and(|s| (s.sig_pending | s.shared_pending) & !s.blocked != 0)
        && !signal_ends_call(tid)
}
