//! Memory below a stack. The kernel makes it when the program touches it, or a call of its own does; when we read
//! or write there from outside it says EFAULT.
//!
//! KERNEL: since 6.5 process_vm_writev(2) grows no stack, but /proc/PID/mem does (__access_remote_vm). It goes by
//! our own RLIMIT_STACK, so the guest's is looked at here, and ours is as high as can be (`start.rs`).

use armento_model::Pid;
use armento_tracee::maps::{self, Vma};
use armento_tracee::{PAGE, sys};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Makes what is missing of `len` bytes at `start` where a stack may grow. False: nothing was made.
pub fn reach(here: Pid, start: u64, len: usize) -> bool {
    let (Ok(all), Some(end)) = (maps::read(here), start.checked_add(len as u64)) else {
        return false;
    };
    let mut at = start & !(PAGE - 1);
    let mut made = false;
    while at < end {
        match all.iter().find(|v| v.end > at) {
            Some(v) if v.start <= at => at = v.end,
            Some(v) if may_grow(here, v, at) && touch(here, at) => (at, made) = (v.end, true),
            _ => return made,
        }
    }
    made
}

fn may_grow(here: Pid, v: &Vma, to: u64) -> bool {
    let room = sys::limit(here, libc::RLIMIT_STACK).map_or(0, |(soft, _)| soft);
    let grows = || {
        let all = maps::flags(here).unwrap_or_default();
        let mut of = all.iter().filter(|(of, _)| of.start == v.start);
        of.any(|(_, flags)| flags.split(' ').any(|f| f == "gd"))
    };
    v.end - to <= room && grows()
}

fn touch(here: Pid, at: u64) -> bool {
    let mem = File::open(format!("/proc/{here}/mem"));
    mem.is_ok_and(|m| m.read_at(&mut [0], at).is_ok_and(|n| n == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_below_a_stack_is_memory_made() {
        let me = std::process::id() as i32;
        // Nothing lies at the bottom of the address space, and what is there needs nothing.
        assert!(!reach(me, 4096, 100));
        let here = [1u8; 16];
        assert!(!reach(me, here.as_ptr() as u64, here.len()));
        assert!(!reach(me, u64::MAX - 5, 100));
    }
}
