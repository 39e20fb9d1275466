//! Frames of signal handlers on the stacks of a process.

use super::area::Area;
use super::messages::State;
use super::thread::{self, ThreadState};
use armento_tracee::sys;

/// struct rt_sigframe: the return address, then flags 8, link 8 and stack 24 of the context, then its registers in this
/// order: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. KERNEL: arch/x86/include/asm/sigframe.h.
const FRAME_RSP: usize = 8 + 40 + 15 * 8;
const FRAME_RIP: usize = FRAME_RSP + 8;
/// Bytes of a stack searched for frames; deeper handlers will not return soon.
const STACK_MAX: u64 = 256 << 10;
/// Stacks of one thread: its own, and alternate ones (sigaltstack).
const STACKS_MAX: usize = 8;

/// Whether a handler runs that will return into the vDSO at `code`: the process could not go on where the vDSO is
/// another. Searches each stack for what the kernel stores there for a handler: its return address (the restorers of
/// sigaction), and registers.
pub fn return_into_vdso(pid: i32, state: &State, areas: &[Area]) -> bool {
    let Some(vdso) = state.mm.vdso else {
        return false;
    };
    let restorers: Vec<u64> = state
        .actions
        .iter()
        .map(|a| a[2])
        .filter(|r| *r != 0)
        .collect();
    if restorers.is_empty() {
        return false;
    }
    let stacks = |t: &ThreadState| thread::from_words(&t.regs).map(|r| r.rsp);
    let mut begun: Vec<u64> = state.threads.iter().filter_map(stacks).collect();
    let mut looked = 0;
    while let Some(rsp) = begun.pop() {
        looked += 1;
        if looked > state.threads.len() * STACKS_MAX {
            break;
        }
        let Some(area) = areas.iter().find(|a| a.start <= rsp && rsp < a.end) else {
            continue;
        };
        let mut bytes = vec![0; (area.end - rsp).min(STACK_MAX) as usize];
        let Ok(n) = sys::vm_read(pid, rsp, &mut bytes) else {
            continue;
        };
        for frame in frames(&bytes[..n], &restorers) {
            if (vdso.code..vdso.end).contains(&frame.rip) {
                return true;
            }
            if !(rsp..rsp + n as u64).contains(&frame.rsp) {
                begun.push(frame.rsp);
            }
        }
    }
    false
}

struct Frame {
    rsp: u64,
    rip: u64,
}

/// Candidates for handler frames in a piece of a stack.
fn frames<'a>(stack: &'a [u8], restorers: &'a [u64]) -> impl Iterator<Item = Frame> + 'a {
    let word = |at: usize| {
        let bytes = stack.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    (0..stack.len()).step_by(8).filter_map(move |at| {
        if !restorers.contains(&word(at)?) {
            return None;
        }
        Some(Frame {
            rsp: word(at + FRAME_RSP)?,
            rip: word(at + FRAME_RIP)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handler_frames_are_found_on_a_stack() {
        let mut stack = vec![0u8; 1024];
        let mut put = |at: usize, word: u64| stack[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(64, 0x1234);
        put(64 + FRAME_RSP, 0x7000);
        put(64 + FRAME_RIP, 0x8000);
        // Its registers would lie beyond the end.
        put(1000, 0x1234);
        let found: Vec<_> = frames(&stack, &[0x1234]).map(|f| (f.rsp, f.rip)).collect();
        assert_eq!(found, [(0x7000, 0x8000)]);
        assert_eq!(frames(&stack, &[0x1235]).count(), 0);
    }
}
