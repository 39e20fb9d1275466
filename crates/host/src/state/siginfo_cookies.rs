//! Signals from home that wait at a body.
//!
//! A signal cannot be queued with its own siginfo: the kernel wipes the sender's pid when it comes from an
//! outer pid namespace, and lets nobody else say what only the kernel says. So it travels under a number in
//! si_errno and gets its face back when it is taken. Until then what it says may still change: a timer's
//! waiting signal counts the expirations that follow (see `migrate/src/image/timers.rs`).

use armento_migrate::image::timers::{absorb, timer_of};
use armento_model::{Pid, Tid};
use armento_tracee::sys::{SigInfo, siginfo_code};
use std::collections::BTreeMap;

/// Bounded: a signal that is dropped as a duplicate, or thrown away by SIG_IGN, leaves one behind.
const VEILS_MAX: usize = 4096;
/// A negative si_code that nothing else uses, for those that an outsider may not say.
const VEIL: i32 = -7717;
/// Numbers begin here: above any errno.
const FIRST: i32 = 1 << 20;

#[derive(Default)]
pub struct Veils {
    next: i32,
    kept: BTreeMap<i32, Veiled>,
}

struct Veiled {
    pid: Pid,
    /// The thread whose queue it is in; none: the process's.
    to: Option<Tid>,
    info: SigInfo,
    /// Its timer was set anew or deleted: nobody gets it.
    void: bool,
}

/// What is behind a veil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    Real(SigInfo),
    /// KERNEL: timer_settime and timer_delete void a signal that waits (posixtimer_deliver_signal, 6.13).
    Void,
}

fn word(info: &SigInfo, at: usize) -> i32 {
    i32::from_le_bytes(info[at..at + 4].try_into().unwrap_or_default())
}

impl Veiled {
    fn signal(&self) -> i32 {
        word(&self.info, 0)
    }

    fn face(&self) -> Face {
        if self.void {
            Face::Void
        } else {
            Face::Real(self.info)
        }
    }

    fn tells(&self, pid: Pid, timer: i32) -> bool {
        self.pid == pid && !self.void && timer_of(&self.info) == Some(timer)
    }
}

impl Veils {
    /// A copy that an outsider may queue.
    pub fn veil(&mut self, pid: Pid, to: Option<Tid>, info: &SigInfo) -> SigInfo {
        if self.kept.len() >= VEILS_MAX {
            let half = self.next.wrapping_sub(VEILS_MAX as i32 / 2);
            self.kept.retain(|k, _| *k > half);
        }
        self.next = self.next.max(FIRST).wrapping_add(1).max(FIRST);
        let veiled = Veiled {
            pid,
            to,
            info: *info,
            void: false,
        };
        self.kept.insert(self.next, veiled);
        let mut out = *info;
        out[4..8].copy_from_slice(&self.next.to_le_bytes());
        let code = siginfo_code(info);
        if code >= 0 || code == libc::SI_TKILL {
            out[8..12].copy_from_slice(&VEIL.to_le_bytes());
        }
        out
    }

    /// What it really is; `None` when it was not veiled. It waits on.
    pub fn peek(&self, info: &SigInfo) -> Option<Face> {
        let number = word(info, 4);
        if number < FIRST {
            return None;
        }
        let face = self.kept.get(&number).map(Veiled::face);
        Some(face.unwrap_or_else(|| {
            // Its face was lost (bounded): it was a plain kill.
            let mut plain: SigInfo = [0; 128];
            plain[..4].copy_from_slice(&info[..4]);
            Face::Real(plain)
        }))
    }

    /// The thread that it is for, or none, whichever queue it is in by now. `None` when it was not veiled.
    pub fn directed(&self, info: &SigInfo) -> Option<Option<Tid>> {
        self.kept.get(&word(info, 4)).map(|v| v.to)
    }

    /// … and it was taken from its queue.
    pub fn lift(&mut self, info: &SigInfo) -> Option<Face> {
        let face = self.peek(info);
        let number = word(info, 4);
        if let Some(taken) = self.kept.remove(&number) {
            // KERNEL: signals of one number are taken in the order in which they were queued
            // (collect_signal): older ones were thrown away.
            let same =
                |v: &Veiled| (v.pid, v.to, v.signal()) == (taken.pid, taken.to, taken.signal());
            self.kept.retain(|n, v| *n > number || !same(v));
        }
        face
    }

    /// A thread took a signal of this number without asking what it says.
    pub fn taken(&mut self, pid: Pid, tid: Tid, signal: i32) -> Option<Face> {
        // Its own queue comes before the process's.
        let oldest = [Some(tid), None].into_iter().find_map(|to| {
            let mine = |v: &Veiled| (v.pid, v.to, v.signal()) == (pid, to, signal);
            Some(*self.kept.iter().find(|(_, v)| mine(v))?.0)
        })?;
        self.kept.remove(&oldest).map(|v| v.face())
    }

    /// The queue in which the last signal of a timer was put, and its number.
    pub fn waits(&self, pid: Pid, timer: i32) -> Option<(Option<Tid>, i32)> {
        let v = self.kept.values().rev().find(|v| v.tells(pid, timer))?;
        Some((v.to, v.signal()))
    }

    /// Before: the signal that `waits` told of is still in its queue.
    pub fn absorb(&mut self, pid: Pid, timer: i32, later: &SigInfo) {
        let all = self.kept.values_mut().rev();
        if let Some(v) = all.into_iter().find(|v| v.tells(pid, timer)) {
            absorb(&mut v.info, later);
        }
    }

    /// A timer was set anew or deleted.
    pub fn void(&mut self, pid: Pid, timer: i32) {
        let all = self.kept.values_mut();
        all.filter(|v| v.tells(pid, timer))
            .for_each(|v| v.void = true);
    }

    /// A body is no more.
    pub fn forget(&mut self, pid: Pid) {
        self.kept.retain(|_, v| v.pid != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_migrate::image::timers::overrun;

    const SIG: i32 = 40;

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
    fn a_signal_gets_its_face_back_once() {
        let mut v = Veils::default();
        let plain = signal(libc::SI_USER, 77, 0);
        let a = v.veil(1, None, &plain);
        assert_eq!((word(&a, 0), word(&a, 8)), (SIG, VEIL));
        assert_eq!(v.peek(&a), Some(Face::Real(plain)));
        assert_eq!(v.lift(&a), Some(Face::Real(plain)));
        assert_ne!(v.lift(&a), Some(Face::Real(plain)));
        assert_eq!(v.lift(&plain), None);
    }

    #[test]
    fn a_waiting_timer_counts_what_follows_until_it_is_taken() {
        let mut v = Veils::default();
        let first = v.veil(1, Some(3), &timer(5, 2));
        assert_eq!(v.waits(1, 5), Some((Some(3), SIG)));
        assert_eq!((v.waits(2, 5), v.waits(1, 6)), (None, None));
        v.absorb(1, 5, &timer(5, 1));
        v.absorb(1, 5, &timer(5, 0));
        assert_eq!(v.lift(&first), Some(Face::Real(timer(5, 5))));
        assert_eq!(v.waits(1, 5), None);
    }

    #[test]
    fn a_timer_set_anew_voids_its_waiting_signal() {
        let mut v = Veils::default();
        let old = v.veil(1, None, &timer(5, 2));
        v.void(1, 5);
        assert_eq!(v.waits(1, 5), None);
        let new = v.veil(1, None, &timer(5, 0));
        assert_eq!(v.waits(1, 5), Some((None, SIG)));
        assert_eq!(v.lift(&old), Some(Face::Void));
        assert_eq!(v.lift(&new), Some(Face::Real(timer(5, 0))));
    }

    #[test]
    fn the_order_of_a_queue_tells_what_is_gone() {
        let mut v = Veils::default();
        v.veil(1, None, &timer(5, 0));
        let other = v.veil(1, Some(3), &timer(6, 0));
        let late = v.veil(1, None, &timer(7, 0));
        // The first was thrown away: a later one of its queue was taken.
        v.lift(&late);
        assert_eq!(v.waits(1, 5), None);
        assert_eq!(v.waits(1, 6), Some((Some(3), SIG)));
        v.veil(1, None, &timer(8, 4));
        assert_eq!(v.taken(1, 3, SIG), Some(Face::Real(timer(6, 0))));
        let shared = v.taken(1, 3, SIG);
        assert!(matches!(shared, Some(Face::Real(i)) if overrun(&i) == 4));
        assert_eq!(v.taken(1, 3, SIG), None);
        assert_eq!(v.lift(&other), Some(Face::Real(plain(&other))));
    }

    fn plain(info: &SigInfo) -> SigInfo {
        let mut p: SigInfo = [0; 128];
        p[..4].copy_from_slice(&info[..4]);
        p
    }
}
