//! POSIX timers (timer_create(2)): they run in home's kernel, and are made again under the numbers that the program knows.
//!
//! From: `attributes.rs`. Next: nothing: their signals travel as all others (`migrate/src/image/timers.rs`).

use super::own_calls::Calls;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomeTid, Pid, Stay, Tid};
use armento_tracee::timers::{self, Timer};
use serde::{Deserialize, Serialize};

/// KERNEL: include/uapi/linux/prctl.h, Linux 6.15: timer_create(2) takes the number that it is given.
const PR_TIMER_CREATE_RESTORE_IDS: u64 = 77;
/// Before that, numbers are given in order: so many timers are made and deleted until one has its number.
const NUMBERS_MAX: i32 = 1 << 16;
/// `struct itimerspec`: interval, then what is left, nanoseconds as two words each.
const SPEC: usize = 32;
/// Places in the memory for arguments: `struct sigevent` has 64 bytes.
const NUMBER_AT: u64 = 64;
const SPEC_AT: u64 = 128;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedTimer {
    id: i32,
    clock: i32,
    signals: bool,
    signal: i32,
    value: u64,
    /// The thread that its signal goes to, if that is not the process.
    thread: Option<HomeTid>,
    /// `struct itimerspec`, what is left of it.
    #[serde(with = "serde_bytes")]
    spec: Vec<u8>,
}

fn stays(why: String) -> MigrateError {
    MigrateError::Stays(Stay::KernelState, why)
}

/// The timers of a process that stands still.
pub fn read(calls: &mut dyn Calls, pid: Pid) -> Result<Vec<SavedTimer>> {
    let mut all: Vec<Timer> = timers::all(pid);
    all.sort_by_key(|t| t.id);
    let one = |t: Timer| {
        if t.clock < 0 {
            let why = format!("it has a timer of the clock {} (timer_create)", t.clock);
            return Err(stays(why));
        }
        let args = [t.id as u64, calls.memory() + SPEC_AT, 0, 0, 0, 0];
        if calls.call(pid, libc::SYS_timer_gettime, args)? != 0 {
            return Err(stays(format!("its timer {} cannot be read", t.id)));
        }
        let mut spec = vec![0; SPEC];
        calls.read(SPEC_AT, &mut spec);
        Ok(SavedTimer {
            id: t.id,
            clock: t.clock,
            // KERNEL: a signal to a thread that has ended is thrown away.
            signals: t.signals && t.thread != Some(0),
            signal: t.signal,
            value: t.value,
            thread: t.thread.map(HomeTid::of_home),
            spec,
        })
    };
    all.into_iter().map(one).collect()
}

/// Makes them. `tid`: the number of a thread now. Before: the process has none.
pub fn make(
    calls: &mut dyn Calls,
    pid: Pid,
    all: &[SavedTimer],
    tid: impl Fn(HomeTid) -> Option<Tid>,
) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let choose = |calls: &mut dyn Calls, on: u64| {
        let args = [PR_TIMER_CREATE_RESTORE_IDS, on, 0, 0, 0, 0];
        calls.call(pid, libc::SYS_prctl, args)
    };
    let chosen = choose(calls, 1)? == 0;
    for t in all {
        let to = t.thread.and_then(&tid);
        make_one(calls, pid, (t, to), chosen)?;
        if t.spec.iter().any(|b| *b != 0) {
            calls.write(SPEC_AT, &t.spec);
            let args = [t.id as u64, 0, calls.memory() + SPEC_AT, 0, 0, 0];
            calls.call(pid, libc::SYS_timer_settime, args)?;
        }
    }
    if chosen {
        choose(calls, 0)?;
    }
    Ok(())
}

/// `chosen`: the kernel takes the number that is wanted.
fn make_one(
    calls: &mut dyn Calls,
    pid: Pid,
    (t, to): (&SavedTimer, Option<Tid>),
    chosen: bool,
) -> Result<()> {
    let failed = |why: &str| {
        let why = format!("its timer {} (timer_create) cannot be made: {why}", t.id);
        MigrateError::Stays(Stay::TargetFailed, why)
    };
    for _ in 0..NUMBERS_MAX {
        calls.write(0, &event(t, to));
        calls.write(NUMBER_AT, &t.id.to_le_bytes());
        let at = calls.memory();
        let args = [t.clock as u64, at, at + NUMBER_AT, 0, 0, 0];
        let made = calls.call(pid, libc::SYS_timer_create, args)?;
        if made != 0 {
            let e = std::io::Error::from_raw_os_error(-made as i32);
            return Err(failed(&e.to_string()));
        }
        let mut number = [0; 4];
        calls.read(NUMBER_AT, &mut number);
        let number = i32::from_le_bytes(number);
        if number == t.id {
            return Ok(());
        }
        let args = [number as u64, 0, 0, 0, 0, 0];
        calls.call(pid, libc::SYS_timer_delete, args)?;
        if chosen || number > t.id {
            break;
        }
    }
    Err(failed("its number is not to be had"))
}

/// `struct sigevent`: value, signal, how, thread.
fn event(t: &SavedTimer, to: Option<Tid>) -> [u8; 64] {
    let how = match (t.signals, to) {
        (false, _) => libc::SIGEV_NONE,
        (true, Some(_)) => libc::SIGEV_THREAD_ID,
        (true, None) => libc::SIGEV_SIGNAL,
    };
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&t.value.to_le_bytes());
    bytes[8..12].copy_from_slice(&t.signal.to_le_bytes());
    bytes[12..16].copy_from_slice(&how.to_le_bytes());
    bytes[16..20].copy_from_slice(&to.unwrap_or(0).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;
    use std::cell::RefCell;

    /// Calls of this process itself; `old`: as a kernel before 6.15 answers.
    struct Own {
        memory: Box<RefCell<[u8; 256]>>,
        old: bool,
    }

    impl Calls for Own {
        fn call(&mut self, _: Tid, nr: i64, args: [u64; 6]) -> Result<i64> {
            if self.old && nr == libc::SYS_prctl {
                return Ok(-i64::from(libc::EINVAL));
            }
            Ok(sys::own_call(nr, args))
        }

        fn memory(&self) -> u64 {
            self.memory.as_ptr() as u64
        }

        fn read(&self, at: u64, into: &mut [u8]) {
            into.copy_from_slice(&self.memory.borrow()[at as usize..][..into.len()]);
        }

        fn write(&self, at: u64, bytes: &[u8]) {
            self.memory.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    #[test]
    fn timers_have_their_numbers_again_on_any_kernel() {
        let pid = std::process::id() as Pid;
        for old in [true, false] {
            let mut calls = Own {
                memory: Box::new(RefCell::new([0; 256])),
                old,
            };
            // An hour is left, and then every two.
            let spec = [7200u64, 0, 3600, 0].map(u64::to_le_bytes).concat();
            let next = if old { 40 } else { 4000 };
            let timer = |id, signals| SavedTimer {
                id,
                clock: libc::CLOCK_MONOTONIC,
                signals,
                signal: libc::SIGRTMIN() + 3,
                value: 0xabc0_0000_0007,
                thread: None,
                spec: spec.clone(),
            };
            let wanted = [timer(next, true), timer(next + 7, false)];
            make(&mut calls, pid, &wanted, |_| None).expect("timers");
            let found = read(&mut calls, pid).expect("timers");
            for t in &found {
                let id = [t.id as u64, 0, 0, 0, 0, 0];
                assert_eq!(sys::own_call(libc::SYS_timer_delete, id), 0);
            }
            let but_time = |t: &SavedTimer| SavedTimer {
                spec: Vec::new(),
                ..t.clone()
            };
            let all = |l: &[SavedTimer]| l.iter().map(but_time).collect::<Vec<_>>();
            assert_eq!(all(&found), all(&wanted), "old: {old}");
            for t in &found {
                let left = u64::from_le_bytes(t.spec[16..24].try_into().expect("a word"));
                assert!((3000..3600).contains(&left), "{left}");
                assert_eq!(t.spec[..16], spec[..16]);
            }
        }
    }
}
