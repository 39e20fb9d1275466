//! Signals between home's kernel and the present body of a process.
//!
//! From: `keeper/src/signals/route.rs`. Next: `away.rs`, which sends them.

use super::flood::{FIRST_REALTIME, Flood, WAIT_MAX, signal_number};
use armento_migrate::image::timers;
use armento_model::{Pid, Tid};
use armento_tracee::sys::SigInfo;

/// Each time an exec is turned back for a signal takes a round trip: half a second and more in all.
const EXEC_WAITS: u32 = 10_000;

/// Signals with the threads that they are directed to; `None`: to the process.
pub type HeldSignals = Vec<(Option<Tid>, SigInfo)>;

/// The signals that were sent to the present body, and those that wait.
#[derive(Default)]
pub struct BodySignals {
    /// Sent to the present body.
    sent: u64,
    /// So many of them it had acknowledged when it last asked for an exec.
    acknowledged: u64,
    /// How often an exec was turned back for that.
    exec_retries: u32,
    /// Signals that came during a move, or while the host was behind.
    held: HeldSignals,
    /// Counts the signals that come just now.
    flood: Flood,
}

impl BodySignals {
    /// It has a new body, which had no signal from us yet. Those that are held are for the new body.
    pub fn begin_body(&mut self) {
        (self.sent, self.acknowledged, self.exec_retries) = (0, 0, 0);
    }

    pub fn count_sent(&mut self) {
        self.sent += 1;
    }

    /// `count`: how many signals the body had received when it asked for an exec.
    pub fn acknowledge(&mut self, count: u64) {
        self.acknowledged = count;
    }

    /// Whether the body still has to acknowledge signals of ours. An exec waits for that; not for ever.
    pub fn delay_exec(&mut self, pid: Pid) -> bool {
        if self.sent <= self.acknowledged {
            return false;
        }
        self.exec_retries += 1;
        if self.exec_retries == EXEC_WAITS {
            let lost = self.sent - self.acknowledged;
            eprintln!("process {pid}: {lost} signals were not confirmed before its exec");
        }
        self.exec_retries < EXEC_WAITS
    }

    /// Keeps a signal until a move is over. Signals of one timer become one that counts them.
    pub fn hold(&mut self, to: Option<Tid>, info: &SigInfo) {
        timers::hold(&mut self.held, to, info);
    }

    /// Keeps a signal until the host has caught up: one of each number that does not queue.
    pub fn hold_behind(&mut self, to: Option<Tid>, info: &SigInfo) {
        let same = |(t, i): &(Option<Tid>, SigInfo)| *t == to && i[..4] == info[..4];
        let queues = signal_number(info) >= FIRST_REALTIME;
        if self.held.len() < WAIT_MAX && (queues || !self.held.iter().any(same)) {
            self.hold(to, info);
        }
    }

    pub fn held(&self) -> &HeldSignals {
        &self.held
    }

    pub fn held_mut(&mut self) -> &mut HeldSignals {
        &mut self.held
    }

    /// The first signals that wait, `most` of them.
    pub fn take_held(&mut self, most: usize) -> HeldSignals {
        self.held.drain(..most.min(self.held.len())).collect()
    }

    /// One more came: are they more than `most` within a moment?
    pub fn is_flood(&mut self, most: u32) -> bool {
        self.flood.exceeds(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REALTIME: i32 = FIRST_REALTIME + 2;

    fn signal(number: i32) -> SigInfo {
        let mut info: SigInfo = [0; 128];
        info[..4].copy_from_slice(&number.to_le_bytes());
        info
    }

    #[test]
    fn an_exec_waits_until_the_body_has_every_signal() {
        let mut s = BodySignals::default();
        assert!(!s.delay_exec(1));
        s.count_sent();
        s.count_sent();
        s.acknowledge(1);
        assert!(s.delay_exec(1));
        s.acknowledge(2);
        assert!(!s.delay_exec(1));
    }

    #[test]
    fn an_exec_does_not_wait_for_ever() {
        let mut s = BodySignals::default();
        s.count_sent();
        let turned_back = (0..2 * EXEC_WAITS).filter(|_| s.delay_exec(1)).count();
        assert_eq!(turned_back, EXEC_WAITS as usize - 1);
    }

    #[test]
    fn a_new_body_had_no_signal_and_gets_those_that_are_held() {
        let mut s = BodySignals::default();
        s.count_sent();
        s.hold(None, &signal(libc::SIGTERM));
        s.begin_body();
        assert!(!s.delay_exec(1));
        assert_eq!(s.take_held(usize::MAX).len(), 1);
        assert!(s.held().is_empty());
    }

    #[test]
    fn a_host_that_is_behind_gets_one_of_each_number_that_does_not_queue() {
        let mut s = BodySignals::default();
        for number in [libc::SIGUSR1, libc::SIGUSR1, REALTIME, REALTIME] {
            s.hold_behind(None, &signal(number));
        }
        s.hold_behind(Some(7), &signal(libc::SIGUSR1));
        let numbers: Vec<_> = s.held().iter().map(|(_, i)| signal_number(i)).collect();
        let (one, rt) = (libc::SIGUSR1, REALTIME);
        assert_eq!(numbers, [one, rt, rt, one]);
        assert_eq!(s.take_held(1).len(), 1);
        assert_eq!(s.held().len(), 3);
    }
}
