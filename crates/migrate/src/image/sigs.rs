//! Signal dispositions and pending signals of a process.

use crate::Result;
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::region::Code;

/// A kernel sigaction: handler, flags, restorer, mask. KERNEL: 32 bytes on x86-64.
pub type Action = [u64; 4];
const SCRATCH: u64 = 0x4000;

fn settable(sig: u64) -> bool {
    sig != libc::SIGKILL as u64 && sig != libc::SIGSTOP as u64
}

/// All 64 dispositions, signal 1 first.
pub fn read(h: &mut Hold, code: &Code) -> Result<Vec<Action>> {
    let base = code.scratch(SCRATCH, &[0u8; 64 * 32]);
    let call = |s: u64| (libc::SYS_rt_sigaction, [s, 0, base + (s - 1) * 32, 8, 0, 0]);
    let calls: Vec<Call> = (1..=64).filter(|s| settable(*s)).map(call).collect();
    h.batch_ok(code, "rt_sigaction", &calls)?;
    let mut raw = vec![0u8; 64 * 32];
    code.read_scratch(SCRATCH, &mut raw);
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap_or_default());
    let mut all: Vec<Action> = raw
        .chunks_exact(32)
        .map(|c| {
            [
                word(&c[..8]),
                word(&c[8..16]),
                word(&c[16..24]),
                word(&c[24..]),
            ]
        })
        .collect();
    if h.ignores_trap() {
        // Our traps have reset that.
        all[libc::SIGTRAP as usize - 1][0] = libc::SIG_IGN as u64;
    }
    Ok(all)
}

/// Sets the actions that differ from `now` (default everywhere if `None`).
pub fn set(h: &mut Hold, code: &Code, want: &[Action], now: Option<&[Action]>) -> Result<()> {
    h.batch_ok(code, "set signal actions", &set_calls(code, want, now))?;
    let trap = want.get(libc::SIGTRAP as usize - 1);
    h.ignore_trap(trap.is_some_and(|a| a[0] == libc::SIG_IGN as u64));
    Ok(())
}

fn set_calls(code: &Code, want: &[Action], now: Option<&[Action]>) -> Vec<Call> {
    let raw: Vec<u8> = want
        .iter()
        .flatten()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let base = code.scratch(SCRATCH, &raw);
    (1..=want.len() as u64)
        .filter(|&s| settable(s))
        .filter(|&s| want[s as usize - 1] != now.map_or([0; 4], |n| n[s as usize - 1]))
        .map(|s| (libc::SYS_rt_sigaction, [s, base + (s - 1) * 32, 0, 8, 0, 0]))
        .collect()
}
