//! What this node says of itself and passes on of others: once a period, and at once when its memory runs short.

use super::{Gossip, SLOW_PERIODS};
use crate::datagram::Kind;
use crate::{act, hosts};
use armento_client::version;
use armento_gossip::{Entry, Wire as WireWord};
use armento_sense::{Sample, typed_ago};
use std::net::SocketAddr;

impl Gossip {
    pub(super) async fn period(&mut self) {
        let sample = self.sampler.sample();
        let now = self.node.now();
        {
            let mut core = self.node.lock();
            hosts::settle(&mut core, now);
            core.ledger.sampled(sample.runnable, now);
            let keepers = core.keepers.all().map(|keeper| keeper.hello.keeper);
            let used_milli = self.upkeep.look(keepers, now);
            core.ledger.upkeep(used_milli, sample.share_permille, now);
            core.vector.tick(now);
            let core = &mut *core;
            let work = core.ledger.background();
            if core.switches.look_for_owner(work, typed_ago) {
                tracing::info!("the owner is back: guests go home");
                core.vector.urge();
            }
        }
        self.is_news(&sample);
        self.speak(&sample).await;
        self.last = Some(sample);
        act::act(&self.node);
        self.node.enforce();
        self.tell_address();
        self.clocks.look(&self.node);
        if self.periods.is_multiple_of(SLOW_PERIODS) {
            self.slow();
        }
        self.periods += 1;
        // Whatever else has changed its members.
        (self.stirred, self.lives) = (true, 0);
    }

    /// Between two periods: memory that runs short is news that does not wait, and goes to more than one. Once a period
    /// at most.
    pub(super) async fn watch_memory(&mut self) {
        let Some(mut sample) = self.last.clone() else {
            return;
        };
        (sample.mem_total_kib, sample.mem_free_kib) = self.sampler.memory();
        if !self.short && self.is_news(&sample) {
            self.speak(&sample).await;
        }
    }

    /// Whether memory has begun to run short: then all are to know.
    fn is_news(&mut self, sample: &Sample) -> bool {
        let short = sample.mem_free_kib < self.node.policy.reserve_kib(sample.mem_total_kib);
        let before = std::mem::replace(&mut self.short, short);
        let news = short && !before;
        if news {
            tracing::info!("memory runs short: {} KiB are free", sample.mem_free_kib);
            self.node.lock().vector.urge();
        }
        news
    }

    /// Tells what this node is like, and what it knows of others.
    async fn speak(&mut self, sample: &Sample) {
        let now = self.node.now();
        let messages = {
            let mut core = self.node.lock();
            let mut entry = Entry::new(core.me.clone(), self.node.farm.boot);
            sample.fill(&mut entry);
            entry.load = core.ledger.load();
            entry.guests = u32::try_from(core.hosts.guests().count()).unwrap_or(u32::MAX);
            entry.shut = core.switches.keeps_out().is_some();
            entry.cpu = self.sampler.cpu().clone();
            entry.version = crate::daemon::version();
            entry.wire = match self.node.wire {
                crate::Wire::Tls => WireWord::Tls,
                crate::Wire::Plain => WireWord::Plain,
            };
            core.vector.set_own(entry, now);
            // Who is quiet tells nobody.
            let peers = match core.switches.quiet() {
                true => Vec::new(),
                false => core.peers(),
            };
            let core = &mut *core;
            let sent = core.vector.send(now, &mut core.dice, &peers);
            let addressed = |(name, m)| Some((core.addr_of(&name)?, m));
            sent.into_iter().filter_map(addressed).collect::<Vec<_>>()
        };
        for (addr, message) in messages {
            match postcard::to_stdvec(&message) {
                Ok(bytes) if version::is_to_come() => self.send_more(addr, bytes).await,
                Ok(bytes) => self.send(addr, Kind::Vector, &bytes).await,
                Err(e) => tracing::warn!("load vector: {e}"),
            }
        }
    }

    /// As a version to come may: more behind what is known, and datagrams of another kind.
    async fn send_more(&self, to: SocketAddr, mut vector: Vec<u8>) {
        vector.extend_from_slice(b"to come");
        self.send(to, Kind::Vector, &vector).await;
        self.send(to, Kind::ToCome, b"to come").await;
    }
}
