//! What this node sends of itself and passes on of others, once a period, and what it looks at then.
//!
//! Next: `noded/src/policy/act.rs`.

use super::slow::Slow;
use super::swim::Swim;
use crate::address;
use crate::config::Wire;
use crate::peer::Kind;
use crate::policy::{enforce_settings, order_moves};
use crate::state::Node;
use crate::version::shown_version;
use crate::work::{ClockWatch, Overhead};
use armento_client::version;
use armento_gossip::{Entry, Wire as WireWord};
use armento_sense::{Sample, Sampler, typed_ago};
use std::net::SocketAddr;
use std::sync::Arc;

/// Periods between two looks at what needs no hurry: lost members, logs, ended hosts.
const SLOW_PERIODS: u64 = 5;

pub struct Period {
    node: Arc<Node>,
    sampler: Sampler,
    overhead: Overhead,
    /// The newest, of the last period.
    last: Option<Sample>,
    /// Memory was short when it was last looked at.
    short: bool,
    /// Whether this machine still has the address that the others were told.
    address: address::Watch,
    clocks: ClockWatch,
    slow: Slow,
    periods: u64,
}

impl Period {
    pub fn new(node: Arc<Node>) -> Period {
        Period {
            sampler: Sampler::new(),
            overhead: Overhead::default(),
            last: None,
            short: false,
            address: address::Watch::default(),
            clocks: ClockWatch::default(),
            slow: Slow::new(&node),
            periods: 0,
            node,
        }
    }

    /// Once a period.
    pub async fn run(&mut self, swim: &mut Swim) {
        let sample = self.sampler.sample();
        let now = self.node.now();
        {
            let mut core = self.node.lock();
            core.settle_guests(now);
            core.ledger.sampled(sample.runnable, now);
            let keepers = core.keepers.all().map(|keeper| keeper.hello.keeper);
            let used_milli = self.overhead.look(keepers, now);
            core.ledger.upkeep(used_milli, sample.share_permille, now);
            core.vector.tick(now);
            let core = &mut *core;
            let work = core.ledger.background();
            if core.switches.owner.look(work, typed_ago) {
                tracing::info!("the owner is back: guests go home");
                core.vector.urge();
            }
        }
        self.runs_short(&sample);
        self.speak(swim, &sample).await;
        self.last = Some(sample);
        order_moves(&self.node);
        enforce_settings(&self.node);
        self.follow_address(swim);
        self.clocks.look(&self.node);
        if self.periods.is_multiple_of(SLOW_PERIODS) {
            self.slow.run(swim, self.periods / SLOW_PERIODS);
        }
        self.periods += 1;
        // Members may have changed in other ways, too.
        swim.look_again();
    }

    /// Between two periods: that memory runs short is sent at once, and to more than one node. Once a period at most.
    pub async fn watch_memory(&mut self, swim: &Swim) {
        let Some(mut sample) = self.last.clone() else {
            return;
        };
        (sample.mem_total_kib, sample.mem_free_kib) = self.sampler.memory();
        if !self.short && self.runs_short(&sample) {
            self.speak(swim, &sample).await;
        }
    }

    /// Whether memory has begun to run short: then all are to know.
    fn runs_short(&mut self, sample: &Sample) -> bool {
        let short = sample.mem_free_kib < self.node.policy.reserve_kib(sample.mem_total_kib);
        let before = std::mem::replace(&mut self.short, short);
        let begins = short && !before;
        if begins {
            tracing::info!("memory runs short: {} KiB are free", sample.mem_free_kib);
            self.node.lock().vector.urge();
        }
        begins
    }

    /// Sends the state of this node, and what it knows of others.
    async fn speak(&self, swim: &Swim, sample: &Sample) {
        let now = self.node.now();
        let messages = {
            let mut core = self.node.lock();
            let mut entry = Entry::new(core.me.clone(), self.node.farm.boot);
            sample.fill(&mut entry);
            entry.load = core.ledger.load();
            entry.guests = u32::try_from(core.hosts.guests().count()).unwrap_or(u32::MAX);
            entry.shut = core.switches.keeps_out().is_some();
            entry.drained = core.switches.drains();
            entry.cpu = self.sampler.cpu().clone();
            entry.version = shown_version();
            entry.wire = match self.node.wire {
                Wire::Tls => WireWord::Tls,
                Wire::Plain => WireWord::Plain,
            };
            core.vector.set_own(entry, now);
            // A quiet node sends nothing.
            let peers = match core.switches.quiet() {
                true => Vec::new(),
                false => core.members.peers(),
            };
            let core = &mut *core;
            let sent = core.vector.send(now, &mut core.dice, &peers);
            let addressed = |(name, m)| Some((core.members.addr_of(&name)?, m));
            sent.into_iter().filter_map(addressed).collect::<Vec<_>>()
        };
        for (addr, message) in messages {
            match postcard::to_stdvec(&message) {
                Ok(bytes) if version::is_to_come() => send_more(swim, addr, bytes).await,
                Ok(bytes) => swim.send(addr, Kind::Vector, &bytes).await,
                Err(e) => tracing::warn!("load vector: {e}"),
            }
        }
    }

    /// Tells the others when this machine has another address.
    fn follow_address(&mut self, swim: &mut Swim) {
        let Some(addr) = self.address.look(&self.node.farm, self.node.addr()) else {
            return;
        };
        if let Err(e) = self.node.moved_to(addr) {
            tracing::warn!("{e}: a restart will not know the address");
        }
        swim.move_to(addr);
    }
}

/// As a version to come may: more behind what is known, and datagrams of another kind.
async fn send_more(swim: &Swim, to: SocketAddr, mut vector: Vec<u8>) {
    vector.extend_from_slice(b"to come");
    swim.send(to, Kind::Vector, &vector).await;
    swim.send(to, Kind::ToCome, b"to come").await;
}
