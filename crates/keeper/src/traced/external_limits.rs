//! Limits and niceness that somebody at home gives a process that is away (prlimit, renice): its body gets the same.
//!
//! From: `tree.rs`, five times a second; `deputy/turns.rs`, before a call is answered that had to be waited for or
//! brings others' words, so that who is told of a new limit runs under it. Next: `host/src/talk.rs`.

use crate::deputy::thread::Common;
use crate::hosts::connect::HostLink;
use crate::moves::run::{Task, Why};
use crate::state::keeper::lock;
use crate::state::tree::{Proc, Tree};
use crate::sys as ksys;
use armento_client::api::Dest;
use armento_model::{Pid, Stay, Tid};
use armento_tracee::sys;
use armento_wire::talk::ToHost;
use std::collections::BTreeMap;

/// Resource, soft and hard limit.
pub type Limits = Vec<(u32, u64, u64)>;

/// Tells the host the limits of `pid` if they are others than it knows.
pub fn tell_limits(common: &Common, pid: Pid, link: &HostLink) {
    let mut known = lock(&common.limits);
    let now = sys::limits(pid);
    // A process that is gone has none.
    if *known != now && !now.is_empty() {
        known.clone_from(&now);
        link.tell(&ToHost::Limits { pid, limits: now });
    }
}

/// Does its caller hear from others by this call, though it need not wait?
pub fn hears(nr: u16) -> bool {
    matches!(
        i64::from(nr),
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_msgrcv
    )
}

impl Tree {
    /// What has changed goes to the hosts; who has a limit of CPU time comes home, where it is counted.
    pub fn watch_outside(&mut self) {
        for p in self.procs.values_mut() {
            let Some(link) = p.link().cloned() else {
                continue;
            };
            tell_limits(&p.common, p.pid, &link);
            let list = changed(p);
            if !list.is_empty() {
                link.tell(&ToHost::Nice { list });
            }
            if ksys::cpu_limited(p.pid) && !self.keep.tasks.call_home(p.pid) {
                let why = "it has a limit of CPU time".to_owned();
                self.keep.tasks.push_urgent(Task {
                    pid: p.pid,
                    to: Dest::Home,
                    why: Why::Call(Stay::UnsupportedCall, why),
                });
            }
        }
    }
}

/// Threads whose niceness is not what their host was told last. KERNEL: a thread has its own, getpriority(2).
fn changed(p: &mut Proc) -> Vec<(Tid, i32)> {
    let now: BTreeMap<Tid, i32> = p
        .threads
        .keys()
        .filter_map(|tid| Some((*tid, ksys::nice(*tid)?)))
        .collect();
    let before = std::mem::replace(&mut p.nice, now);
    let told = |tid: &Tid| before.get(tid).copied().unwrap_or(0);
    p.nice
        .iter()
        .filter(|(tid, nice)| told(tid) != **nice)
        .map(|(tid, nice)| (*tid, *nice))
        .collect()
}
