//! What the threads of a keeper share ([`Keep`]), and what the tracer thread alone has ([`Tree`]).
//!
//! The two name each other: a thread reaches the tree through the tracer thread, and the tracer thread reaches what is
//! shared. Their methods stand here and in `tree.rs`.
//!
//! Lock order: `hosts.connecting`, `deputies`, then a deputy's state, then a link's session. The tracer thread takes any of them
//! for a moment; no thread waits for the tracer thread while it holds one.

use super::busy_sockets::BusySockets;
use super::call_storm::CallStorm;
use super::cpu_fixup::CpuFixup;
use super::daemon_queue::DaemonQueue;
use super::deputies::Deputies;
use super::direct_sockets::DirectSockets;
use super::followed::Followed;
use super::held_opens::HeldOpens;
use super::held_output::HeldOutput;
use super::hosts::Hosts;
use super::job_use::JobTotals;
use super::lease::Lease;
use super::leaving::Leaving;
use super::move_queue::{MoveLocks, MoveQueue, Task, Why};
use super::moves::Moves;
use super::no_paths::NoPaths;
use super::pid_queue::PidQueue;
use super::process::Process;
use super::ran::RanPrograms;
use super::restart::{Restart, Restarts};
use super::settings::{Settings, Storm};
use super::shm_guards::ShmGuards;
use super::thread_directed::ThreadDirected;
use super::transfer::Transfers;
use super::tree_signals::TreeSignals;
use crate::cpu_features;
use crate::cpu_time::CpuAccounts;
use crate::deputy::{Deputy, EarlyConnection, HostLink, ReadAheads, Traffic};
use crate::restart::{FutexWaits, WaitDeadlines};
use crate::sync::lock;
use armento_client::api::Dest;
use armento_migrate::image::Processor;
use armento_migrate::image::files::Names;
use armento_model::{Pid, Tid};
use armento_tracee::sys as tsys;
use armento_tracee::tracer_thread::TracerThread;
use armento_wire::talk::FileKey;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Files of mappings take one of so many descriptors; the others are for streams and moves.
const FILES_SHARE: usize = 2;

pub struct Keep {
    pub settings: Settings,
    pub tracer: TracerThread<Tree>,
    pub daemon: DaemonQueue,
    pub move_queue: MoveQueue,
    /// Programs at their exec under `--spread`: they do not wait for longer moves of others.
    placement_queue: MoveQueue,
    /// Processes that are being moved: one move of a process at a time.
    pub move_locks: MoveLocks,
    pub cpu: Arc<CpuAccounts>,
    pub deputies: Deputies,
    pub hosts: Hosts,
    /// Connections for programs that are being placed.
    pub early_connections: Mutex<HashMap<Pid, EarlyConnection>>,
    /// Programs that were placed elsewhere at their start.
    pub placed_away: AtomicU64,
    /// Moves under way.
    pub moves: Moves,
    pub no_paths: NoPaths,
    /// Files behind mappings of bodies, for hosts that lack their bytes.
    pub files: Mutex<HashMap<FileKey, Arc<File>>>,
    /// Most of them, for each is a descriptor; a program that maps more comes home for it.
    pub files_max: usize,
    /// What the files are called that deputies map.
    pub names: Mutex<Names>,
    /// Files that an away process maps shared, leased against writers.
    pub leases: Mutex<Vec<(Pid, Arc<File>)>>,
    /// Shared memory that is away and that others could find.
    pub shm_guards: ShmGuards,
    /// Descriptors that hosts read ahead.
    pub readaheads: Arc<ReadAheads<HostLink>>,
    /// Calls that move bytes, by descriptor.
    pub traffic: Arc<Traffic>,
    /// Connections that go directly between hosts.
    pub sockets: DirectSockets,
    /// What was found out about busy connections.
    pub busy_sockets: BusySockets,
    /// How far moves are.
    pub transfers: Transfers,
    /// Files (device, inode) that the program was born with: others may share their descriptions. `None` for
    /// one that was adopted.
    pub inherited: Option<HashSet<(u64, u64)>>,
    pub thread_directed: ThreadDirected,
    /// Programs that have ended, until the daemon is told.
    pub ran: RanPrograms,
    pub job: JobTotals,
    /// The daemon did not say in time where the last program begins.
    pub placement_late: AtomicBool,
    /// `--storm-call`.
    pub storm_call: Option<CallStorm>,
    /// Opens of files about processes that are away.
    pub held_opens: HeldOpens,
    /// Calls that wait for a checkpoint.
    pub held_output: HeldOutput,
    /// From the node that keeps a checkpoint of the tree: it may run here.
    pub lease: Lease,
    /// A checkpoint file is being written.
    pub saving: AtomicBool,
    /// Processes of which a checkpoint is to be made.
    pub checkpoints: PidQueue,
    /// Present if the tree begins from a checkpoint file.
    pub restarts: Option<Restarts>,
    /// Processes of the tree as last seen, for threads that must not wait for the tracer thread.
    pub known: Mutex<Vec<Pid>>,
}

/// What the tracer thread knows: every process of the tree, at home or away.
pub struct Tree {
    pub keep: Arc<Keep>,
    pub procs: BTreeMap<Pid, Process>,
    /// Threads seized while their process is at home: signals and stops pass through.
    pub passing: BTreeSet<Tid>,
    pub signals: TreeSignals,
    /// On the way out, between two visits.
    pub leaving: BTreeMap<Pid, Leaving>,
    /// At home, and corrected in what they read of their CPU time.
    pub cpu_fixup: CpuFixup,
    /// At home under `--spread`.
    pub follow: Followed,
    /// By thread that was let go in a restartable sleep: the call that its restart block belongs to.
    pub restart_blocks: HashMap<Tid, i64>,
    /// By thread in an interrupted wait: how long it still has to wait.
    pub wait_deadlines: WaitDeadlines,
    pub futex_waits: FutexWaits,
    /// When the tree was last scanned for children.
    pub scanned: Instant,
    /// When the housekeeping of `keeper/src/events/housekeeping.rs` was last done.
    pub watched: Instant,
    /// The last report to the daemon was empty.
    pub unseen: bool,
    /// When hosts were last looked after.
    pub beat: Instant,
}

impl Keep {
    pub fn new(
        settings: Settings,
        tracer: TracerThread<Tree>,
        daemon: DaemonQueue,
        inherited: Option<HashSet<(u64, u64)>>,
        restart: Option<Restart>,
    ) -> Keep {
        let calls = settings.storm.filter(|(storm, _)| *storm == Storm::Call);
        let storm_call = calls.map(|(_, seed)| CallStorm::new(settings.node.clone(), seed));
        let known = Mutex::new(vec![settings.root]);
        Keep {
            settings,
            tracer,
            daemon,
            move_queue: MoveQueue::default(),
            placement_queue: MoveQueue::default(),
            move_locks: MoveLocks::default(),
            cpu: Arc::default(),
            deputies: Deputies::default(),
            hosts: Hosts::default(),
            early_connections: Mutex::default(),
            placed_away: AtomicU64::new(0),
            moves: Moves::default(),
            no_paths: NoPaths::default(),
            files: Mutex::default(),
            files_max: tsys::limit(0, libc::RLIMIT_NOFILE).map_or(0, |(now, _)| now as usize)
                / FILES_SHARE,
            names: Mutex::default(),
            leases: Mutex::default(),
            shm_guards: Default::default(),
            readaheads: Arc::default(),
            traffic: Arc::default(),
            sockets: DirectSockets::default(),
            busy_sockets: BusySockets::default(),
            transfers: Transfers::default(),
            inherited,
            thread_directed: ThreadDirected::default(),
            ran: RanPrograms::default(),
            job: JobTotals::default(),
            placement_late: AtomicBool::new(false),
            storm_call,
            held_opens: HeldOpens::default(),
            held_output: HeldOutput::default(),
            lease: Lease::default(),
            saving: AtomicBool::new(false),
            checkpoints: PidQueue::default(),
            restarts: restart.map(Restarts::new),
            known,
        }
    }

    /// The queue of programs that wait for their placement at their exec.
    pub fn placements(&self) -> &MoveQueue {
        if self.settings.spread {
            &self.placement_queue
        } else {
            &self.move_queue
        }
    }

    /// The program at its exec stop waits for its placement: behind those that came before it, and before longer moves.
    pub fn push_placement(&self, pid: Pid) {
        let task = Task {
            pid,
            to: Dest::Balance,
            why: Why::Exec,
        };
        match self.settings.spread {
            true => self.placement_queue.push_standing(task),
            false => self.move_queue.push_urgent(task),
        }
    }

    pub fn deputy(&self, tid: Tid) -> Option<Arc<Deputy>> {
        self.deputies.get(tid)
    }

    pub fn pids(&self) -> Vec<Pid> {
        lock(&self.known).clone()
    }

    /// The deputy of `tid`, if this host speaks for it.
    pub fn deputy_of(&self, link: &Arc<HostLink>, tid: Tid) -> Option<Arc<Deputy>> {
        self.deputy(tid).filter(|d| Arc::ptr_eq(&d.link(), link))
    }

    /// Whether this process uses only what all nodes have: the environment with which its parent exec'd it tells.
    pub fn is_portable(&self, pid: Pid) -> bool {
        self.settings.portable.as_ref().is_some_and(|p| p.has(pid))
    }

    /// What a node must have that takes this process from here.
    pub fn processor(&self, pid: Pid) -> Processor {
        let common = self.settings.portable.as_ref().map(|p| &p.common);
        cpu_features::required(common.filter(|_| self.is_portable(pid)))
    }
}
