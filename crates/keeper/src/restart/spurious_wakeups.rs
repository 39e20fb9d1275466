//! Waits at home that end because we trace: by signals without effect, which natively do not wake their thread. Each is
//! issued again, and ends at the time at which it would have ended.
//!
//! From: `keeper/src/traced/follow_forks.rs`, at such a signal. Next: the end of the call.
//!
//! When it began is not known: its time counts from the first wake. A timeout that lies in memory stays as it
//! is, and such a wait ends at the first wake after it.

use armento_model::Tid;
use armento_tracee::sys;
use armento_tracee::trace::Regs;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// KERNEL: syscall_64.tbl.
const IO_PGETEVENTS: i64 = 333;

#[derive(Clone, Serialize, Deserialize)]
struct Wake {
    nr: u64,
    #[serde(with = "crate::instants")]
    until: Instant,
    /// What its register held, if the timeout is in one.
    asked: u64,
    /// The kernel is about to issue it again.
    again: bool,
}

/// Bounded by the threads that are followed.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct SpuriousWakeups(HashMap<Tid, Wake>);

impl SpuriousWakeups {
    pub fn has(&self, tid: Tid) -> bool {
        self.0.contains_key(&tid)
    }

    pub fn forget(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }

    /// A wait is about to be issued again, or is over: then its registers say so.
    pub fn woken(&mut self, tid: Tid, r: &mut Regs) {
        let nr = r.orig_rax;
        let now = Instant::now();
        self.0.retain(|t, w| *t != tid || w.nr == nr);
        if !self.has(tid)
            && let Some(until) = limit(tid, r).and_then(|l| now.checked_add(l))
        {
            let wake = Wake {
                nr,
                until,
                asked: r.r10,
                again: true,
            };
            self.0.insert(tid, wake);
        }
        let Some(w) = self.0.get_mut(&tid) else {
            return;
        };
        w.again = true;
        let left = w.until.saturating_duration_since(now);
        if left.is_zero() {
            r.rax = over(nr) as u64;
            r.orig_rax = u64::MAX;
            r.r10 = w.asked;
            self.0.remove(&tid);
        } else if in_register(nr) {
            r.r10 = left.as_nanos().div_ceil(1_000_000) as u64;
        }
    }

    /// At the entry of a call: another than the one that was woken is forgotten.
    pub fn entered(&mut self, tid: Tid, nr: u64) {
        self.0
            .retain(|t, w| *t != tid || w.nr == nr && std::mem::take(&mut w.again));
    }

    /// At the end of a call. True: it is over, and its registers are what they were.
    pub fn ended(&mut self, tid: Tid, r: &mut Regs) -> bool {
        let over = r.rax as i64 != -i64::from(libc::EINTR);
        let Some(w) = self.0.get(&tid).filter(|_| over) else {
            return false;
        };
        let changed = in_register(w.nr);
        if changed {
            r.r10 = w.asked;
        }
        self.0.remove(&tid);
        changed
    }
}

/// epoll_wait(2): milliseconds, the fourth argument.
fn in_register(nr: u64) -> bool {
    matches!(nr as i64, libc::SYS_epoll_wait | libc::SYS_epoll_pwait)
}

/// What a wait returns whose time is over: the manual page of each.
fn over(nr: u64) -> i64 {
    match nr as i64 {
        libc::SYS_rt_sigtimedwait | libc::SYS_semtimedop => -i64::from(libc::EAGAIN),
        _ => 0,
    }
}

/// How long it waits at most. `None`: for ever, or it is no such call.
fn limit(tid: Tid, r: &Regs) -> Option<Duration> {
    let at = match r.orig_rax as i64 {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
            return u64::try_from(r.r10 as i32).ok().map(Duration::from_millis);
        }
        libc::SYS_rt_sigtimedwait => r.rdx,
        libc::SYS_semtimedop | libc::SYS_epoll_pwait2 => r.r10,
        libc::SYS_io_getevents | IO_PGETEVENTS => r.r8,
        _ => return None,
    };
    let mut spec = [0u8; 16];
    if at == 0 || sys::vm_read(tid, at, &mut spec).ok()? != spec.len() {
        return None;
    }
    let (sec, ns) = spec.split_at(8);
    let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).ok();
    Duration::from_secs(word(sec)?).checked_add(Duration::from_nanos(word(ns)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_migrate::image::{restarts, thread};

    fn epoll(millis: u64) -> Regs {
        let mut r = thread::from_words(&[0; 27]).expect("registers");
        r.orig_rax = libc::SYS_epoll_wait as u64;
        r.rax = restarts::ERESTARTNOHAND as u64;
        r.r10 = millis;
        r
    }

    #[test]
    fn a_woken_wait_continues_and_ends_in_time() {
        let mut wakes = SpuriousWakeups::default();
        let mut r = epoll(40);
        wakes.woken(7, &mut r);
        assert!(wakes.has(7) && r.r10 <= 40 && r.orig_rax == libc::SYS_epoll_wait as u64);
        wakes.entered(7, r.orig_rax);
        std::thread::sleep(Duration::from_millis(45));
        wakes.woken(7, &mut r);
        assert_eq!((r.rax, r.orig_rax, r.r10), (0, u64::MAX, 40));
        assert!(!wakes.has(7));
    }

    #[test]
    fn the_end_of_a_wait_restores_its_register() {
        let mut wakes = SpuriousWakeups::default();
        let mut r = epoll(5000);
        wakes.woken(7, &mut r);
        r.rax = -i64::from(libc::EINTR) as u64;
        assert!(!wakes.ended(7, &mut r), "woken once more");
        r.rax = 1;
        r.r10 = 4000;
        assert!(wakes.ended(7, &mut r));
        assert_eq!(r.r10, 5000);
        assert!(!wakes.has(7));
    }

    #[test]
    fn another_call_starts_another_wait() {
        let mut wakes = SpuriousWakeups::default();
        let mut r = epoll(5000);
        wakes.woken(7, &mut r);
        wakes.entered(7, r.orig_rax);
        assert!(wakes.has(7), "issued again");
        wakes.entered(7, r.orig_rax);
        assert!(!wakes.has(7), "a handler has ended the first");
        r.r10 = -1i32 as u32 as u64;
        wakes.woken(7, &mut r);
        assert!(!wakes.has(7), "for ever");
    }
}
