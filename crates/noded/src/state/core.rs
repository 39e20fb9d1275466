//! What a daemon knows of the farm and of its own processes, all under the one lock of `Node`.

use super::members::{Life, Standing, State};
use super::switches::Switches;
use crate::clock::Known;
use crate::hosts::HostTable;
use crate::keepers::{Consents, Keeper, KeeperTable, Rejoin, TraceRate};
use crate::revocation::Revocation;
use crate::state_dir::Member;
use armento_balance::{Guest, Ledger};
use armento_client::api::{GuestInfo, ProcInfo};
use armento_gossip::{Dice, Tick, Vector};
use armento_model::{NodeName, Pid, Stay};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Instant;

/// Members remembered; the simulator's largest farm.
const MEMBERS_MAX: usize = 10_000;
/// Members that left and are remembered for it.
const GONE_MAX: usize = 1024;

pub struct Core {
    pub me: NodeName,
    pub members: BTreeMap<NodeName, Standing>,
    /// Members that left, with their last life: reports of it are out of date.
    pub(super) gone: BTreeMap<NodeName, u64>,
    /// A member came, went, or moved since the roster was written.
    pub members_changed: bool,
    pub vector: Vector,
    pub ledger: Ledger,
    pub dice: Dice,
    pub keepers: KeeperTable,
    /// Keepers that were there before this daemon and have not said hello yet.
    pub rejoin: Rejoin,
    pub hosts: HostTable,
    pub leaving: bool,
    /// Nodes that are about to be removed, until then: nothing goes there, and what is there comes home.
    pub draining: BTreeMap<NodeName, Instant>,
    /// Targets that did not want a user's programs, until when they are not tried again, and why.
    pub refused: BTreeMap<(NodeName, u32), (Instant, Stay)>,
    pub switches: Switches,
    /// Processes that were ordered home, and when.
    pub recalled: BTreeMap<Pid, Instant>,
    /// What was seen of the others' clocks.
    pub clocks: HashMap<NodeName, Known>,
    /// Which programs named which keepers to Yama, and how often that was asked for lately.
    pub consents: Consents,
    pub trace_rate: TraceRate,
    /// Number of the newest session or ticket.
    pub count: u64,
}

/// A member that has not reported yet.
pub fn standing(known: Member) -> (NodeName, Standing) {
    let standing = Standing {
        boot: 0,
        // Until foca reports it.
        state: State::Down,
        known,
    };
    (standing.known.name.clone(), standing)
}

impl Core {
    /// A number for a session or an order.
    pub fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Processes whose home is here, of one user or of all.
    pub fn procs(&self, uid: Option<u32>) -> Vec<ProcInfo> {
        let all = self.keepers.procs();
        all.filter(|p| uid.is_none_or(|uid| p.uid == uid))
            .cloned()
            .collect()
    }

    /// Nodes that were removed and have not joined again.
    pub fn removed(&self, revocation: &Revocation) -> BTreeSet<NodeName> {
        let names = revocation.removed.iter().map(|r| &r.node);
        let gone = names.filter(|n| **n != self.me && !self.members.contains_key(*n));
        gone.cloned().collect()
    }

    pub fn addr_of(&self, name: &NodeName) -> Option<SocketAddr> {
        self.members.get(name).map(|m| m.known.addr)
    }

    /// Living members without us.
    pub fn peers(&self) -> Vec<NodeName> {
        let up = self.members.values().filter(|m| m.is_up());
        up.map(|m| m.known.name.clone()).collect()
    }

    /// A node was admitted. Returns the members it should call.
    pub fn member_admitted(&mut self, member: Member) -> Vec<Member> {
        let (name, standing) = standing(member);
        let others = self.members.values().map(|m| &m.known);
        // Other nodes are not told which machines they are on.
        let shown = |m: &Member| Member {
            machine: None,
            ..m.clone()
        };
        let seeds = others.filter(|m| m.name != name).map(shown).collect();
        self.members.insert(name, standing);
        seeds
    }

    /// A node left for good.
    pub fn member_left(&mut self, name: &NodeName) {
        let boot = self.members.remove(name).map_or(0, |m| m.boot);
        if self.gone.len() >= GONE_MAX {
            self.gone.pop_first();
        }
        self.gone.insert(name.clone(), boot);
        self.vector.forget(name);
        self.members_changed = true;
    }

    /// A process of this home is kept here, or a guest runs here.
    pub fn has_work(&self) -> bool {
        self.keepers.all().next().is_some() || self.hosts.guests().next().is_some()
    }

    /// Age of the youngest process of this home; 0 of one that is being started.
    pub fn youngest_ms(&self) -> Option<u64> {
        let age = |k: &Keeper| k.procs.iter().map(|p| p.age_ms).min().unwrap_or(0);
        self.keepers.all().map(age).min()
    }

    /// Takes foca's whole membership, which replaces what we knew.
    pub fn sync_members(&mut self, lives: impl Iterator<Item = (Life, State)>) {
        let mut newest: BTreeMap<NodeName, (Life, State)> = BTreeMap::new();
        let outdated = |life: &Life| {
            self.gone
                .get(&life.name)
                .is_some_and(|boot| life.boot <= *boot)
        };
        for (life, state) in lives.filter(|(life, _)| life.name != self.me && !outdated(life)) {
            let older = newest
                .get(&life.name)
                .is_none_or(|(l, _)| l.boot <= life.boot);
            if older {
                newest.insert(life.name.clone(), (life, state));
            }
        }
        for (name, (life, state)) in newest {
            let known = self.members.get_mut(&name);
            let Some(m) = known else {
                // A dead node we do not know has left, or died before this daemon began.
                if state != State::Down && self.members.len() < MEMBERS_MAX {
                    self.discovered(life, state);
                }
                continue;
            };
            if life.boot < m.boot {
                continue;
            }
            if m.known.addr != life.addr || !m.known.seen_up {
                self.members_changed = true;
            }
            if m.state != state {
                tracing::info!("{name} is {}", state.name());
            }
            if state == State::Down && m.is_up() {
                self.vector.forget(&name);
            }
            if state != State::Down && !m.is_up() {
                self.vector.welcome(&name);
            }
            m.known.addr = life.addr;
            m.known.seen_up |= state != State::Down;
            m.boot = life.boot;
            m.state = state;
        }
    }

    fn discovered(&mut self, life: Life, state: State) {
        tracing::info!("{} ({}) is {}", life.name, life.addr, state.name());
        let known = Member {
            name: life.name.clone(),
            addr: life.addr,
            admitted: 0,
            seen_up: true,
            machine: None,
        };
        let boot = life.boot;
        self.members
            .insert(life.name, Standing { known, boot, state });
        self.members_changed = true;
    }

    /// Processes of this home that are elsewhere.
    pub fn away(&self) -> BTreeSet<Pid> {
        let out = self.keepers.procs().filter(|p| p.place != self.me);
        out.map(|p| p.pid).collect()
    }

    /// Tells the ledger which guests live here.
    pub fn settle_guests(&mut self, now: Tick) {
        let guest = |g: &GuestInfo| Guest {
            home: g.home.clone(),
            pid: g.pid,
            threads: g.threads,
            busy_percent: g.busy_percent,
        };
        let guests: Vec<Guest> = self.hosts.guests().map(guest).collect();
        self.ledger.guests(&guests, now);
    }
}

#[cfg(test)]
mod tests;
