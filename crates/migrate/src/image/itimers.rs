//! ITIMER_VIRTUAL and ITIMER_PROF: they count where their process runs.
//!
//! KERNEL: setitimer(2); the remaining time of each travels, and the other kernel goes on from there. Both nodes count
//! their time in ticks. ITIMER_REAL runs at home and stays there.

use crate::Result;
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::region::Code;

const WHICH: [i32; 2] = [libc::ITIMER_VIRTUAL, libc::ITIMER_PROF];
const SCRATCH: u64 = 0xb000;
/// struct itimerval.
const LEN: usize = 32;

/// Interval and value, each in seconds and microseconds, of [`WHICH`]; all zero for one that is not set.
pub type Itimers = [[u64; 4]; WHICH.len()];

fn at(n: usize) -> u64 {
    SCRATCH + (n * LEN) as u64
}

pub fn read(h: &mut Hold, code: &Code) -> Result<Itimers> {
    let to = code.scratch(SCRATCH, &[0u8; WHICH.len() * LEN]);
    let call = |(n, which): (usize, &i32)| -> Call {
        let to = to + (n * LEN) as u64;
        (libc::SYS_getitimer, [*which as u64, to, 0, 0, 0, 0])
    };
    let calls: Vec<_> = WHICH.iter().enumerate().map(call).collect();
    h.batch_ok(code, "getitimer", &calls)?;
    let mut all = Itimers::default();
    for (n, timer) in all.iter_mut().enumerate() {
        let mut raw = [0u8; LEN];
        code.read_scratch(at(n), &mut raw);
        for (word, b) in timer.iter_mut().zip(raw.chunks_exact(8)) {
            *word = u64::from_le_bytes(b.try_into().unwrap_or_default());
        }
    }
    Ok(all)
}

/// Calls that set the timers in `all`.
pub fn set_calls(code: &Code, all: &Itimers) -> Vec<Call> {
    let set = |(n, timer): (usize, &[u64; 4])| {
        let raw: Vec<u8> = timer.iter().flat_map(|w| w.to_le_bytes()).collect();
        let from = code.scratch(at(n), &raw);
        (libc::SYS_setitimer, [WHICH[n] as u64, from, 0, 0, 0, 0])
    };
    let armed = all.iter().enumerate().filter(|(_, t)| **t != [0; 4]);
    armed.map(set).collect()
}

/// Calls that stop the timers in `all`: they run on another node now.
pub fn stop_calls(code: &Code, all: &Itimers) -> Vec<Call> {
    let none = code.scratch(SCRATCH, &[0u8; LEN]);
    let armed = all.iter().zip(WHICH).filter(|(t, _)| **t != [0; 4]);
    armed
        .map(|(_, which)| (libc::SYS_setitimer, [which as u64, none, 0, 0, 0, 0]))
        .collect()
}
