//! What the threads of a keeper share.
//!
//! Lock order: `linking`, `deputies`, then a deputy's state, then a link's session. The hand takes any of them
//! for a moment; nobody waits for the hand while holding one.

use crate::calls::proc_access::Looks;
use crate::cpu_features::Portable;
use crate::cpu_time::Books;
use crate::daemon::Control;
use crate::deputy::thread::Deputy;
use crate::hosts::connect::{Early, HostLink, MoveEvent};
use crate::moves::run::{Tasks, Turns};
use crate::state::call_storm::CallStorm;
use crate::state::thread_directed::Aimed;
use crate::state::tree::Tree;
use armento_client::api::KeeperHello;
use armento_migrate::image::files::Names;
use armento_model::{MoveId, NodeName, Pid, Tid, TreeId};
use armento_tracee::hand::Hand;
use armento_tracee::pages::Run;
use armento_tracee::sys as tsys;
use armento_wire::talk::FileKey;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Instant;

pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is a defect of ours; the data stays usable for the others.
    m.lock().unwrap_or_else(|e| e.into_inner())
}

pub struct Settings {
    pub node: NodeName,
    pub tree: TreeId,
    pub root: Pid,
    pub pinned: Option<NodeName>,
    pub stay: bool,
    /// Forks and execs at home are followed.
    pub spread: bool,
    /// Moved about for a test: nobody else decides.
    pub storm: bool,
    pub portable: Option<Portable>,
    pub hello: KeeperHello,
}

/// Who waits for news of a move, and the hosts that may have some.
type News = (Sender<MoveEvent>, Vec<Arc<HostLink>>);

/// Files of mappings take one of so many descriptors; the others are for streams and moves.
const FILES_SHARE: usize = 2;

pub struct Keep {
    pub settings: Settings,
    pub hand: Hand<Tree>,
    pub control: Control,
    pub tasks: Tasks,
    /// Programs at their exec under `--spread`: they do not wait for longer moves of others.
    fresh: Tasks,
    /// Who is being moved: one move of a process at a time.
    pub turns: Turns,
    pub cpu: Arc<Books>,
    pub deputies: RwLock<HashMap<Tid, Arc<Deputy>>>,
    pub links: Mutex<HashMap<NodeName, Arc<HostLink>>>,
    /// Nodes to which nothing of ours goes (`send_to`); who is there may come home.
    pub closed: Mutex<HashSet<NodeName>>,
    /// Connections for programs that are being placed.
    pub early: Mutex<HashMap<Pid, Early>>,
    /// Programs that were placed elsewhere at their start.
    pub placed: AtomicU64,
    /// Held by who makes a link: a host serves one stream of calls.
    pub linking: Mutex<()>,
    /// What we show at doors, and since when we have it.
    pub identity: Mutex<Option<(armento_link::Identity, Instant)>>,
    /// Who waits for news of a move.
    moves: Mutex<HashMap<MoveId, News>>,
    next_move: AtomicU64,
    /// Files behind mappings of bodies, for hosts that lack their bytes.
    pub files: Mutex<HashMap<FileKey, Arc<File>>>,
    /// Most of them, for each is a descriptor; a program that maps more comes home for it.
    pub files_max: usize,
    /// What the files are called that deputies map.
    pub names: Mutex<Names>,
    /// Files that an away process maps shared, leased against writers.
    pub leases: Mutex<Vec<(Pid, Arc<File>)>>,
    /// Shared memory that is away and that others could find.
    pub guards: crate::sharing::named_shm::Guards,
    /// Descriptors that hosts read ahead.
    pub ahead: Mutex<crate::calls::readahead::Streams>,
    /// Files (device, inode) that the program was born with: others may share their descriptions. `None` for
    /// one that was adopted.
    pub inherited: Option<HashSet<(u64, u64)>>,
    pub aimed: Aimed,
    /// The daemon did not say in time where the last program begins.
    pub late: AtomicBool,
    /// `--storm-call`.
    pub storm_call: Option<CallStorm>,
    /// Opens of files about those who are away.
    pub looks: Looks,
    /// Processes of the tree as last seen, for those who must not wait for the hand.
    pub known: Mutex<Vec<Pid>>,
}

impl Keep {
    pub fn new(
        settings: Settings,
        hand: Hand<Tree>,
        control: Control,
        inherited: Option<HashSet<(u64, u64)>>,
        storm_call: Option<CallStorm>,
    ) -> Keep {
        let known = Mutex::new(vec![settings.root]);
        Keep {
            settings,
            hand,
            control,
            tasks: Tasks::default(),
            fresh: Tasks::default(),
            turns: Turns::default(),
            cpu: Arc::default(),
            deputies: RwLock::default(),
            links: Mutex::default(),
            closed: Mutex::default(),
            early: Mutex::default(),
            placed: AtomicU64::new(0),
            linking: Mutex::default(),
            identity: Mutex::default(),
            moves: Mutex::default(),
            next_move: AtomicU64::new(1),
            files: Mutex::default(),
            files_max: tsys::limit(0, libc::RLIMIT_NOFILE).map_or(0, |(now, _)| now as usize)
                / FILES_SHARE,
            names: Mutex::default(),
            leases: Mutex::default(),
            guards: Default::default(),
            ahead: Mutex::default(),
            inherited,
            aimed: Aimed::default(),
            late: AtomicBool::new(false),
            storm_call,
            looks: Looks::default(),
            known,
        }
    }

    /// Where programs at their exec wait for their placement.
    pub fn placements(&self) -> &Tasks {
        if self.settings.spread {
            &self.fresh
        } else {
            &self.tasks
        }
    }

    pub fn deputy(&self, tid: Tid) -> Option<Arc<Deputy>> {
        self.deputies
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .get(&tid)
            .cloned()
    }

    pub fn enter(&self, d: &Arc<Deputy>) {
        self.deputies
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .insert(d.tid, d.clone());
    }

    pub fn leave(&self, tid: Tid) {
        self.deputies
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .remove(&tid);
    }

    /// `between`: the hosts that take part in it. Home is none.
    pub fn new_move(&self, news: Sender<MoveEvent>, between: &[&Arc<HostLink>]) -> MoveId {
        let mv = self.next_move.fetch_add(1, Ordering::Relaxed);
        let between = between.iter().map(|l| (*l).clone()).collect();
        lock(&self.moves).insert(mv, (news, between));
        mv
    }

    /// Hands news of a move to whoever waits for it. `by`: a host says so; of moves of others it knows nothing.
    pub fn news(&self, by: Option<&Arc<HostLink>>, mv: MoveId, e: MoveEvent) {
        let moves = lock(&self.moves);
        let Some((tx, between)) = moves.get(&mv) else {
            return;
        };
        if by.is_none_or(|by| between.iter().any(|l| Arc::ptr_eq(l, by))) {
            let _ = tx.send(e);
        }
    }

    pub fn end_move(&self, mv: MoveId) {
        lock(&self.moves).remove(&mv);
    }

    pub fn is_moving(&self, mv: MoveId) -> bool {
        lock(&self.moves).contains_key(&mv)
    }

    /// What restart blocks of its deputies read and write, in whole pages.
    pub fn kept_memory(&self, pid: Pid) -> Vec<Run> {
        let all = self.deputies.read().unwrap_or_else(|e| e.into_inner());
        let kept = all.values().filter(|d| d.pid == pid);
        kept.filter_map(|d| d.kept_memory()).collect()
    }

    /// Processes that have deputies.
    pub fn away(&self) -> Vec<Pid> {
        let all = self.deputies.read().unwrap_or_else(|e| e.into_inner());
        all.values().map(|d| d.pid).collect()
    }

    pub fn pids(&self) -> Vec<Pid> {
        lock(&self.known).clone()
    }
}
