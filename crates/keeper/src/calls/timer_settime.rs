//! timer_settime of a body: what its timer sent before is void, what it sends from now on is not.
//!
//! From: `execute.rs`. Next: `host/src/threads/timer_signals.rs`.
//!
//! ```text
//! timer disarmed ──► stops of the deputies taken in ──► Void ──► timer set ──► reply
//! ```
//! KERNEL: timer_settime(2) voids a signal that waits; deputies take theirs at once, so nothing waits here. A
//! signal does not tell which setting it comes from. Disarmed in between, the timer sends nothing, and what a
//! deputy has taken by then is of the old one.

use crate::deputy::{Deputy, Work};
use crate::state::{Keep, Tree};
use armento_abi::{Out, OutRule, Packed};
use armento_migrate::image::timers::timer_of;
use armento_model::HomePid;
use armento_tracee::trace;
use armento_tracee::tracer_thread::World;
use armento_wire::call::Call;
use armento_wire::talk::ToHost;
use std::sync::Arc;
use std::time::Duration;

/// struct itimerspec.
const LEN: usize = 32;
const NS: i64 = 1_000_000_000;

pub fn is_set(nr: u16) -> bool {
    i64::from(nr) == libc::SYS_timer_settime
}

/// Whether the kernel would take the new setting. KERNEL: timespec64_valid.
fn valid(p: &Packed) -> bool {
    let at = p.args[2] as usize;
    let Some(raw) = p.data.get(at..).and_then(<[u8]>::first_chunk::<LEN>) else {
        return false;
    };
    let word = |i: usize| i64::from_le_bytes(raw[i..i + 8].try_into().unwrap_or_default());
    let time = |at| word(at) >= 0 && (0..NS).contains(&word(at + 8));
    p.arg_ptrs & 1 << 2 != 0 && time(0) && time(16)
}

/// A body sets a timer.
pub fn begin(keep: &Keep, d: Arc<Deputy>, c: Box<Call>) {
    if !valid(&c.packed) {
        return d.submit(Work::Call(c));
    }
    let (tracer, deputy, call) = (keep.tracer.clone(), d.clone(), disarm(&c));
    let done = Box::new(move |ret, old: Vec<u8>| {
        if ret < 0 {
            // There is no such timer.
            return deputy.link().reply(c.tid.at_home(), c.seq, ret, &[]);
        }
        // In the tracer thread, where signals are seen.
        tracer.post(move |t| disarmed(t, &deputy, c, old));
    });
    d.submit(Work::Part { call, done });
}

/// The same timer, and no time.
fn disarm(c: &Call) -> Box<Call> {
    let packed = Packed {
        nr: c.packed.nr,
        args: [c.packed.args[0], 0, 0, LEN as u64, 0, 0],
        data: vec![0; LEN],
        arg_ptrs: 0b1100,
        outs: vec![Out {
            off: LEN as u32,
            len: LEN as u32,
            rule: OutRule::OnSuccess,
        }],
        ..Packed::default()
    };
    Box::new(Call {
        tid: c.tid,
        seq: c.seq,
        flags: 0,
        mask: 0,
        packed,
    })
}

/// `old`: what was set until then.
fn disarmed(t: &mut Tree, d: &Arc<Deputy>, mut c: Box<Call>, old: Vec<u8>) {
    let timer = c.packed.args[0] as i32;
    let Some(p) = t.procs.get(&d.pid) else {
        return;
    };
    for tid in p.deputy_tids() {
        if let Ok(status) = trace::wait_for(tid, Duration::ZERO) {
            World::report(t, tid, status);
        }
    }
    let Some(p) = t.procs.get_mut(&d.pid) else {
        return;
    };
    // A move may have begun meanwhile.
    if let Some(away) = p.away_mut() {
        let held = away.signals.held_mut();
        held.retain(|(_, i)| timer_of(i) != Some(timer));
    }
    let pid = HomePid::of_home(d.pid);
    d.link().send(&ToHost::TimerVoid { pid, timer });
    // Asked for by the body, and known already.
    let wanted = !std::mem::take(&mut c.packed.outs).is_empty();
    c.packed.args[3] = 0;
    c.packed.arg_ptrs &= !(1 << 3);
    let (deputy, tid, seq) = (d.clone(), c.tid.at_home(), c.seq);
    let done = Box::new(move |ret, _| {
        let outs: &[u8] = if wanted && ret == 0 { &old } else { &[] };
        deputy.link().reply(tid, seq, ret, outs);
    });
    d.submit(Work::Part { call: c, done });
}
