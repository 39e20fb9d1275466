//! Calls that a stop interrupted, as registers show them, and how the kernel restarts them.

use armento_abi::Restart;
use armento_model::Tid;
use armento_tracee::sys;
use armento_tracee::trace::Regs;

/// KERNEL: include/linux/errno.h: restarted unless a handler without SA_RESTART runs; always restarted; restarted
/// unless any handler runs; continued by restart_syscall.
pub const ERESTARTSYS: i64 = -512;
pub const ERESTARTNOINTR: i64 = -513;
pub const ERESTARTNOHAND: i64 = -514;
pub const ERESTART_RESTARTBLOCK: i64 = -516;
/// System call numbers that need special treatment here.
const FUTEX: u64 = libc::SYS_futex as u64;
pub(super) const RESTART: u64 = libc::SYS_restart_syscall as u64;
/// The instruction `syscall`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Whether the thread is inside a call that a stop interrupted.
pub fn interrupted(r: &Regs) -> bool {
    (r.orig_rax as i64) >= 0 && ((-516..=ERESTARTSYS).contains(&(r.rax as i64)))
}

/// Whether the kernel has already set the thread back to its `syscall` instruction, to restart an interrupted call. Its
/// number is then in rax as well as (unless a tick came between) in orig_rax. KERNEL: arch_do_signal_or_restart,
/// arch/x86/kernel/signal.c.
pub fn turned_back(tid: Tid, r: &Regs) -> bool {
    let again = r.rax == r.orig_rax || r.rax == RESTART;
    let mut code = [0u8; 2];
    again && matches!(sys::vm_read(tid, r.rip, &mut code), Ok(2)) && code == SYSCALL
}

/// Replaces the effect of our stop on a blocking call by what the kernel does without it. `signals`: a signal with a
/// handler is pending, so that EINTR is genuine.
pub fn settle(r: &mut Regs, signals: bool) {
    let (nr, ret) = (r.orig_rax, r.rax as i64);
    if (nr as i64) < 0 {
        return;
    }
    if maybe_ours(r) && !signals {
        r.rax = ERESTARTNOHAND as u64;
    }
    if ret == ERESTART_RESTARTBLOCK && nr == FUTEX {
        // glibc's timed waits are absolute: restarting them is exact. The deadline of a relative one is noted
        // separately.
        begin_anew(r);
    }
}

/// Sets it back to its `syscall` instruction, as if the call had not been issued.
pub fn begin_anew(r: &mut Regs) {
    r.rax = r.orig_rax;
    r.orig_rax = u64::MAX;
    r.rip = r.rip.wrapping_sub(2);
}

/// Whether its call ended with EINTR, from a stop or from a signal with a handler.
pub(super) fn maybe_ours(r: &Regs) -> bool {
    let eintr = (r.orig_rax as i64) >= 0 && r.rax as i64 == -i64::from(libc::EINTR);
    eintr && armento_abi::row(r.orig_rax).is_some_and(|row| row.restart == Restart::Eintr)
}
