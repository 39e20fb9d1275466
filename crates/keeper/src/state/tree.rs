//! The tree of processes: what the tracer thread reads and notes without any other part of the keeper.

use super::cpu_fixup::CpuFixup;
use super::followed::Followed;
use super::keeper::{Keep, Tree};
use super::pins::Pins;
use super::process::Process;
use super::safe::Safe;
use super::stay_reason::StayReason;
use super::tree_signals::TreeSignals;
use crate::deputy::HostLink;
use crate::restart::{FutexWaits, WaitDeadlines};
use crate::sync::lock;
use armento_migrate::image::restarts;
use armento_migrate::stop_threads::Halted;
use armento_model::{CpuTime, NodeName, Pid, Tid};
use armento_tracee::region::Code;
use armento_tracee::{cpu, status, trace};
use armento_wire::talk::Usage;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// New threads are seized from their first instruction on.
const WATCHED: u64 = trace::WATCH | libc::PTRACE_O_TRACECLONE as u64;

impl Tree {
    pub fn new(keep: Arc<Keep>, root: Pid) -> Tree {
        let locked = keep.settings.stay || keep.settings.pinned.is_some();
        // Of many commands that are given at once the last begin seconds later, and are owed that. A shell that slept
        // and has become one by exec is owed nothing, and a process that was adopted is as old as its work.
        let born = cpu::wanted_since(&[root, std::process::id() as Pid]);
        let first = Process::new(&keep.cpu, root, locked, keep.settings.safe).born_at(born);
        Tree::of(keep, [(root, first)].into())
    }

    /// These processes are at home, and nothing else is known of them.
    pub fn of(keep: Arc<Keep>, procs: BTreeMap<Pid, Process>) -> Tree {
        Tree {
            procs,
            passing: BTreeSet::new(),
            signals: TreeSignals::default(),
            leaving: BTreeMap::new(),
            cpu_fixup: CpuFixup::default(),
            follow: Followed::new(keep.settings.spread),
            restart_blocks: HashMap::new(),
            wait_deadlines: WaitDeadlines::default(),
            futex_waits: FutexWaits::default(),
            scanned: Instant::now(),
            watched: Instant::now(),
            unseen: true,
            beat: Instant::now(),
            keep,
        }
    }

    /// The program is seized and about to exec.
    pub fn begins_at_exec(&mut self, pid: Pid) {
        self.passing.insert(pid);
        if let Some(p) = self.procs.get_mut(&pid) {
            p.begin_before_exec();
        }
    }

    /// The dispositions that an exec must start with: which ones differ from the deputy's.
    pub fn ignored(&mut self, pid: Pid, ignored: u64, acknowledged: u64) -> u64 {
        let away = self.procs.get_mut(&pid).and_then(Process::away_mut);
        away.map_or(0, |a| a.prepare_exec(ignored, acknowledged))
    }

    /// CPU that the process, which is at `node` or was a moment ago, used away so far.
    pub fn used_away(&mut self, pid: Pid, node: &NodeName, away: CpuTime) {
        if let Some(p) = self.procs.get_mut(&pid) {
            self.keep.cpu.reported(pid, away);
            p.usage.used_at(node, away);
        }
    }

    pub fn usage(&mut self, link: &Arc<HostLink>, list: Vec<Usage>) {
        for u in list {
            let pid = u.pid.at_home();
            if let Some(p) = self.procs.get_mut(&pid)
                && p.is_at(link)
            {
                self.keep.cpu.reported(pid, u.away);
                p.usage.used_at(&link.node, u.away);
                p.usage.did_with_files(u.files);
                p.usage.rss_kib = u.rss_kib;
                p.usage.busy_percent = u.busy_percent;
            }
        }
    }

    /// A child that was born at home.
    pub fn child_found(&mut self, child: Pid, parent: Pid) {
        let pins = self.procs.get(&parent).map(|p| p.pins);
        let locked = pins.is_some_and(Pins::by_option);
        self.procs.entry(child).or_insert_with(|| {
            let keep = &self.keep;
            Process::new(&keep.cpu, child, locked, keep.settings.safe).child_of(parent)
        });
    }

    /// Other threads see the processes of the tree as they are now.
    pub fn publish(&self) {
        *lock(&self.keep.known) = self.procs.keys().copied().collect();
    }

    /// The daemon is not told of a program by looking for it again and again while it waits for its place: forty that
    /// begin together took a third of their home for that.
    pub fn begins(&mut self) {
        if std::mem::take(&mut self.unseen) {
            self.keep.daemon.begun();
        }
    }

    /// Signals that came during a move are passed to where it is now.
    pub fn release_held(&mut self, pid: Pid) {
        if let Some(p) = self.procs.get_mut(&pid) {
            if p.safe.as_ref().is_some_and(Safe::is_recovering) {
                // Its body is lost: what is held waits for the next one.
                return;
            }
            p.end_breaking();
            self.signals.backlog |= p.replays() && p.has_backlog();
        }
    }

    pub fn note(&mut self, pid: Pid, kept: Option<StayReason>) {
        if let Some(p) = self.procs.get_mut(&pid) {
            p.note_move(kept);
        }
    }

    pub fn hold_home(&mut self, pid: Pid, why: StayReason, storm: Option<Duration>) {
        if let Some(p) = self.procs.get_mut(&pid) {
            p.hold_home(why, storm);
        }
    }

    /// What `Dest::Balance` undoes: a hold; without one, the pin of `--stay` or `--on`, or that the user placed it.
    pub fn unlock(&mut self, pid: Pid) {
        if let Some(p) = self.procs.get_mut(&pid) {
            p.unpin();
        }
    }

    /// A thread let go in the midst of a restartable sleep will show only `restart_syscall` next time.
    pub fn remember_restart_block(&mut self, tid: Tid) {
        let Ok(r) = trace::regs(tid) else { return };
        if r.rax as i64 == restarts::ERESTART_RESTARTBLOCK
            && r.orig_rax as i64 != libc::SYS_restart_syscall
        {
            self.restart_blocks.insert(tid, r.orig_rax as i64);
        }
    }

    pub fn code_of(&self, pid: Pid) -> Option<Code> {
        Some(self.procs.get(&pid)?.away()?.region().code())
    }

    /// A thread that is not known yet and that a process at home has made.
    pub fn born_at_home(&self, tid: Tid) -> Option<status::ProcStatus> {
        let s = status::read(tid)
            .ok()
            .filter(|_| !self.passing.contains(&tid))?;
        (!self.made_away(tid, &s)).then_some(s)
    }

    /// Whether it is a deputy, or a deputy has made it. A thread at home may have a parent that is away.
    pub fn made_away(&self, tid: Tid, s: &status::ProcStatus) -> bool {
        let away = |pid| self.procs.get(&pid).is_some_and(Process::is_away);
        away(s.tgid) || s.tgid == tid && away(s.ppid)
    }

    pub fn set_coming_home(&mut self, pid: Pid, yes: bool) {
        if let Some(p) = self.procs.get_mut(&pid) {
            p.common.coming_home.store(yes, Ordering::Release);
        }
    }

    /// It may run on the node that was named only, and has not begun anywhere.
    pub fn awaits_named_node(&self, pid: Pid) -> bool {
        let s = &self.keep.settings;
        let elsewhere = s.pinned.as_ref().is_some_and(|n| *n != s.node);
        elsewhere && self.procs.get(&pid).is_some_and(Process::is_unbegun)
    }

    /// A program that waits for its placement stands still until a later visit takes it.
    pub fn keep_standing(&mut self, pid: Pid, halted: impl IntoIterator<Item = Halted>) {
        if let Some(p) = self.procs.get_mut(&pid) {
            // It has one thread.
            halted.into_iter().for_each(|h| p.stand(h));
        }
    }

    /// The thread of a program that stands still.
    pub fn take_standing(&mut self, pid: Pid) -> Option<Halted> {
        self.procs.get_mut(&pid)?.take_standing()
    }

    /// How a process is seized that goes on at home while it is copied.
    pub fn passing_options(&self, pid: Pid) -> u64 {
        if self.follow.on {
            trace::FOLLOW
        } else if self.cpu_fixup.has(pid) {
            WATCHED
        } else {
            trace::WATCH
        }
    }
}
