//! POSIX timers stay in home's kernel. Their pending signals travel, with the number of expirations for which each
//! stands.
//!
//! KERNEL: a timer has one signal (timer_getoverrun(2)). While it is pending, further expirations are its overruns,
//! counted when it is taken. A deputy takes it at once, so home's kernel counts no overruns and sends another signal:
//! the holder of the first adds it there.

use armento_model::Tid;
use armento_tracee::sys::{self, SigInfo};

/// Overruns of the last signal that each timer delivered, by the timer's number.
pub type Overruns = Vec<(i32, i32)>;

/// Offsets in siginfo_t.
const TIMER: usize = 16;
const OVERRUN: usize = 20;

fn word(info: &SigInfo, at: usize) -> i32 {
    i32::from_le_bytes(info[at..at + 4].try_into().unwrap_or_default())
}

/// The timer whose expiration this signal reports.
pub fn timer_of(info: &SigInfo) -> Option<i32> {
    (sys::siginfo_code(info) == libc::SI_TIMER).then(|| word(info, TIMER))
}

pub fn overrun(info: &SigInfo) -> i32 {
    word(info, OVERRUN)
}

pub fn set_overrun(info: &mut SigInfo, n: i32) {
    info[OVERRUN..OVERRUN + 4].copy_from_slice(&n.to_le_bytes());
}

/// `first` is still pending: it stands for the later signal of its timer, too.
pub fn absorb(first: &mut SigInfo, later: &SigInfo) {
    // KERNEL: DELAYTIMER_MAX is INT_MAX.
    let sum = overrun(first)
        .saturating_add(1)
        .saturating_add(overrun(later));
    set_overrun(first, sum);
}

/// Adds a signal to a list of pending ones.
pub fn hold(list: &mut Vec<(Option<Tid>, SigInfo)>, to: Option<Tid>, info: &SigInfo) {
    let timer = timer_of(info);
    let first = list
        .iter_mut()
        .find(|(_, i)| timer.is_some() && timer_of(i) == timer);
    match first {
        Some((_, first)) => absorb(first, info),
        None => list.push((to, *info)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(code: i32, timer: i32, overrun: i32) -> SigInfo {
        let mut i: SigInfo = [0; 128];
        for (at, v) in [
            (0, libc::SIGALRM),
            (8, code),
            (TIMER, timer),
            (OVERRUN, overrun),
        ] {
            i[at..at + 4].copy_from_slice(&v.to_le_bytes());
        }
        i
    }

    #[test]
    fn one_pending_signal_of_a_timer_counts_the_others() {
        let mut list = Vec::new();
        let timer = |id, n| signal(libc::SI_TIMER, id, n);
        for i in [
            timer(1, 0),
            timer(2, 4),
            timer(1, 0),
            signal(libc::SI_QUEUE, 1, 7),
            timer(1, 2),
            signal(libc::SI_QUEUE, 1, 7),
            timer(2, i32::MAX),
        ] {
            hold(&mut list, None, &i);
        }
        let seen: Vec<_> = list
            .iter()
            .map(|(_, i)| (timer_of(i), overrun(i)))
            .collect();
        let want = [(Some(1), 4), (Some(2), i32::MAX), (None, 7), (None, 7)];
        assert_eq!(seen, want);
    }
}
