//! A process comes home with signals of its timers: home's kernel is given back what it would remember.
//!
//! The kernel keeps one signal a timer, and counts while it waits. A timer cannot be told to wait, but it can
//! be set to the moment in the past at which it expired first: it then expires at once, and the kernel counts
//! from there, in the timer's own rhythm.

use armento_migrate::Result;
use armento_migrate::image::timers::{Overruns, hold, overrun, set_overrun, timer_of};
use armento_model::{Pid, Tid};
use armento_tracee::call::bit;
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::region::Code;
use armento_tracee::sys::SigInfo;
use armento_tracee::timers::{self, Timer};
use armento_tracee::trace;
use std::sync::Arc;

const NS: i128 = 1_000_000_000;
/// Places in the scratch area.
const SPEC: u64 = 0xb000;
const CLOCK: u64 = 0xb040;
const SET: u64 = 0xb080;
const INFO: u64 = 0xb100;
const WAIT: u64 = 0xb200;
/// A timer set to the past expires in microseconds.
const EXPIRES_NS: i128 = 100_000_000;
/// How often a timer may expire while we look at it: one that is faster loses count by this much.
const LOOKS: u32 = 8;

/// Signals taken from the kernel's queue at a time: a timer may expire as fast as we take. Others wait on.
const TAKEN_MAX: u32 = 1024;

type Signals = Vec<(Option<Tid>, SigInfo)>;

/// What timer_getoverrun returns for each timer. Before: the leader is held.
pub fn read_overruns(h: &mut Hold, code: &Code, pid: Pid) -> Result<Overruns> {
    let all = timers::list(pid);
    let ask = |t: &Timer| (libc::SYS_timer_getoverrun, [t.id as u64, 0, 0, 0, 0, 0]);
    let calls: Vec<_> = all.iter().map(ask).collect();
    let said = h.batch(code, &calls)?;
    let known = all.iter().zip(said).filter(|(_, n)| *n > 0);
    Ok(known.map(|(t, n)| (t.id, n as i32)).collect())
}

/// Whether a signal of a timer waits behind one that was taken and whose overruns the program may still ask for. Here
/// the kernel would have forgotten them.
pub fn may_ask_overruns<'a>(
    overruns: &Overruns,
    waiting: impl Iterator<Item = &'a (Option<Tid>, SigInfo)>,
) -> bool {
    let mut waiting = waiting.filter_map(|(_, i)| timer_of(i));
    waiting.any(|timer| overruns.iter().any(|(t, n)| *t == timer && *n > 0))
}

/// Takes the signals of timers that wait in the kernel. Before: every thread is halted, no signal of the
/// program has been queued yet.
pub fn drain_timers(pid: Pid, code: &Code, signals: &mut Signals) -> Result<()> {
    for t in timers::list(pid) {
        let mut h = Hold::take(t.thread.unwrap_or(pid), Arc::new(Unfiltered))?;
        One::new(&mut h, code, &t).drain(signals)?;
    }
    Ok(())
}

/// Before: every thread is halted, no signal of the program has been queued yet. After: the signals of
/// periodic timers wait in the kernel, as they would; the others are left to the caller.
pub fn restore_timers(
    pid: Pid,
    code: &Code,
    signals: &mut Signals,
    overruns: &Overruns,
) -> Result<()> {
    for t in timers::list(pid) {
        let mut h = Hold::take(t.thread.unwrap_or(pid), Arc::new(Unfiltered))?;
        let last = overruns.iter().find(|o| o.0 == t.id).map_or(0, |o| o.1);
        let mut one = One::new(&mut h, code, &t);
        if one.mine(signals).next().is_some() {
            one.waits(signals)?;
        } else {
            one.took(signals, last)?;
        }
    }
    Ok(())
}

/// One timer, and the thread that its signal goes to.
struct One<'a> {
    h: &'a mut Hold,
    code: &'a Code,
    t: &'a Timer,
}

/// When a periodic timer expires next, by its clock, and how often, nanoseconds.
#[derive(Clone, Copy)]
struct Rhythm {
    next: i128,
    every: i128,
}

impl<'a> One<'a> {
    fn new(h: &'a mut Hold, code: &'a Code, t: &'a Timer) -> Self {
        One { h, code, t }
    }

    fn mine<'s>(&self, signals: &'s Signals) -> impl Iterator<Item = &'s SigInfo> + use<'s> {
        let id = self.t.id;
        let all = signals.iter().map(|(_, i)| i);
        all.filter(move |i| timer_of(i) == Some(id))
    }

    /// Its signal waited at the body: it waits here, since the same moment.
    fn waits(&mut self, signals: &mut Signals) -> Result<()> {
        let mut rhythm = None;
        for _ in 0..LOOKS {
            // What it has sent here since the deputies were stopped is counted first.
            self.drain(signals)?;
            rhythm = self.rhythm()?;
            if !self.sent()? {
                break;
            }
        }
        let Some(r) = rhythm else {
            // It expires no more: its signal is one like others.
            return Ok(());
        };
        let count: i128 = self.mine(signals).map(|i| 1 + i128::from(overrun(i))).sum();
        signals.retain(|(_, i)| timer_of(i) != Some(self.t.id));
        // timer_getoverrun says 0 until it is taken: the kernel forgets that when a timer is set.
        self.set(r, r.next - count * r.every)
    }

    /// Its last signal was taken at the body, with `last` overruns: timer_getoverrun will say so.
    fn took(&mut self, signals: &mut Signals, last: i32) -> Result<()> {
        let id = self.t.id as u64;
        let said = self.call(libc::SYS_timer_getoverrun, [id, 0, 0, 0, 0, 0])?;
        if said == i64::from(last) {
            return Ok(());
        }
        self.drain(signals)?;
        let Some(r) = self.rhythm()? else {
            return Ok(());
        };
        self.set(r, r.next - (1 + i128::from(last)) * r.every)?;
        if let Some(mut info) = self.expired(signals)?
            && overrun(&info) > last
        {
            // It expired just now.
            let more = overrun(&info) - last;
            set_overrun(&mut info, more - 1);
            hold(signals, self.t.thread, &info);
        }
        if self.mine(signals).next().is_some() {
            return self.waits(signals);
        }
        Ok(())
    }

    /// The signal of a timer that expires now.
    fn expired(&mut self, signals: &mut Signals) -> Result<Option<SigInfo>> {
        for _ in 0..TAKEN_MAX {
            match self.take(EXPIRES_NS)? {
                Some(info) if timer_of(&info) != Some(self.t.id) => {
                    signals.push((self.t.thread, info));
                }
                mine => return Ok(mine),
            }
        }
        Ok(None)
    }

    fn call(&mut self, nr: i64, args: [u64; 6]) -> Result<i64> {
        Ok(self.h.call(self.code, nr, args)?.0)
    }

    /// `None`: it is not armed, or expires once.
    fn rhythm(&mut self) -> Result<Option<Rhythm>> {
        let spec = self.code.scratch(SPEC, &[0u8; 32]);
        let clock = self.code.scratch(CLOCK, &[0u8; 16]);
        let calls = [
            (
                libc::SYS_timer_gettime,
                [self.t.id as u64, spec, 0, 0, 0, 0],
            ),
            (
                libc::SYS_clock_gettime,
                [self.t.clock as u64, clock, 0, 0, 0, 0],
            ),
        ];
        let done = self.h.batch(self.code, &calls)?;
        let mut b = [0u8; 32];
        self.code.read_scratch(SPEC, &mut b);
        let (every, left) = (nanoseconds(&b[..16]), nanoseconds(&b[16..]));
        self.code.read_scratch(CLOCK, &mut b[..16]);
        // The clock was read last: never too early, late by the time between.
        let next = nanoseconds(&b[..16]) + left;
        let periodic = done == [0, 0] && every > 0 && left > 0;
        Ok(periodic.then_some(Rhythm { next, every }))
    }

    fn set(&mut self, r: Rhythm, first: i128) -> Result<()> {
        let mut b = spec(r.every);
        b.extend(spec(first.max(1)));
        let at = self.code.scratch(SPEC, &b);
        let args = [self.t.id as u64, libc::TIMER_ABSTIME as u64, at, 0, 0, 0];
        self.call(libc::SYS_timer_settime, args)?;
        Ok(())
    }

    /// Whether its signal waits in the kernel.
    fn sent(&self) -> Result<bool> {
        let all = trace::pending(self.h.tid, self.t.thread.is_none())?;
        Ok(all.iter().any(|i| timer_of(i) == Some(self.t.id)))
    }

    /// Takes every waiting signal of its number.
    fn drain(&mut self, signals: &mut Signals) -> Result<()> {
        for _ in 0..TAKEN_MAX {
            match self.take(0)? {
                Some(info) => hold(signals, self.t.thread, &info),
                None => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, wait_ns: i128) -> Result<Option<SigInfo>> {
        let set = self.code.scratch(SET, &bit(self.t.signal).to_le_bytes());
        let at = self.code.scratch(INFO, &[0u8; 128]);
        let wait = self.code.scratch(WAIT, &spec(wait_ns));
        let got = self.call(libc::SYS_rt_sigtimedwait, [set, at, wait, 8, 0, 0])?;
        let mut info: SigInfo = [0; 128];
        self.code.read_scratch(INFO, &mut info);
        Ok((got > 0).then_some(info))
    }
}

fn nanoseconds(timespec: &[u8]) -> i128 {
    let word = |at: usize| {
        let b = timespec[at..at + 8].try_into().unwrap_or_default();
        i128::from(i64::from_le_bytes(b))
    };
    word(0) * NS + word(8)
}

fn spec(ns: i128) -> Vec<u8> {
    let words = [(ns / NS) as i64, (ns % NS) as i64];
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
