//! What a daemon has: its settings, keys and connections, and `Core` under one lock.
//!
//! Lock: `Node::core` is held for lookups and bookkeeping only: never across an await, a system
//! call that waits, or another lock.

use super::core::Core;
use super::credentials::Credentials;
use super::kept::Kept;
use super::members::Members;
use super::mfs::Mfs;
use super::revoked::Revoked;
use super::switches::Switches;
use super::trust::{Changes, Trust};
use super::upload::Upload;
use super::web::Web;
use crate::config::{Config, Wire};
use crate::error::FarmError;
use crate::hosts::{HostTable, clear_cgroups, kill, weigh};
use crate::keepers::{Consents, KeeperTable, LaunchQueue, Rejoin, TraceRate};
use crate::peer::{CallError, Connections, PeerAnswer, PeerAsk};
use crate::revocation::Revocation;
use crate::state_dir::{Farm, Member, StateDir};
use armento_balance::{Ledger, Policy};
use armento_gossip::{Dice, Tick, Vector};
use armento_history::Recorder;
use armento_link::{Badge, Identity, LinkError};
use armento_model::NodeName;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// The file of what jobs used, in the state directory.
const HISTORY: &str = "history.db";

pub struct Node {
    pub config: Config,
    /// The configuration as last read.
    pub given: Mutex<Config>,
    pub trust: Mutex<Arc<Trust>>,
    pub revoked: Revoked,
    /// One removal at a time.
    pub removing: tokio::sync::Mutex<()>,
    /// Connections to other daemons.
    pub connections: Connections,
    pub farm: Farm,
    /// Where others reach us: at first `farm.addr`.
    addr: Mutex<SocketAddr>,
    pub credentials: Credentials,
    pub state: StateDir,
    pub policy: Policy,
    pub wire: Wire,
    /// Program that becomes a host when called with `host`.
    pub host_program: PathBuf,
    pub started: Instant,
    core: Mutex<Core>,
    pub launch_queue: Arc<LaunchQueue>,
    /// A process of this home ended: there is room for another.
    pub freed: Notify,
    /// Notified whenever `Core::hosts` changes.
    pub hosts_changed: Condvar,
    /// One join, one roster written at a time.
    pub joining: Mutex<()>,
    roster: Mutex<()>,
    pub mfs: Mfs,
    pub web: Web,
    /// What jobs of this home use.
    pub history: Recorder,
    /// Checkpoints of other homes' trees.
    pub kept: Mutex<Kept>,
    /// A program that is arriving.
    pub upload: Mutex<Option<Upload>>,
    /// The daemon has a process of its own, which may become another program …
    pub own_process: AtomicBool,
    /// … and does, when the daemon has ended.
    pub restarts: AtomicBool,
    /// True: the daemon ends.
    pub stop: watch::Sender<bool>,
}

impl Node {
    pub fn new(
        config: Config,
        state: StateDir,
        farm: Farm,
        host_program: PathBuf,
    ) -> Result<Node, FarmError> {
        let keys = state.keys(&farm)?;
        let (revocation, signed) = Revocation::read(&state, &farm, &keys)?;
        let revoked = Revoked::new(revocation, signed);
        let credentials = Credentials::new(keys, &revoked)?;
        let bad = |why: String| FarmError::Config {
            path: config
                .file
                .as_ref()
                .map_or("trust".into(), |f| f.display().to_string()),
            why,
        };
        let trust = Trust::new(&config, &Changes::read(&state)?).map_err(bad)?;
        let roster = state.roster()?;
        let mfs = Mfs::recover(&state);
        let web = Web::recover(&state);
        let kept_here = Kept::recover(&state);
        let kept = armento_history::Settings {
            enabled: config.history.enabled,
            days: config.history.days,
            megabytes: config.history.megabytes,
        };
        let history = Recorder::start(state.path().join(HISTORY), farm.node.clone(), kept);
        let me = farm.node.clone();
        let core = Core {
            members: Members::new(me.clone(), roster),
            vector: Vector::new(me.clone(), farm.boot),
            ledger: Ledger::new(me.clone()),
            dice: Dice::seeded(farm.boot),
            keepers: KeeperTable::default(),
            rejoin: Rejoin::look(),
            hosts: {
                clear_cgroups();
                HostTable::recover(&state)
            },
            leaving: false,
            draining: BTreeMap::new(),
            refused: BTreeMap::new(),
            switches: Switches::read(&state, &config)?,
            recalled: BTreeMap::new(),
            clocks: HashMap::new(),
            consents: Consents::recover(&state),
            trace_rate: TraceRate::default(),
            verdicts: BTreeMap::new(),
            kept_away: BTreeMap::new(),
            count: 0,
            me,
        };
        // The daemon before this one may have had no time for it.
        for name in core.members.removed(&revoked.list()) {
            core.hosts.of_home(&name).iter().for_each(kill);
        }
        // … or have ended while their guests left with another weight.
        if let Some(weight) = config.guest_weight() {
            let all = core.hosts.all();
            all.iter().for_each(|r| weigh(r, weight));
        }
        Ok(Node {
            policy: config.policy(),
            wire: config.wire.unwrap_or(farm.wire),
            given: Mutex::new(config.clone()),
            trust: Mutex::new(Arc::new(trust)),
            revoked,
            removing: tokio::sync::Mutex::new(()),
            config,
            addr: Mutex::new(farm.addr),
            farm,
            credentials,
            state,
            host_program,
            started: Instant::now(),
            core: Mutex::new(core),
            launch_queue: Arc::new(LaunchQueue::new(
                std::thread::available_parallelism().map_or(1, |n| n.get()),
            )),
            freed: Notify::new(),
            hosts_changed: Condvar::new(),
            joining: Mutex::new(()),
            roster: Mutex::new(()),
            mfs,
            web,
            history,
            connections: Connections::default(),
            kept: Mutex::new(kept_here),
            upload: Mutex::new(None),
            own_process: AtomicBool::new(false),
            restarts: AtomicBool::new(false),
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

    /// Others reach us elsewhere from now on; it is stored, too.
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

    /// Our identity for a connection to another daemon.
    pub fn identity(&self) -> Identity {
        self.credentials.identity()
    }

    /// A short identity for a keeper or host of ours, or plain when the farm's wire is.
    pub fn short(&self, badge: &Badge) -> Result<Identity, LinkError> {
        match self.wire {
            Wire::Plain => Ok(Identity::Plain),
            Wire::Tls => self.credentials.signed(badge, &self.revoked),
        }
    }

    /// A new identity of our own, for connections to come.
    pub fn renew(&self) -> Result<(), LinkError> {
        self.credentials.renew(&self.revoked)
    }

    pub fn trust(&self) -> Arc<Trust> {
        let trust = self.trust.lock().unwrap_or_else(PoisonError::into_inner);
        trust.clone()
    }

    /// Asks another daemon, over the connection that is there or a new one. Blocks for at most about twice `timeout`.
    pub fn call(
        &self,
        to: (&NodeName, SocketAddr),
        ask: &PeerAsk,
        timeout: Duration,
    ) -> Result<PeerAnswer, CallError> {
        let epoch = self.revoked.list().epoch;
        self.connections
            .call(epoch, || self.identity(), to, ask, timeout)
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

    /// Stores which member is where, for the next start.
    pub fn save_roster(&self) -> Result<(), FarmError> {
        let _turn = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
        let roster: Vec<Member> = {
            let mut core = self.lock();
            core.members.stored();
            core.members.iter().map(|m| m.known.clone()).collect()
        };
        self.state.save_roster(&roster)
    }
}
