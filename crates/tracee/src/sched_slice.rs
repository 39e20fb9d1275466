//! Scheduler slices: short ones for threads that serve calls, ordinary ones for threads that copy.
//!
//! KERNEL: sched(7), sched_setattr(2); since 6.12 an ordinary thread's `sched_runtime` is its slice, at least 0.1 ms;
//! before, it is ignored. Every thread keeps its nice value and gets no larger share of the processor.

use crate::sys::{SCHED_ATTR, clock_ns, sched_attr, set_sched_attr, waits};
use std::cell::Cell;
use std::marker::PhantomData;
use std::thread::sleep;
use std::time::Duration;

/// The shortest slice that the kernel accepts.
const SHORT_NS: u64 = 100_000;
/// For a thread that wakes threads with the shortest slice: they run at once then, and it finds their work done.
const WAKING_NS: u64 = 200_000;
/// Offsets of the slice and the policy in struct sched_attr.
const SLICE: std::ops::Range<usize> = 24..32;
const POLICY: std::ops::Range<usize> = 4..8;

type Sched = [u8; SCHED_ATTR];

/// The attributes of a thread under the ordinary policy; a thread with another policy (chrt) keeps it.
fn ordinary(tid: i32) -> Option<Sched> {
    let attr = sched_attr(tid).ok()?;
    (attr[POLICY] == libc::SCHED_OTHER.to_ne_bytes()).then_some(attr)
}

/// If refused, nothing changes.
fn schedule(tid: i32, attr: &Sched) {
    let _ = set_sched_attr(tid, attr);
}

/// Threads that serve compute little and other threads wait for them: the calling thread, and those it will start,
/// request short slices, so that a computing neighbour is preempted at once instead of after its own slice.
pub fn short() {
    let _ = set(0, SHORT_NS);
}

/// The same for a thread that was started by a [`Patient`] thread: threads inherit the attributes of their creator.
pub fn short_again() {
    if let Ok(mut attr) = sched_attr(0)
        && attr[POLICY] == libc::SCHED_BATCH.to_ne_bytes()
    {
        attr[POLICY].copy_from_slice(&libc::SCHED_OTHER.to_ne_bytes());
        schedule(0, &attr);
    }
    short();
}

/// The same for a thread that gives way to the threads that it wakes (see [`shorten`]).
pub fn waking() {
    let _ = set(0, WAKING_NS);
}

/// Gives `tid` a short slice; returns the old one, for [`restore`]. `None`: it is unchanged.
pub fn shorten(tid: i32) -> Option<u64> {
    set(tid, SHORT_NS)
}

fn set(tid: i32, ns: u64) -> Option<u64> {
    let mut attr = ordinary(tid)?;
    let old = u64::from_ne_bytes(attr[SLICE].try_into().ok()?);
    attr[SLICE].copy_from_slice(&ns.to_ne_bytes());
    set_sched_attr(tid, &attr).ok().map(|()| old)
}

/// Gives `tid` the slice `old` again, unless its slice was changed in the meantime. It may have another policy by now
/// (sched_setscheduler(2)): the time-sharing ones keep the slice, the others have none.
pub fn restore(tid: i32, old: u64) {
    let turns = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
    if let Ok(mut attr) = sched_attr(tid)
        && turns.iter().any(|p| attr[POLICY] == p.to_ne_bytes())
        && attr[SLICE] == SHORT_NS.to_ne_bytes()
    {
        attr[SLICE].copy_from_slice(&old.to_ne_bytes());
        schedule(tid, &attr);
    }
}

/// The calling thread computes for long stretches, while a program waits for the processor.
pub struct Stretch {
    /// Processor time of this thread when the stretch began, nanoseconds, and its number of voluntary context switches
    /// then.
    begun: Cell<(u64, i64)>,
    _here: PhantomData<*const ()>,
}

/// Longest stretch, nanoseconds of processor time. The kernel reschedules at each tick (4 ms at HZ=250), and after a
/// sleep it picks this thread two or three times in a row (seen: 8 and 12 ms): that would be the program's longest gap.
const STRETCH_MAX_NS: u64 = 2_000_000;
/// Yielding would not help: the program is not eligible as long as it has had more than its share. A sleeping thread
/// cannot be picked. The kernel extends this sleep to some 60 us (timer slack), a thirtieth of a stretch.
const BREATH: Duration = Duration::from_nanos(1);

impl Stretch {
    pub fn begin() -> Stretch {
        Stretch {
            begun: Cell::new(Stretch::now()),
            _here: PhantomData,
        }
    }

    fn now() -> (u64, i64) {
        (
            clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0),
            waits(),
        )
    }

    /// Called between two blocks: sleeps briefly after a long stretch.
    pub fn breathe(&self) {
        let (begun, waited) = self.begun.get();
        let now = Stretch::now();
        if now.1 != waited {
            self.begun.set(now);
        } else if now.0.saturating_sub(begun) > STRETCH_MAX_NS {
            sleep(BREATH);
            self.begun.set(Stretch::now());
        }
    }
}

/// The calling thread copies a lot and no thread waits for it: until this is dropped it preempts no other thread.
/// KERNEL: sched(7), SCHED_BATCH: its wake-ups preempt nothing.
pub struct Patient {
    before: Option<Sched>,
    stretch: Stretch,
}

impl Patient {
    pub fn begin() -> Patient {
        let before = ordinary(0);
        if let Some(mut attr) = before {
            attr[POLICY].copy_from_slice(&libc::SCHED_BATCH.to_ne_bytes());
            attr[SLICE].fill(0); // the kernel's own slice
            schedule(0, &attr);
        }
        Patient {
            before,
            stretch: Stretch::begin(),
        }
    }

    /// As [`Stretch::breathe`].
    pub fn breathe(&self) {
        self.stretch.breathe();
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            schedule(0, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_shortened_and_restored() {
        // A thread of its own: the harness keeps its slice.
        let slices = std::thread::spawn(|| {
            let slice = || ordinary(0).map(|a| a[SLICE].to_vec());
            let before = slice();
            let old = shorten(0);
            let short = slice();
            if let Some(mut attr) = ordinary(0) {
                attr[POLICY].copy_from_slice(&libc::SCHED_BATCH.to_ne_bytes());
                schedule(0, &attr);
            }
            if let Some(old) = old {
                restore(0, old);
            }
            let after = sched_attr(0).ok().map(|a| a[SLICE].to_vec());
            (before, short, after)
        });
        let (before, short, after) = slices.join().expect("it ends");
        assert_eq!(before, after);
        // Before Linux 6.12 slices are not reported.
        if before != Some(vec![0; 8]) {
            assert_eq!(short, Some(SHORT_NS.to_ne_bytes().to_vec()));
        }
    }
}
