//! Signals that come faster than they can be passed on: how many came, and what a deputy blocks meanwhile.

use crate::deputy::HostLink;
use armento_tracee::sys::SigInfo;
use std::time::{Duration, Instant};

/// KERNEL: SIGRTMIN.
pub const FIRST_REALTIME: i32 = 32;

/// Messages that a host may be behind before signals wait: it hears some hundred thousand in a second.
pub const AHEAD_MAX: u64 = 1024;

/// Signals that wait for one process. KERNEL: senders are told EAGAIN at RLIMIT_SIGPENDING, which is not possible here.
pub const WAIT_MAX: usize = 1 << 17;

/// The time in which the signals of a process, or of a tree, are counted: too many are a flood.
const SPAN: Duration = Duration::from_millis(10);

/// The signals of a process, or of a tree, within [`SPAN`].
#[derive(Default)]
pub struct Flood {
    since: Option<Instant>,
    count: u32,
}

impl Flood {
    /// One more: are they too many?
    pub fn exceeds(&mut self, most: u32) -> bool {
        if self.since.is_none_or(|s| s.elapsed() > SPAN) {
            (self.since, self.count) = (Some(Instant::now()), 0);
        }
        self.count += 1;
        self.count > most
    }
}

/// What a deputy blocks for a moment.
pub struct BlockedSignals {
    pub signals: u64,
    /// Its mask without them, and with them. A call with a mask of its own sets another meanwhile.
    pub masks: (u64, u64),
    pub until: Instant,
}

pub fn is_behind(link: &HostLink) -> bool {
    link.session.unheard() > AHEAD_MAX
}

pub fn signal_number(info: &SigInfo) -> i32 {
    info[0].into()
}
