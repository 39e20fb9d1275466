//! Signals from home that are pending at a body, each under a cookie.
//!
//! A signal cannot be queued with its own siginfo: the kernel wipes the sender's pid when it comes from an outer pid
//! namespace, and lets no process queue the codes of the kernel. So it travels under a cookie in si_errno and gets its
//! original siginfo back when it is taken. Until then that may still change: a timer's pending signal counts the
//! expirations that follow (see `migrate/src/image/timers.rs`).

use armento_migrate::image::timers::{absorb, timer_of};
use armento_model::{HomePid, HomeTid};
use armento_tracee::sys::{SigInfo, siginfo_code};
use std::collections::BTreeMap;

/// Bounded: a signal that is dropped as a duplicate, or thrown away by SIG_IGN, leaves one behind.
const COOKIES_MAX: usize = 4096;
/// A negative si_code that nothing else uses, for those that an outsider may not queue.
const CODE: i32 = -7717;
/// Cookies begin here: above any errno.
const FIRST: i32 = 1 << 20;

#[derive(Default)]
pub struct SiginfoCookies {
    next: i32,
    kept: BTreeMap<i32, Kept>,
}

struct Kept {
    pid: HomePid,
    /// The thread whose queue it is in; none: the process's.
    to: Option<HomeTid>,
    info: SigInfo,
    /// Its timer was set anew or deleted: it is not delivered.
    void: bool,
}

/// The siginfo that a cookie stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Original {
    Info(SigInfo),
    /// KERNEL: timer_settime and timer_delete void a pending signal (posixtimer_deliver_signal, 6.13).
    Void,
}

fn word(info: &SigInfo, at: usize) -> i32 {
    i32::from_le_bytes(info[at..at + 4].try_into().unwrap_or_default())
}

impl Kept {
    fn signal(&self) -> i32 {
        word(&self.info, 0)
    }

    fn original(&self) -> Original {
        if self.void {
            Original::Void
        } else {
            Original::Info(self.info)
        }
    }

    fn is_of(&self, pid: HomePid, timer: i32) -> bool {
        self.pid == pid && !self.void && timer_of(&self.info) == Some(timer)
    }
}

impl SiginfoCookies {
    /// A copy that an outsider may queue.
    pub fn issue(&mut self, pid: HomePid, to: Option<HomeTid>, info: &SigInfo) -> SigInfo {
        if self.kept.len() >= COOKIES_MAX {
            let half = self.next.wrapping_sub(COOKIES_MAX as i32 / 2);
            self.kept.retain(|k, _| *k > half);
        }
        self.next = self.next.max(FIRST).wrapping_add(1).max(FIRST);
        let one = Kept {
            pid,
            to,
            info: *info,
            void: false,
        };
        self.kept.insert(self.next, one);
        let mut out = *info;
        out[4..8].copy_from_slice(&self.next.to_le_bytes());
        let code = siginfo_code(info);
        if code >= 0 || code == libc::SI_TKILL {
            out[8..12].copy_from_slice(&CODE.to_le_bytes());
        }
        out
    }

    /// Its original siginfo; `None` when it has no cookie. The signal stays pending.
    pub fn original(&self, info: &SigInfo) -> Option<Original> {
        let number = word(info, 4);
        if number < FIRST {
            return None;
        }
        let original = self.kept.get(&number).map(Kept::original);
        Some(original.unwrap_or_else(|| {
            // Its original was lost (bounded): it was a plain kill.
            let mut plain: SigInfo = [0; 128];
            plain[..4].copy_from_slice(&info[..4]);
            Original::Info(plain)
        }))
    }

    /// The thread that it is for, or none, whichever queue it is in by now. `None` when it has no cookie.
    pub fn directed(&self, info: &SigInfo) -> Option<Option<HomeTid>> {
        self.kept.get(&word(info, 4)).map(|v| v.to)
    }

    /// The same of a signal that was taken from its queue.
    pub fn take(&mut self, info: &SigInfo) -> Option<Original> {
        let original = self.original(info);
        let number = word(info, 4);
        if let Some(taken) = self.kept.remove(&number) {
            // KERNEL: signals of one number are taken in the order in which they were queued
            // (collect_signal): older ones were thrown away.
            let same =
                |v: &Kept| (v.pid, v.to, v.signal()) == (taken.pid, taken.to, taken.signal());
            self.kept.retain(|n, v| *n > number || !same(v));
        }
        original
    }

    /// A thread took a signal of this number without reading its siginfo.
    pub fn taken(&mut self, pid: HomePid, tid: HomeTid, signal: i32) -> Option<Original> {
        // Its own queue comes before the process's.
        let oldest = [Some(tid), None].into_iter().find_map(|to| {
            let mine = |v: &Kept| (v.pid, v.to, v.signal()) == (pid, to, signal);
            Some(*self.kept.iter().find(|(_, v)| mine(v))?.0)
        })?;
        self.kept.remove(&oldest).map(|v| v.original())
    }

    /// The queue in which the last signal of a timer was put, and its number.
    pub fn pending(&self, pid: HomePid, timer: i32) -> Option<(Option<HomeTid>, i32)> {
        let v = self.kept.values().rev().find(|v| v.is_of(pid, timer))?;
        Some((v.to, v.signal()))
    }

    /// Before: the signal that `pending` returned is still in its queue.
    pub fn absorb(&mut self, pid: HomePid, timer: i32, later: &SigInfo) {
        let all = self.kept.values_mut().rev();
        if let Some(v) = all.into_iter().find(|v| v.is_of(pid, timer)) {
            absorb(&mut v.info, later);
        }
    }

    /// A timer was set anew or deleted.
    pub fn void(&mut self, pid: HomePid, timer: i32) {
        let all = self.kept.values_mut();
        all.filter(|v| v.is_of(pid, timer))
            .for_each(|v| v.void = true);
    }

    /// A body is no more.
    pub fn forget(&mut self, pid: HomePid) {
        self.kept.retain(|_, v| v.pid != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_migrate::image::timers::overrun;

    const SIG: i32 = 40;
    const ONE: HomePid = HomePid::of_home(1);
    const TWO: HomePid = HomePid::of_home(2);
    const THREAD: HomeTid = HomeTid::of_home(3);

    fn signal(code: i32, who: i32, overrun: i32) -> SigInfo {
        let mut i: SigInfo = [0; 128];
        for (at, v) in [(0, SIG), (8, code), (16, who), (20, overrun)] {
            i[at..at + 4].copy_from_slice(&v.to_le_bytes());
        }
        i
    }

    fn timer(id: i32, n: i32) -> SigInfo {
        signal(libc::SI_TIMER, id, n)
    }

    #[test]
    fn a_signal_gets_its_original_siginfo_back_once() {
        let mut v = SiginfoCookies::default();
        let plain = signal(libc::SI_USER, 77, 0);
        let a = v.issue(ONE, None, &plain);
        assert_eq!((word(&a, 0), word(&a, 8)), (SIG, CODE));
        assert_eq!(v.original(&a), Some(Original::Info(plain)));
        assert_eq!(v.take(&a), Some(Original::Info(plain)));
        assert_ne!(v.take(&a), Some(Original::Info(plain)));
        assert_eq!(v.take(&plain), None);
    }

    #[test]
    fn a_pending_timer_signal_counts_later_expirations() {
        let mut v = SiginfoCookies::default();
        let first = v.issue(ONE, Some(THREAD), &timer(5, 2));
        assert_eq!(v.pending(ONE, 5), Some((Some(THREAD), SIG)));
        assert_eq!((v.pending(TWO, 5), v.pending(ONE, 6)), (None, None));
        v.absorb(ONE, 5, &timer(5, 1));
        v.absorb(ONE, 5, &timer(5, 0));
        assert_eq!(v.take(&first), Some(Original::Info(timer(5, 5))));
        assert_eq!(v.pending(ONE, 5), None);
    }

    #[test]
    fn a_timer_set_anew_voids_its_pending_signal() {
        let mut v = SiginfoCookies::default();
        let old = v.issue(ONE, None, &timer(5, 2));
        v.void(ONE, 5);
        assert_eq!(v.pending(ONE, 5), None);
        let new = v.issue(ONE, None, &timer(5, 0));
        assert_eq!(v.pending(ONE, 5), Some((None, SIG)));
        assert_eq!(v.take(&old), Some(Original::Void));
        assert_eq!(v.take(&new), Some(Original::Info(timer(5, 0))));
    }

    #[test]
    fn a_later_signal_of_a_queue_forgets_the_earlier_ones() {
        let mut v = SiginfoCookies::default();
        v.issue(ONE, None, &timer(5, 0));
        let other = v.issue(ONE, Some(THREAD), &timer(6, 0));
        let late = v.issue(ONE, None, &timer(7, 0));
        // The first was thrown away: a later one of its queue was taken.
        v.take(&late);
        assert_eq!(v.pending(ONE, 5), None);
        assert_eq!(v.pending(ONE, 6), Some((Some(THREAD), SIG)));
        v.issue(ONE, None, &timer(8, 4));
        assert_eq!(v.taken(ONE, THREAD, SIG), Some(Original::Info(timer(6, 0))));
        let shared = v.taken(ONE, THREAD, SIG);
        assert!(matches!(shared, Some(Original::Info(i)) if overrun(&i) == 4));
        assert_eq!(v.taken(ONE, THREAD, SIG), None);
        assert_eq!(v.take(&other), Some(Original::Info(plain(&other))));
    }

    fn plain(info: &SigInfo) -> SigInfo {
        let mut p: SigInfo = [0; 128];
        p[..4].copy_from_slice(&info[..4]);
        p
    }
}
