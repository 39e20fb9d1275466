//! All that a daemon knows, under one lock.
//!
//! Lock: `Node::core` is held for lookups and bookkeeping only: never across an await, a system
//! call that waits, or another lock.

use crate::config::Config;
use crate::departures::Departures;
use crate::hosts::HostTable;
use crate::keepers::KeeperTable;
use crate::members::{Life, Standing, State};
use crate::state::{Farm, Member, StateDir};
use crate::{FarmError, Wire};
use armento_balance::{Ledger, Policy, View};
use armento_client::api::{Body, Line, NodeInfo, ProcInfo};
use armento_gossip::{Dice, Tick, Vector};
use armento_link::{Badge, Identity, LinkError, NodeKeys};
use armento_model::{CONTROL_VERSION, NodeName};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};

/// Members remembered; the simulator's largest farm.
const MEMBERS_MAX: usize = 10_000;
/// Members that left and are remembered for it.
const GONE_MAX: usize = 1024;
/// Lines waiting for one session; what a slower reader misses is lost to it.
pub const LINES_MAX: usize = 1024;
/// Life of the certificates handed to keepers and hosts.
pub const SHORT_TTL: Duration = Duration::from_secs(24 * 3600);

pub struct Node {
    pub config: Config,
    pub farm: Farm,
    pub keys: NodeKeys,
    pub state: StateDir,
    pub policy: Policy,
    pub wire: Wire,
    /// Program that becomes a host when called with `host`.
    pub host_program: PathBuf,
    pub started: Instant,
    core: Mutex<Core>,
    pub departures: Arc<Departures>,
    /// One of ours ended: somewhere there is room.
    pub freed: Notify,
    /// Told whenever `Core::hosts` changes.
    pub hosts_changed: Condvar,
    /// One join, one roster written at a time.
    pub joining: Mutex<()>,
    roster: Mutex<()>,
    /// The daemon's own identity, renewed now and then.
    pub identity: Mutex<Identity>,
    /// True: the daemon ends.
    pub stop: watch::Sender<bool>,
}

pub struct Core {
    pub me: NodeName,
    pub members: BTreeMap<NodeName, Standing>,
    /// Members that left, with their last life: what others still say of it is an echo.
    gone: BTreeMap<NodeName, u64>,
    /// A member came, went, or moved since the roster was written.
    pub members_changed: bool,
    pub vector: Vector,
    pub ledger: Ledger,
    pub dice: Dice,
    pub keepers: KeeperTable,
    pub hosts: HostTable,
    pub leaving: bool,
    /// Whose clocks were seen to be near ours, in which life of theirs, and when.
    pub clocks_near: HashMap<NodeName, (u64, Instant)>,
    /// Number of the newest session or ticket.
    pub count: u64,
}

/// Lines to one control session.
#[derive(Clone)]
pub struct Outlet(pub mpsc::Sender<Line>);

impl Outlet {
    /// False when the session is gone or does not read.
    pub fn send(&self, id: u64, body: Body) -> bool {
        let v = CONTROL_VERSION;
        self.0.try_send(Line { v, id, body }).is_ok()
    }
}

impl Node {
    pub fn new(
        config: Config,
        state: StateDir,
        farm: Farm,
        host_program: PathBuf,
    ) -> Result<Node, FarmError> {
        let keys = state.keys(&farm)?;
        let identity = keys
            .sign_short(&Badge::daemon(&farm.node), SHORT_TTL)
            .map_err(FarmError::Keys)?;
        let members = state.roster()?.into_iter().map(standing);
        let me = farm.node.clone();
        let core = Core {
            members: members.filter(|(name, _)| *name != me).collect(),
            gone: BTreeMap::new(),
            members_changed: false,
            vector: Vector::new(me.clone(), farm.boot),
            ledger: Ledger::new(me.clone()),
            dice: Dice::seeded(farm.boot),
            keepers: KeeperTable::default(),
            hosts: HostTable::recover(&state),
            leaving: false,
            clocks_near: HashMap::new(),
            count: 0,
            me,
        };
        Ok(Node {
            policy: config.policy(),
            wire: config.wire.unwrap_or(farm.wire),
            config,
            farm,
            keys,
            state,
            host_program,
            started: Instant::now(),
            core: Mutex::new(core),
            departures: Arc::new(Departures::new(
                std::thread::available_parallelism().map_or(1, |n| n.get()),
            )),
            freed: Notify::new(),
            hosts_changed: Condvar::new(),
            joining: Mutex::new(()),
            roster: Mutex::new(()),
            identity: Mutex::new(identity),
            stop: watch::Sender::new(false),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic under the lock is a bug that ends its task; the tables stay usable.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> Tick {
        Tick(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub fn me(&self) -> Identity {
        let identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        identity.clone()
    }

    /// A short identity for a keeper or host of ours, or plain when the farm's wire is.
    pub fn short(&self, badge: &Badge) -> Result<Identity, LinkError> {
        match self.wire {
            Wire::Plain => Ok(Identity::Plain),
            Wire::Tls => self.keys.sign_short(badge, SHORT_TTL),
        }
    }

    /// Everything a decision may look at.
    pub fn view(&self, core: &mut Core) -> View {
        let now = self.now();
        let Core {
            keepers, ledger, ..
        } = core;
        keepers.settle(ledger, now);
        let known = core.vector.view(now);
        let (members, me, leaving) = (&core.members, &core.me, core.leaving);
        let open = |name: &NodeName| {
            if name == me {
                return !leaving;
            }
            let alive = members.get(name).is_some_and(|m| m.state == State::Alive);
            alive && self.config.sends_to(name)
        };
        core.ledger.view(known, open, now)
    }

    /// Writes down who is where, for the next start.
    pub fn save_roster(&self) -> Result<(), FarmError> {
        let _turn = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
        let roster: Vec<Member> = {
            let mut core = self.lock();
            core.members_changed = false;
            core.members.values().map(|m| m.known.clone()).collect()
        };
        self.state.save_roster(&roster)
    }

    /// What `armento nodes` shows.
    pub fn nodes(&self) -> Vec<NodeInfo> {
        let now = self.now();
        let core = self.lock();
        let state = if core.leaving { "leaving" } else { "alive" };
        let mut nodes =
            vec![self.node_info(&core, &core.me, self.farm.addr.to_string(), state, now)];
        for (name, m) in &core.members {
            let addr = m.known.addr.to_string();
            nodes.push(self.node_info(&core, name, addr, m.state.name(), now));
        }
        nodes
    }

    fn node_info(
        &self,
        core: &Core,
        name: &NodeName,
        addr: String,
        state: &str,
        now: Tick,
    ) -> NodeInfo {
        let known = core.vector.get(name, now);
        let entry = known.as_ref().map(|k| &k.entry);
        NodeInfo {
            name: name.clone(),
            addr,
            state: state.into(),
            here: *name == core.me,
            load: entry.map_or(0.0, |e| e.load_over_power()),
            speed: entry.map_or(0, |e| e.speed),
            cores: entry.map_or(0, |e| e.cores),
            mem_total_kib: entry.map_or(0, |e| e.mem_total_kib),
            mem_free_kib: entry.map_or(0, |e| e.mem_free_kib),
            guests: entry.map_or(0, |e| e.guests),
            // Never heard: not in this daemon's life.
            age_ms: known.as_ref().map_or(now.0, |k| k.age_ms),
            wire: entry.map_or(String::new(), |e| e.wire.name().into()),
            version: entry.map_or(String::new(), |e| e.version.clone()),
        }
    }
}

fn standing(known: Member) -> (NodeName, Standing) {
    let standing = Standing {
        boot: 0,
        // Until it is heard.
        state: State::Down,
        known,
    };
    (standing.known.name.clone(), standing)
}

impl Core {
    pub fn next(&mut self) -> u64 {
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

    pub fn addr_of(&self, name: &NodeName) -> Option<std::net::SocketAddr> {
        self.members.get(name).map(|m| m.known.addr)
    }

    /// Living members without us.
    pub fn peers(&self) -> Vec<NodeName> {
        let up = self.members.values().filter(|m| m.is_up());
        up.map(|m| m.known.name.clone()).collect()
    }

    /// A node was let in. Returns the members it should call.
    pub fn admitted(&mut self, member: Member) -> Vec<Member> {
        let (name, standing) = standing(member);
        let others = self.members.values().map(|m| &m.known);
        let seeds = others.filter(|m| m.name != name).cloned().collect();
        self.members.insert(name, standing);
        seeds
    }

    /// A node left for good.
    pub fn left(&mut self, name: &NodeName) {
        let boot = self.members.remove(name).map_or(0, |m| m.boot);
        if self.gone.len() >= GONE_MAX {
            self.gone.pop_first();
        }
        self.gone.insert(name.clone(), boot);
        self.vector.forget(name);
        self.members_changed = true;
    }

    /// foca's whole membership: what it says replaces what we knew.
    pub fn sync_members(&mut self, lives: impl Iterator<Item = (Life, State)>) {
        let mut newest: BTreeMap<NodeName, (Life, State)> = BTreeMap::new();
        let echo = |life: &Life| {
            self.gone
                .get(&life.name)
                .is_some_and(|boot| life.boot <= *boot)
        };
        for (life, state) in lives.filter(|(life, _)| life.name != self.me && !echo(life)) {
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
                // A dead node we do not know of has left, or was before our time.
                if state != State::Down && self.members.len() < MEMBERS_MAX {
                    self.met(life, state);
                }
                continue;
            };
            if life.boot < m.boot {
                continue;
            }
            if m.known.addr != life.addr || !m.known.heard {
                self.members_changed = true;
            }
            if m.state != state {
                tracing::info!("{name} is {}", state.name());
            }
            if state == State::Down && m.is_up() {
                self.vector.forget(&name);
            }
            m.known.addr = life.addr;
            m.known.heard |= state != State::Down;
            m.boot = life.boot;
            m.state = state;
        }
    }

    fn met(&mut self, life: Life, state: State) {
        tracing::info!("{} ({}) is {}", life.name, life.addr, state.name());
        let known = Member {
            name: life.name.clone(),
            addr: life.addr,
            admitted: 0,
            heard: true,
        };
        let boot = life.boot;
        self.members
            .insert(life.name, Standing { known, boot, state });
        self.members_changed = true;
    }
}

#[cfg(test)]
mod tests;
