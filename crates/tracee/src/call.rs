//! A system call as numbers, and the registers with which a stopped thread makes it.

use crate::sys;
use crate::trace::{Regs, Result, TraceError};

/// KERNEL: X86_EFLAGS_TF: a trap after each instruction.
pub(crate) const TRAP_FLAG: u64 = 0x100;

/// One call: number and arguments.
pub type Call = (i64, [u64; 6]);

/// The bit of a signal in a signal mask.
pub const fn bit(sig: i32) -> u64 {
    1 << (sig - 1)
}

/// The registers `regs`, changed so that the thread makes a system call at the instruction at `rip`.
pub(crate) fn aim(regs: &Regs, rip: u64, nr: i64, a: [u64; 6]) -> Regs {
    let mut r = *regs;
    r.rip = rip;
    r.rax = nr as u64;
    r.orig_rax = u64::MAX; // disables the kernel's restart logic
    (r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9) = (a[0], a[1], a[2], a[3], a[4], a[5]);
    r.eflags &= !TRAP_FLAG;
    r
}

/// Changes the registers of a program that has just started so that it execs `path` with its own arguments and
/// environment, which lie on its stack above `argc`.
pub fn aim_exec(r: &mut Regs, path: u64, argc: u64, pid: i32) -> Result<()> {
    r.rip = vdso_syscall(pid)?.0;
    r.rax = libc::SYS_execve as u64;
    r.orig_rax = u64::MAX;
    r.rdi = path;
    r.rsi = r.rsp + 8;
    r.rdx = r.rsi + 8 * (argc + 1);
    Ok(())
}

/// Address of a `syscall` instruction in the vDSO of `pid`, and of a zero byte (for an empty name).
pub fn vdso_syscall(pid: i32) -> Result<(u64, u64)> {
    let maps = crate::maps::read(pid).map_err(|err| TraceError::Os {
        what: "read maps",
        tid: pid,
        err,
    })?;
    let v = maps
        .iter()
        .find(|v| v.name == "[vdso]")
        .ok_or_else(|| TraceError::Odd(format!("process {pid} has no vDSO")))?;
    let mut image = vec![0u8; v.len() as usize];
    let n = sys::vm_read(pid, v.start, &mut image).map_err(|err| TraceError::Os {
        what: "read vDSO",
        tid: pid,
        err,
    })?;
    let at = image[..n].windows(2).position(|w| w == [0x0f, 0x05]);
    // Bytes 8 to 15 of an ELF header are zero.
    at.map(|i| (v.start + i as u64, v.start + 9))
        .ok_or_else(|| TraceError::Odd("vDSO without a syscall".into()))
}
