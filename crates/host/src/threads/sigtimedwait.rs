//! sigtimedwait and its kin: led to their end, for they take signals without a stop of ours.
//!
//! From: `serve.rs`. Next: `bodies.rs`, when a signal has a handler.

use crate::calls::timers;
use crate::state::guests::Zoo;
use crate::state::shared::{Cell, lock};
use crate::state::siginfo_cookies::Face;
use armento_migrate::image::thread::{self, ERESTARTNOINTR};
use armento_model::Tid;
use armento_tracee::sys::{self, SigInfo};
use armento_tracee::trace;
use std::sync::Arc;

/// sigtimedwait takes signals without a stop of ours: its thread is led to the call's end, where the
/// siginfo it got is shown its true face.
pub fn lead_wait(zoo: &mut Zoo, cell: &Arc<Cell>, id: u64, info: u64) {
    match crate::calls::fork::break_out(zoo, cell, id) {
        Ok(h) => {
            drop(h);
            lock(&cell.st).sigwait = Some((info, false));
            let _ = trace::resume_to_call(cell.here, 0);
        }
        Err(e) => eprintln!("sigtimedwait of {}: {e}", cell.tid),
    }
}

/// Entry or exit of a led call.
pub fn at_call(zoo: &mut Zoo, here: Tid) {
    let Some(cell) = zoo.sh().cell(here) else {
        return;
    };
    let mut st = lock(&cell.st);
    match st.sigwait {
        Some((info, false)) => {
            st.sigwait = Some((info, true));
            let _ = trace::resume_to_call(here, 0);
        }
        Some((at, true)) => {
            st.sigwait = None;
            drop(st);
            undo_eintr(here);
            if let Ok(sig @ 1..=64) = trace::regs(here).map(|r| r.rax) {
                took(zoo, &cell, sig as i32, at);
            }
            let _ = trace::resume(here, 0);
        }
        None => drop(trace::resume(here, 0)),
    }
}

/// A led wait has taken a signal. `at`: where its siginfo is, if the program wants it.
fn took(zoo: &mut Zoo, cell: &Cell, sig: i32, at: u64) {
    let mut info: SigInfo = [0; 128];
    let face = if at == 0 {
        zoo.veils.taken(cell.pid, cell.tid, sig)
    } else if matches!(sys::vm_read(cell.here, at, &mut info), Ok(128)) {
        zoo.veils.lift(&info)
    } else {
        None
    };
    match face {
        Some(Face::Real(real)) => {
            timers::delivered(&cell.proc, &real);
            if at != 0 {
                cell.write(at, &real);
            }
        }
        Some(Face::Void) => end_with(cell.here, ERESTARTNOINTR),
        None => {}
    }
}

/// An interrupted wait for signals: whether a handler runs, which alone ends it, the kernel sees better. Traced,
/// it is woken even by signals that are ignored.
fn undo_eintr(here: Tid) {
    if trace::regs(here).is_ok_and(|r| r.rax as i64 == -i64::from(libc::EINTR)) {
        end_with(here, thread::ERESTARTNOHAND);
    }
}

/// At the exit of a call: it ends with one of the kernel's restart errors, which the kernel looks at because
/// of the interruption.
fn end_with(here: Tid, ret: i64) {
    if let Ok(mut r) = trace::regs(here)
        && trace::interrupt(here).is_ok()
    {
        r.rax = ret as u64;
        let _ = trace::set_regs(here, &r);
    }
}
