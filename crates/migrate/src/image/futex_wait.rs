//! FUTEX_WAIT with a timeout, which is relative: its deadline is in the kernel's restart block, which cannot be read.
//! So the deadline is noted when the call begins and travels with the thread, and the call is issued again at the
//! target for the remaining time. Other futex waits have absolute timeouts. KERNEL: futex(2), kernel/futex/waitwake.c.

use super::ThreadState;
use super::restarts::ERESTART_RESTARTBLOCK;
use super::thread;
use armento_model::Tid;
use armento_tracee::sys;
use armento_tracee::trace::Regs;
use std::time::Duration;

/// KERNEL: linux/futex.h: the command without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
const COMMAND: u64 = 0x7f;
const WAIT: u64 = libc::FUTEX_WAIT as u64;

/// Whether these are the arguments of such a call.
pub fn is_timed(nr: i64, args: &[u64; 6]) -> bool {
    nr == libc::SYS_futex && args[1] & COMMAND == WAIT && args[3] != 0
}

/// Whether a thread with these registers was interrupted in such a call that it issued itself (and did not continue by
/// restart_syscall).
pub fn interrupted(r: &Regs) -> bool {
    r.rax as i64 == ERESTART_RESTARTBLOCK && is_timed(r.orig_rax as i64, &args(r))
}

/// Whether a thread with these registers is about to issue such a call from the beginning.
pub fn begins(r: &Regs) -> bool {
    (r.orig_rax as i64) < 0 && is_timed(r.rax as i64, &args(r))
}

/// As [`begins`], for a thread that travels.
pub fn travels(s: &ThreadState) -> bool {
    thread::from_words(&s.regs).is_some_and(|r| begins(&r))
}

/// The relative timeout of such a call of a thread.
pub fn asked(tid: Tid, at: u64) -> Option<Duration> {
    let mut spec = [0u8; 16];
    if sys::vm_read(tid, at, &mut spec).ok()? != spec.len() {
        return None;
    }
    let (sec, ns) = spec.split_at(8);
    let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).ok();
    Duration::from_secs(word(sec)?).checked_add(Duration::from_nanos(word(ns)?))
}

/// The bytes of a struct timespec.
pub fn spec(left: Duration) -> Vec<u8> {
    let words = [left.as_secs(), u64::from(left.subsec_nanos())];
    words.map(u64::to_le_bytes).concat()
}

/// Time from `now` to `until`, both in nanoseconds.
pub fn left(until: u64, now: u64) -> Duration {
    Duration::from_nanos(until.saturating_sub(now))
}

fn args(r: &Regs) -> [u64; 6] {
    [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_waits_are_timed() {
        let check = |command: i32, at, want| {
            assert_eq!(
                is_timed(libc::SYS_futex, &[1, command as u64, 0, at, 0, 0]),
                want
            );
        };
        check(libc::FUTEX_WAIT, 8, true);
        check(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 8, true);
        check(libc::FUTEX_WAIT, 0, false);
        check(libc::FUTEX_WAIT_BITSET, 8, false);
        assert!(!is_timed(libc::SYS_poll, &[1, 0, 0, 8, 0, 0]));
    }

    #[test]
    fn timeout_round_trips() {
        let time = Duration::new(3, 250);
        let written = spec(time);
        let me = std::process::id() as Tid;
        assert_eq!(asked(me, written.as_ptr() as u64), Some(time));
        assert_eq!(asked(me, 8), None);
        assert_eq!(left(5, 9), Duration::ZERO);
    }
}
