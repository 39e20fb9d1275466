//! The exec of a body: made by its deputy, untraced where the program gives rights that a traced caller would not get.
//!
//! From: `keeper/src/calls/dispatch.rs`. Next: `keeper/src/lifecycle/exec.rs`.

use super::interrupted_calls::stop_one;
use crate::deputy::{Deputy, Work};
use crate::lifecycle::image_replaced;
use crate::state::{Keep, Process, Tree};
use crate::traced::exec_gains;
use armento_migrate::image::restarts::ERESTARTNOINTR;
use armento_model::{Pid, Tid};
use armento_tracee::region::BASE;
use armento_tracee::{maps, spawn, trace};
use armento_wire::call::Call;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The body asks for an exec: only when it has had every signal that we sent.
pub fn exec_body(t: &mut Tree, d: &Deputy, c: Box<Call>) {
    let late = t.procs.get_mut(&d.pid).is_none_or(Process::delay_exec);
    let again = || d.link().reply(c.tid.at_home(), c.seq, ERESTARTNOINTR, &[]);
    // The new program would begin with what the deputy blocks.
    if late || t.signals.blocked.contains_key(&d.tid) || d.common.breaking.load(Ordering::Acquire) {
        return again();
    }
    if call_gains(d.pid, &c).is_some() {
        // A deputy is traced: it would get the program but not its rights.
        return exec_untraced(t, d, c);
    }
    d.submit(Work::Call(c));
}

/// What an exec on its way to a deputy would give it.
fn call_gains(pid: Pid, c: &Call) -> Option<&'static str> {
    let at = i64::from(c.packed.nr) == libc::SYS_execveat;
    let path = c.packed.args[usize::from(at)] as usize;
    let path = c.packed.data.get(path..)?.split(|b| *b == 0).next()?;
    exec_gains(pid, at.then_some(c.packed.args[0] as i32), path)
}

/// An exec takes milliseconds; a slow disk may take longer.
const EXEC_MAX: Duration = Duration::from_secs(30);

/// Lets go of the deputy and lets it exec. Its exec is not reported: we look.
fn exec_untraced(t: &mut Tree, d: &Deputy, c: Box<Call>) {
    let (tid, pid, keep) = (d.tid, d.pid, t.keep.clone());
    let Some(code) = t.code_of(pid) else { return };
    // First the thread that looks after it: nothing else would notice what becomes of the deputy.
    let (go, released) = mpsc::channel();
    let look = move || {
        if released.recv().is_ok() {
            see_exec(&keep, tid, pid);
        }
    };
    if spawn::start("exec", look).is_err() {
        let no_room = -i64::from(libc::EAGAIN);
        return d.link().reply(tid, c.seq, no_room, &[]);
    }
    let released = stop_one(t, tid, &code).is_some_and(|d| trace::detach(d, 0).is_ok());
    if !released {
        // It does not stop just now, or is about to end: the body asks again.
        return d.link().reply(tid, c.seq, crate::deputy::AGAIN, &[]);
    }
    d.submit(Work::Call(c));
    let _ = go.send(());
}

fn see_exec(keep: &Keep, tid: Tid, pid: Pid) {
    let until = Instant::now() + EXEC_MAX;
    while Instant::now() < until {
        if !is_deputy(tid) {
            keep.tracer.run(move |t| image_replaced(t, pid, false));
            return;
        }
        if keep.deputy(tid).is_none_or(|d| !d.in_call()) && is_deputy(tid) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // It failed; the deputy is one again.
    keep.tracer
        .run(move |_| trace::seize(tid, trace::FOLLOW | trace::EXITKILL).is_ok());
}

/// Our region is there as long as the image is the deputy's. Another user's memory we may not see.
fn is_deputy(tid: i32) -> bool {
    maps::read(tid).is_ok_and(|m| m.iter().any(|v| v.start == BASE))
}
