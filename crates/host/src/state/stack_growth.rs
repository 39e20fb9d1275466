//! Memory below a stack. The kernel allocates it when the program or a call of it touches it; an access from outside fails
//! with EFAULT.
//!
//! KERNEL: since 6.5 process_vm_writev(2) grows no stack, but /proc/PID/mem does (__access_remote_vm). It checks
//! the host's RLIMIT_STACK, so the guest's is checked here, and the host's is as high as can be (`start.rs`).

use armento_model::Pid;
use armento_tracee::maps::{self, Vma};
use armento_tracee::{PAGE, sys};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Grows a stack to the missing ones of `len` bytes at `start`. False: nothing grew.
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
    fn memory_grows_only_below_a_stack() {
        let me = std::process::id() as i32;
        // No stack is at the bottom of the address space; memory that is there already does not grow.
        assert!(!reach(me, 4096, 100));
        let here = [1u8; 16];
        assert!(!reach(me, here.as_ptr() as u64, here.len()));
        assert!(!reach(me, u64::MAX - 5, 100));
    }
}
