//! Kernel state of a process that cannot be transferred: it is looked for while the process is frozen at home, and
//! keeps the process there. Mappings are checked in `flags.rs`.
//!
//! From: the owner's freeze (`keeper/src/moves/freeze.rs`). Next: nothing: such a process stays.

use super::area::Area;
use crate::{MigrateError, Result};
use armento_model::{Stay, Tid};
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::region::Code;
use armento_tracee::trace;

/// KERNEL: asm/prctl.h. 0: the instruction cpuid faults.
const ARCH_GET_CPUID: u64 = 0x1011;
/// KERNEL: linux/prctl.h. Since 6.3.
const PR_GET_MDWE: u64 = 66;
/// KERNEL: Documentation/arch/x86/xstate.rst: bit 18 is the data of tiles (AMX).
const ARCH_GET_XCOMP_PERM: u64 = 0x1022;
const TILES: u64 = 1 << 18;
/// KERNEL: asm/prctl.h, since 6.4: which bits of an address count.
const ARCH_GET_UNTAG_MASK: u64 = 0x4001;
const PR_GET_TSC: u64 = 25;
/// KERNEL: linux/prctl.h, since 7.0: its second argument asks whether the thread has it.
const PR_RSEQ_SLICE_EXTENSION: u64 = 79;
const PR_RSEQ_SLICE_EXTENSION_GET: u64 = 1;
/// KERNEL: the instruction rdtsc faults.
const PR_TSC_SIGSEGV: u32 = 2;
const PR_GET_SPECULATION_CTRL: u64 = 52;
/// KERNEL: Documentation/userspace-api/spec_ctrl.rst: store bypass, indirect branch, L1D flush.
const SPECULATION: [u64; 3] = [0, 1, 2];
/// The program may set it, and has left it at its default.
const PR_SPEC_PRCTL: i64 = 1;
const PR_SPEC_SET: i64 = 4 | 8 | 16;
/// KERNEL: linux/mempolicy.h: the policy of an address.
const MPOL_F_ADDR: u64 = 2;

/// Offsets in the scratch memory of the region: an LDT entry, and a policy for each area of a batch.
const LDT: u64 = 0x8000;
const MASKS: u64 = 0x8010;
const POLICIES: u64 = 0x1_0000;
const POLICIES_MAX: usize = 512;

fn stays(what: &str) -> MigrateError {
    MigrateError::Stays(Stay::KernelState, what.to_owned())
}

/// Refuses threads that catch their own calls, injected ones included, or in which a debugger has left breakpoints.
/// Before: stopped, and nothing was injected.
pub fn of_threads(tids: impl Iterator<Item = Tid>) -> Result<()> {
    for tid in tids {
        if trace::has_breaks(tid) {
            return Err(stays(
                "a debugger has left breakpoints in it (PTRACE_POKEUSER)",
            ));
        }
        if trace::dispatches(tid) {
            return Err(stays(
                "it catches its own system calls (PR_SET_SYSCALL_USER_DISPATCH)",
            ));
        }
    }
    Ok(())
}

/// State of the whole process.
pub fn of_process(h: &mut Hold, code: &Code, areas: &[Area]) -> Result<()> {
    let ldt = code.scratch(LDT, &[0; 16]);
    let masks = code.scratch(MASKS, &[[0; 8], [0xff; 8]].concat());
    let calls = [
        (libc::SYS_modify_ldt, [0, ldt, 16, 0, 0, 0]),
        (libc::SYS_arch_prctl, [ARCH_GET_CPUID, 0, 0, 0, 0, 0]),
        (libc::SYS_prctl, [PR_GET_MDWE, 0, 0, 0, 0, 0]),
        (
            libc::SYS_arch_prctl,
            [ARCH_GET_XCOMP_PERM, masks, 0, 0, 0, 0],
        ),
        (
            libc::SYS_arch_prctl,
            [ARCH_GET_UNTAG_MASK, masks + 8, 0, 0, 0, 0],
        ),
    ];
    let [ldt, cpuid, mdwe, ..] = h.batch(code, &calls)?[..] else {
        return Err(MigrateError::Ended);
    };
    let mut masks = [[0u8; 8], [0xff; 8]];
    code.read_scratch(MASKS, masks.as_flattened_mut());
    let [features, address] = masks.map(u64::from_le_bytes);
    if features & TILES != 0 {
        return Err(stays("it may use AMX tiles (ARCH_REQ_XCOMP_PERM)"));
    }
    if address != u64::MAX {
        return Err(stays("it tags its addresses (ARCH_ENABLE_TAGGED_ADDR)"));
    }
    if ldt > 0 {
        return Err(stays("it has segments of its own (modify_ldt)"));
    }
    if cpuid == 0 {
        return Err(stays("cpuid faults in it (ARCH_SET_CPUID)"));
    }
    if mdwe > 0 {
        return Err(stays("it denies itself new code (PR_SET_MDWE)"));
    }
    policies(h, code, areas)
}

/// Refuses an area with a NUMA policy of its own (mbind). KERNEL: mbind(2) splits mappings, so that each has one
/// policy.
fn policies(h: &mut Hold, code: &Code, areas: &[Area]) -> Result<()> {
    for part in areas.chunks(POLICIES_MAX) {
        let at = code.scratch(POLICIES, &[0; POLICIES_MAX * 4]);
        let ask = |(n, a): (usize, &Area)| {
            let to = at + n as u64 * 4;
            (libc::SYS_get_mempolicy, [to, 0, 0, a.start, MPOL_F_ADDR, 0])
        };
        let calls: Vec<Call> = part.iter().enumerate().map(ask).collect();
        h.batch(code, &calls)?;
        let mut said = [0; POLICIES_MAX * 4];
        code.read_scratch(POLICIES, &mut said);
        if said[..part.len() * 4].iter().any(|b| *b != 0) {
            return Err(stays("its memory has a NUMA policy (mbind)"));
        }
    }
    Ok(())
}

/// Bytes that [`thread`] reads: `TSC`, then `POLICY`, from `at` in the scratch memory of one thread.
pub const ASKED: usize = 8;
pub const CALLS: usize = 3 + SPECULATION.len();

/// Calls by which a thread reads its state; [`thread`] interprets the results. `at`: [`ASKED`] zeros.
pub fn ask(at: u64) -> [Call; CALLS] {
    let speculation = |n: usize| {
        let args = [PR_GET_SPECULATION_CTRL, SPECULATION[n], 0, 0, 0, 0];
        (libc::SYS_prctl, args)
    };
    [
        (libc::SYS_prctl, [PR_GET_TSC, at, 0, 0, 0, 0]),
        (libc::SYS_get_mempolicy, [at + 4, 0, 0, 0, 0, 0]),
        (
            libc::SYS_prctl,
            [
                PR_RSEQ_SLICE_EXTENSION,
                PR_RSEQ_SLICE_EXTENSION_GET,
                0,
                0,
                0,
                0,
            ],
        ),
        speculation(0),
        speculation(1),
        speculation(2),
    ]
}

/// `said`: the results of the calls of [`ask`]; `raw`: what they wrote.
pub fn thread(said: &[i64], raw: [u8; ASKED]) -> Result<()> {
    let word = |i: usize| u32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]);
    if word(0) == PR_TSC_SIGSEGV {
        return Err(stays("rdtsc faults in it (PR_SET_TSC)"));
    }
    if word(4) != 0 {
        return Err(stays("it has a NUMA policy (set_mempolicy)"));
    }
    let set = |r: &i64| *r > 0 && r & PR_SPEC_PRCTL != 0 && r & PR_SPEC_SET != 0;
    if said.get(2).is_some_and(|r| *r > 0) {
        return Err(stays(
            "it may ask for longer time slices (PR_RSEQ_SLICE_EXTENSION)",
        ));
    }
    match said.iter().skip(3).any(set) {
        true => Err(stays("it controls speculation (PR_SET_SPECULATION_CTRL)")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_with_kernel_defaults_may_leave() {
        let raw = |tsc: u32, policy: u32| {
            let mut raw = [0; ASKED];
            raw[..4].copy_from_slice(&tsc.to_le_bytes());
            raw[4..].copy_from_slice(&policy.to_le_bytes());
            raw
        };
        let plain = [0, 0, -22, 3, 3, -22];
        assert!(thread(&plain, raw(1, 0)).is_ok());
        // A kernel without NUMA, one where speculation is off for all, and one that does not support the query.
        assert!(thread(&[0, -38, 0, 4, 0, -19], raw(1, 0)).is_ok());
        assert!(thread(&plain, raw(2, 0)).is_err());
        assert!(thread(&plain, raw(1, 3)).is_err());
        assert!(thread(&[0, 0, 0, 5, 3, 0], raw(1, 0)).is_err());
        assert!(thread(&[0, 0, 0, 3, 9, 0], raw(1, 0)).is_err());
        assert!(thread(&[0, 0, 1, 3, 3, 0], raw(1, 0)).is_err());
    }
}
