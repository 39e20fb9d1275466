//! CPU time of a guest: used here, plus what it used elsewhere before.

use crate::forward;
use crate::shared::{Cell, Fix, Shared};
use armento_tracee::notify::Notice;
use armento_tracee::sys;
use std::sync::Arc;

const NS: u64 = 1_000_000_000;
/// KERNEL: clock ids. CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID.
const PROCESS: i32 = 2;
const THREAD: i32 = 3;

/// clock_gettime of a CPU clock; everything else is home's business.
pub fn clock(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    let id = n.args[0] as i32;
    let own = i64::from(n.nr) == libc::SYS_clock_gettime && (id == PROCESS || id == THREAD);
    if !own {
        return forward::post_plan(
            sh,
            cell,
            n,
            forward::out_plan(n.nr, n.args, 1, n.args[1], 16),
            Fix::None,
        );
    }
    let ns = if id == PROCESS {
        process_ns(cell.here)
    } else {
        sys::cpu_clock_ns(cell.here, true).unwrap_or(0)
    };
    let ts: Vec<u8> = [ns / NS, ns % NS]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let ok = cell.write(n.args[1], &ts);
    sh.listener
        .reply(n.id, if ok { 0 } else { -i64::from(libc::EFAULT) });
}

/// getrusage and times: home answers (children, switches), the body's time is added.
pub fn usage(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) {
    if i64::from(n.nr) == libc::SYS_times {
        let addr = n.args[0];
        let plan = forward::out_plan(n.nr, n.args, 0, addr, 32);
        return forward::post_plan(sh, cell, n, plan, Fix::Times(addr));
    }
    let addr = n.args[1];
    let own = matches!(n.args[0] as i32, 0 | 1);
    let fix = if own { Fix::Rusage(addr) } else { Fix::None };
    forward::post_plan(
        sh,
        cell,
        n,
        forward::out_plan(n.nr, n.args, 1, addr, 144),
        fix,
    );
}

/// CPU used here by the process of thread `here`.
pub fn process_ns(here: i32) -> u64 {
    sys::cpu_clock_ns(here, false).unwrap_or(0)
}

fn add(cell: &Cell, addr: u64, words: &[u64]) {
    let mut b = vec![0u8; words.len() * 8];
    if !matches!(sys::vm_read(cell.here, addr, &mut b), Ok(n) if n == b.len()) {
        return;
    }
    for (i, w) in words.iter().enumerate() {
        let at = i * 8..i * 8 + 8;
        let v = u64::from_le_bytes(b[at.clone()].try_into().unwrap_or_default()).wrapping_add(*w);
        b[at].copy_from_slice(&v.to_le_bytes());
    }
    cell.write(addr, &b);
}

/// ru_utime is the first timeval: seconds, microseconds.
pub fn add_rusage(cell: &Cell, addr: u64) {
    let us = process_ns(cell.here) / 1000;
    let mut b = [0u8; 16];
    if matches!(sys::vm_read(cell.here, addr, &mut b), Ok(16)) {
        let word = |i: usize| u64::from_le_bytes(b[i..i + 8].try_into().unwrap_or_default());
        let total = word(0) * 1_000_000 + word(8) + us;
        let out: Vec<u8> = [total / 1_000_000, total % 1_000_000]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        cell.write(addr, &out);
    }
}

/// tms_utime in clock ticks of 10 ms. KERNEL: USER_HZ is 100.
pub fn add_times(cell: &Cell, addr: u64) {
    add(cell, addr, &[process_ns(cell.here) / 10_000_000]);
}
