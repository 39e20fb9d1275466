//! The price of being away from one's files: time lost for each second of CPU time.

use crate::file_use::Traffic;
use crate::{Node, Policy, Proc, View};
use armento_model::{Hint, NodeName};

/// A home that serves calls is at most this much slower than a standard core, percent: its load is a snapshot.
const SERVED_PERCENT_MAX: u64 = 10_000;
/// Losses are bounded so that no sum of them overflows: a day for a second.
const LOSS_US_MAX: u64 = 86_400_000_000;

/// What all losses of one decision have in common.
pub(crate) struct Losses<'a> {
    view: &'a View,
    policy: &'a Policy,
    /// Time that home takes for a second's work of a standard core, percent of a second.
    served_percent: u64,
}

impl<'a> Losses<'a> {
    /// `home_cost`: [`crate::cost::cost`] of home with its present work, 10,000 for a whole standard core.
    pub fn new(view: &'a View, policy: &'a Policy, home_cost: u64) -> Losses<'a> {
        Losses {
            view,
            policy,
            served_percent: (home_cost / 100).clamp(1, SERVED_PERCENT_MAX),
        }
    }

    /// Microseconds that `proc` loses at `at` for each second of a standard core that it computes: its waits for the
    /// nodes that have its files, and the bytes.
    pub fn us(&self, proc: &Proc, at: &Node) -> u64 {
        if proc.hint == Some(Hint::Cpu) || proc.files.is_none() {
            return 0;
        }
        let name = &at.entry.node;
        let home = self.of_home(proc.files.home, at);
        let other = |(holder, traffic): &(NodeName, Traffic)| match holder == name {
            true => 0,
            // The round trip between two other nodes is unknown: about the longer of theirs to this one.
            false => {
                let far = self.view.node(holder).map_or(0, |n| n.rtt_us);
                self.of(*traffic, far.max(at.rtt_us), 100)
            }
        };
        let others = proc.files.others.iter().map(other);
        others.fold(home, u64::saturating_add).min(LOSS_US_MAX)
    }

    /// The same of what is done with home's files only.
    pub fn of_home(&self, traffic: Traffic, at: &Node) -> u64 {
        match at.entry.node == self.view.me {
            true => 0,
            false => self
                .of(traffic, at.rtt_us, self.served_percent)
                .min(LOSS_US_MAX),
        }
    }

    /// `served_percent`: as above, for the node that serves. Half of the work of a call is done there.
    fn of(&self, traffic: Traffic, rtt_us: u64, served_percent: u64) -> u64 {
        let policy = self.policy;
        let work = |us: u64| (us * 50 + us * served_percent / 2) / 100;
        let waits = traffic
            .waits
            .saturating_mul(rtt_us.saturating_add(work(policy.forward_us)));
        let posts = traffic.posts.saturating_mul(policy.post_us);
        // Megabits a second are bits a microsecond.
        let bytes = traffic.bytes.saturating_mul(8) / policy.link_mbit.max(1);
        waits.saturating_add(posts).saturating_add(bytes)
    }
}

/// A share of a processor, thousandths of a standard core, less the time that is lost to files: progress with both.
pub(crate) fn slowed(rate: i64, loss_us: u64) -> i64 {
    if loss_us == 0 {
        return rate;
    }
    let each = 10_000_000 / rate.max(1) as u64 + loss_us / 100;
    (10_000_000 / each.max(1)) as i64
}

/// The part of its time that a process loses that gets this share of a processor, thousandths.
pub(crate) fn lost_permille(rate: i64, loss_us: u64) -> u64 {
    let computes_us = 1_000_000_000 / rate.max(1) as u64;
    loss_us * 1000 / (computes_us + loss_us).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_time_adds_to_the_time_that_computing_takes() {
        let check = |rate, loss_us, slow, permille| {
            assert_eq!(slowed(rate, loss_us), slow, "{rate} {loss_us}");
            assert_eq!(lost_permille(rate, loss_us), permille, "{rate} {loss_us}");
        };
        check(1000, 0, 1000, 0);
        check(1000, 1_000_000, 500, 500);
        check(500, 1_000_000, 333, 333);
        // A tenth of a core loses a smaller part of its time.
        check(100, 1_000_000, 90, 90);
        check(1000, LOSS_US_MAX, 0, 999);
        check(0, 0, 0, 0);
    }
}
