//! A process leaves home.
//!
//! From: `mover.rs`. Next: `migrate/src/source.rs` facing `migrate/src/target.rs`.
//!
//! ```text
//! home    halt · map the region · offer · pre-copy (runs) · halt · state · Ready? · deputies · Thaw
//! ```
//! Home is the arbiter: until Thaw is said the process can go on where it was.

use crate::deputy::{Deputy, Work};
use crate::keep::Keep;
use crate::links::{self, HostLink, MoveEvent};
use crate::mover::{Done, READY_MAX, await_ready};
use crate::partners;
use crate::reasons;
use crate::timers;
use crate::tree::{Place, Tree};
use crate::waits::Waits;
use armento_migrate::fault::point;
use armento_migrate::image::areas::{self, Survey};
use armento_migrate::image::itimers::{self, Itimers};
use armento_migrate::image::objects::{self, Views};
use armento_migrate::image::{Head, State, ThreadState, mm, sigs, thread};
use armento_migrate::source::Job;
use armento_migrate::stop::{Grip, Halted, delicate, ignores_trap, signal_waits};
use armento_migrate::{MigrateError, Result};
use armento_model::{ENGINE_VERSION, MoveId, NodeName, Pid, Stay, Tid};
use armento_tracee::inject::{Hold, Unfiltered, ok, vdso_syscall};
use armento_tracee::pages::{self, Pagemap, Run};
use armento_tracee::region::{BASE, Code, Region};
use armento_tracee::uffd::{USER_MODE_ONLY, Uffd};
use armento_tracee::{aside, maps, status, sys, trace};
use armento_wire::talk::{FileKey, Purpose, ToHost};
use std::collections::HashMap;
use std::fs::File;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

/// Below this much memory a stop-copy is shorter than preparing a pre-copy.
const PRECOPY_MIN_KIB: u64 = 2048;
/// Spare slots for threads and children made away.
const SLOTS_SPARE: u32 = 192;
/// One munmap of the teardown: a few milliseconds, so that calls of the body come between.
const CHUNK: u64 = 64 << 20;
const MFD_EXEC: u64 = 0x10;
/// Code segment of 32-bit programs. KERNEL: __USER32_CS.
const CS_32: u64 = 0x23;

/// A process on its way out, between two visits to the hand.
pub struct Leaving {
    pub grip: Grip,
    region: Arc<Region>,
    uffd: Option<Arc<Uffd>>,
    states: Vec<ThreadState>,
    ignored_trap: bool,
    itimers: Itimers,
    numbers: mm::Mm,
    /// Signals it ignores, as a mask.
    ignored: u64,
}

/// What the bulk side needs.
pub struct Prepared {
    pub head: Head,
    pub files: HashMap<FileKey, File>,
    pub leased: Vec<FileKey>,
    uffd: Option<Arc<Uffd>>,
}

impl Prepared {
    /// It is away: whoever writes into a file that it maps shared is to be noticed.
    pub fn keep_leases(mut self, keep: &Keep, pid: Pid) {
        let files = &mut self.files;
        let held = self
            .leased
            .iter()
            .filter_map(|k| Some((pid, Arc::new(files.remove(k)?))));
        crate::keep::lock(&keep.leases).extend(held);
    }
}

pub fn out(keep: &Arc<Keep>, pid: Pid, node: &NodeName) -> Result<Done> {
    let need = reasons::may_leave(pid)?;
    let link = links::to(keep, node, pid, need)?;
    let (tx, news) = mpsc::channel();
    let mv = keep.new_move(tx);
    let r = try_out(keep, pid, &link, mv, &news);
    keep.end_move(mv);
    r
}

fn try_out(
    keep: &Arc<Keep>,
    pid: Pid,
    link: &Arc<HostLink>,
    mv: MoveId,
    news: &Receiver<MoveEvent>,
) -> Result<Done> {
    let (mut r, mut w) = links::open(keep, &link.pass, Purpose::Bring(mv))?;
    let hand = &keep.hand;
    let prep = hand
        .run(move |t| prepare(t, pid, &[pid]))
        .unwrap_or(Err(MigrateError::Ended))?;
    let mut frozen = Instant::now();
    let mut job = Job::new(pid, &mut r, &mut w);
    let sent = (|| {
        job.offer(&prep.head, &mut |k| {
            prep.files.get(k).and_then(|f| f.try_clone().ok())
        })?;
        let tracked = match &prep.uffd {
            // At home nobody of ours writes into it; the kernel does so through its page tables.
            Some(u) => job.precopy(u, &survey(pid)?, &RwLock::new(())).is_ok(),
            None => false,
        };
        frozen = Instant::now();
        let (last, state) = hand
            .run(move |t| freeze(t, pid, &[pid], &Views::default()))
            .unwrap_or(Err(MigrateError::Ended))?;
        job.finish(&last, &state, tracked)?;
        await_ready(news, READY_MAX)
    })();
    let bytes = job.bytes;
    let l = link.clone();
    let sent = sent.map_err(|e| better(e, news));
    point("home.ready");
    let over = match sent {
        Ok(_) => hand
            .run(move |t| hand_over(t, pid, &l, mv))
            .unwrap_or(Err(MigrateError::Ended)),
        Err(e) => Err(e),
    };
    if over.is_ok() {
        prep.keep_leases(keep, pid);
    }
    match over {
        Ok(()) => Ok(Done {
            pause: frozen.elapsed(),
            bytes,
            ..Done::default()
        }),
        Err(e) => {
            link.tell(&ToHost::Abort { mv, pid });
            hand.run(move |t| undo(t, pid));
            Err(e)
        }
    }
}

/// A target that fails closes its connection; why, it says on the calls stream.
pub fn better(e: MigrateError, news: &Receiver<MoveEvent>) -> MigrateError {
    match (
        &e,
        news.recv_timeout(Duration::from_millis(
            if matches!(e, MigrateError::Link(_)) {
                300
            } else {
                0
            },
        )),
    ) {
        (MigrateError::Link(_), Ok(MoveEvent::Failed { stay, detail })) => {
            MigrateError::Declined(stay, detail)
        }
        _ => e,
    }
}

fn survey(pid: Pid) -> Result<Survey> {
    areas::of_home(pid, &maps::read(pid).map_err(|_| MigrateError::Ended)?)
}

/// Halts the process, maps our region into it, and looks at it. It runs on meanwhile when it is big.
/// `with`: who may share its memory. Where that is others, too, it stands still from now on.
pub fn prepare(t: &mut Tree, pid: Pid, with: &[Pid]) -> Result<Prepared> {
    let p = t.procs.get(&pid).ok_or(MigrateError::Ended)?;
    if !matches!(p.place, Place::Home) {
        return Err(MigrateError::Stays(Stay::Busy, "it is not at home".into()));
    }
    let at_exec = p.at_exec;
    let mut grip = Grip::new(pid);
    grip.calls = Some(t.calls_of(pid));
    if at_exec {
        // From the exec event to a stop at the user-mode boundary.
        grip.seized.insert(pid);
        trace::set_options(pid, trace::WATCH | trace::EXITKILL)?;
        trace::interrupt(pid)?;
        trace::resume(pid, 0)?;
        grip.halt_one(pid)?;
    } else {
        delicate(pid)?;
        if let Err(e) = halt(&mut grip) {
            t.go_on(pid, grip);
            return Err(e);
        }
    }
    t.passing.extend(grip.seized.iter().copied());
    match look(pid, &mut grip, at_exec, with) {
        Ok((prep, leaving)) => {
            let mut leaving = Leaving { grip, ..leaving };
            for h in &leaving.grip.halted {
                t.remember_block(h.tid);
            }
            if prep.uffd.is_some() {
                let options = t.passing_options(pid);
                for h in &leaving.grip.halted {
                    trace::set_options(h.tid, options)?;
                }
                t.run_on(pid, &mut leaving.grip);
            }
            t.leaving.insert(pid, leaving);
            Ok(prep)
        }
        Err(e) => {
            for h in &grip.halted {
                t.remember_block(h.tid);
            }
            if at_exec {
                // It stays in our hand: the mover lets it go.
                t.passing.retain(|tid| !grip.seized.contains(tid));
                let _ = grip.disband();
            } else {
                t.go_on(pid, grip);
            }
            Err(e)
        }
    }
}

/// Halts every thread. Should we be killed from now on, it ends: its registers are changed.
fn halt(grip: &mut Grip) -> Result<()> {
    let options = trace::WATCH | trace::EXITKILL;
    grip.halt(options)?;
    for h in &grip.halted {
        // Those that were watched were seized with others.
        trace::set_options(h.tid, options)?;
    }
    Ok(())
}

fn look(pid: Pid, grip: &mut Grip, at_exec: bool, with: &[Pid]) -> Result<(Prepared, Leaving)> {
    let ignored_trap = ignores_trap(pid);
    let regs = trace::regs(pid)?;
    if regs.cs == CS_32 {
        return Err(MigrateError::Stays(
            Stay::ThirtyTwoBit,
            "a 32-bit program".into(),
        ));
    }
    let first = survey(pid)?;
    objects::travels(&first.areas)?;
    partners::only(with, &first.areas)?;
    let rss = status::read(pid).map(|s| s.rss_kib).unwrap_or(0);
    let tids: Vec<Tid> = grip.seized.iter().copied().collect();
    let slots = tids.len() as u32 + SLOTS_SPARE;
    let mut h = Hold::take(pid, Arc::new(Unfiltered))?;
    let region = map_region(&mut h, slots)?;
    let code = region.code();
    let mut numbers = mm::read(pid, first.vdso)?;
    mm::read_brk(&mut h, &code, &mut numbers)?;
    // One that has not begun yet loses nothing by a stop.
    let alone = with == [pid];
    let uffd = if alone && rss > PRECOPY_MIN_KIB && !at_exec && !reasons::direct_io(pid) {
        make_uffd(&mut h, &code)?
    } else {
        None
    };
    if uffd.is_some() {
        // It runs on meanwhile: a child that it forks must not inherit our region.
        h.call(&code, libc::SYS_madvise, forkable(&region, false))?;
    }
    drop(h);
    let head = Head {
        engine: ENGINE_VERSION,
        pid,
        tids,
        command: status::comm(pid, pid),
        brings: Views::default().lack(&first.areas),
        areas: first.areas,
        mm: numbers.clone(),
        limits: sys::limits(pid),
        need_kib: rss,
        xstate_len: trace::xstate(pid)?.len() as u32,
    };
    let prep = Prepared {
        head,
        files: first.files,
        leased: first.leased,
        uffd: uffd.clone(),
    };
    let grip = Grip::new(pid);
    Ok((
        prep,
        Leaving {
            grip,
            region,
            uffd,
            states: Vec::new(),
            ignored_trap,
            itimers: Itimers::default(),
            numbers,
            ignored: 0,
        },
    ))
}

/// Arguments of madvise(2): do the process's children get our region?
fn forkable(region: &Region, yes: bool) -> [u64; 6] {
    let advice = if yes {
        libc::MADV_DOFORK
    } else {
        libc::MADV_DONTFORK
    };
    [BASE, region.len(), advice as u64, 0, 0, 0]
}

/// The process makes a memory file, we take a copy of its descriptor, it maps it and forgets it.
fn map_region(h: &mut Hold, slots: u32) -> Result<Arc<Region>> {
    let (at, empty) = vdso_syscall(h.tid)?;
    let flags = u64::from(libc::MFD_CLOEXEC);
    let mut fd = h.call_at(
        at,
        libc::SYS_memfd_create,
        [empty, flags | MFD_EXEC, 0, 0, 0, 0],
    )?;
    if fd == -i64::from(libc::EINVAL) {
        fd = h.call_at(at, libc::SYS_memfd_create, [empty, flags, 0, 0, 0, 0])?;
    }
    let fd = ok("memfd_create", h.tid, fd)?;
    let region = sys::steal_fd(h.tid, fd as i32).and_then(|f| Region::new(File::from(f), slots));
    let mapped = match &region {
        Ok(r) => {
            let prot = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
            let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE) as u64;
            h.call_at(at, libc::SYS_mmap, [BASE, r.len(), prot, flags, fd, 0])?
        }
        Err(_) => 0,
    };
    h.call_at(at, libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    let region = region.map_err(|e| MigrateError::Stays(Stay::LimitLower, e.to_string()))?;
    if mapped != BASE as i64 {
        return Err(MigrateError::Stays(
            Stay::LimitLower,
            format!("our page cannot be mapped ({mapped})"),
        ));
    }
    Ok(Arc::new(region))
}

fn make_uffd(h: &mut Hold, code: &Code) -> Result<Option<Arc<Uffd>>> {
    let flags = libc::O_CLOEXEC as u64 | USER_MODE_ONLY;
    let fd = h
        .call(code, libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0])?
        .0;
    if fd < 0 {
        return Ok(None);
    }
    let u = sys::steal_fd(h.tid, fd as i32)
        .ok()
        .and_then(|f| Uffd::adopt(f).ok());
    h.call(code, libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])?;
    Ok(u.map(Arc::new))
}

/// Halts it for good and reads everything but memory. `with`: who may share it; `others`: what of shared memory
/// is sent already.
pub fn freeze(t: &mut Tree, pid: Pid, with: &[Pid], others: &Views) -> Result<(Survey, State)> {
    let blocks = t.blocks.clone();
    let l = t
        .leaving
        .get_mut(&pid)
        .ok_or_else(|| MigrateError::Stays(Stay::Busy, "it exec'd meanwhile".into()))?;
    delicate(pid)?;
    l.grip.halt(trace::WATCH)?;
    t.passing.extend(l.grip.seized.iter().copied());
    for h in &l.grip.halted {
        trace::set_options(h.tid, trace::FOLLOW | trace::EXITKILL)?;
    }
    let code = l.region.code();
    let mut last = survey(pid)?;
    partners::only(with, &last.areas)?;
    if objects::shared(&last.areas).next().is_some() {
        let mut hold = Hold::take(pid, Arc::new(Unfiltered))?;
        let known = objects::resident(&mut hold, &code, &last.areas)?;
        drop(hold);
        last.objects = objects::filled(pid, &last.areas, others, &known)?;
    }
    reasons::open_files(pid)?;
    let mut threads = Vec::new();
    let (mut actions, mut overruns) = (Vec::new(), Vec::new());
    for h in &l.grip.halted {
        let waits = signal_waits(h.tid) || h.signal.is_some();
        let slept = t.watch.led.look(pid, h);
        let mut hold = Hold::take(h.tid, Arc::new(Unfiltered))?;
        if h.tid == pid {
            overruns = timers::overruns(&mut hold, &code, pid)?;
            actions = sigs::read(&mut hold, &code)?;
            l.itimers = itimers::read(&mut hold, &code)?;
            mm::read_brk(&mut hold, &code, &mut l.numbers)?;
            if l.ignored_trap {
                actions[libc::SIGTRAP as usize - 1] = [1, 0, 0, 0];
            }
        }
        let mut s = thread::read(&mut hold, &code, h.tid, waits)?;
        s.cpu = t.keep.cpu.thread_leaves(pid, h.tid);
        restarted(&mut s, blocks.get(&h.tid).copied())?;
        wait_on(&mut s, &t.waits);
        if let Some(nr) = slept {
            s.again = true;
            s.slept_in(nr);
        }
        threads.push(s);
    }
    l.ignored = actions
        .iter()
        .enumerate()
        .filter(|(_, a)| a[0] == 1)
        .map(|(i, _)| 1 << i)
        .sum();
    l.states.clone_from(&threads);
    let state = State {
        threads,
        actions,
        mm: l.numbers.clone(),
        overruns,
        itimers: l.itimers,
        persona: status::personality(pid),
        pending: Vec::new(),
        cpu: t.keep.cpu.leaves(pid),
    };
    Ok((last, state))
}

/// Which call the thread's restart block belongs to; `known`: what it was doing when we let it go last.
fn restarting(s: &ThreadState, known: Option<i64>) -> Option<i64> {
    match s.number() {
        libc::SYS_restart_syscall | -1 => known,
        nr => Some(nr),
    }
}

/// A call that was restarted before has lost its number; what it was decides where it goes on.
fn restarted(s: &mut ThreadState, known: Option<i64>) -> Result<()> {
    if !s.at_deputy {
        return Ok(());
    }
    match restarting(s, known) {
        Some(libc::SYS_futex) => {
            s.begin_anew(libc::SYS_futex);
            Ok(())
        }
        Some(_) => Ok(()),
        None => Err(MigrateError::Stays(
            Stay::Busy,
            "it is in a restarted call that we do not know".into(),
        )),
    }
}

/// A call that is issued again waits for what is left of its time, where we know.
fn wait_on(s: &mut ThreadState, waits: &Waits) {
    let regs = thread::from_words(&s.regs).filter(|_| s.again);
    if let Some(mut regs) = regs
        && waits.leaves(s.tid, &mut regs)
    {
        s.regs = thread::words(&regs);
    }
}

/// Memory of the program that a deputy's restart block writes to.
fn kept_memory(s: &ThreadState, known: Option<i64>) -> Option<(u64, usize)> {
    if !s.at_deputy {
        return None;
    }
    let nr = restarting(s, known)?;
    let (rdi, rsi, r10) = (s.regs[14], s.regs[13], s.regs[7]);
    match nr {
        libc::SYS_poll => Some((rdi, (rsi as usize).min(65536) * 8)),
        libc::SYS_nanosleep if rsi != 0 => Some((rsi, 16)),
        libc::SYS_clock_nanosleep if r10 != 0 => Some((r10, 16)),
        _ => None,
    }
}

/// The target is ready: the threads become deputies, the body is thawed, the memory given up.
pub fn hand_over(t: &mut Tree, pid: Pid, link: &Arc<HostLink>, mv: MoveId) -> Result<()> {
    let keep = t.keep.clone();
    link.whole()?;
    let mut l = t.leaving.remove(&pid).ok_or(MigrateError::Ended)?;
    let code = l.region.code();
    let halted: Vec<Halted> = l.grip.halted.clone();
    let mut deputies = Vec::new();
    let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
    p.common
        .breaking
        .store(false, std::sync::atomic::Ordering::Release);
    let mut kept_all = Vec::new();
    let slots: Option<Vec<_>> = l.states.iter().map(|_| l.region.slot()).collect();
    let Some(slots) = slots else {
        t.leaving.insert(pid, l);
        return Err(MigrateError::Stays(Stay::TooManyThreads, "no slots".into()));
    };
    for (s, slot) in l.states.iter().zip(slots) {
        let leader = (s.tid == pid).then_some((&*l.region, &l.itimers));
        if let Err(e) = become_deputy(s, &code, slot.addr(), leader) {
            // Only a thread that died meanwhile gets here; its process dies with it.
            eprintln!("deputy {}: {e}", s.tid);
            continue;
        }
        let kept = kept_memory(s, t.blocks.get(&s.tid).copied());
        kept_all.extend(kept);
        let d = Deputy::start(s.tid, pid, slot, link.clone(), p.common.clone(), kept);
        keep.enter(&d);
        p.threads.insert(s.tid, d.clone());
        deputies.push(d);
    }
    p.now_at(link);
    p.region = Some(l.region.clone());
    p.at_exec = false;
    p.ignored = l.ignored;
    // Before it runs: SIGPIPE comes before write's EPIPE.
    t.hold_halted(pid, &halted);
    t.release_held(pid);
    link.tell(&ToHost::Thaw { mv, pid });
    point("home.thawed");
    t.watch.forget(pid);
    for h in &halted {
        t.passing.remove(&h.tid);
        let _ = trace::resume(h.tid, 0);
    }
    let _ = std::mem::replace(&mut l.grip, Grip::new(pid)).disband();
    if let Some(d) = deputies.iter().find(|d| d.tid == pid) {
        tear_down(pid, d, &l.numbers, &kept_all, l.uffd.take());
    }
    Ok(())
}

/// Dispositions stay as they are: no signal is let through to a deputy, so no handler runs; and setting
/// SIGCHLD to its default would throw away one that waits (POSIX 2.4.3).
fn become_deputy(
    s: &ThreadState,
    code: &Code,
    slot: u64,
    leader: Option<(&Region, &Itimers)>,
) -> trace::Result<()> {
    let mut h = Hold::take(s.tid, Arc::new(Unfiltered))?;
    let mut calls = thread::forget_calls(code, s);
    if let Some((region, itimers)) = leader {
        calls.push((libc::SYS_madvise, forkable(region, true)));
        calls.extend(itimers::stop_calls(code, itimers));
    }
    h.batch(code, &calls)?;
    let mut r = h.regs;
    r.rip = code.deputy;
    r.r15 = slot;
    r.rsp = 0;
    r.orig_rax = u64::MAX;
    r.eflags = 0x202;
    h.finish(r, 0)?;
    Ok(())
}

/// Gives up the memory piece by piece, through the deputy itself. Kept: files (their descriptors may be
/// closed by now), arguments and environment (for ps), what a restart block writes to, the vDSO, our region.
fn tear_down(
    pid: Pid,
    d: &Arc<Deputy>,
    mm: &mm::Mm,
    kept: &[(u64, usize)],
    uffd: Option<Arc<Uffd>>,
) {
    let page = |a: u64| a & !4095;
    let mut spare: Vec<(u64, u64)> = kept
        .iter()
        .map(|&(a, n)| (page(a), page(a + n as u64 + 4095)))
        .collect();
    spare.push((page(mm.fields[7]), page(mm.fields[10] + 4095)));
    spare.sort_unstable();
    let Ok(all) = maps::read(pid) else { return };
    let ours = |v: &maps::Vma| v.start >= BASE && v.start < BASE + (1 << 40);
    // What comes home again is all that they hold. Not of a group's: one of it may not get away.
    let shares = all.iter().any(|v| objects::nameless(v).is_some());
    let alone = shares && partners::of(pid).len() == 1;
    let given_up = |v: &&maps::Vma| alone && objects::nameless(v).is_some();
    for v in all.iter().filter(given_up) {
        d.submit(Work::Tidy {
            nr: libc::SYS_madvise,
            args: [v.start, v.len(), libc::MADV_REMOVE as u64, 0, 0, 0],
            done: mpsc::channel().0,
        });
    }
    let map = Pagemap::open(pid).ok();
    let mut last = None;
    for v in all
        .iter()
        .filter(|v| !v.is_vdso() && !v.is_vsyscall() && !ours(v) && !v.is_file())
    {
        for (mut a, e) in pages::minus(&[(v.start, v.end)], &spare) {
            while a < e {
                let n = share(map.as_ref(), (a, e));
                let (tx, rx) = mpsc::channel();
                d.submit(Work::Tidy {
                    nr: libc::SYS_munmap,
                    args: [a, n, 0, 0, 0, 0],
                    done: tx,
                });
                last = Some(rx);
                a += n;
            }
        }
    }
    if let (Some(u), Some(rx)) = (uffd, last) {
        // Closed after the memory is gone: closing it first walks all pages.
        // Without a thread for it, at once.
        let _ = aside::start("uffd", move || {
            let _ = rx.recv_timeout(Duration::from_secs(60));
            drop(u);
        });
    }
}

/// How much of `run` to give up in one call: what holds no page costs nothing, however big it is.
fn share(map: Option<&Pagemap>, (start, end): Run) -> u64 {
    let bare = match map.map(|m| m.first((start, end))) {
        Some(Ok(Some(first))) => first.saturating_sub(start),
        Some(Ok(None)) => end - start,
        Some(Err(_)) | None => 0,
    };
    (end - start).min(bare + CHUNK)
}

/// The move is off: the process goes on at home as if nothing had been.
pub fn undo(t: &mut Tree, pid: Pid) {
    let Some(mut l) = t.leaving.remove(&pid) else {
        return;
    };
    let halted = l.grip.halt(trace::WATCH);
    if halted.is_ok() {
        for h in &l.grip.halted {
            t.remember_block(h.tid);
        }
        if let Ok(mut h) = Hold::take(pid, Arc::new(Unfiltered))
            && let Ok((at, _)) = vdso_syscall(pid)
        {
            let _ = h.call_at(at, libc::SYS_munmap, [BASE, l.region.len(), 0, 0, 0, 0]);
        }
    }
    if let Some(p) = t.procs.get_mut(&pid) {
        p.at_exec = false;
    }
    t.go_on(pid, l.grip);
}

impl Tree {
    /// A thread let go in the midst of a restartable sleep will show only `restart_syscall` next time.
    pub fn remember_block(&mut self, tid: Tid) {
        let Ok(r) = trace::regs(tid) else { return };
        if r.rax as i64 == thread::ERESTART_RESTARTBLOCK
            && r.orig_rax as i64 != libc::SYS_restart_syscall
        {
            self.blocks.insert(tid, r.orig_rax as i64);
        }
    }
}
