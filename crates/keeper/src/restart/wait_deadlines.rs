//! Waits whose time would begin anew: what was left of it when their thread came home is noted.
//!
//! The kernel ends epoll_wait with EINTR at any stop and does not tell how long it had waited. Away, the deputy knows
//! (`keeper/src/deputy/thread.rs`); at home, how long its thread has slept (`tracee/src/sleep_time.rs`). The call is issued
//! again with what is left in its register, and by that value the next departure knows it. epoll_pwait2, whose timeout
//! lies in memory, goes on as epoll_pwait, which differs in nothing else (epoll_wait(2)).

use armento_migrate::image::futex_wait;
use armento_migrate::image::restarts;
use armento_migrate::stop_threads::InCall;
use armento_model::Tid;
use armento_tracee::sleep_time::Last;
use armento_tracee::sys;
use armento_tracee::trace::{self, Regs};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A call that is late by more than this is not the one that was noted: its kernel would have ended it.
const LATE_MAX: Duration = Duration::from_millis(5);
/// What such a call counts in.
const UNIT: Duration = Duration::from_millis(1);
const NS: u32 = 1_000_000_000;

/// A wait that goes on at home.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Wait {
    #[serde(with = "crate::instants")]
    until: Instant,
    /// What its register was set to.
    millis: u64,
}

/// A thread that was found in such a call, about to be stopped.
pub struct Asleep {
    pub call: InCall,
    pub last: Last,
}

/// Those of `all` whose time would begin anew.
pub fn timed_sleepers(all: &[InCall]) -> Vec<Asleep> {
    let timed = all.iter().filter(|c| {
        is_timed(c.nr, c.args[3])
            || with_spec(c.nr, c.args[3])
            || futex_wait::is_timed(c.nr, &c.args)
    });
    timed
        .filter_map(|call| {
            let last = Last::of(call.tid)?;
            Some(Asleep { call: *call, last })
        })
        .collect()
}

/// By the number of the thread. Bounded by what waits: the rest is forgotten with every new one.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct WaitDeadlines(HashMap<Tid, Wait>);

impl WaitDeadlines {
    /// On the way home, with the registers of an interrupted call: it waits only until `deadline`.
    pub fn home(&mut self, tid: Tid, regs: &mut Regs, deadline: Option<Instant>) {
        let now = Instant::now();
        self.0.retain(|_, wait| wait.until + LATE_MAX > now);
        self.0.remove(&tid);
        let Some(until) = deadline else { return };
        let millis = left(until, now);
        let shorter = match millis_of(regs) {
            // As long as the program asked for: the next wait of that length could not be told from this one.
            Some(asked) => millis < asked,
            None => with_spec(number(regs) as i64, regs.r10) && millis <= i32::MAX as u64,
        };
        if shorter {
            in_register(regs);
            regs.r10 = millis;
            self.0.insert(tid, Wait { until, millis });
        }
    }

    /// It has been stopped, and whatever becomes of it waits only for what is left. Where it cannot be told how long it had
    /// slept (another processor woke it), it waits anew.
    pub fn woken(&mut self, a: &Asleep) {
        let (tid, now) = (a.call.tid, Instant::now());
        let slept = Last::of(tid).and_then(|last| a.last.until(last));
        let (Some(slept), Ok(mut regs)) = (slept, trace::regs(tid)) else {
            return;
        };
        let same = restarts::interrupted(&regs)
            && regs.orig_rax as i64 == a.call.nr
            && trace::args(&regs) == a.call.args;
        let Some(asked) = asked(tid, &regs).filter(|_| same && slept >= UNIT) else {
            return;
        };
        let until = now.checked_add(asked).and_then(|t| t.checked_sub(slept));
        self.home(tid, &mut regs, until);
        // One that died meanwhile needs nothing.
        let _ = trace::set_regs(tid, &regs);
    }

    /// On the way out, with the registers of an interrupted call: if it is still that wait, the body waits
    /// only for what is left. Returns whether it is.
    pub fn leaves(&self, tid: Tid, regs: &mut Regs) -> bool {
        let now = Instant::now();
        let known = self.0.get(&tid).filter(|w| w.until + LATE_MAX > now);
        let Some(wait) = known.filter(|w| millis_of(regs) == Some(w.millis)) else {
            return false;
        };
        regs.r10 = left(wait.until, now).min(wait.millis);
        true
    }
}

/// The kernel writes down what is left of these at a stop; meanwhile its thread has travelled. Before: its memory is here.
pub fn write_time_left(tid: Tid, regs: &Regs, deadline: Option<Instant>) {
    let (addr, unit_ns) = match number(regs) as i64 {
        libc::SYS_ppoll => (regs.rdx, 1),
        libc::SYS_pselect6 => (regs.r8, 1),
        libc::SYS_select => (regs.r8, 1000),
        _ => return,
    };
    let Some(until) = deadline.filter(|_| addr != 0) else {
        return;
    };
    let left = until.saturating_duration_since(Instant::now());
    let (mut sec, mut units) = (left.as_secs(), left.subsec_nanos().div_ceil(unit_ns));
    if units == NS / unit_ns {
        (sec, units) = (sec + 1, 0);
    }
    let words = [sec, units.into()].map(u64::to_le_bytes).concat();
    // Where the program cannot write the kernel leaves it, too.
    let _ = sys::vm_write(tid, addr, &words);
}

/// Of the call that is issued again.
fn number(regs: &Regs) -> u64 {
    if restarts::interrupted(regs) {
        regs.orig_rax
    } else {
        regs.rax // turned back to its syscall instruction
    }
}

/// The timeout of an interrupted call, if it is in a register and would be waited for from its beginning.
fn millis_of(regs: &Regs) -> Option<u64> {
    is_timed(number(regs) as i64, regs.r10).then_some(u64::from(regs.r10 as u32))
}

/// The same, or one that lies in memory.
fn asked(tid: Tid, regs: &Regs) -> Option<Duration> {
    match millis_of(regs) {
        Some(millis) => Some(Duration::from_millis(millis)),
        None if with_spec(number(regs) as i64, regs.r10) => futex_wait::asked(tid, regs.r10),
        None => None,
    }
}

/// Its timeout lies in memory.
fn with_spec(nr: i64, fourth: u64) -> bool {
    nr == libc::SYS_epoll_pwait2 && fourth != 0
}

/// The call is issued again with its timeout in a register.
fn in_register(regs: &mut Regs) {
    let nr = if restarts::interrupted(regs) {
        &mut regs.orig_rax
    } else {
        &mut regs.rax
    };
    if *nr as i64 == libc::SYS_epoll_pwait2 {
        *nr = libc::SYS_epoll_pwait as u64;
    }
}

fn is_timed(nr: i64, fourth: u64) -> bool {
    matches!(nr, libc::SYS_epoll_wait | libc::SYS_epoll_pwait) && fourth as i32 > 0
}

fn left(until: Instant, now: Instant) -> u64 {
    let left = until.saturating_duration_since(now);
    left.as_nanos().div_ceil(1_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_migrate::image::thread;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn regs(rax: i64, orig_rax: i64, r10: u64) -> Regs {
        let mut regs = thread::from_words(&[0; 27]).expect("registers");
        (regs.rax, regs.orig_rax, regs.r10) = (rax as u64, orig_rax as u64, r10);
        regs
    }

    #[test]
    fn remaining_time_travels_home_and_out_again() {
        let nr = libc::SYS_epoll_wait;
        let mut waits = WaitDeadlines::default();
        let mut home = regs(-514, nr, 1000);
        waits.home(
            7,
            &mut home,
            Some(Instant::now() + Duration::from_millis(400)),
        );
        assert!((1..=400).contains(&home.r10), "{}", home.r10);

        let mut out = regs(nr, nr, home.r10);
        assert!(waits.leaves(7, &mut out));
        assert!((1..=home.r10).contains(&out.r10), "{}", out.r10);

        // Another wait of the same thread, and the same of another thread.
        assert!(!waits.leaves(7, &mut regs(nr, nr, 1000)));
        assert!(!waits.leaves(8, &mut regs(nr, nr, home.r10)));
    }

    #[test]
    fn a_timeout_in_memory_goes_on_in_a_register() {
        let mut waits = WaitDeadlines::default();
        let soon = Some(Instant::now() + Duration::from_millis(400));
        let mut home = regs(-514, libc::SYS_epoll_pwait2, 0x7000);
        waits.home(7, &mut home, soon);
        assert_eq!(home.orig_rax, libc::SYS_epoll_pwait as u64);
        assert!((1..=400).contains(&home.r10), "{}", home.r10);
        assert!(waits.leaves(7, &mut home));

        // For ever.
        let mut home = regs(-514, libc::SYS_epoll_pwait2, 0);
        waits.home(8, &mut home, soon);
        assert_eq!(home.orig_rax, libc::SYS_epoll_pwait2 as u64);
    }

    #[test]
    fn remaining_time_is_written_where_the_kernel_writes_it() {
        let me = std::process::id() as Tid;
        for (nr, unit) in [
            (libc::SYS_ppoll, 1_000_000_000),
            (libc::SYS_select, 1_000_000),
        ] {
            let written = [AtomicU64::new(9000), AtomicU64::new(0)];
            let at = written.as_ptr() as u64;
            let mut r = regs(-514, nr, 0);
            (r.rdx, r.r8) = (at, at);
            write_time_left(me, &r, Some(Instant::now() + Duration::from_millis(2400)));
            let written = written.map(|t| t.load(Ordering::Relaxed));
            assert!(written[0] <= 2 && written[1] < unit, "{written:?}");
        }
    }

    #[test]
    fn other_calls_and_endless_waits_are_unchanged() {
        let soon = Some(Instant::now() + Duration::from_millis(400));
        for (nr, r10) in [
            (libc::SYS_epoll_wait, u64::MAX),
            (libc::SYS_epoll_wait, 0),
            (libc::SYS_poll, 1000),
        ] {
            let mut waits = WaitDeadlines::default();
            let mut r = regs(-514, nr, r10);
            waits.home(7, &mut r, soon);
            assert_eq!(r.r10, r10);
            assert!(!waits.leaves(7, &mut r));
        }
    }
}
