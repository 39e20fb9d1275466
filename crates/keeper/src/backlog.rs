//! Signals that come faster than a host hears of them wait at home, as they would in the kernel: of one timer's only one
//! waits and counts the others, and of the numbers that do not queue one each.
//!
//! From: `signals.rs`. Next: `tree.rs` passes them on, once the host has caught up or the process has moved.

use crate::links::HostLink;
use crate::queue::{self, FIRST_REALTIME};
use crate::tree::{Proc, Tree};
use armento_migrate::image::timers;
use armento_model::Tid;
use armento_tracee::sys::SigInfo;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Messages that a host may be behind before signals wait: it hears some hundred thousand in a second.
const AHEAD_MAX: u64 = 1024;
/// Signals that wait for one process. KERNEL: senders are told EAGAIN at RLIMIT_SIGPENDING, which nobody can do here.
const WAIT_MAX: usize = 1 << 17;
/// How soon they are looked at again.
pub const LOOK: Duration = Duration::from_millis(5);

fn behind(link: &HostLink) -> bool {
    link.session.unheard() > AHEAD_MAX
}

impl Proc {
    /// Must a signal wait, because its host is behind or others wait already?
    pub fn backs_up(&self) -> bool {
        !self.held.is_empty() || self.link().is_some_and(|l| behind(l))
    }

    /// Before: [`Proc::backs_up`].
    pub fn wait(&mut self, to: Option<Tid>, info: &SigInfo) {
        let same = |(t, i): &(Option<Tid>, SigInfo)| *t == to && i[..4] == info[..4];
        let queues = queue::number(info) >= FIRST_REALTIME;
        if self.held.len() < WAIT_MAX && (queues || !self.held.iter().any(same)) {
            timers::hold(&mut self.held, to, info);
        }
    }
}

impl Tree {
    /// Passes on what waits, where the host has caught up.
    pub fn catch_up(&mut self) {
        let caught = |p: &&mut Proc| {
            !p.held.is_empty()
                && !p.common.breaking.load(Ordering::Acquire)
                && p.link().is_some_and(|l| !behind(l))
        };
        for p in self.procs.values_mut().filter(caught) {
            let most = p.held.len().min(AHEAD_MAX as usize);
            for (to, info) in p.held.drain(..most).collect::<Vec<_>>() {
                p.pass_on(to, &info);
            }
        }
        self.backlog = self.procs.values().any(|p| !p.held.is_empty());
    }
}
