//! Who gives way to whom on a processor: slices of threads that serve, and of those that copy.
//!
//! KERNEL: sched(7), sched_setattr(2); since 6.12 an ordinary thread's `sched_runtime` is its slice, at least
//! 0.1 ms; before, it is not looked at. Everybody keeps his nice value and gets no more of the processor.

use crate::sys::{SCHED_ATTR, clock_ns, sched_attr, set_sched_attr, waits};
use std::cell::Cell;
use std::marker::PhantomData;
use std::thread::sleep;
use std::time::Duration;

/// The shortest slice that the kernel takes.
const SHORT_NS: u64 = 100_000;
/// Of who wakes those with the shortest: they run at once then, and he finds their work done.
const WAKING_NS: u64 = 200_000;
/// Where struct sched_attr has the slice.
const SLICE: std::ops::Range<usize> = 24..32;
const POLICY: std::ops::Range<usize> = 4..8;

type Sched = [u8; SCHED_ATTR];

/// How a thread is scheduled, if as an ordinary one: who was given a policy (chrt) keeps it.
fn ordinary(tid: i32) -> Option<Sched> {
    let attr = sched_attr(tid).ok()?;
    (attr[POLICY] == libc::SCHED_OTHER.to_ne_bytes()).then_some(attr)
}

/// Refusal changes nothing.
fn schedule(tid: i32, attr: &Sched) {
    let _ = set_sched_attr(tid, attr);
}

/// Who serves others computes little and many wait for it: the calling thread, and those it will start,
/// ask for short slices, so that a computing neighbour gives way at once instead of after its own slice.
pub fn short() {
    let _ = set(0, SHORT_NS);
}

/// The same for a thread that one started which is [`Patient`]: threads begin as their maker is.
pub fn short_again() {
    if let Ok(mut attr) = sched_attr(0)
        && attr[POLICY] == libc::SCHED_BATCH.to_ne_bytes()
    {
        attr[POLICY].copy_from_slice(&libc::SCHED_OTHER.to_ne_bytes());
        schedule(0, &attr);
    }
    short();
}

/// The same for one who gives way to those whom he wakes (see [`shorten`]).
pub fn waking() {
    let _ = set(0, WAKING_NS);
}

/// Gives `tid` a short slice; what it had, for [`restore`]. `None`: it stays as it is.
pub fn shorten(tid: i32) -> Option<u64> {
    set(tid, SHORT_NS)
}

fn set(tid: i32, ns: u64) -> Option<u64> {
    let mut attr = ordinary(tid)?;
    let old = u64::from_ne_bytes(attr[SLICE].try_into().ok()?);
    attr[SLICE].copy_from_slice(&ns.to_ne_bytes());
    set_sched_attr(tid, &attr).ok().map(|()| old)
}

/// `tid` has the slice `old` again, unless somebody gave it another meanwhile. It may have another policy by now
/// (sched_setscheduler(2)): those that take turns keep the slice, the others have none.
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

/// The calling thread works a lot at a stretch, and a program that computes waits for its processor meanwhile.
pub struct Stretch {
    /// Nanoseconds of processor this thread had when the stretch began, and how often it had waited by then.
    begun: Cell<(u64, i64)>,
    _here: PhantomData<*const ()>,
}

/// Longest time at a stretch, of the processor, nanoseconds. The kernel looks at each tick (4 ms at HZ=250) whose turn it is, and
/// after a sleep it is ours two or three times in a row (seen: 8 and 12 ms): that would be the longest gap of the program.
const STRETCH_MAX_NS: u64 = 2_000_000;
/// To yield would not do: the program is not eligible as long as it has had more than its share. Whoever sleeps is none to
/// choose. The kernel makes it some 60 us (timer slack), a thirtieth of a stretch.
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

    /// Called between two blocks: gives way after a long stretch.
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

/// The calling thread copies a lot and nobody waits for it: until the end of this it takes its turn and
/// never somebody else's. KERNEL: sched(7), SCHED_BATCH: its wake-ups preempt nobody.
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
            // As the thread itself may.
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
        // Before Linux 6.12 slices are not told.
        if before != Some(vec![0; 8]) {
            assert_eq!(short, Some(SHORT_NS.to_ne_bytes().to_vec()));
        }
    }
}
