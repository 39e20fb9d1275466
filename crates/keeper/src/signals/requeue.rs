//! Signals that are pending in home's kernel when a process leaves, and those with which it comes home.
//!
//! Out: they are taken and sent to the body before it runs. Home: the kernel queues them. Since the deputies were
//! stopped it may have queued later ones of its own. Real-time signals of one number are taken in the order in
//! which they were sent (signal(7)): what came later is queued again after them.

use crate::state::{FIRST_REALTIME, signal_number};
use armento_migrate::Result;
use armento_model::{Pid, Tid};
use armento_tracee::call::bit;
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::region::Code;
use armento_tracee::sys::{self, SigInfo};
use armento_tracee::{timers, trace};
use std::sync::Arc;

/// Places in the scratch area.
const SIGNALS: u64 = 0x9000;
const SET: u64 = 0xa000;
const WAIT: u64 = 0xa040;
/// How many signals have room there.
const PART: usize = 32;
/// Signals may come while we queue, and we begin again.
const TRIES: u32 = 8;
/// Taken beyond those that were there: one may be sent as fast as we take.
const MORE_MAX: usize = 1024;
/// Those that a call may take. KERNEL: sigtimedwait(2).
const CAN_WAIT: u64 = !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));

type Directed = (Option<Tid>, SigInfo);

/// Queues what waited for this thread, and, at the leader, for the process.
pub fn requeue_signals(h: &mut Hold, code: &Code, pid: Pid, waited: &[&Directed]) -> Result<()> {
    let mut list: Vec<Directed> = waited.iter().map(|s| **s).collect();
    let ordered = ordered(pid, &list);
    let mut queued: Vec<Directed> = Vec::new();
    for _ in 0..TRIES {
        let here = drain(h, code, pid, ordered)?;
        list.extend(others(here, &queued));
        send(h, code, pid, &list)?;
        if ordered == 0 {
            break;
        }
        // Only these were taken; the others are queued already.
        list.retain(|(_, i)| bit(signal_number(i)) & ordered != 0);
        queued.clone_from(&list);
        let now = waiting(h, pid, ordered)?;
        if before(&list, &now) || !others(list.clone(), &now).is_empty() {
            break;
        }
    }
    Ok(())
}

/// Takes what waits for a thread that leaves, and, at the leader, for its process, but those of `stay`, which it reads
/// from a descriptor here. Before: the thread is halted.
pub fn take_pending(code: &Code, pid: Pid, tid: Tid, stay: u64) -> Result<Vec<Directed>> {
    let some = |shared| trace::pending(tid, shared).map(|all| !all.is_empty());
    if !some(false)? && (tid != pid || !some(true)?) {
        return Ok(Vec::new());
    }
    let mut h = Hold::take(tid, Arc::new(Unfiltered))?;
    let mut taken = drain(&mut h, code, pid, CAN_WAIT & !stay)?;
    // A SIGTRAP that waited was delivered to us instead.
    taken.extend(h.take_sent().into_iter().map(|info| {
        let whole = sys::siginfo_code(&info) == libc::SI_USER;
        ((!whole).then_some(tid), info)
    }));
    Ok(taken)
}

/// The numbers whose order matters. The number of a timer is left out: its signal is the kernel's own.
fn ordered(pid: Pid, list: &[Directed]) -> u64 {
    let all = list.iter().map(|(_, i)| signal_number(i));
    let set = all
        .filter(|n| *n >= FIRST_REALTIME)
        .fold(0, |m, n| m | bit(n));
    if set == 0 {
        return 0;
    }
    let own = timers::list(pid).iter().fold(0, |m, t| m | bit(t.signal));
    set & !own
}

/// Many at a time: what comes between two of them stands in the wrong place.
fn send(h: &mut Hold, code: &Code, pid: Pid, list: &[Directed]) -> Result<()> {
    for part in list.chunks(PART) {
        let all: Vec<_> = part.iter().flat_map(|(_, i)| *i).collect();
        let at = code.scratch(SIGNALS, &all);
        let to_self = [pid as u64, h.tid as u64];
        let calls: Vec<_> = part
            .iter()
            .enumerate()
            .map(|(n, (to, info))| {
                let sig = signal_number(info) as u64;
                let at = at + n as u64 * 128;
                match to {
                    // Only the process itself may say what the kernel said.
                    Some(_) => (
                        libc::SYS_rt_tgsigqueueinfo,
                        [to_self[0], to_self[1], sig, at, 0, 0],
                    ),
                    None => (libc::SYS_rt_sigqueueinfo, [to_self[0], sig, at, 0, 0, 0]),
                }
            })
            .collect();
        let got = h.batch(code, &calls)?;
        // KERNEL: beyond RLIMIT_SIGPENDING only what kill(2) says is kept, without its value (__send_signal_locked).
        let refused = part.iter().zip(got).filter(|(_, r)| *r < 0);
        let plain: Vec<_> = refused
            .map(|((to, info), _)| {
                let sig = signal_number(info) as u64;
                match to {
                    Some(_) => (libc::SYS_tgkill, [to_self[0], to_self[1], sig, 0, 0, 0]),
                    None => (libc::SYS_kill, [to_self[0], sig, 0, 0, 0, 0]),
                }
            })
            .collect();
        h.batch(code, &plain)?;
    }
    Ok(())
}

/// What waits in the queues that `requeue` fills.
fn waiting(h: &Hold, pid: Pid, set: u64) -> Result<Vec<Directed>> {
    let mut all: Vec<Directed> = Vec::new();
    let own = trace::pending(h.tid, false)?;
    all.extend(own.into_iter().map(|i| (Some(h.tid), i)));
    if h.tid == pid {
        all.extend(trace::pending(pid, true)?.into_iter().map(|i| (None, i)));
    }
    all.retain(|(_, i)| bit(signal_number(i)) & set != 0);
    Ok(all)
}

/// Takes what waits in those queues. KERNEL: a thread's own queue comes before its process's (dequeue_signal).
fn drain(h: &mut Hold, code: &Code, pid: Pid, set: u64) -> Result<Vec<Directed>> {
    let mut taken = Vec::new();
    if set == 0 {
        return Ok(taken);
    }
    let here = waiting(h, pid, set)?;
    let own = here.iter().filter(|(to, _)| to.is_some()).count();
    let most = if h.tid == pid {
        here.len() + MORE_MAX
    } else {
        own
    };
    while taken.len() < most {
        let part = PART.min(most - taken.len());
        let got = take(h, code, set, part)?;
        let over = got.len() < part;
        for info in got {
            let mine = taken.len() < own || sys::siginfo_code(&info) == libc::SI_TKILL;
            taken.push((mine.then_some(h.tid), info));
        }
        if over {
            break;
        }
    }
    Ok(taken)
}

/// Takes up to `most` (at most PART) waiting signals of the set.
fn take(h: &mut Hold, code: &Code, set: u64, most: usize) -> Result<Vec<SigInfo>> {
    let set = code.scratch(SET, &set.to_le_bytes());
    let now = code.scratch(WAIT, &[0u8; 16]);
    let at = code.scratch(SIGNALS, &[0u8; PART * 128]);
    let slot = |n: usize| at + n as u64 * 128;
    let call = |n| (libc::SYS_rt_sigtimedwait, [set, slot(n), now, 8, 0, 0]);
    let calls: Vec<_> = (0..most).map(call).collect();
    let got = h.batch(code, &calls)?;
    let mut all = [0u8; PART * 128];
    code.read_scratch(SIGNALS, &mut all);
    let taken = all.chunks_exact(128).zip(got).filter(|(_, r)| *r > 0);
    Ok(taken.filter_map(|(b, _)| b.try_into().ok()).collect())
}

/// Those of `all` that are not among `known`, each of which stands for one.
fn others(all: Vec<Directed>, known: &[Directed]) -> Vec<Directed> {
    let mut known = known.to_vec();
    let mut left = all;
    left.retain(|s| match known.iter().position(|k| k == s) {
        Some(at) => {
            known.swap_remove(at);
            false
        }
        None => true,
    });
    left
}

/// Whether `first` is taken before everything else of its numbers in `queue`.
fn before(first: &[Directed], queue: &[Directed]) -> bool {
    first.iter().all(|(to, info)| {
        let same = |s: &&Directed| s.0 == *to && signal_number(&s.1) == signal_number(info);
        let ours = first.iter().filter(same);
        let theirs = queue.iter().filter(same);
        let (n, kept) = ours
            .zip(theirs)
            .fold((0, true), |(n, k), (a, b)| (n + 1, k && a == b));
        kept && n == first.iter().filter(same).count()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(sig: u8, value: u8) -> Directed {
        let mut i: SigInfo = [0; 128];
        (i[0], i[24]) = (sig, value);
        (None, i)
    }

    #[test]
    fn earlier_signals_are_taken_first() {
        let (a, b, c) = (signal(40, 1), signal(40, 2), signal(40, 3));
        let other = signal(41, 0);
        assert!(before(&[a, b], &[other, a, b, c]));
        assert!(before(&[a, other], &[other, a]));
        assert!(!before(&[a, b], &[c, a, b]));
        assert!(!before(&[a, b], &[a, c, b]));
        assert!(!before(&[a, b], &[a]));
    }

    #[test]
    fn equal_signals_are_counted() {
        let (a, b) = (signal(40, 1), signal(40, 2));
        assert_eq!(others(vec![a, a, b, a], &[a, b]), [a, a]);
        assert_eq!(others(vec![a], &[a, a]), []);
    }
}
