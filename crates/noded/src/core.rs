//! All that a daemon knows, under one lock.
//!
//! Lock: `Node::core` is held for lookups and bookkeeping only: never across an await, a system
//! call that waits, or another lock.

use crate::awaited::Awaited;
use crate::clocks::Known;
use crate::config::Config;
use crate::departures::Departures;
use crate::hosts::HostTable;
use crate::keepers::{Keeper, KeeperTable};
use crate::members::{Life, Standing, State};
use crate::news::{News, Said};
use crate::peer::lines::Lines;
use crate::state::{Farm, Member, StateDir};
use crate::switches::Switches;
use crate::trust::{Changes, Trust};
use crate::{FarmError, Wire, yama};
use armento_balance::{Ledger, Policy, View};
use armento_client::api::{Body, Line, NodeInfo, ProcInfo};
use armento_client::version;
use armento_gossip::{Dice, Known as KnownLoad, Tick, Vector};
use armento_link::{Badge, Identity, LinkError, Listener, NodeKeys};
use armento_model::{NodeName, Pid, Stay, Users};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
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
    /// As last read: what of it can change has changed.
    pub given: Mutex<Config>,
    pub trust: Mutex<Arc<Trust>>,
    /// What the farm last said to all of its members, and its words.
    pub news: Mutex<(Arc<News>, Option<Said>)>,
    /// One piece of news at a time.
    pub hearing: Mutex<()>,
    /// One removal at a time.
    pub removing: tokio::sync::Mutex<()>,
    /// Ways to other daemons.
    pub lines: Lines,
    /// Where other nodes come in, while it is open.
    pub doors: Mutex<Option<Arc<Listener>>>,
    pub farm: Farm,
    /// Where others reach us: at first `farm.addr`.
    addr: Mutex<SocketAddr>,
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
    /// … and those who were before us.
    pub awaited: Awaited,
    pub hosts: HostTable,
    pub leaving: bool,
    /// Nodes that are about to be removed, until then: everybody goes where they belong.
    pub draining: BTreeMap<NodeName, Instant>,
    /// Targets that did not want a user's programs, until when they are not tried again, and why.
    pub refused: BTreeMap<(NodeName, u32), (Instant, Stay)>,
    pub switches: Switches,
    /// Who was told to come home, and when.
    pub recalled: BTreeMap<Pid, Instant>,
    /// What was seen of the others' clocks.
    pub clocks: HashMap<NodeName, Known>,
    /// Which programs named which keepers to Yama, and whose turn it is to name one.
    pub consents: yama::Consents,
    pub yama_turns: yama::Turns,
    /// Number of the newest session or ticket.
    pub count: u64,
}

/// Lines to one control session.
#[derive(Clone)]
pub struct Outlet(pub mpsc::Sender<Line>);

impl Outlet {
    /// False when the session is gone or does not read.
    pub fn send(&self, id: u64, body: Body) -> bool {
        let v = version::spoken();
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
        let (news, said) = News::read(&state, &farm, &keys)?;
        let identity = keys
            .sign_short(&Badge::daemon(&farm.node), SHORT_TTL)
            .map_err(FarmError::Keys)?
            .with_removed(news.crl_pem.clone());
        let bad = |why: String| FarmError::Config {
            path: config
                .file
                .as_ref()
                .map_or("trust".into(), |f| f.display().to_string()),
            why,
        };
        let trust = Trust::new(&config, &Changes::read(&state)?).map_err(bad)?;
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
            awaited: Awaited::look(),
            hosts: {
                crate::hosts::clear_fences();
                HostTable::recover(&state)
            },
            leaving: false,
            draining: BTreeMap::new(),
            refused: BTreeMap::new(),
            switches: Switches::read(&state, &config)?,
            recalled: BTreeMap::new(),
            clocks: HashMap::new(),
            consents: yama::Consents::recover(&state),
            yama_turns: yama::Turns::default(),
            count: 0,
            me,
        };
        // The daemon before us may have had no time for it.
        for name in core.removed(&news) {
            core.hosts.of_home(&name).iter().for_each(crate::hosts::end);
        }
        // … or has ended while they left.
        if let Some(weight) = config.guest_weight() {
            let all = core.hosts.all();
            all.iter().for_each(|r| crate::hosts::weigh(r, weight));
        }
        Ok(Node {
            policy: config.policy(),
            wire: config.wire.unwrap_or(farm.wire),
            given: Mutex::new(config.clone()),
            trust: Mutex::new(Arc::new(trust)),
            news: Mutex::new((Arc::new(news), said)),
            hearing: Mutex::new(()),
            removing: tokio::sync::Mutex::new(()),
            doors: Mutex::default(),
            config,
            addr: Mutex::new(farm.addr),
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
            lines: Lines::default(),
            stop: watch::Sender::new(false),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic under the lock is a bug that ends its task; the tables stay usable.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where others reach us.
    pub fn addr(&self) -> SocketAddr {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Others reach us elsewhere from now on. It is written down, too.
    pub fn moved_to(&self, addr: SocketAddr) -> Result<(), FarmError> {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner) = addr;
        let farm = Farm {
            addr,
            ..self.farm.clone()
        };
        self.state.write_json("farm.json", &farm)
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
            Wire::Tls => self.signed(badge),
        }
    }

    /// … which knows who was removed.
    fn signed(&self, badge: &Badge) -> Result<Identity, LinkError> {
        let identity = self.keys.sign_short(badge, SHORT_TTL)?;
        Ok(identity.with_removed(self.news().crl_pem.clone()))
    }

    /// A new identity of our own, for connections to come.
    pub fn renew(&self) -> Result<(), LinkError> {
        let fresh = self.signed(&Badge::daemon(&self.farm.node))?;
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(doors) = &*doors {
            doors.renew(&fresh)?;
        }
        drop(doors);
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    pub fn news(&self) -> Arc<News> {
        self.news
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .clone()
    }

    /// The farm's own words, for those who were not there.
    pub fn said(&self) -> Option<Said> {
        self.news
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .clone()
    }

    /// As last read.
    pub fn settings(&self) -> Config {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.clone()
    }

    /// Most memory of the guests of one tree: what this node does not keep for its own, unless a setting says less.
    pub fn guest_mem_kib(&self) -> Option<u64> {
        let given = self.settings().guest_mem_max_kib;
        let core = self.lock();
        let known = core.vector.get(&core.me, self.now());
        let total = known.map(|k| k.entry.mem_total_kib).filter(|t| *t != 0);
        given.or(total.map(|t| t - self.policy.reserve_kib(t)))
    }

    /// Everything a decision may look at.
    pub fn view(&self, core: &mut Core) -> View {
        let known = core.vector.view(self.now());
        self.view_of(core, known)
    }

    /// What a decision of the policy looks at: in a large farm a window of the load vector.
    pub fn near(&self, core: &mut Core) -> View {
        let (now, ledger) = (self.now(), &core.ledger);
        let window = ledger.window(core.members.len() + 1);
        let known = core.vector.window(window, ledger.places(), now);
        self.view_of(core, known)
    }

    /// This node alone: what an admission looks at.
    pub fn alone(&self, core: &mut Core) -> View {
        let now = self.now();
        let own = core.vector.get(&core.me, now);
        let open = match core.leaving {
            true => Users::nobody(),
            false => Users::everybody(),
        };
        let Core {
            keepers, ledger, ..
        } = core;
        keepers.settle(ledger, now);
        ledger.own_view(own, open, now)
    }

    fn view_of(&self, core: &mut Core, known: Vec<KnownLoad>) -> View {
        let now = self.now();
        let Core {
            keepers, ledger, ..
        } = core;
        keepers.settle(ledger, now);
        let (members, me, leaving) = (&core.members, &core.me, core.leaving);
        let (draining, refused, clocks) = (&core.draining, &core.refused, &core.clocks);
        let trust = self.trust();
        let open = |name: &NodeName| {
            if name == me && !leaving {
                return Users::everybody();
            }
            let alive = members.get(name).is_some_and(|m| m.state == State::Alive);
            let apart = clocks.get(name).is_some_and(Known::is_apart);
            if !alive || apart || draining.contains_key(name) {
                return Users::nobody();
            }
            let mut users = trust.sends_to(name);
            let theirs = refused.keys().filter(|(node, _)| node == name);
            theirs.for_each(|(_, uid)| users.remove(*uid));
            users
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
        let mut nodes = vec![self.node_info(&core, &core.me, self.addr().to_string(), state, now)];
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
            frozen: match *name == core.me {
                true => core.hosts.guests().filter(|g| g.frozen).count() as u32,
                false => 0,
            },
            shut: entry.is_some_and(|e| e.shut),
            // Never heard: not in this daemon's life.
            age_ms: known.as_ref().map_or(now.0, |k| k.age_ms),
            wire: entry.map_or(String::new(), |e| e.wire.name().into()),
            version: entry.map_or(String::new(), |e| e.version.clone()),
            clock_us: match *name == core.me {
                true => Some(0),
                false => core.clocks.get(name).and_then(Known::ahead_us),
            },
            clock_apart: core.clocks.get(name).is_some_and(Known::is_apart),
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

    /// Nodes that were removed and have not joined again.
    pub fn removed(&self, news: &News) -> BTreeSet<NodeName> {
        let names = news.removed.iter().map(|r| &r.node);
        let gone = names.filter(|n| **n != self.me && !self.members.contains_key(*n));
        gone.cloned().collect()
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
        // Which machines they are on is nobody else's business.
        let shown = |m: &Member| Member {
            machine: None,
            ..m.clone()
        };
        let seeds = others.filter(|m| m.name != name).map(shown).collect();
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

    /// Somebody of ours, or of others, runs here or is kept here.
    pub fn has_work(&self) -> bool {
        self.keepers.all().next().is_some() || self.hosts.guests().next().is_some()
    }

    /// Age of the youngest process of ours; 0 of one that is being born.
    pub fn youngest_ms(&self) -> Option<u64> {
        let age = |k: &Keeper| k.procs.iter().map(|p| p.age_ms).min().unwrap_or(0);
        self.keepers.all().map(age).min()
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
            if state != State::Down && !m.is_up() {
                self.vector.welcome(&name);
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
            machine: None,
        };
        let boot = life.boot;
        self.members
            .insert(life.name, Standing { known, boot, state });
        self.members_changed = true;
    }
}

#[cfg(test)]
mod tests;
