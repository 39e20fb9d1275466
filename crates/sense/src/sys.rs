//! System calls and instructions that need unsafe code.

use std::arch::x86_64::{__cpuid_count, CpuidResult};

/// The calling thread's ID in its pid namespace.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// Processors that the calling thread may use; `None` if the call fails.
pub(crate) fn affinity_count() -> Option<u32> {
    // 8192 processors: the largest NR_CPUS of a distribution's kernel.
    let mut mask = [0u64; 128];
    // SAFETY: the kernel writes at most the given number of bytes into `mask`.
    let wrote = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            0,
            size_of_val(&mask),
            mask.as_mut_ptr(),
        )
    };
    (wrote > 0).then(|| mask.iter().map(|word| word.count_ones()).sum())
}

/// `rounds` of dependent integer work: multiply, add, rotate, exclusive or. In assembler, so that a debug build and a
/// release build of the daemon measure the same speed.
pub(crate) fn integer_rounds(rounds: u64) -> u64 {
    let mut value: u64 = 0x9e37_79b9_7f4a_7c15;
    // SAFETY: touches only the named registers and flags; the loop ends when `rounds` reaches 0,
    // and is entered with at least 1.
    unsafe {
        std::arch::asm!(
            "2:",
            "imul {value}, {value}, 1103515245",
            "add {value}, 12345",
            "ror {value}, 17",
            "xor {value}, {rounds}",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) rounds.max(1) => _,
            value = inout(reg) value,
            options(nomem, nostack),
        );
    }
    value
}

/// `rounds` of dependent floating-point work: multiply, add. In assembler, as [`integer_rounds`].
pub(crate) fn float_rounds(rounds: u64) -> f64 {
    let mut value = 1.5_f64;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "2:",
            "mulsd {value}, {factor}",
            "addsd {value}, {more}",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) rounds.max(1) => _,
            value = inout(xmm_reg) value,
            // Their fixed point is 1: the value neither grows nor vanishes.
            factor = in(xmm_reg) 0.25_f64,
            more = in(xmm_reg) 0.75_f64,
            options(nomem, nostack),
        );
    }
    value
}

/// One leaf of CPUID; zeros when the processor has no such leaf.
pub(crate) fn cpuid(leaf: u32, sub: u32) -> CpuidResult {
    let top = __cpuid_count(leaf & 0x8000_0000, 0).eax;
    if leaf > top {
        return CpuidResult {
            eax: 0,
            ebx: 0,
            ecx: 0,
            edx: 0,
        };
    }
    __cpuid_count(leaf, sub)
}

/// State components that the kernel enabled. Before: CPUID reports OSXSAVE.
pub(crate) fn xcr0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: only called where OSXSAVE is set, so the instruction exists; it reads a register.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}
