//! rt_tgsigqueueinfo: the signal does not tell that it is for one thread only.
//!
//! From: `keeper/src/calls/execute.rs` (the call is made). Next: `keeper/src/signals/route.rs` (its deputy has it).
//!
//! Any deputy may get the signals of its process, too, and si_code is what the sender wrote. What bodies of this tree send
//! is noted when they send it. A sender at home is not seen: its signals count as for the process.

use crate::sync::lock;
use armento_model::Tid;
use armento_tracee::sys::SigInfo;
use armento_wire::call::Call;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A deputy has its signal in microseconds, on a loaded machine in some ticks.
const KEPT: Duration = Duration::from_secs(5);
const KEPT_MAX: usize = 4096;
/// KERNEL: sizeof(kernel_siginfo_t); the rest of what a sender passes is not kept.
const HEAD: usize = 48;

struct Aim {
    at: Instant,
    tid: Tid,
    head: [u8; HEAD],
}

#[derive(Default)]
pub struct ThreadDirected(Mutex<VecDeque<Aim>>);

impl ThreadDirected {
    /// A call is about to be made.
    pub fn sent(&self, c: &Call) {
        let p = &c.packed;
        if i64::from(p.nr) != libc::SYS_rt_tgsigqueueinfo || p.arg_ptrs & 1 << 3 == 0 {
            return;
        }
        let [_, tid, sig, at, ..] = p.args;
        let info = p.data.get(at as usize..).and_then(<[u8]>::first_chunk);
        if let Some(&(mut head)) = info {
            head[..4].copy_from_slice(&(sig as i32).to_le_bytes());
            let (at, tid) = (Instant::now(), tid as Tid);
            let mut all = lock(&self.0);
            all.retain(|a| a.at.elapsed() < KEPT);
            all.truncate(KEPT_MAX - 1);
            all.push_back(Aim { at, tid, head });
        }
    }

    /// A deputy has a signal: was it for this thread alone? Asked once a signal.
    pub fn take(&self, tid: Tid, info: &SigInfo) -> bool {
        let mut all = lock(&self.0);
        let mine = |a: &Aim| a.tid == tid && a.head[..] == info[..HEAD] && a.at.elapsed() < KEPT;
        let at = all.iter().position(mine);
        at.and_then(|at| all.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_abi::Packed;
    use armento_model::HomeTid;

    #[test]
    fn a_thread_directed_signal_is_recognized_once() {
        let mut info: SigInfo = [0; 128];
        (info[0], info[8], info[24]) = (40, 0xff, 7);
        let aimed = ThreadDirected::default();
        let mut call = Call {
            tid: HomeTid::of_home(5),
            seq: 1,
            flags: 0,
            mask: 0,
            packed: Packed {
                nr: libc::SYS_rt_tgsigqueueinfo as u16,
                args: [9, 9, 40, 0, 0, 0],
                data: info.to_vec(),
                arg_ptrs: 1 << 3,
                ..Packed::default()
            },
        };
        aimed.sent(&call);
        assert!(!aimed.take(8, &info));
        let mut other = info;
        other[24] = 8;
        assert!(!aimed.take(9, &other));
        assert!(aimed.take(9, &info));
        assert!(!aimed.take(9, &info));
        call.packed.nr = libc::SYS_rt_sigqueueinfo as u16;
        aimed.sent(&call);
        assert!(!aimed.take(9, &info));
    }
}
