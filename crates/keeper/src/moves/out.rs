//! A process leaves home.
//!
//! From: `mover.rs`. Next: `migrate/src/source.rs` facing `migrate/src/target.rs`.
//!
//! ```text
//! home    halt · map the region · offer · pre-copy (runs) · halt · state · Ready? · deputies · Thaw
//! ```
//! Home is the arbiter: until Thaw is said the process can go on where it was.

use crate::deputy::region_setup::{make_uffd, map_region, unmap_region};
use crate::hosts::connect::{self, HostLink, MoveEvent};
use crate::moves::eligibility;
use crate::moves::freeze::{Leaves, freeze};
use crate::moves::hollow::{give_up, hand_over, perhaps_kept};
use crate::moves::refusal;
use crate::moves::run::{Done, READY_MAX, await_ready};
use crate::observers::descriptors;
use crate::restart::wait_deadlines;
use crate::sharing::sharers;
use crate::state::keeper::{Keep, lock};
use crate::state::tree::{Place, Tree};
use crate::traced::external_limits::Limits;
use armento_migrate::fault::point;
use armento_migrate::image::areas::{self, Survey};
use armento_migrate::image::files::{self, Names};
use armento_migrate::image::flags::Noted;
use armento_migrate::image::itimers::Itimers;
use armento_migrate::image::objects::{self, Views};
use armento_migrate::image::{Head, Processor, ThreadState, mm, thread, uncarried};
use armento_migrate::source::Job;
use armento_migrate::stop::{Grip, delicate};
use armento_migrate::{MigrateError, Result};
use armento_model::{ENGINE_VERSION, MoveId, NodeName, Pid, Stay, Tid};
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::pages::Run;
use armento_tracee::region::Region;
use armento_tracee::uffd::Uffd;
use armento_tracee::{aside, maps, status, trace};
use armento_wire::talk::{FileKey, Purpose, ToHost};
use std::collections::HashMap;
use std::fs::File;
use std::net::Shutdown;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

/// Below this much memory a stop-copy is shorter than preparing a pre-copy.
const PRECOPY_MIN_KIB: u64 = 2048;
/// Code segment of 32-bit programs. KERNEL: __USER32_CS.
pub const CS_32: u64 = 0x23;

/// A process on its way out, between two visits to the hand.
pub struct Leaving {
    pub grip: Grip,
    pub region: Arc<Region>,
    /// Is the region in its memory? Not while it runs: it could see it, and its children inherit it.
    pub mapped: bool,
    pub uffd: Option<Arc<Uffd>>,
    /// The files that it mapped when it was looked at first.
    pub names: Names,
    /// All of it that was seen then, where that stays true.
    pub still: Option<Survey>,
    pub states: Vec<ThreadState>,
    pub itimers: Itimers,
    pub numbers: mm::Mm,
    /// Signals it ignores, as a mask.
    pub ignored: u64,
    /// … and those it reads from descriptors.
    pub signalfds: u64,
    pub limits: Limits,
    /// Since when it stands still.
    pub stands: Instant,
}

/// What the bulk side needs.
pub struct Prepared {
    pub head: Head,
    pub files: HashMap<FileKey, File>,
    pub leased: Vec<FileKey>,
    names: Names,
    uffd: Option<Arc<Uffd>>,
    /// It has not begun yet, and stands still until it is away: what was seen of it stays true.
    at_exec: bool,
}

impl Prepared {
    pub fn opened(&self, key: &FileKey) -> Option<File> {
        self.files.get(key).and_then(|f| files::readable(f).ok())
    }

    /// Files that it has mapped since it was looked at first, and those of them that were leased.
    fn mapped_more(&mut self, files: HashMap<FileKey, File>, leased: Vec<FileKey>, names: &Names) {
        self.files.extend(files);
        self.leased.extend(leased);
        self.names.extend(names);
    }

    /// It is away: whoever writes into a file that it maps shared is to be noticed.
    pub fn keep_leases(mut self, keep: &Keep, pid: Pid) {
        let files = &mut self.files;
        let held = self
            .leased
            .iter()
            .filter_map(|k| Some((pid, Arc::new(files.remove(k)?))));
        lock(&keep.leases).extend(held);
    }
}

pub fn out(keep: &Arc<Keep>, pid: Pid, node: &NodeName) -> Result<Done> {
    point("home.leaving");
    let need = eligibility::may_leave(keep, pid)?;
    // While the other node makes a host, perhaps.
    let way = || connect::to(keep, node, pid, need);
    let (link, noted) = aside::both("way", way, || eligibility::noted(pid));
    let (link, noted) = (link.unwrap_or(Err(MigrateError::Ended))?, noted?);
    point("home.linked");
    let (tx, news) = mpsc::channel();
    let mv = keep.new_move(tx, &[&link]);
    let runs_meanwhile = need > PRECOPY_MIN_KIB && !eligibility::direct_io(pid);
    let r = try_out(keep, pid, noted, &link, (mv, &news), runs_meanwhile);
    keep.end_move(mv);
    r
}

fn try_out(
    keep: &Arc<Keep>,
    pid: Pid,
    noted: Noted,
    link: &Arc<HostLink>,
    (mv, news): (MoveId, &Receiver<MoveEvent>),
    runs_meanwhile: bool,
) -> Result<Done> {
    let hand = &keep.hand;
    let early = lock(&keep.early).remove(&pid);
    let open = || connect::opened(keep, link, early, Purpose::Bring(mv));
    let look = || {
        hand.run(move |t| prepare(t, pid, false))
            .unwrap_or(Err(MigrateError::Ended))
    };
    let (opened, prep) = match runs_meanwhile {
        // It is looked at while the other node opens its door: a handshake takes as long.
        true => {
            let (opened, prep) = aside::both("open", open, look);
            (opened.unwrap_or(Err(MigrateError::Ended)), prep)
        }
        // From the look on it stands still, and a door may stay shut for seconds.
        false => (Ok(open()?), look()),
    };
    let mut prep = prep?;
    point("home.prepared");
    let (mut r, mut w) = match opened {
        Ok(opened) => opened,
        Err(e) => {
            hand.run(move |t| undo(t, pid));
            return Err(e);
        }
    };
    let closer = r.closer().ok();
    noted.mark(&mut prep.head.areas);
    prep.head.processor = keep.processor(pid);
    let mut frozen = Instant::now();
    let mut job = Job::new(pid, &mut r, &mut w);
    let sent = (|| {
        let foreign = job.offer(&prep.head, &mut |k| prep.opened(k))?.vdso;
        let tracked = match &prep.uffd {
            // At home nobody of ours writes into it; the kernel does so through its page tables.
            Some(u) => {
                let mut now = survey(keep, pid, Some(&prep.names))?;
                noted.mark(&mut now.areas);
                job.precopy(u, &now, &RwLock::new(())).is_ok()
            }
            None => false,
        };
        // One that stands still since it was looked at has mapped nothing.
        if prep.uffd.is_some() {
            let now = survey(keep, pid, Some(&prep.names))?;
            prep.mapped_more(now.files, now.leased, &now.names);
            job.more(&now.areas, &mut |k| prep.opened(k))?;
        }
        let noted = match prep.at_exec {
            true => Some(noted),
            false => Noted::before_freeze(pid, prep.head.areas.len()),
        };
        point("home.freezing");
        frozen = Instant::now();
        let how = Leaves {
            joint: false,
            foreign,
        };
        let (mut last, mut state) = hand
            .run(move |t| freeze(t, pid, how, &Views::default()))
            .unwrap_or(Err(MigrateError::Ended))?;
        // Another process may have registered some of it since it was looked at.
        let noted = Noted::frozen(pid, noted)?;
        eligibility::carried(&noted, prep.uffd.is_some())?;
        noted.mark(&mut last.areas);
        state.names = noted.names;
        prep.mapped_more(
            std::mem::take(&mut last.files),
            std::mem::take(&mut last.leased),
            &last.names,
        );
        lock(&keep.names).extend(&prep.names);
        job.more(&last.areas, &mut |k| prep.opened(k))?;
        let used = used(&prep.head.mm, &state.threads);
        job.finish(&last, state, tracked, &used)?;
        await_ready(news, READY_MAX)
    })();
    let l = link.clone();
    let sent = sent.map_err(|e| better(e, news));
    point("home.ready");
    let owes = job.owes();
    let over = sent.and_then(|_| {
        // Its body may ask for memory as soon as it runs.
        let (thawed, said) = mpsc::sync_channel(1);
        hand.post(move |t| match hand_over(t, pid, &l, mv) {
            Ok((husk, crew)) => {
                let (now, later) = if owes { (None, husk) } else { (husk, None) };
                let _ = thawed.send(Ok((later, Instant::now())));
                crew.serve();
                now.into_iter().for_each(|husk| give_up(t, pid, husk));
            }
            Err(e) => drop(thawed.send(Err(e))),
        });
        said.recv().unwrap_or(Err(MigrateError::Ended))
    });
    if over.is_ok() {
        prep.keep_leases(keep, pid);
    }
    match over {
        Ok((husk, thawed)) => {
            let cut = || drop(closer.as_ref().map(|c| c.shutdown(Shutdown::Both)));
            if let Err(e) = job.serve(&cut)
                && !matches!(e, MigrateError::Ended)
            {
                // There the process ends, and its host says so.
                eprintln!("process {pid}: the rest of its memory was not sent: {e}");
            }
            if let Some(husk) = husk {
                hand.run(move |t| give_up(t, pid, husk));
            }
            Ok(Done {
                pause: thawed - frozen,
                bytes: job.bytes,
                ..Done::default()
            })
        }
        Err(e) => {
            link.tell(&ToHost::Abort { mv, pid });
            hand.run(move |t| undo(t, pid));
            Err(e)
        }
    }
}

/// What goes on being used here: by the kernel for calls that sleep, and by those who look at its arguments.
fn used(numbers: &mm::Mm, threads: &[ThreadState]) -> Vec<Run> {
    let mut all: Vec<Run> = threads.iter().flat_map(perhaps_kept).collect();
    all.push((
        numbers.fields[7] & !4095,
        (numbers.fields[10] + 4095) & !4095,
    ));
    all
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

/// `known`: its files at an earlier look.
pub fn survey(keep: &Keep, pid: Pid, known: Option<&Names>) -> Result<Survey> {
    let maps = maps::read(pid).map_err(|_| MigrateError::Ended)?;
    areas::of_home(pid, &maps, known, &|| descriptors::untouched(keep, pid))
}

/// Halts the process, maps our region into it, and looks at it. It runs on meanwhile when it is big.
/// `joint`: it leaves with others, stands still from now on, and who shares its memory is looked at for all of them.
pub fn prepare(t: &mut Tree, pid: Pid, joint: bool) -> Result<Prepared> {
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
        let asleep = wait_deadlines::asleep(&delicate(pid)?);
        let led = t.watch.led.clone();
        let halted = halt(&mut grip)
            .and_then(|()| led.whole(pid, &grip.halted))
            .and_then(|()| uncarried::of_threads(grip.halted.iter().map(|h| h.tid)));
        if let Err(e) = halted {
            t.go_on(pid, grip);
            return Err(e);
        }
        asleep.iter().for_each(|a| t.waits.woken(a));
        t.futex_waits.stopped(&asleep, &grip.halted);
    }
    t.passing.extend(grip.seized.iter().copied());
    match look(&t.keep, pid, &mut grip, at_exec, joint) {
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
            lock(&t.keep.names).extend(&prep.names);
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

fn look(
    keep: &Keep,
    pid: Pid,
    grip: &mut Grip,
    at_exec: bool,
    joint: bool,
) -> Result<(Prepared, Leaving)> {
    let regs = trace::regs(pid)?;
    if regs.cs == CS_32 {
        return Err(MigrateError::Stays(
            Stay::ThirtyTwoBit,
            "a 32-bit program".into(),
        ));
    }
    let first = survey(keep, pid, None)?;
    objects::travels(&first.areas)?;
    if !joint {
        sharers::only(&[pid], &first.areas)?;
    }
    let rss = status::read(pid).map(|s| s.rss_kib).unwrap_or(0);
    let tids: Vec<Tid> = grip.seized.iter().copied().collect();
    let mut h = Hold::take(pid, Arc::new(Unfiltered))?;
    let region = map_region(&mut h, tids.len())?;
    let code = region.code();
    let mut numbers = mm::read(pid, first.vdso)?;
    mm::read_brk(&mut h, &code, &mut numbers)?;
    files::look_below(&mut h, &code, &first)?;
    uncarried::of_process(&mut h, &code, &first.areas)?;
    // One that has not begun yet loses nothing by a stop.
    let uffd = if !joint && rss > PRECOPY_MIN_KIB && !at_exec && !eligibility::direct_io(pid) {
        make_uffd(&mut h, &code)?
    } else {
        None
    };
    let mapped = uffd.is_none();
    if !mapped {
        unmap_region(&mut h, &region)?;
    }
    drop(h);
    let still = (at_exec && !joint).then(|| Survey {
        areas: first.areas.clone(),
        names: first.names.clone(),
        vdso: first.vdso,
        ..Survey::default()
    });
    let head = Head {
        engine: ENGINE_VERSION,
        pid,
        tids,
        command: status::comm(pid, pid),
        brings: Views::default().lack(&first.areas),
        lasting: Vec::new(),
        areas: first.areas,
        mm: numbers.clone(),
        need_kib: rss,
        processor: Processor::default(),
    };
    let prep = Prepared {
        head,
        files: first.files,
        leased: first.leased,
        names: first.names.clone(),
        uffd: uffd.clone(),
        at_exec,
    };
    let grip = Grip::new(pid);
    Ok((
        prep,
        Leaving {
            grip,
            region,
            mapped,
            uffd,
            names: first.names,
            still,
            states: Vec::new(),
            itimers: Itimers::default(),
            numbers,
            ignored: 0,
            signalfds: 0,
            limits: Limits::new(),
            stands: Instant::now(),
        },
    ))
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
            && l.mapped
        {
            let _ = unmap_region(&mut h, &l.region);
        }
    }
    if halted.is_ok() && refusal::is_for_nowhere_else(t, pid) {
        // The mover ends it.
        t.passing.retain(|tid| !l.grip.seized.contains(tid));
        let _ = l.grip.disband();
        return;
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
