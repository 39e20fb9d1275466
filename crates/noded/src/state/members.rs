//! The members of the farm as this node knows them, itself left out.

use super::member::{Life, Standing, State};
use crate::revocation::Revocation;
use crate::state_dir::Member;
use armento_gossip::Vector;
use armento_model::NodeName;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Members remembered; the simulator's largest farm.
const MEMBERS_MAX: usize = 10_000;
/// Members that left and are remembered for it.
const GONE_MAX: usize = 1024;

pub struct Members {
    me: NodeName,
    all: BTreeMap<NodeName, Standing>,
    /// Members that left, with their last life: reports of it are out of date.
    gone: BTreeMap<NodeName, u64>,
    /// A member came, went, or moved since the roster was written.
    changed: bool,
}

/// A member that has not reported yet.
fn standing(known: Member) -> (NodeName, Standing) {
    let standing = Standing {
        boot: 0,
        // Until foca reports it.
        state: State::Down,
        known,
    };
    (standing.known.name.clone(), standing)
}

impl Members {
    pub fn new(me: NodeName, roster: Vec<Member>) -> Members {
        let all = roster.into_iter().map(standing);
        Members {
            all: all.filter(|(name, _)| *name != me).collect(),
            gone: BTreeMap::new(),
            changed: false,
            me,
        }
    }

    pub fn get(&self, name: &NodeName) -> Option<&Standing> {
        self.all.get(name)
    }

    pub fn contains(&self, name: &NodeName) -> bool {
        self.all.contains_key(name)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Standing> {
        self.all.values()
    }

    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.all.keys()
    }

    /// Members that are not down.
    pub fn up(&self) -> impl Iterator<Item = &Standing> {
        self.all.values().filter(|m| m.is_up())
    }

    /// The roster is to be written.
    pub fn changed(&self) -> bool {
        self.changed
    }

    /// The roster is being written.
    pub fn stored(&mut self) {
        self.changed = false;
    }

    /// Nodes that were removed and have not joined again.
    pub fn removed(&self, revocation: &Revocation) -> BTreeSet<NodeName> {
        let names = revocation.removed.iter().map(|r| &r.node);
        let gone = names.filter(|n| **n != self.me && !self.all.contains_key(*n));
        gone.cloned().collect()
    }

    pub fn addr_of(&self, name: &NodeName) -> Option<SocketAddr> {
        self.all.get(name).map(|m| m.known.addr)
    }

    /// Living members without us.
    pub fn peers(&self) -> Vec<NodeName> {
        let up = self.all.values().filter(|m| m.is_up());
        up.map(|m| m.known.name.clone()).collect()
    }

    /// A node was admitted. Returns the members it should call.
    pub fn admitted(&mut self, member: Member) -> Vec<Member> {
        let (name, standing) = standing(member);
        let others = self.all.values().map(|m| &m.known);
        // Other nodes are not told which machines they are on.
        let shown = |m: &Member| Member {
            machine: None,
            ..m.clone()
        };
        let seeds = others.filter(|m| m.name != name).map(shown).collect();
        self.all.insert(name, standing);
        seeds
    }

    /// A node left for good.
    pub fn left(&mut self, name: &NodeName, vector: &mut Vector) {
        let boot = self.all.remove(name).map_or(0, |m| m.boot);
        if self.gone.len() >= GONE_MAX {
            self.gone.pop_first();
        }
        self.gone.insert(name.clone(), boot);
        vector.forget(name);
        self.changed = true;
    }

    /// Takes foca's whole membership, which replaces what we knew.
    pub fn sync(&mut self, lives: impl Iterator<Item = (Life, State)>, vector: &mut Vector) {
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
            let known = self.all.get_mut(&name);
            let Some(m) = known else {
                // A dead node we do not know has left, or died before this daemon began.
                if state != State::Down && self.all.len() < MEMBERS_MAX {
                    self.discovered(life, state);
                }
                continue;
            };
            if life.boot < m.boot {
                continue;
            }
            if m.known.addr != life.addr || !m.known.seen_up {
                self.changed = true;
            }
            if m.state != state {
                tracing::info!("{name} is {}", state.name());
            }
            if state == State::Down && m.is_up() {
                vector.forget(&name);
            }
            if state != State::Down && !m.is_up() {
                vector.welcome(&name);
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
        self.all.insert(life.name, Standing { known, boot, state });
        self.changed = true;
    }
}

#[cfg(test)]
mod tests;
