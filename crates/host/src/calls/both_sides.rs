//! Calls that home carries out and the body too: limits, the disposition of SIGCHLD. And the continuation of a call that
//! a stop interrupted at home.
//!
//! From: `dispatch.rs`. Next: `reply.rs`, which carries out the body's part.

use super::come_home::come_home;
use super::forward::{send, send_then};
use super::post::post;
use crate::state::{GuestThread, Host, Then};
use armento_abi::{Packed, Plan};
use armento_model::Stay;
use armento_tracee::notify::Notice;
use armento_tracee::sys;
use std::sync::Arc;

/// setrlimit and prlimit64 of the process itself: home decides, the body follows. CPU time is counted
/// where it is used, so a limit on it brings the process home.
pub fn limit(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let old_call = i64::from(n.nr) == libc::SYS_setrlimit;
    let (pid, resource, new) = if old_call {
        (0, n.args[0], n.args[1])
    } else {
        (n.args[0], n.args[1], n.args[2])
    };
    let own = pid == 0 || pid as i32 == thread.pid.in_program();
    let mut raw = [0u8; 16];
    if !own || new == 0 || !matches!(sys::vm_read(thread.here, new, &mut raw), Ok(16)) {
        return send(host, thread, n);
    }
    if resource as u32 == libc::RLIMIT_CPU {
        return come_home(
            host,
            thread,
            n.id,
            Stay::UnsupportedCall,
            "a limit of CPU time",
        );
    }
    let word = |i: usize| u64::from_le_bytes(raw[i..i + 8].try_into().unwrap_or_default());
    let then = Then::Limit(resource as u32, word(0), word(8));
    send_then(host, thread, n, then);
}

/// SIGCHLD's disposition decides about zombies, which are at home: set it there too, then here.
pub fn sigchld(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    let mut act = [0u8; 32];
    if n.args[1] == 0 || !matches!(sys::vm_read(thread.here, n.args[1], &mut act), Ok(32)) {
        host.listener.let_through(n.id);
        return;
    }
    let word = |i: usize| u64::from_le_bytes(act[i..i + 8].try_into().unwrap_or_default());
    let flags = word(8) & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    // A handler stays one, though it never runs there: the default would discard a pending SIGCHLD.
    let data: Vec<u8> = [word(0), flags, 0, 0]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let packed = Packed {
        nr: n.nr as u16,
        args: [n.args[0], 0, 0, 8, 0, 0],
        data,
        arg_ptrs: 0b10,
        ..Packed::default()
    };
    post(
        host,
        thread,
        n,
        Plan {
            packed,
            dests: Vec::new(),
        },
        None,
        0,
        Then::RunHere,
    );
}

/// restart_syscall: continues in the deputy the call that a stop interrupted there.
pub fn restart(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) {
    // The kernel wants no arguments; home needs those of the call that goes on, for its results.
    let packed = Packed {
        nr: n.nr as u16,
        args: n.args,
        ..Packed::default()
    };
    post(
        host,
        thread,
        n,
        Plan {
            packed,
            dests: Vec::new(),
        },
        None,
        0,
        Then::Nothing,
    );
}
