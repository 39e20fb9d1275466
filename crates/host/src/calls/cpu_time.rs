//! CPU clocks, getrusage and times of a guest.
//!
//! A clock is answered here, getrusage and times by home, whose kernel counts what the deputy did for it; what was used
//! away is added to either.

use super::forward::send_then;
use crate::state::{GuestThread, Host, Shared, Then};
use crate::sync::lock;
use armento_abi::{Counts, CpuClock, counts, cpu_clock};
use armento_model::{CpuTime, HomeTid};
use armento_tracee::notify::Notice;
use armento_tracee::{cpu, sys, usage};
use std::sync::Arc;

/// RUSAGE_SELF and RUSAGE_THREAD.
const SELF: i32 = libc::RUSAGE_SELF;
const THREAD: i32 = libc::RUSAGE_THREAD;

/// clock_gettime of a CPU clock of the guest; other clocks are read at home.
pub fn clock(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let wanted = (i64::from(n.nr) == libc::SYS_clock_gettime)
        .then(|| own_ns(host, thread, n.args[0] as i32))
        .flatten();
    let Some(ns) = wanted else {
        return send_then(host, thread, n, Then::Nothing);
    };
    let mut ts = [0u8; usage::TIMESPEC];
    usage::add_to_timespec(&mut ts, ns);
    let ok = thread.write(n.args[1], &ts);
    host.listener
        .reply(n.id, if ok { 0 } else { -i64::from(libc::EFAULT) });
}

fn own_ns(shared: &Shared, thread: &Arc<GuestThread>, id: i32) -> Option<u64> {
    let by = counts(id);
    let (pid, tid) = (thread.pid.in_program(), thread.tid.in_program());
    match cpu_clock(id, pid, tid)? {
        CpuClock::Process(of) if of == pid => {
            let here = thread.proc.here;
            let account = &thread.proc.cpu;
            Some(match by {
                Counts::Exact => lock(account).clock_ns(cpu::process_ns(here)),
                _ => lock(account).sampled_ns(by, cpu::process_ticks(here)),
            })
        }
        CpuClock::Thread(tid) => {
            let of = shared
                .threads
                .of_home(HomeTid::of_program(tid))
                .filter(|c| c.pid == thread.pid)?;
            Some(match by {
                Counts::Exact => lock(&of.cpu).clock_ns(cpu::thread_ns(of.here)),
                _ => lock(&of.cpu).sampled_ns(by, cpu::thread_ticks(of.here)),
            })
        }
        CpuClock::Process(_) => None,
    }
}

/// getrusage and times: home answers (children, switches), what was used away is added.
pub fn usage(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let then = match (i64::from(n.nr), n.args[0] as i32) {
        (libc::SYS_times, _) => Then::Times(n.args[0]),
        (_, SELF) => Then::Rusage(n.args[1]),
        (_, THREAD) => Then::ThreadRusage(n.args[1]),
        _ => Then::Nothing,
    };
    send_then(host, thread, n, then);
}

/// Changes what a call has just written for the guest.
fn change<const N: usize, T>(
    thread: &GuestThread,
    addr: u64,
    f: impl FnOnce(&mut [u8]) -> T,
) -> Option<T> {
    let mut b = [0u8; N];
    if !matches!(sys::vm_read(thread.here, addr, &mut b), Ok(n) if n == N) {
        return None;
    }
    let shown = f(&mut b);
    thread.write(addr, &b).then_some(shown)
}

/// ru_utime and ru_stime come first; up to ru_majflt.
const OF_RUSAGE: usize = 80;

pub fn add_rusage(thread: &GuestThread, addr: u64, of_thread: bool) {
    let t = if of_thread {
        thread.cpu_away()
    } else {
        thread.proc.cpu_away()
    };
    let memory = cpu::memory(thread.proc.here, of_thread.then_some(thread.here));
    let shown = change::<OF_RUSAGE, _>(thread, addr, |b| {
        usage::add_memory(b, memory);
        usage::add_to_rusage(b, t)
    });
    let account = if of_thread {
        &thread.cpu
    } else {
        &thread.proc.cpu
    };
    if let Some(shown) = shown {
        lock(account).carried.shown.split(shown);
    }
}

pub fn add_times(thread: &GuestThread, addr: u64) {
    let t = thread.proc.cpu_away();
    let none = CpuTime::default();
    let shown = change::<{ usage::TMS }, _>(thread, addr, |b| usage::add_to_tms(b, t, none).0);
    if let Some(shown) = shown {
        lock(&thread.proc.cpu).carried.shown.split(shown);
    }
}
