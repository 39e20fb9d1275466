//! A signal that ends a program with a core dump: the body comes home first, for the deputy has no memory to dump.
//!
//! From: `default_action.rs`. Next: `keeper/src/moves/run.rs`; home's kernel delivers the signal, which travels with its
//! thread.

use armento_model::Pid;
use armento_tracee::{sys, text};

/// KERNEL: signal(7), "Core".
const CORE: [i32; 10] = [
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGSYS,
];

/// How often it is tried. Then it ends without its memory in the dump.
pub const TRIES: u32 = 50;

/// Whether home's kernel would write a core of `pid` for this signal.
pub fn wanted(pid: Pid, sig: i32) -> bool {
    if !CORE.contains(&sig) {
        return false;
    }
    let (soft, _) = sys::limit(pid, libc::RLIMIT_CORE).unwrap_or_default();
    // KERNEL: core(5). A pipe gets it whatever the limit; 1 means none there.
    let pipe = text::read("/proc/sys/kernel/core_pattern").is_ok_and(|p| p.starts_with('|'));
    if pipe { soft != 1 } else { soft != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signals_that_dump_core_bring_a_body_home() {
        let me = std::process::id() as Pid;
        for sig in [libc::SIGTERM, libc::SIGKILL, libc::SIGHUP, libc::SIGPIPE] {
            assert!(!wanted(me, sig), "{sig}");
        }
        // All of them alike, as this machine has it.
        let abort = wanted(me, libc::SIGABRT);
        assert!(CORE.iter().all(|s| wanted(me, *s) == abort));
    }
}
