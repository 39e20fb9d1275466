//! A process that leaves: its threads become deputies, its memory is given up.
//!
//! From: `out.rs`, `group.rs`. Next: `keeper/src/deputy/thread.rs`.

use super::freeze::restarting;
use super::tear_down::DeferredTeardown;
use crate::deputy::{Deputy, HostLink, Waiter, grow_region};
use crate::signals::{in_order, take_pending};
use crate::state::{Away, Tree};
use crate::sync::lock;
use armento_migrate::failpoint::point;
use armento_migrate::image::itimers::{self, Itimers};
use armento_migrate::image::{ThreadState, thread};
use armento_migrate::phase::Failpoint;
use armento_migrate::stop_threads::{Halted, StoppedThreads};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, Pid, Stay, Tid};
use armento_tracee::inject::{self, Hold, Unfiltered};
use armento_tracee::pages::Run;
use armento_tracee::region::{Code, Region, SCRATCH_AREAS, Slot};
use armento_tracee::trace::{self, Stopped};
use armento_tracee::{status, sys};
use armento_wire::talk::ToHost;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Memory of the program that a deputy's restart block writes to.
fn kept_memory(s: &ThreadState, nr: i64) -> Option<(u64, usize)> {
    let (rdi, rsi, r10) = (s.regs[14], s.regs[13], s.regs[7]);
    match nr {
        libc::SYS_poll => Some((rdi, (rsi as usize).min(65536) * 8)),
        libc::SYS_nanosleep if rsi != 0 => Some((rsi, 16)),
        libc::SYS_clock_nanosleep if r10 != 0 => Some((r10, 16)),
        _ => None,
    }
}

/// A signal (with the stop that carried it) that a thread had when it was frozen at home.
fn keep_halted_signals(away: &mut Away, halted: &[Halted]) {
    for (tid, info) in in_order(halted) {
        away.signals.hold(Some(tid), &info);
    }
}

/// What a restart block of this thread's may write to, whichever call it belongs to: that memory cannot come later.
pub fn restart_block_memory(s: &ThreadState) -> Vec<Run> {
    let calls = [
        libc::SYS_poll,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
    ];
    let all = calls.into_iter().filter(|_| s.at_deputy);
    let page = |a: u64| a & !4095;
    all.filter_map(|nr| kept_memory(s, nr))
        .map(|(at, len)| (page(at), page(at.saturating_add(len as u64 + 4095))))
        .collect()
}

/// The target is ready: the body is thawed. Next, in the same visit to the tracer thread: [`NewDeputies::serve`], and
/// some time [`tear_down_memory`].
pub fn hand_over(
    t: &mut Tree,
    pid: Pid,
    link: &Arc<HostLink>,
    mv: MoveId,
) -> Result<(Option<DeferredTeardown>, NewDeputies)> {
    make_away(t, pid, link, Some(mv))
}

/// As [`hand_over`], of a process that has no body yet: that is built later, from a checkpoint.
pub fn hollow_out(
    t: &mut Tree,
    pid: Pid,
    link: &Arc<HostLink>,
) -> Result<(Option<DeferredTeardown>, NewDeputies)> {
    make_away(t, pid, link, None)
}

/// `thaws`: the move that has brought its body.
fn make_away(
    t: &mut Tree,
    pid: Pid,
    link: &Arc<HostLink>,
    thaws: Option<MoveId>,
) -> Result<(Option<DeferredTeardown>, NewDeputies)> {
    let keep = t.keep.clone();
    link.ensure_connected()?;
    let mut l = t.leaving.remove(&pid).ok_or(MigrateError::Ended)?;
    let code = l.region.code();
    let mut deputies = Vec::new();
    let shares = keep.settings.forwards_files() || shares_files(t, pid);
    let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
    p.common.shares_files.store(shares, Ordering::Release);
    p.common.breaking.store(false, Ordering::Release);
    let slots: Option<Vec<_>> = l.states.iter().map(|_| l.region.slot()).collect();
    let read = l.signalfds;
    p.common.signalfds.store(read, Ordering::Relaxed);
    let slots = slots.and_then(|s| Some((grow_for_slots(pid, &code, &l.region, &s)?, s)));
    let Some((mapped, slots)) = slots else {
        t.leaving.insert(pid, l);
        return Err(MigrateError::Stays(Stay::TooManyThreads, "no slots".into()));
    };
    *lock(&p.common.mapped) = mapped;
    lock(&p.common.limits).clone_from(&l.limits);
    // What waits here is told before it runs: it may ask, and SIGPIPE comes before write's EPIPE.
    let mut away = Away::new(link.clone(), l.region.clone(), l.ignored);
    keep_halted_signals(&mut away, &l.stopped.halted);
    for s in &l.states {
        let tid = s.tid.at_home();
        // Only a thread that died meanwhile fails; its process dies with it.
        let waits = take_pending(&code, pid, tid, s.mask & read).unwrap_or_default();
        for (to, info) in waits {
            away.signals.hold(to, &info);
        }
    }
    for (s, slot) in l.states.iter().zip(slots) {
        let tid = s.tid.at_home();
        slot.set_idle(s.mask & read);
        // It may have fallen asleep since it was halted first, and shows its call no more when it comes home.
        let sleeps = s
            .at_deputy
            .then(|| restarting(s, t.restart_blocks.get(&tid).copied()));
        t.restart_blocks
            .extend(sleeps.flatten().map(|nr| (tid, nr)));
        let kept = sleeps.flatten().and_then(|nr| kept_memory(s, nr));
        let d = Deputy::new(tid, pid, slot, link.clone(), p.common.clone(), kept, None);
        if s.again {
            d.frozen_since(l.stands);
        }
        keep.deputies.insert(&d);
        away.add_deputy(&d);
        deputies.push(d);
    }
    p.become_away(away);
    point(Failpoint::HomeHollow);
    if let Some(mv) = thaws {
        t.release_held(pid);
        link.send(&ToHost::Thaw {
            mv,
            pid: HomePid::of_home(pid),
        });
        point(Failpoint::HomeThawed);
    }
    t.cpu_fixup.forget(pid);
    t.follow.forget(pid);
    let halted = std::mem::replace(&mut l.stopped, StoppedThreads::new(pid)).disband();
    for h in &halted {
        t.passing.remove(&h.tid());
    }
    let leader = deputies.iter().find(|d| d.tid == pid).cloned();
    let teardown = leader.map(|deputy| DeferredTeardown {
        deputy,
        numbers: l.numbers.clone(),
        uffd: l.uffd.take(),
        begins: thaws.is_none(),
    });
    let new = NewDeputies {
        pid,
        code,
        threads: std::mem::take(&mut l.states)
            .into_iter()
            .zip(deputies)
            .collect(),
        stopped: halted.into_iter().map(|h| (h.tid(), h.thread)).collect(),
        itimers: l.itimers,
    };
    Ok((teardown, new))
}

/// Threads that it made since the region was mapped may need more of it. Returns the bytes that are mapped.
fn grow_for_slots(pid: Pid, code: &Code, region: &Region, slots: &[Slot]) -> Option<u64> {
    let end = slots.iter().map(Slot::end).max()?;
    grow_region(region, region.first_len(), end, |nr, args| {
        let mut h = Hold::take(pid, Arc::new(Unfiltered)).ok()?;
        Some(h.call(code, nr, args).ok()?.0)
    })
}

/// Threads whose body runs already: its calls wait in their deputies' slots.
#[must_use]
pub struct NewDeputies {
    pid: Pid,
    code: Code,
    threads: Vec<(ThreadState, Arc<Deputy>)>,
    stopped: BTreeMap<Tid, Stopped>,
    itimers: Itimers,
}

impl NewDeputies {
    /// They become deputies, first the leader, which has the most to do. Only threads that died meanwhile fail, with
    /// their process: nothing can be taken back any more, and none may go on as the program.
    pub fn serve(mut self) {
        let (first, rest) = self.threads.split_at(self.threads.len().min(1));
        for part in [first].into_iter().chain(rest.chunks(SCRATCH_AREAS)) {
            if let Err(e) = make_deputies(&self.code, part, &self.itimers) {
                eprintln!("process {} ends: {e}", self.pid);
                let _ = sys::kill(self.pid, libc::SIGKILL);
                return;
            }
            for (_, d) in part {
                let Ok(waiter) = Waiter::begin() else {
                    eprintln!(
                        "process {} ends: no room for the threads that serve it",
                        self.pid
                    );
                    let _ = sys::kill(self.pid, libc::SIGKILL);
                    return;
                };
                if let Some(thread) = self.stopped.remove(&d.tid) {
                    let _ = trace::resume(thread, 0);
                }
                d.attend(waiter);
            }
        }
        point(Failpoint::HomeServed);
    }
}

/// Dispositions stay as they are: no signal is let through to a deputy, so no handler runs; and setting
/// SIGCHLD to its default would throw away one that waits (POSIX 2.4.3).
fn make_deputies(
    code: &Code,
    part: &[(ThreadState, Arc<Deputy>)],
    itimers: &Itimers,
) -> trace::Result<()> {
    let ignores = part
        .first()
        .is_some_and(|(_, d)| inject::ignores_trap(d.tid));
    let mut held = Vec::with_capacity(part.len());
    for (n, (s, d)) in part.iter().enumerate() {
        let mut h = Hold::take_known(d.tid, Arc::new(Unfiltered), ignores)?;
        let scratch_area = code.scratch_area(n);
        if d.tid == d.pid {
            h.batch(code, &itimers::stop_calls(code, itimers))?;
        }
        h.begin(&scratch_area, &thread::forget_calls(&scratch_area, s))?;
        held.push((h, &d.slot));
    }
    for (n, (h, _)) in held.iter_mut().enumerate() {
        h.end(&code.scratch_area(n))?;
    }
    for (h, slot) in held {
        let mut r = h.regs;
        r.rip = code.deputy;
        r.r15 = slot.addr();
        r.rsp = 0;
        r.orig_rax = u64::MAX;
        r.eflags = 0x202;
        h.finish(r, slot.idle())?;
    }
    Ok(())
}

/// Whether another process of the tree, or its parent, has the same table of descriptors or working directory.
fn shares_files(t: &Tree, pid: Pid) -> bool {
    let parent = status::read(pid).ok().map(|s| s.ppid);
    let others = t.procs.keys().copied().chain(parent);
    others
        .filter(|other| *other != pid && *other > 1)
        .any(|other| crate::sys::share_files(pid, other))
}
