//! Hosts whose guests must go, and hosts that are open again.

use super::entry::Entry;
use super::record::Record;
use super::table::HostTable;
use armento_client::api::{Body, Order};
use armento_model::{NodeName, Stay};
use std::time::{Duration, Instant};

/// Which hosts are shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    All,
    /// Those without guests.
    Idle,
}

impl HostTable {
    /// Orders guests of that user away, or only shuts hosts that have none; each host again after `again`. Returns the
    /// hosts that are to send guests away for the first time, and those that still had guests after `patience`.
    pub fn expel(
        &mut self,
        (home, uid): (&NodeName, u32),
        whom: Whom,
        order: &Order,
        again: Duration,
        patience: Duration,
    ) -> (Vec<Record>, Vec<Record>) {
        let now = Instant::now();
        let (mut leave, mut lost) = (Vec::new(), Vec::new());
        let theirs = |e: &&mut Entry| {
            e.record().is_some_and(|r| r.home == *home && r.uid == uid)
                && (whom == Whom::All || e.guests.is_empty())
        };
        for e in self.0.values_mut().filter(theirs) {
            let (since, last) = e.expelled.unwrap_or((now, now));
            if now.duration_since(since) > patience && !e.guests.is_empty() {
                lost.extend(e.record().cloned());
            }
            let due = e.expelled.is_none() || now.duration_since(last) >= again;
            let sent = due
                && e.session
                    .as_ref()
                    .is_some_and(|(_, out)| out.send(0, Body::Order(order.clone())));
            if sent {
                let first = e.expelled.is_none() && !e.guests.is_empty();
                leave.extend(e.record().filter(|_| first).cloned());
                e.expelled = Some((since, now));
            }
        }
        (leave, lost)
    }

    /// That user is trusted (again). Returns the hosts that were shut.
    pub fn welcome(&mut self, home: &NodeName, uid: u32) -> Vec<Record> {
        let mut opened = Vec::new();
        let theirs = |e: &&mut Entry| e.record().is_some_and(|r| r.home == *home && r.uid == uid);
        for e in self.0.values_mut().filter(theirs) {
            let hears = e.session.is_some();
            let expelled = e.expelled.take().is_some() || (hears && e.may_be_shut);
            e.may_be_shut &= !hears;
            if let Some((_, out)) = e.session.as_ref().filter(|_| expelled) {
                let open = Order::Expel {
                    why: String::new(),
                    stay: Stay::NotTrusted,
                    for_ms: 0,
                };
                out.send(0, Body::Order(open));
            }
            opened.extend(e.record().filter(|_| expelled).cloned());
        }
        opened
    }

    /// Guests that were told to go and have not gone.
    pub fn expelled_guests(&self) -> u64 {
        let expelled = self.0.values().filter(|e| e.expelled.is_some());
        expelled.map(|e| e.guests.len() as u64).sum()
    }
}
