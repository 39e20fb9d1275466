//! Calls that wait: their signal masks and their timeouts.

use crate::mem::{Kind, Mem, kind};
use crate::x86_64::{nr, row};
use crate::{Arg, Packed};

/// Where a call has its temporary signal mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskAt {
    /// The address of the set and its size in bytes.
    Set { addr: u64, size: u64 },
    /// The address of a pair {address of the set, size} (pselect6).
    Pair { addr: u64 },
}

/// sizeof(sigset_t) of the kernel; any other size is EINVAL.
const SIGSET: u64 = 8;

/// Where the mask of a waiting call is. `None`: it has none.
pub fn wait_mask(call: u64, args: &[u64; 6]) -> Option<MaskAt> {
    let (addr, size) = match call {
        nr::PPOLL => (args[3], args[4]),
        nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => (args[4], args[5]),
        nr::PSELECT6 => return (args[5] != 0).then_some(MaskAt::Pair { addr: args[5] }),
        _ => return None,
    };
    (addr != 0).then_some(MaskAt::Set { addr, size })
}

/// Reads the mask of a waiting call. `Err` is the errno with which the call fails at once.
pub fn read_mask<M: Mem>(call: u64, args: &[u64; 6], mem: &mut M) -> Result<Option<u64>, i32> {
    let mut word = |addr: u64| {
        let mut word = [0; 8];
        match kind(addr) {
            Kind::Hopeless => Err(libc::EFAULT),
            Kind::User | Kind::High => match mem.read(addr, &mut word) {
                Ok(()) => Ok(u64::from_le_bytes(word)),
                Err(_) => Err(libc::EFAULT),
            },
        }
    };
    let (addr, size) = match wait_mask(call, args) {
        None => return Ok(None),
        Some(MaskAt::Set { addr, size }) => (addr, size),
        Some(MaskAt::Pair { addr }) => (word(addr)?, word(addr.wrapping_add(8))?),
    };
    match (addr, size) {
        (0, _) => Ok(None),
        (_, SIGSET) => word(addr).map(Some),
        _ => Err(libc::EINVAL),
    }
}

/// Whether the kernel writes the remaining time back into the timeout, even on errors.
pub fn timeout_in_out(call: u64) -> bool {
    row(call).is_some_and(|row| row.args.contains(&Arg::Timeout))
}

/// Whether it sleeps on an object that may be removed meanwhile.
pub fn removable(call: u64) -> bool {
    row(call).is_some_and(|row| row.removable)
}

/// The correct result of a call that slept, was interrupted and restarted. With invalid arguments it would not have
/// slept: EINVAL means that its object is gone. KERNEL: semop(2), msgop(2), EIDRM.
pub fn begun_again(call: u64, ret: i64) -> i64 {
    if ret == -i64::from(libc::EINVAL) && removable(call) {
        -i64::from(libc::EIDRM)
    } else {
        ret
    }
}

/// A relative timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    pub rel_ns: u64,
}

/// The type of a timeout, and its argument.
#[derive(Clone, Copy)]
enum Form {
    /// int milliseconds; negative means no timeout.
    Millis(usize),
    /// struct timespec.
    Spec(usize),
    /// struct timeval.
    Val(usize),
}

const NS: u64 = 1_000_000_000;

fn form(packed: &Packed) -> Option<Form> {
    let absolute = packed.args[1] & libc::TIMER_ABSTIME as u64 != 0;
    Some(match u64::from(packed.nr) {
        nr::POLL => Form::Millis(2),
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT => Form::Millis(3),
        nr::NANOSLEEP => Form::Spec(0),
        nr::CLOCK_NANOSLEEP if !absolute => Form::Spec(2),
        nr::PPOLL => Form::Spec(2),
        nr::EPOLL_PWAIT2 | nr::SEMTIMEDOP => Form::Spec(3),
        nr::PSELECT6 => Form::Spec(4),
        nr::SELECT => Form::Val(4),
        _ => return None,
    })
}

/// Offset of a packed struct of two words. `None`: NULL or invalid.
fn pair_at(packed: &Packed, arg: usize) -> Option<usize> {
    let off = usize::try_from(packed.args[arg]).ok()?;
    let there = packed.arg_ptrs & (1 << arg) != 0 && packed.data.len() >= off.checked_add(16)?;
    there.then_some(off)
}

fn pair(packed: &Packed, off: usize) -> Option<(u64, u64)> {
    let first = packed.data.get(off..)?.first_chunk::<16>()?;
    let (sec, frac) = first.split_at(8);
    let word = |b: &[u8]| b.try_into().map(i64::from_le_bytes).ok();
    Some((word(sec)?.try_into().ok()?, word(frac)?.try_into().ok()?))
}

/// The longest time that a packed call waits. `None`: no timeout, an absolute time, not a waiting call, or a timeout
/// that the kernel refuses.
pub fn deadline(packed: &Packed) -> Option<Timeout> {
    let (sec, ns) = match form(packed)? {
        Form::Millis(arg) => {
            let ms = u64::try_from(packed.args[arg] as u32 as i32).ok()?;
            (ms / 1000, ms % 1000 * 1_000_000)
        }
        Form::Spec(arg) => pair(packed, pair_at(packed, arg)?).filter(|&(_, ns)| ns < NS)?,
        Form::Val(arg) => {
            let (sec, us) = pair(packed, pair_at(packed, arg)?)?;
            // KERNEL: select accepts more than a second of microseconds.
            (sec.checked_add(us / 1_000_000)?, us % 1_000_000 * 1000)
        }
    };
    let rel_ns = sec.checked_mul(NS)?.checked_add(ns)?;
    Some(Timeout { rel_ns })
}

/// Sets the timeout of a packed call, rounded up to the unit it uses. Calls for which [`deadline`] returns `None` are
/// unchanged.
pub fn set_timeout(packed: &mut Packed, remaining_ns: u64) {
    if deadline(packed).is_none() {
        return;
    }
    let (arg, sec, frac) = match form(packed) {
        None => return,
        Some(Form::Millis(arg)) => {
            let ms = remaining_ns.div_ceil(1_000_000).min(i32::MAX as u64);
            packed.args[arg] = ms;
            return;
        }
        Some(Form::Spec(arg)) => (arg, remaining_ns / NS, remaining_ns % NS),
        Some(Form::Val(arg)) => {
            let us = remaining_ns.div_ceil(1000);
            (arg, us / 1_000_000, us % 1_000_000)
        }
    };
    if let Some(off) = pair_at(packed, arg) {
        packed.data[off..off + 8].copy_from_slice(&sec.to_le_bytes());
        packed.data[off + 8..off + 16].copy_from_slice(&frac.to_le_bytes());
    }
}
