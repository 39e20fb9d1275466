//! The loop over datagrams, timers and periods.

use super::period::Period;
use super::swim::Swim;
use crate::state::Node;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

/// KERNEL: udp(7): the longest payload of an IPv4 datagram.
const DATAGRAM_MAX: usize = 65_507;
/// Memory is looked at so often between periods while processes of the farm are here: a program fills a gigabyte in a
/// third of a second, and one file is read.
const MEMORY_GLANCE: Duration = Duration::from_millis(250);

pub struct Gossip {
    node: Arc<Node>,
    swim: Swim,
    period: Period,
}

impl Gossip {
    pub fn new(node: Arc<Node>, socket: UdpSocket) -> Gossip {
        Gossip {
            swim: Swim::new(node.clone(), socket),
            period: Period::new(node.clone()),
            node,
        }
    }

    /// Runs until `stop` is set; then tells the others, if this node leaves the farm.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let period = Duration::from_millis(self.node.config.gossip_period_ms);
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut glances = interval(MEMORY_GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut buf = vec![0; DATAGRAM_MAX];
        loop {
            self.swim.reseal();
            let watched = self.node.lock().has_work();
            let due = self.swim.due();
            let timer = async {
                match due {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = stop.changed() => break,
                _ = ticks.tick() => self.period.run(&mut self.swim).await,
                _ = glances.tick(), if watched => self.period.watch_memory(&self.swim).await,
                () = timer => self.swim.fire(),
                got = self.swim.next(&mut buf) => match got {
                    Ok((n, from)) => self.swim.receive(&buf[..n], from),
                    // KERNEL: udp(7): an ICMP error of an earlier send; the next call is fresh.
                    Err(e) => tracing::trace!("datagrams: {e}"),
                },
            }
            self.swim.settle().await;
        }
        if self.node.lock().leaving {
            self.swim.leave();
            self.swim.settle().await;
        }
    }
}
