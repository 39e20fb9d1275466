//! How often members are probed, and how soon a dead one is known to be down.

use foca::{Config, PeriodicParams};
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

fn some(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN)
}

/// foca's LAN settings, but sooner: a node that died is known to be down within about 6 s, well
/// before hosts freeze (10 s) and homes give up (30 s), and an isolated node is called again every
/// few seconds (foca's default is never).
pub fn swim_config() -> Config {
    let every = |s: u64, num: usize| {
        Some(PeriodicParams {
            frequency: Duration::from_secs(s),
            num_members: some(num),
        })
    };
    Config {
        probe_period: Duration::from_secs(1),
        probe_rtt: Duration::from_millis(500),
        num_indirect_probes: some(3),
        max_transmissions: NonZeroU8::new(10).unwrap_or(NonZeroU8::MIN),
        suspect_to_down_after: Duration::from_secs(4),
        // A dead life's name is remembered long enough to outlive every echo of it.
        remove_down_after: Some(Duration::from_secs(3600)),
        // One Ethernet frame without our seal.
        max_packet_size: some(1350),
        notify_down_members: true,
        periodic_announce: every(20, 1),
        periodic_announce_to_down_members: every(5, 2),
        periodic_gossip: every(1, 3),
    }
}
