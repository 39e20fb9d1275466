//! The hand's world at home: every process of the tree, at home or away.
//!
//! From: `birth.rs`. Next: `mover.rs` (who moves), `signals.rs` (what deputies report).

use crate::calls::fork_and_map;
use crate::deputy::thread::{Common, Deputy, Waiter, Work};
use crate::hosts::connect::HostLink;
use crate::moves::eligibility::Kept;
use crate::moves::run::{Task, Why};
use crate::restart::futex_waits::FutexWaits;
use crate::restart::wait_deadlines::Waits;
use crate::sharing::named_shm;
use crate::signals::flood::{self, Flood, Shut};
use crate::signals::route;
use crate::state::keeper::{Keep, lock};
use crate::state::usage::Summary;
use crate::traced::cpu_clock_fixup::Watch;
use crate::traced::follow_forks::Follow;
use crate::traced::setuid_exec;
use armento_client::api::{Dest, ProcInfo};
use armento_migrate::stop::Halted;
use armento_model::{CpuTime, NodeName, Pid, Stay, Tid};
use armento_tracee::hand::World;
use armento_tracee::region::{Region, Slot};
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::{self, Status, Stop};
use armento_tracee::{cpu, status, sys};
use armento_wire::talk::{ToHost, Usage};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// First hold after a call brought a process home; doubles up to the second.
const HOLD_MIN: Duration = Duration::from_secs(1);
const HOLD_MAX: Duration = Duration::from_secs(60);
/// Each time an exec is turned back for a signal takes a round trip: half a second and more in all.
const EXEC_WAITS: u32 = 10_000;
/// How often the tree is scanned for children born at home.
const SCAN_EVERY: Duration = Duration::from_millis(200);
/// A turn comes no later than this …
const TURN_MAX: Duration = Duration::from_millis(500);
/// … and where everybody is away.
const TURN_CALM: Duration = Duration::from_secs(1);
/// Hosts are looked after no more often than this.
const BEAT: Duration = Duration::from_millis(450);

#[derive(Clone)]
pub enum Place {
    Home,
    Away(Arc<HostLink>),
}

pub struct Proc {
    pub pid: Pid,
    pub place: Place,
    pub region: Option<Arc<Region>>,
    pub threads: BTreeMap<Tid, Arc<Deputy>>,
    pub common: Common,
    /// Signals sent to the present body.
    pub told: u64,
    /// … of which it had had so many when it last asked for an exec.
    pub heard: u64,
    /// How many signals it has just now.
    pub flood: Flood,
    /// How often an exec was turned back for that.
    pub waited: u32,
    /// Signals that came during a move.
    pub held: Vec<(Option<Tid>, SigInfo)>,
    /// How often it may still stay away for a timer's sake when it should come home.
    pub patience: u32,
    /// Stopped by job control, as its parent sees.
    pub stopped: bool,
    /// When the source of the move under way began to freeze it.
    pub froze: Option<Instant>,
    /// When it was last sent to the node that the user named.
    pub sent_back: Instant,
    /// In a PTRACE_EVENT_EXEC stop, waiting for its placement.
    pub at_exec: bool,
    /// Still our own program, about to become the user's.
    pub before_exec: bool,
    /// It is the program that `run` was given, and nothing of it has run yet.
    pub unbegun: bool,
    /// Dispositions to ignore that the next exec must inherit.
    pub ignored: u64,
    /// Niceness that the host was told of each thread; 0 before.
    pub nice: BTreeMap<Tid, i32>,
    pub moves: u64,
    pub kept: Option<Kept>,
    pub locked: bool,
    /// A person put it where it is: it stays there until they give it back, it begins another program, or a call needs
    /// it at home.
    pub put: bool,
    /// Its user wants it at home and free of our hand: a debugger is to have it.
    pub tied: bool,
    /// How often it was to come home to dump core.
    pub dumps: u32,
    pub born: Instant,
    pub hold_until: Option<Instant>,
    pub hold: Duration,
    pub seen: Summary,
}

impl Proc {
    fn new(keep: &Keep, pid: Pid, locked: bool) -> Proc {
        keep.cpu.begin(pid);
        let common = Common {
            breaking: Arc::default(),
            coming: Arc::default(),
            calls: Arc::default(),
            signalfds: Arc::default(),
            limits: Arc::default(),
            mapped: Arc::default(),
            cpu: keep.cpu.clone(),
        };
        Proc {
            pid,
            place: Place::Home,
            region: None,
            threads: BTreeMap::new(),
            common,
            told: 0,
            heard: 0,
            flood: Flood::default(),
            waited: 0,
            held: Vec::new(),
            patience: crate::signals::timers::PATIENCE,
            stopped: false,
            froze: None,
            sent_back: Instant::now(),
            at_exec: false,
            before_exec: false,
            unbegun: false,
            ignored: 0,
            nice: BTreeMap::new(),
            moves: 0,
            kept: None,
            locked,
            put: false,
            tied: false,
            dumps: 0,
            born: Instant::now(),
            hold_until: None,
            hold: HOLD_MIN,
            seen: Summary::new(pid),
        }
    }

    pub fn link(&self) -> Option<&Arc<HostLink>> {
        match &self.place {
            Place::Away(l) => Some(l),
            Place::Home => None,
        }
    }

    /// Sends a signal to its body.
    pub fn pass_on(&mut self, tid: Option<Tid>, info: &SigInfo) {
        if let Some(l) = self.link() {
            l.tell(&ToHost::Signal {
                pid: self.pid,
                tid,
                info: armento_wire::talk::Signal(info.to_vec()),
            });
            self.told += 1;
        }
    }

    /// Does its body still have to hear signals of ours? An exec waits for that; not for ever.
    pub fn owed_signals(&mut self) -> bool {
        if self.told <= self.heard {
            return false;
        }
        self.waited += 1;
        if self.waited == EXEC_WAITS {
            let lost = self.told - self.heard;
            eprintln!(
                "process {}: {lost} signals were not confirmed before its exec",
                self.pid
            );
        }
        self.waited < EXEC_WAITS
    }

    /// It has a new body, which had no signal from us yet.
    pub fn now_at(&mut self, link: &Arc<HostLink>) {
        self.place = Place::Away(link.clone());
        self.put = false;
        self.unbegun = false;
        (self.told, self.heard, self.waited) = (0, 0, 0);
        self.nice.clear();
        self.patience = crate::signals::timers::PATIENCE;
    }

    /// Every deputy is gone or about to become the program again.
    pub fn close_deputies(&mut self, keep: &Keep) {
        self.leave_deputies(keep).iter().for_each(|d| d.close());
    }

    /// The same but for their end: nobody finds them any more, and they are scheduled as the program.
    pub fn leave_deputies(&mut self, keep: &Keep) -> Vec<Arc<Deputy>> {
        let all = std::mem::take(&mut self.threads);
        for (tid, d) in &all {
            d.own_slice();
            keep.leave(*tid);
        }
        all.into_values().collect()
    }

    pub fn held_back(&self) -> bool {
        self.hold_until.is_some_and(|t| Instant::now() < t)
    }

    /// A call brought it home: keep it there a while.
    pub fn hold_home(&mut self, why: Kept, storm: Option<Duration>) {
        self.kept = Some(why);
        self.hold_until = Some(Instant::now() + storm.unwrap_or(self.hold));
        self.hold = (self.hold * 2).min(HOLD_MAX);
    }
}

pub struct Tree {
    pub keep: Arc<Keep>,
    pub procs: BTreeMap<Pid, Proc>,
    /// Threads seized while their process is at home: signals and stops pass through.
    pub passing: BTreeSet<Tid>,
    /// Signals for children of deputies that are not known yet.
    pub early: Vec<(Tid, SigInfo)>,
    /// On the way out, between two visits.
    pub leaving: BTreeMap<Pid, crate::moves::out::Leaving>,
    /// On the way home: the stopped deputies.
    pub returning: BTreeMap<Pid, Vec<Halted>>,
    /// On the way from its exec to its entry.
    pub loading: BTreeMap<Pid, crate::traced::run_to_entry::Loading>,
    /// At home, and corrected in what they read of their CPU time.
    pub watch: Watch,
    /// At home under `--spread`.
    pub follow: Follow,
    /// What a thread that we let go in a restartable sleep was doing.
    pub blocks: HashMap<Tid, i64>,
    /// … or how long it still has to wait.
    pub waits: Waits,
    pub futex_waits: FutexWaits,
    scanned: Instant,
    watched: Instant,
    /// Signals wait for a host that is behind (see `backlog.rs`).
    pub backlog: bool,
    /// Deputies that block signals for a moment (see `backlog.rs`).
    pub shut: HashMap<Tid, Shut>,
    /// Signals of the whole tree just now.
    pub flood: Flood,
    /// The daemon was last told of nobody.
    unseen: bool,
    /// When hosts were last looked after.
    beat: Instant,
}

impl Tree {
    pub fn new(keep: Arc<Keep>, root: Pid) -> Tree {
        let locked = keep.settings.stay || keep.settings.pinned.is_some();
        let mut first = Proc::new(&keep, root, locked);
        // Of many commands that are given at once the last begin seconds later, and are owed that. A shell that slept and
        // has become one by exec is owed nothing, and who was adopted is as old as its work.
        first.born = cpu::wanted_since(&[root, std::process::id() as Pid]);
        Tree {
            procs: [(root, first)].into(),
            passing: BTreeSet::new(),
            early: Vec::new(),
            leaving: BTreeMap::new(),
            returning: BTreeMap::new(),
            loading: BTreeMap::new(),
            watch: Watch::default(),
            follow: Follow::new(keep.settings.spread),
            blocks: HashMap::new(),
            waits: Waits::default(),
            futex_waits: FutexWaits::default(),
            scanned: Instant::now(),
            watched: Instant::now(),
            backlog: false,
            shut: HashMap::new(),
            flood: Flood::default(),
            unseen: true,
            beat: Instant::now(),
            keep,
        }
    }

    /// The program is seized and about to exec.
    pub fn awaits_exec(&mut self, pid: Pid) {
        self.passing.insert(pid);
        if let Some(p) = self.procs.get_mut(&pid) {
            p.before_exec = true;
        }
    }

    /// A deputy's child: a thread, or a process of its own.
    pub fn born(
        &mut self,
        parent: &Arc<Deputy>,
        tid: Tid,
        (slot, waiter): (Slot, Waiter),
        thread: bool,
    ) {
        let link = parent.link();
        let (locked, ignored) = self
            .procs
            .get(&parent.pid)
            .map_or((false, 0), |p| (p.locked, p.ignored));
        let pid = if thread { parent.pid } else { tid };
        let region = slot.region().clone();
        let p = self
            .procs
            .entry(pid)
            .or_insert_with(|| Proc::new(&self.keep, pid, locked));
        if !thread {
            p.ignored = ignored;
            let read = parent.common.signalfds.load(Ordering::Relaxed);
            p.common.signalfds.store(read, Ordering::Relaxed);
            *lock(&p.common.mapped) = slot.end();
            lock(&p.common.limits).clone_from(&lock(&parent.common.limits));
        }
        p.now_at(&link);
        p.region = Some(region);
        let d = Deputy::new(tid, pid, slot, link, p.common.clone(), None, Some(parent));
        d.attend(waiter);
        self.keep.enter(&d);
        p.threads.insert(tid, d.clone());
        let link = p.link().cloned();
        self.inherits_shut(&d);
        route::known(self, pid, tid);
        // Who was lost with the host was counted before.
        if let Some(l) = link.filter(|l| !thread && l.broken.load(Ordering::Acquire)) {
            lost_with(pid, &l);
        }
    }

    /// The dispositions that an exec must start with: which ones differ from the deputy's.
    pub fn ignored(&mut self, pid: Pid, ignored: u64, heard: u64) -> u64 {
        self.procs.get_mut(&pid).map_or(0, |p| {
            p.heard = heard;
            std::mem::replace(&mut p.ignored, ignored) ^ ignored
        })
    }

    /// exit_group at the body.
    pub fn exit(&mut self, link: &Arc<HostLink>, pid: Pid, code: i32, away: CpuTime) {
        let Some(p) = self.procs.get(&pid) else {
            return link.tell(&ToHost::Kill { pid });
        };
        if p.link().is_none_or(|l| !Arc::ptr_eq(l, link)) {
            return;
        }
        // Before it ends: its parent reads it.
        self.used_away(pid, &link.node, away);
        let Some(p) = self.procs.get(&pid) else {
            return;
        };
        // Behind our own housekeeping, if need be: it is short.
        match p.threads.values().find(|d| !d.in_call()) {
            Some(d) => d.submit(Work::End {
                nr: libc::SYS_exit_group,
                code: u64::from(code as u32),
            }),
            None => drop(sys::kill(pid, libc::SIGKILL)),
        }
    }

    /// A body that ended without its own doing: a truthful death at home.
    pub fn died(&mut self, link: &Arc<HostLink>, pid: Pid, sig: i32) {
        if self
            .procs
            .get(&pid)
            .is_some_and(|p| p.link().is_some_and(|l| Arc::ptr_eq(l, link)))
        {
            let why = format!("was killed on {} by signal {sig}", link.node);
            let what = if sig == libc::SIGKILL {
                "that node's memory may have run out, or a node or link failed while its memory was on its way (`armento nodes`): start it again, on another with --on"
            } else {
                "see that node's log, then start it again"
            };
            end(pid, &why, what);
        }
    }

    /// Every body on a dead host is lost.
    pub fn host_lost(&mut self, link: &Arc<HostLink>) {
        for p in self.procs.values() {
            if p.link().is_some_and(|l| Arc::ptr_eq(l, link)) {
                lost_with(p.pid, link);
            }
        }
    }

    /// CPU that the process, which is at `node` or was a moment ago, used away so far.
    pub fn used_away(&mut self, pid: Pid, node: &NodeName, away: CpuTime) {
        if let Some(p) = self.procs.get_mut(&pid) {
            self.keep.cpu.told(pid, away);
            p.seen.used_at(node, away);
        }
    }

    pub fn usage(&mut self, link: &Arc<HostLink>, list: Vec<Usage>) {
        for u in list {
            if let Some(p) = self.procs.get_mut(&u.pid)
                && p.link().is_some_and(|l| Arc::ptr_eq(l, link))
            {
                self.keep.cpu.told(u.pid, u.away);
                p.seen.used_at(&link.node, u.away);
                p.seen.rss_kib = u.rss_kib;
                p.seen.busy_percent = u.busy_percent;
            }
        }
    }

    /// A process of the tree ended.
    pub fn gone(&mut self, pid: Pid) {
        let Some(mut p) = self.procs.remove(&pid) else {
            return;
        };
        if let Some(l) = p.link().cloned() {
            l.tell(&ToHost::Kill { pid });
            p.seen.used_at(&l.node, self.keep.cpu.away(pid));
        }
        crate::calls::readahead::forget(&self.keep, pid);
        self.watch.forget(pid);
        self.follow.forget(pid);
        p.close_deputies(&self.keep);
        named_shm::left(&self.keep, pid);
        p.seen
            .finish(p.moves, p.common.calls.load(Ordering::Relaxed));
        self.publish();
    }

    /// A child that was born at home.
    pub fn meet(&mut self, child: Pid, parent: Pid) {
        let locked = self.procs.get(&parent).is_some_and(|p| p.locked);
        self.procs
            .entry(child)
            .or_insert_with(|| Proc::new(&self.keep, child, locked));
    }

    fn publish(&self) {
        *lock(&self.keep.known) = self.procs.keys().copied().collect();
    }

    /// Finds children born at home, forgets those that ended there.
    pub fn scan(&mut self) {
        self.scanned = Instant::now();
        let mut queue: Vec<Pid> = self.procs.keys().copied().collect();
        while let Some(pid) = queue.pop() {
            let home = self.procs.get(&pid).is_none_or(|p| p.link().is_none());
            if home && status::read(pid).map_or(true, |s| s.state == 'Z' || s.state == 'X') {
                self.gone(pid);
                continue;
            }
            // Whose body is away forks by our hand alone. A deputy that was killed before its birth was on
            // our books has been reported, and forgotten, as a stranger.
            if !home {
                if !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true) {
                    self.gone(pid);
                }
                continue;
            }
            for child in status::children(pid) {
                if !self.procs.contains_key(&child) && child != std::process::id() as Pid {
                    self.meet(child, pid);
                    queue.push(child);
                }
            }
        }
        self.publish();
    }

    /// `--on NODE`: what came home for a call goes there again when its hold is over.
    fn send_back(&mut self) {
        let s = &self.keep.settings;
        let Some(node) = s.pinned.clone().filter(|n| !s.stay && *n != s.node) else {
            return;
        };
        for p in self.procs.values_mut() {
            let waits = p.link().is_some()
                || p.at_exec
                || p.tied
                || p.put
                || p.held_back()
                || p.sent_back.elapsed() < HOLD_MIN;
            if !waits && p.moves > 0 {
                p.sent_back = Instant::now();
                self.keep.tasks.push(Task {
                    pid: p.pid,
                    to: Dest::Node(node.clone()),
                    why: Why::Storm,
                });
            }
        }
    }

    /// A descriptor that signals were read from may be closed by now.
    fn watch_signalfds(&mut self) {
        let away = self.procs.values().filter(|p| p.link().is_some());
        for p in away.filter(|p| p.common.signalfds.load(Ordering::Relaxed) != 0) {
            let read = crate::moves::eligibility::signalfds(p.pid);
            p.common.signalfds.store(read, Ordering::Relaxed);
        }
    }

    /// A writer waits for a file that an away process maps shared: bring it home, then let go.
    /// KERNEL: /proc/sys/fs/lease-break-time gives us 45 s.
    fn watch_leases(&mut self) {
        fork_and_map::close_files(self);
        let keep = self.keep.clone();
        let mut leases = lock(&keep.leases);
        leases.retain(|(pid, _)| self.procs.get(pid).is_some_and(|p| p.link().is_some()));
        for (pid, _) in leases.iter().filter(|(_, f)| sys::lease_wanted(f)) {
            let why = "a file that it maps shared is about to change".to_owned();
            let why = Why::Call(Stay::SharedMemory, why);
            keep.tasks.push_urgent(Task {
                pid: *pid,
                to: Dest::Home,
                why,
            });
        }
    }

    /// What the daemon gets to see. Who has not been placed yet works nowhere: two dozen of them at an
    /// instant would make home look too full for any.
    pub fn report(&mut self) -> Vec<ProcInfo> {
        self.scan();
        let here = self.keep.settings.node.clone();
        let (tree, uid) = (self.keep.settings.tree, self.keep.settings.hello.uid);
        let mut all = Vec::new();
        let placed = |p: &&mut Proc| !p.at_exec && !p.before_exec;
        for p in self.procs.values_mut().filter(placed) {
            p.seen.look(p.link().is_none());
            let place: NodeName = p.link().map_or_else(|| here.clone(), |l| l.node.clone());
            let lost = p.link().and_then(|l| l.lost());
            all.push(ProcInfo {
                pid: p.pid,
                ppid: p.seen.ppid,
                tree,
                uid,
                home: here.clone(),
                place,
                command: p.seen.command.clone(),
                cpu_ms: p.seen.cpu_ms(),
                away_cpu_ms: p.seen.away_ms(),
                rss_kib: p.seen.rss_kib,
                threads: match p.link() {
                    Some(_) => p.threads.len() as u32,
                    None => p.seen.threads,
                },
                busy_percent: p.seen.busy_percent,
                moves: p.moves,
                forwarded: p.common.calls.load(Ordering::Relaxed),
                stay: p.kept.as_ref().map(|k| k.stay),
                detail: p
                    .kept
                    .as_ref()
                    .map_or_else(String::new, |k| k.detail.clone()),
                partner: p.kept.as_ref().and_then(|k| k.partner),
                locked: p.locked
                    || p.put
                    || p.tied
                    || p.hold_until.is_some_and(|t| Instant::now() < t),
                lost_ms: lost.map(|t| t.as_millis() as u64),
                frozen: p.link().zip(lost).is_some_and(|(l, t)| l.freezes(t)),
                portable: self.keep.is_portable(p.pid),
                age_ms: p.born.elapsed().as_millis() as u64,
            });
        }
        self.unseen = all.is_empty();
        all
    }

    /// The daemon is not told of a program by looking for it again and again while it waits for its place: forty that
    /// begin together took a third of their home for that.
    fn begins(&mut self) {
        if std::mem::take(&mut self.unseen) {
            self.keep.control.begun();
        }
    }

    /// An exec happened in a thread of ours: what was away is no more, a fresh image waits.
    /// `traced`: it waits for its placement.
    pub fn execed(&mut self, tid: Tid, traced: bool) {
        let pid = tid;
        if let Some(l) = self.leaving.remove(&pid) {
            // It exec'd while its pages were being copied: that move is off.
            let _ = l.grip.disband();
        }
        self.blocks.remove(&tid);
        self.loading.remove(&tid);
        self.watch.forget(pid);
        self.follow.forget(pid);
        // KERNEL: the event's message is the number that the thread had before it became the leader.
        let former = trace::event_msg(tid).ok().filter(|_| traced);
        self.keep.cpu.execed(pid, former.map_or(pid, |m| m as Tid));
        let locked = self.keep.settings.stay || self.keep.settings.pinned.is_some();
        let p = self
            .procs
            .entry(pid)
            .or_insert_with(|| Proc::new(&self.keep, pid, locked));
        if let Some(l) = p.link().cloned() {
            l.tell(&ToHost::Execed { pid });
            p.seen.used_at(&l.node, self.keep.cpu.away(pid));
            p.seen.back_home();
        }
        p.close_deputies(&self.keep);
        named_shm::left(&self.keep, pid);
        (p.place, p.put) = (Place::Home, false);
        p.common.coming.store(false, Ordering::Release);
        p.region = None;
        p.at_exec = traced;
        let first = std::mem::take(&mut p.before_exec);
        p.unbegun = first && traced;
        p.kept = None;
        p.common.breaking.store(false, Ordering::Release);
        // What a move kept back for the body is for the new program; home's kernel queues it.
        let held = std::mem::take(&mut p.held);
        p.seen.renamed();
        for (_, info) in held {
            route::send_again(pid, &info);
        }
        self.publish();
        if !traced {
            return;
        }
        if setuid_exec::exec_again(pid) {
            // It is not in our hand any more.
            if let Some(p) = self.procs.get_mut(&pid) {
                p.at_exec = false;
            }
            return self.begins();
        }
        self.passing.insert(pid);
        if first && self.follow.on {
            // It is the one that makes the others: they go where there is room.
            return self.let_go(pid);
        }
        self.keep.placements().push_urgent(Task {
            pid,
            to: Dest::Balance,
            why: Why::Exec,
        });
    }

    /// Lets a process that stays at home go on, untraced unless it is followed.
    pub fn let_go(&mut self, pid: Pid) {
        self.passing.remove(&pid);
        if let Some(p) = self.procs.get_mut(&pid) {
            (p.at_exec, p.unbegun) = (false, false);
        }
        self.begins();
        // One that died meanwhile needs nothing.
        let _ = if self.follow.on {
            self.follow_one(pid, pid)
        } else {
            trace::detach(pid, 0)
        };
    }

    /// Signals that came during a move are passed to where it is now.
    pub fn release_held(&mut self, pid: Pid) {
        let Some(p) = self.procs.get_mut(&pid) else {
            return;
        };
        p.common.breaking.store(false, Ordering::Release);
        for (tid, info) in std::mem::take(&mut p.held) {
            p.pass_on(tid, &info);
        }
    }
}

/// Ends a process that lost its body. Its user learns why, where the program would have complained.
fn lost_with(pid: Pid, link: &HostLink) {
    let why = format!("ended: {}, where it ran, was lost", link.node);
    end(
        pid,
        &why,
        "`armento nodes` shows who answers; start it again",
    );
}

fn end(pid: Pid, why: &str, hint: &str) {
    let name = status::comm(pid, pid);
    complain(
        pid,
        &format!("armento: process {pid} ({name}) {why}\nhint: {hint}\n"),
    );
    let _ = sys::kill(pid, libc::SIGKILL);
}

/// A line where the program itself would complain.
pub fn complain(pid: Pid, line: &str) {
    eprint!("{line}");
    if let Ok(fd) = sys::steal_fd(pid, 2) {
        // Only what goes at once: a full pipe must not keep us.
        crate::sys::write_now(&fd, line.as_bytes());
    }
}

impl World for Tree {
    fn report(&mut self, tid: Tid, status: Status) {
        match status {
            Status::Exited(_) | Status::Killed(_) => self.ended(tid),
            Status::Stopped(Stop::Event(e)) if e == libc::PTRACE_EVENT_EXEC => {
                self.execed(tid, true)
            }
            Status::Stopped(stop) => route::stopped(self, tid, stop),
            Status::Continued => {}
        }
    }

    fn turn(&mut self) -> bool {
        if self.backlog {
            self.catch_up();
        }
        if !self.shut.is_empty() {
            self.end_shuts();
        }
        if self.scanned.elapsed() > SCAN_EVERY {
            self.scan();
        }
        // By a clock of its own: reports scan, too.
        if self.watched.elapsed() > SCAN_EVERY {
            self.watched = Instant::now();
            self.send_back();
            self.watch_leases();
            self.watch_signalfds();
            self.watch_outside();
            crate::calls::readahead::watch(&self.keep);
            crate::calls::proc_access::watch(&self.keep);
        }
        if self.beat.elapsed() > BEAT {
            self.beat = Instant::now();
            crate::hosts::connect::look(&self.keep);
            crate::calls::proc_access::watch_counters(&self.keep);
        }
        !self.procs.is_empty()
    }

    /// Ends and forks at home, files that others want and calls that look at others are seen by looking.
    fn pause(&self) -> Duration {
        if self.backlog || !self.shut.is_empty() {
            return flood::LOOK;
        }
        let home = self.procs.values().any(|p| p.link().is_none());
        if home || !lock(&self.keep.leases).is_empty() || !lock(&self.keep.ahead).is_empty() {
            return TURN_MAX;
        }
        TURN_CALM
    }
}

impl Tree {
    fn ended(&mut self, tid: Tid) {
        self.passing.remove(&tid);
        self.early.retain(|(t, _)| *t != tid);
        self.loading.remove(&tid);
        self.follow.ended(tid);
        if let Some(pid) = self.watch.ended(tid) {
            self.keep.cpu.thread_ended(pid, tid);
        }
        if self.procs.contains_key(&tid) {
            return self.gone(tid);
        }
        if let Some(d) = self.keep.deputy(tid) {
            d.close();
            self.keep.leave(tid);
            if let Some(p) = self.procs.get_mut(&d.pid) {
                p.threads.remove(&tid);
            }
        }
    }
}
