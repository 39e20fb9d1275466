//! Home's answer to a forwarded call.
//!
//! From: `host/src/home/messages.rs`. Next: the guest, or home again for the rest of the bytes.

use super::post::post;
use super::{cpu_time, direct, dispatch, names, partial_io, posted_calls, socket_polls};
use crate::state::{BodyMem, GuestThread, Host, Then, Waiting, is_restart};
use crate::sync::lock;
use crate::{sys, threads};
use armento_abi::{Packed, Plan, sends};
use armento_migrate::image::restarts::ERESTARTNOHAND;
use armento_tracee::notify::Notice;
use armento_tracee::spawn;
use armento_wire::call::Reply;
use std::sync::Arc;
use std::time::Duration;

/// A call that home answers within this time is no sleep of the program's own.
const CALL_SHORT: Duration = Duration::from_millis(50);

/// How many bytes a read has taken from its file that did not fit into the guest's memory: the kernel would have left them.
fn read_too_much(p: &Packed, took: i64, fitted: i64) -> Option<i64> {
    let reads = [libc::SYS_read, libc::SYS_readv].contains(&i64::from(p.nr));
    (reads && fitted > 0 && fitted < took).then_some(took - fitted)
}

/// Sets the offset back by so many bytes; the guest's call returns `ret` then. What has no offset has lost them.
fn go_back(host: &Arc<Host>, thread: &GuestThread, id: u64, (fd, by): (u64, i64), ret: i64) {
    let nr = libc::SYS_lseek;
    let args = [fd, by.wrapping_neg() as u64, libc::SEEK_CUR as u64, 0, 0, 0];
    let packed = Packed {
        nr: nr as u16,
        args,
        ..Packed::default()
    };
    let n = Notice {
        id,
        nr: nr as i32,
        args,
        ..Notice::default()
    };
    let plan = Plan {
        packed,
        dests: Vec::new(),
    };
    post(host, thread, &n, plan, None, 0, Then::Return(ret));
}

/// A reply came. `part`: of a call that was interrupted.
pub fn reply(host: &Arc<Host>, r: &Reply<'_>, part: bool) {
    let Some(thread) = host.threads.of_home(r.tid) else {
        return;
    };
    let mut st = lock(&thread.call);
    let (id, plan, then) = match st.waiting.take() {
        Some(Waiting::Call {
            id,
            seq,
            plan,
            then,
        }) if seq == r.seq => (id, plan, then),
        other => {
            st.waiting = other;
            return;
        }
    };
    posted_calls::ended(&thread, plan.packed.nr, &plan.packed.args);
    if names::moves_base(plan.packed.nr) {
        thread.proc.forget_base(host.home.number());
    }
    let took = st.sent.take().map(|t| t.elapsed());
    if let Some(short) = took.filter(|t| *t < CALL_SHORT) {
        st.asked_ns += short.as_nanos() as u64;
    }
    let turned_back = is_restart(r.ret) && r.outs.is_empty();
    if !turned_back {
        host.home.posts_made(st.posted_before);
    }
    let ret = if turned_back {
        r.ret
    } else if let Then::Polled(watch) = &then {
        socket_polls::answered(host, &thread, watch, r.ret, r.outs)
    } else {
        armento_abi::unpack(&plan, r.ret, r.outs, &mut BodyMem(&thread))
    };
    let mut ret = ret;
    if let Some(back) = read_too_much(&plan.packed, r.ret, ret) {
        drop(st);
        return go_back(host, &thread, id, (plan.packed.args[0], back), ret);
    }
    if let Then::PartialIo(w) = then {
        drop(st);
        let asked = sends::packed_payload(&plan.packed);
        match partial_io::reply(host, (&thread, id), w, asked, (part, ret)) {
            Some(all) => ret = all,
            None => return,
        }
        st = lock(&thread.call);
    }
    // Which of its descriptors are home's changes: a poll begins anew, with what is left of its time.
    let polls = matches!(then, Then::Polled(_))
        || i64::from(plan.packed.nr) == libc::SYS_poll && !thread.proc.sockets.is_empty();
    if polls && is_restart(ret) {
        ret = ERESTARTNOHAND;
        if let Then::Polled(watch) = &then {
            socket_polls::interrupted(&thread, watch);
        }
    }
    if is_restart(ret) {
        // A continuation that was not made is still in the restart block of the deputy.
        let continued = i64::from(plan.packed.nr) == libc::SYS_restart_syscall;
        st.at_deputy = ret == -516 || st.at_deputy && continued;
        st.again = Some(match &then {
            Then::PartialIo(w) => w.nr,
            Then::Direct(n) => n.nr,
            Then::Polled(w) => w.polled.nr,
            _ => plan.packed.nr.into(),
        });
        // A call that was not made has another error.
        st.slept |= ret == ERESTARTNOHAND;
        drop(st);
        host.tracer
            .post(move |guests| threads::restart_call(guests, &thread, id, ret));
        return;
    }
    let slept = std::mem::take(&mut st.slept);
    st.wait_mask = None;
    st.at_deputy = false;
    drop(st);
    let mut ret = if slept {
        armento_abi::begun_again(plan.packed.nr.into(), ret)
    } else {
        ret
    };
    match then {
        Then::Nothing | Then::PartialIo(_) | Then::Polled(_) => {}
        Then::Return(instead) => ret = instead,
        Then::Duplicated(old) if ret >= 0 => direct::duplicated(&thread, old, ret as i32),
        Then::Duplicated(_) => {}
        Then::Overrun(timer) if ret >= 0 => ret = threads::overrun(&thread.proc, timer),
        Then::TimerGone(timer) if ret == 0 => {
            let pid = thread.pid;
            host.tracer
                .run(move |guests| threads::timer_was_set(guests, pid, timer));
        }
        Then::Overrun(_) | Then::TimerGone(_) => {}
        Then::Rusage(at) if ret == 0 => cpu_time::add_rusage(&thread, at, false),
        Then::ThreadRusage(at) if ret == 0 => cpu_time::add_rusage(&thread, at, true),
        Then::Times(at) if ret >= 0 => cpu_time::add_times(&thread, at),
        Then::Limit(res, soft, hard) if ret == 0 => sys::set_limit(thread.here, res, soft, hard),
        Then::Rusage(_) | Then::ThreadRusage(_) | Then::Times(_) | Then::Limit(..) => {}
        Then::Direct(n) => {
            let host = host.clone();
            // A file system may be slow, and this thread reads what home says.
            return spawn::soon("settled", move || dispatch::settled(&host, &n));
        }
        Then::RunHere => {
            host.listener.let_through(id);
            return;
        }
    }
    host.listener.reply(id, ret);
}
