//! A body has no handler for a signal: home's kernel takes the default action.
//!
//! From: `keeper/src/calls/dispatch.rs`. Next: `coredump.rs`, `interrupted_calls.rs`.

use super::coredump;
use super::interrupted_calls::{STOP_MAX, stop_one};
use crate::deputy::HostLink;
use crate::state::{Process, Task, Tree, Why};
use armento_client::api::Dest;
use armento_model::{HomePid, HomeTid, Pid, Tid};
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::region::Code;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::{self, Status, Stop, Stopped};
use armento_tracee::tracer_thread::World;
use armento_wire::talk::{Signal, ToHost};
use std::sync::Arc;

/// The body has no handler for a signal: home's kernel does what it does by default.
pub fn take_default_action(
    t: &mut Tree,
    link: &Arc<HostLink>,
    pid: Pid,
    tid: Tid,
    sig: i32,
    info: &Signal,
) {
    let (home_pid, home_tid) = (HomePid::of_home(pid), HomeTid::of_home(tid));
    let answer = |stopped| {
        link.send(&ToHost::Defaulted {
            pid: home_pid,
            tid: home_tid,
            stopped,
        });
    };
    let Some(code) = t.code_of(pid) else {
        return;
    };
    let p = t.procs.get_mut(&pid).filter(|p| p.is_at(link));
    let away = p.and_then(Process::away_mut);
    let Some(away) = away.filter(|a| a.deputies().contains_key(&tid)) else {
        return;
    };
    if coredump::wanted(pid, sig) && away.try_dump(coredump::TRIES) {
        link.send(&ToHost::Dumps {
            pid: home_pid,
            tid: home_tid,
        });
        let (to, why) = (Dest::Home, Why::Dump);
        return t.keep.move_queue.push_urgent(Task { pid, to, why });
    }
    let Some(thread) = stop_one(t, tid, &code) else {
        return;
    };
    let info: SigInfo = info.0.as_slice().try_into().unwrap_or([0; 128]);
    if deliver(thread, &code, sig, &info).is_err() {
        return;
    }
    // A stop of ours tells what the kernel made of it.
    let _ = trace::interrupt(tid);
    loop {
        match trace::wait_for(tid, STOP_MAX) {
            Ok(Status::Stopped(thread, Stop::Group(_))) => {
                let _ = trace::listen(thread);
                if let Some(a) = t.procs.get_mut(&pid).and_then(Process::away_mut) {
                    a.stop();
                }
                return answer(true);
            }
            Ok(Status::Stopped(thread, Stop::Trap)) => {
                let _ = trace::resume(thread, 0);
                return answer(false);
            }
            Ok(s @ (Status::Exited(_) | Status::Killed(_))) => {
                return World::report(t, tid, s);
            }
            Ok(s) => World::report(t, tid, s),
            Err(_) => return,
        }
    }
}

/// Delivers `sig` to a stopped deputy with its default disposition.
fn deliver(thread: Stopped, code: &Code, sig: i32, info: &SigInfo) -> trace::Result<()> {
    let tid = thread.tid();
    let mut h = Hold::take(tid, Arc::new(Unfiltered))?;
    let act = code.scratch(0x700, &[0u8; 32]);
    h.call(code, libc::SYS_rt_sigaction, [sig as u64, act, 0, 8, 0, 0])?;
    // The thread is in the stop of our trap, a signal stop: another signal can be put in its place. To let it
    // ignore SIGTRAP again would end in a stop that takes none.
    h.ignore_trap(false);
    drop(h);
    let _ = trace::set_siginfo(tid, info);
    trace::resume(thread, sig)
}
