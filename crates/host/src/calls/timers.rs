//! Interval timers: those of CPU time run here, that of real time at home.

use super::forward::send;
use crate::state::{GuestThread, Host};
use armento_tracee::notify::Notice;
use armento_tracee::sys;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub fn set_itimer(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    if n.args[0] == libc::ITIMER_REAL as u64 {
        return send(host, thread, n);
    }
    let mut raw = [0u8; 32];
    let new = matches!(sys::vm_read(thread.here, n.args[1], &mut raw), Ok(32));
    if new && raw[16..] != [0; 16] {
        thread.proc.cpu_timer.store(true, Ordering::Release);
    }
    host.listener.let_through(n.id);
}
