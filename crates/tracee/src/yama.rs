//! Yama's restriction of ptrace: its setting, and whether it lets us trace a process.
//!
//! KERNEL: security/yama/yama_lsm.c (6.1, 6.12); Documentation/admin-guide/LSM/Yama.rst. Scope 1 requires, beside the
//! ordinary rule, that the tracer is an ancestor of the process, or is the process named with PR_SET_PTRACER or a
//! descendant of it, or traces it already, or has CAP_SYS_PTRACE. PR_SET_PTRACER holds for all threads of a process and
//! over exec, not for its children. Only attaching is restricted (ptrace, process_vm_readv, pidfd_getfd,
//! /proc/PID/mem), not plain reads.

use crate::{sys, text};
use std::io;

/// prctl(2) of Yama: EINVAL without it.
pub const PR_SET_PTRACER: u64 = 0x5961_6d61;

const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// `None`: this kernel has no Yama, or /proc is not its own or missing.
pub fn scope() -> Option<u8> {
    text::read(SCOPE).ok()?.trim().parse().ok()
}

/// Whether the kernel would let us attach to `pid`, without any effect on it. EPERM: no.
pub fn may_attach(pid: i32) -> io::Result<()> {
    match sys::steal_fd(pid, -1) {
        // KERNEL: pidfd_getfd checks the permission before it checks the descriptor.
        Err(e) if e.raw_os_error() == Some(libc::EBADF) => Ok(()),
        Err(e) => Err(e),
        Ok(_) => Ok(()),
    }
}

/// Why the kernel refuses to attach to a process that no process traces, in words.
pub fn why(scope: Option<u8>) -> &'static str {
    match scope {
        Some(1) => {
            "kernel.yama.ptrace_scope is 1: only its ancestors and the process that it names itself may trace it"
        }
        Some(2) => "kernel.yama.ptrace_scope is 2: only root traces",
        Some(3..) => "kernel.yama.ptrace_scope is 3: nothing is traced until the next boot",
        _ => "a security module of the kernel (AppArmor, SELinux) forbids it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_child_may_be_attached_to_and_missing_process_may_not() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let may = may_attach(child.id() as i32);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        // Yama lets an ancestor attach; scope 3 lets no process attach.
        assert_eq!(may.is_ok(), scope() != Some(3), "{may:?}");
        let gone = may_attach(child.id() as i32).expect_err("it ended");
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn every_scope_has_an_explanation() {
        for scope in [None, Some(0), Some(1), Some(2), Some(3), Some(9)] {
            assert!(!why(scope).is_empty());
        }
    }
}
