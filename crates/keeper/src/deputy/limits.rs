//! Resource limits that another process changes (prlimit): the body gets the same.
//!
//! From: `wait_loop.rs`, before the answer to a call that had to be waited for or brings data of others: a program that is
//! told of a new limit runs under it. `keeper/src/traced/external_limits.rs`, five times a second.
//! Next: `host/src/home/messages.rs`.

use super::common::Common;
use super::host_link::HostLink;
use crate::sync::lock;
use armento_model::{HomePid, Pid};
use armento_tracee::sys;
use armento_wire::talk::ToHost;

/// Tells the host the limits of `pid` if they are others than it knows.
pub fn tell_limits(common: &Common, pid: Pid, link: &HostLink) {
    let mut known = lock(&common.limits);
    let now = sys::limits(pid);
    // A process that is gone has none.
    if *known != now && !now.is_empty() {
        known.clone_from(&now);
        link.send(&ToHost::Limits {
            pid: HomePid::of_home(pid),
            limits: now,
        });
    }
}

/// Whether its caller gets data of other processes by this call, though it need not wait.
pub fn brings_data(nr: u16) -> bool {
    matches!(
        i64::from(nr),
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_msgrcv
    )
}
