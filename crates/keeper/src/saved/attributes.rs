//! What the kernel keeps of processes and threads that only they themselves can ask for, or set: prctl(2), and beside that
//! scheduling.
//!
//! From: `copies.rs` reads it, `restart.rs` sets it. Next: nothing.

use super::own_calls::{AtHome, Calls, Deputies};
use super::timers::{self, SavedTimer};
use crate::state::{Keep, Process, Tree};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomeTid, Pid, Stay, Tid};
use armento_tracee::{status, sys};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An attribute of prctl(2): the operations that get and set it.
struct Attribute {
    get: i32,
    set: i32,
    /// The value is written to memory; otherwise it is the result.
    by_address: bool,
}

const fn by_result(get: i32, set: i32) -> Attribute {
    let by_address = false;
    Attribute {
        get,
        set,
        by_address,
    }
}

const fn by_address(get: i32, set: i32) -> Attribute {
    let by_address = true;
    Attribute {
        get,
        set,
        by_address,
    }
}

/// Of a process, as its first thread has them. Those of prctl(2) that a thread can give itself and that are kept where the process has its home.
const OF_PROCESS: &[Attribute] = &[
    by_result(libc::PR_GET_SECUREBITS, libc::PR_SET_SECUREBITS),
    by_result(libc::PR_GET_KEEPCAPS, libc::PR_SET_KEEPCAPS),
    by_result(libc::PR_GET_THP_DISABLE, libc::PR_SET_THP_DISABLE),
    by_address(libc::PR_GET_CHILD_SUBREAPER, libc::PR_SET_CHILD_SUBREAPER),
    by_address(libc::PR_GET_PDEATHSIG, libc::PR_SET_PDEATHSIG),
    by_result(libc::PR_GET_DUMPABLE, libc::PR_SET_DUMPABLE),
];

/// Keyrings that end with the process or thread. KERNEL: keyctl(2), keyrings(7).
const KEYRINGS: [i32; 2] = [
    libc::KEY_SPEC_THREAD_KEYRING,
    libc::KEY_SPEC_PROCESS_KEYRING,
];

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// In the order of [`OF_PROCESS`].
    process: Vec<i32>,
    /// ITIMER_REAL (setitimer(2)), `struct itimerval`: it runs where the process has its home.
    alarm: Vec<u8>,
    /// timer_create(2): they run where the process has its home.
    timers: Vec<SavedTimer>,
    threads: Vec<OfThread>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct OfThread {
    tid: HomeTid,
    /// Nanoseconds; prctl(2), PR_SET_TIMERSLACK.
    slack: i64,
    /// `struct sched_attr` (sched_setattr(2)) without the slice, which is ours while it is away.
    scheduling: Vec<u8>,
    /// personality(2): an exec clears flags of it.
    personality: i64,
    /// sched_setaffinity(2).
    processors: Vec<u8>,
    /// ioprio_set(2).
    io: i32,
    name: String,
}

/// Bytes of `struct itimerval`.
const ITIMERVAL: usize = 32;

/// Of a process at home that stands still. In the tracer thread.
pub fn at_home(t: &Tree, pid: Pid) -> Result<Attributes> {
    let leaving = t.leaving.get(&pid).ok_or(MigrateError::Ended)?;
    let code = leaving.region.code();
    let tids = leaving.states.iter().map(|s| s.tid.at_home()).collect();
    read(&mut AtHome { code }, pid, tids)
}

/// Of a process that is away and stands still. Not in the tracer thread.
pub fn away(keep: &Arc<Keep>, pid: Pid) -> Result<Attributes> {
    let tids = move |t: &mut Tree| t.procs.get(&pid).map(Process::deputy_tids);
    let tids = keep.tracer.run(tids).flatten().ok_or(MigrateError::Ended)?;
    read(&mut Deputies::of(keep, pid)?, pid, tids)
}

fn prctl(operation: i32, value: u64) -> (i64, [u64; 6]) {
    (libc::SYS_prctl, [operation as u64, value, 0, 0, 0, 0])
}

fn read(calls: &mut dyn Calls, pid: Pid, tids: Vec<Tid>) -> Result<Attributes> {
    let mut all = Attributes::default();
    for a in OF_PROCESS {
        let value = if a.by_address { calls.memory() } else { 0 };
        let (nr, args) = prctl(a.get, value);
        let got = calls.call(pid, nr, args)?;
        all.process.push(match a.by_address {
            true => {
                let mut word = [0; 4];
                calls.read(0, &mut word);
                i32::from_le_bytes(word)
            }
            false => got as i32,
        });
    }
    let alarm = [libc::ITIMER_REAL as u64, calls.memory(), 0, 0, 0, 0];
    if calls.call(pid, libc::SYS_getitimer, alarm)? == 0 {
        all.alarm = vec![0; ITIMERVAL];
        calls.read(0, &mut all.alarm);
    }
    all.timers = timers::read(calls, pid)?;
    for ring in KEYRINGS {
        let args = [libc::KEYCTL_GET_KEYRING_ID as u64, ring as u64, 0, 0, 0, 0];
        if calls.call(pid, libc::SYS_keyctl, args)? > 0 {
            let why = "it has a keyring of its own (keyctl), which ends with it".into();
            return Err(MigrateError::Stays(Stay::KernelState, why));
        }
    }
    for tid in tids {
        let (nr, args) = prctl(libc::PR_GET_TIMERSLACK, 0);
        let mut scheduling = sys::sched_attr(tid).map_or_else(|_| Vec::new(), |a| a.to_vec());
        if let Some(slice) = scheduling.get_mut(SLICE) {
            slice.fill(0);
        }
        all.threads.push(OfThread {
            tid: HomeTid::of_home(tid),
            slack: calls.call(tid, nr, args)?,
            personality: calls.call(
                tid,
                libc::SYS_personality,
                [ASK_PERSONALITY, 0, 0, 0, 0, 0],
            )?,
            scheduling,
            processors: restricted(tid),
            io: crate::sys::io_priority(tid),
            name: status::comm(pid, tid),
        });
    }
    Ok(all)
}

/// The processors of a thread that may not use all that programs here begin with. On another machine those are others.
fn restricted(tid: Tid) -> Vec<u8> {
    let set = crate::sys::processors(tid);
    let all = crate::sys::processors(std::process::id() as Tid);
    if set == all { Vec::new() } else { set }
}

/// KERNEL: personality(2): this changes nothing.
const ASK_PERSONALITY: u64 = 0xffff_ffff;

/// `sched_runtime` in `struct sched_attr`.
const SLICE: std::ops::Range<usize> = 24..32;

impl Attributes {
    /// Gives them to the deputies of a process that begins. `tid`: the new number of a thread. What this user may not set, or
    /// this machine does not have, stays as it is.
    pub fn set(
        &self,
        keep: &Arc<Keep>,
        pid: Pid,
        tid: impl Fn(HomeTid) -> Option<Tid>,
    ) -> Result<()> {
        let mut calls = Deputies::of(keep, pid)?;
        for t in &self.threads {
            let Some(new) = tid(t.tid) else { continue };
            let (nr, args) = prctl(libc::PR_SET_TIMERSLACK, t.slack as u64);
            calls.call(new, nr, args)?;
            let persona = [t.personality as u64, 0, 0, 0, 0, 0];
            calls.call(new, libc::SYS_personality, persona)?;
            if let Ok(attr) = t.scheduling.as_slice().try_into() {
                let _ = sys::set_sched_attr(new, attr);
            }
            crate::sys::set_processors(new, &t.processors);
            crate::sys::set_io_priority(new, t.io);
            let deputy = keep.deputy(new).ok_or(MigrateError::Ended)?;
            let mut name = t.name.as_bytes().to_vec();
            name.truncate(15);
            name.push(0);
            deputy.slot.write_data(0, &name);
            let (nr, args) = prctl(libc::PR_SET_NAME, deputy.slot.data_addr());
            calls.call(new, nr, args)?;
        }
        // The parent of a process that is not in the checkpoint is another one now: the command that has started it, which may
        // end long before it (`armento farm recover`).
        let parent = status::read(pid).map_or(0, |s| s.ppid);
        let has_other_parent = !keep.pids().contains(&parent);
        for (a, value) in OF_PROCESS.iter().zip(&self.process) {
            if a.set == libc::PR_SET_PDEATHSIG && has_other_parent {
                continue;
            }
            let (nr, args) = prctl(a.set, *value as u64);
            calls.call(pid, nr, args)?;
        }
        if self.alarm.iter().any(|b| *b != 0) {
            calls.write(0, &self.alarm);
            let args = [libc::ITIMER_REAL as u64, calls.memory(), 0, 0, 0, 0];
            calls.call(pid, libc::SYS_setitimer, args)?;
        }
        timers::make(&mut calls, pid, &self.timers, tid)
    }
}
