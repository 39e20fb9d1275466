//! execve: the deputy executes it, and the keeper reports `Execed`, or the error comes back as a reply.

use super::come_home::come_home;
use super::post::post;
use crate::state::{BodyMem, GuestThread, Host, Then};
use armento_abi::Refuse;
use armento_model::Stay;
use armento_tracee::notify::Notice;
use armento_tracee::region::DATA;
use armento_tracee::status;
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub fn exec(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let mut mem = BodyMem(thread);
    match armento_abi::pack(n.nr as u64, &n.args, &mut mem, DATA as usize) {
        Ok(plan) => {
            // Counted before the pending ones are read: a signal that comes between is seen by one of the two.
            let received = thread.proc.signals_received.load(Ordering::SeqCst);
            let st = status::read(thread.here).unwrap_or_default();
            let waits = (st.sig_pending | st.shared_pending) & st.blocked != 0;
            // A child by vfork has its parent's memory until it execs, and cannot move.
            if waits && thread.proc.live.load(Ordering::Acquire) {
                // They must stay pending for the new image, and would be lost with this body.
                let why = "an exec while blocked signals wait";
                return come_home(host, thread, n.id, Stay::UnsupportedCall, why);
            }
            if thread.proc.cpu_timer.load(Ordering::Acquire) {
                // It must go on in the new image, which only the kernel that runs it can do.
                let why = "an exec with a timer of CPU time";
                return come_home(host, thread, n.id, Stay::UnsupportedCall, why);
            }
            host.home.send(&ToHome::Ignored {
                pid: thread.pid,
                tid: thread.tid,
                ignored: st.ignored,
                heard: received,
                away: thread.proc.cpu_away(),
                thread_away: thread.cpu_away(),
            });
            post(host, thread, n, plan, None, st.blocked, Then::Nothing);
        }
        Err(Refuse::Errno(e)) => {
            host.listener.reply(n.id, -i64::from(e));
        }
        Err(Refuse::ComeHome(why)) => come_home(host, thread, n.id, Stay::UnsupportedCall, why),
    }
}
