//! A process leaves this host: the host's side of `migrate::source`.
//!
//! From: `talk.rs` (home says Send). Next: `migrate/src/source.rs`.

use crate::calls::cpu_time;
use crate::inject::vdso::Foreign;
use crate::moves::{freeze, postcopy, throttle};
use crate::state::guests::{Body, Th, Zoo};
use crate::state::outgoing_moves::TURN_MAX;
use crate::state::shared::{CellState, Pair, Proc, Shared, lock, says};
use crate::state::siginfo_cookies::{Face, Veils};
use crate::threads::futex_waits;
use armento_client::api::CpuSet;
use armento_link::{Badge, Writer, dial};
use armento_migrate::fault::point;
use armento_migrate::image::areas::{self, Kind, Survey};
use armento_migrate::image::flags::Noted;
use armento_migrate::image::objects::{self, Views};
use armento_migrate::image::vdso::Vdso;
use armento_migrate::image::{
    Area, Head, Processor, State, ThreadState, itimers, membarrier, mm, sigs, thread,
};
use armento_migrate::source::Job;
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{ENGINE_VERSION, MoveId, Pid, Stay, Tid};
use armento_tracee::inject::{self, Hold};
use armento_tracee::region::BOOTHS;
use armento_tracee::uffd::Uffd;
use armento_tracee::{maps, status, sys, trace};
use armento_wire::bulk::{self, HELLO};
use armento_wire::pages::plain_head;
use armento_wire::talk::{self, FileKey, Hello, ObjectId, Purpose, Signal, ToHome, Whither};
use armento_wire::write_frame;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long the other side of a move may let us wait for its connection.
const MEET_MAX: Duration = Duration::from_secs(10);
/// How long those who share memory may take to stand still, each after the other.
const TOGETHER_MAX: Duration = Duration::from_secs(3);
/// A failed move's process waits so long for home's word, while home hears us. Home says Abort or Drop at once, and after
/// 20 s at the latest (`READY_MAX`, `keeper/src/mover.rs`): who goes on before might run twice.
const ABORT_MAX: Duration = Duration::from_secs(60);
/// Home says once a second that it does (`PULSE_CALM`, `talk.rs`).
const HEARD_MAX: Duration = Duration::from_millis(2500);

pub fn run(sh: &Arc<Shared>, mv: MoveId, pid: Pid, to: Whither) {
    if let Err(e) = leave(sh, mv, pid, to) {
        failed(sh, mv, &e);
    }
    sys::give_back();
}

fn failed(sh: &Shared, mv: MoveId, e: &MigrateError) {
    let (stay, detail) = says(e);
    sh.tell(&ToHome::Failed { mv, stay, detail });
}

fn leave(sh: &Arc<Shared>, mv: MoveId, pid: Pid, to: Whither) -> Result<()> {
    let homeward = matches!(to, Whither::Home);
    let mut pair = connect(sh, mv, to)?;
    let closer = pair.0.closer().ok();
    let turn = sh.turns.begin(mv, pid, closer, TURN_MAX)?;
    let source = sh
        .hand
        .run(move |zoo| Source::of(zoo, pid))
        .flatten()
        .ok_or(MigrateError::Ended)?;
    let here = source.here;
    if let Err(e) = send(sh, (mv, pid), source, &mut pair, homeward) {
        failed(sh, mv, &e);
        // Home reads from it when the process comes home, and says Abort when it ends.
        turn.cut();
        await_word(sh, mv, (pid, here));
        freeze::thaw(sh, pid);
    }
    Ok(())
}

/// Home answers with Abort when it has told the signals that it kept: they come before the results of the calls that it
/// broke. Or it was handed over already, and Drop comes: our connection to the target may have broken behind the last
/// byte. Without home nobody may go on here.
fn await_word(sh: &Shared, mv: MoveId, (pid, here): (Pid, i32)) {
    // Behind a Drop it may come back while we look.
    let is_here = || sh.cell_of(pid).is_some_and(|c| c.here == here);
    let look = Duration::from_micros(200);
    let mut waited = Duration::ZERO;
    while waited < ABORT_MAX && !sh.turns.aborted(mv) && is_here() {
        std::thread::sleep(look);
        if sh.home.session.answered().elapsed() < HEARD_MAX {
            waited += look;
        }
    }
}

/// A body that is to leave.
struct Source {
    here: i32,
    needs: CpuSet,
    uffd: Option<Arc<Uffd>>,
    proc: Arc<Proc>,
    tids: Vec<Tid>,
    vdso: Option<Foreign>,
}

impl Source {
    fn of(zoo: &mut Zoo, pid: Pid) -> Option<Source> {
        let b = zoo.bodies.get(&pid).filter(|b| !b.quiet)?;
        Some(Source {
            here: b.here,
            needs: b.needs.clone(),
            uffd: b.uffd.clone(),
            proc: b.proc.clone(),
            tids: b.threads.keys().copied().collect(),
            vdso: b.vdso.clone(),
        })
    }
}

fn send(
    sh: &Arc<Shared>,
    (mv, pid): (MoveId, Pid),
    source: Source,
    (r, w): &mut Pair,
    homeward: bool,
) -> Result<()> {
    let closer = r.closer().ok();
    let (here, proc) = (source.here, source.proc);
    postcopy::whole(&proc)?;
    let mapped = proc.mapped.load(Ordering::Acquire);
    let noted = Noted::now(here)?;
    let home = source.vdso.as_ref().map(|f| f.home);
    let mut first = survey(here, home)?;
    noted.mark(&mut first.areas);
    let head = head(pid, (here, source.needs), &first, source.tids)?;
    let mut job = Job::new(here, r, w);
    job.vdso = source.vdso.map(|f| f.image);
    let slowed = sh.clone();
    job.brake = Some(Box::new(move || Box::new(throttle::on(&slowed, pid))));
    let shared = sh.clone();
    let mut files = move |k: &FileKey| lock(&shared.files).get(k).and_then(|f| f.try_clone().ok());
    let accept = job.offer(&head, &mut files)?;
    let elsewhere = accept.vdso;
    let tracked = match source.uffd.filter(|_| accept.precopy) {
        Some(u) => {
            if proc.watched.swap(true, Ordering::AcqRel) {
                forget_marks(&u, &first);
            }
            let mut now = survey(here, home)?;
            noted.mark(&mut now.areas);
            job.precopy(&u, &now, &proc.writes).is_ok()
        }
        None => false,
    };
    if proc.mapped.load(Ordering::Acquire) != mapped {
        job.more(&survey(here, home)?.areas, &mut files)?;
    }
    let noted = Noted::before_freeze(here, head.areas.len());
    point("host.freezing");
    freeze::freeze(sh, mv, pid)?;
    job.stands();
    point("host.frozen");
    all_frozen(sh, pid)?;
    let (mut last, mut state) = sh
        .hand
        .run(move |zoo| capture(zoo, (mv, pid), here, elsewhere))
        .unwrap_or(Err(MigrateError::Ended))?;
    let noted = Noted::frozen(here, noted)?;
    noted.mark(&mut last.areas);
    state.names = noted.names;
    // A file mapped meanwhile has replaced at home what was sent there: everything goes again. Another host maps nothing
    // before the last layout.
    let tracked = tracked && !(homeward && proc.mapped.load(Ordering::Acquire) != mapped);
    point("host.captured");
    // Before home can say Drop.
    let keeps = job.may_owe().then(|| postcopy::Kept::begin(sh, pid, here));
    job.more(&last.areas, &mut files)?;
    job.finish(&last, state, tracked, &[])?;
    if job.owes() {
        postcopy::serve(pid, &mut job, closer.as_ref());
    }
    drop(keeps);
    Ok(())
}

/// An earlier move that failed has left its marks: where no page is they look like one that is swapped out.
fn forget_marks(uffd: &Uffd, s: &Survey) {
    for a in &s.areas {
        // What was never watched refuses, and has none.
        let _ = uffd.filled(a.run());
    }
}

fn connect(sh: &Arc<Shared>, mv: MoveId, to: Whither) -> Result<Pair> {
    match to {
        Whither::Home => {
            let (tx, rx) = mpsc::channel();
            meet(sh, mv, Some(tx));
            rx.recv_timeout(MEET_MAX).map_err(|_| {
                lock(&sh.meetings).remove(&mv);
                MigrateError::Stays(Stay::LinkLost, "home did not fetch it".into())
            })
        }
        Whither::Host { addr, expect } => {
            let expect: Badge = serde_json::from_str(&expect)
                .map_err(|e| MigrateError::Stays(Stay::LinkLost, e.to_string()))?;
            let me = lock(&sh.identity).clone();
            let link = dial(&addr, &me, &expect, MEET_MAX)
                .map_err(|e| MigrateError::Stays(Stay::LinkLost, e.to_string()))?;
            let hello = Hello {
                engine: ENGINE_VERSION,
                tree: sh.start.tree,
                purpose: Purpose::Bring(mv),
                monotonic_ns: sys::clock_ns(libc::CLOCK_MONOTONIC).local("read the clock")?,
            };
            let (r, mut w) = link
                .split()
                .map_err(|e| MigrateError::Stays(Stay::LinkLost, e.to_string()))?;
            write_frame(&mut w, HELLO, &[&talk::encode(&hello)])?;
            Ok((r, w))
        }
    }
}

/// Home gave this move up.
pub fn abort(sh: &Shared, mv: MoveId) {
    sh.turns.abort(mv);
    // Its own connection will not come.
    lock(&sh.meetings).remove(&mv);
}

/// The keeper's Fetch connection and our Send meet here, whoever comes first.
pub fn meet(
    sh: &Arc<Shared>,
    mv: MoveId,
    waiter: Option<mpsc::Sender<Pair>>,
) -> Option<mpsc::Sender<Pair>> {
    let mut m = lock(&sh.meetings);
    match waiter {
        Some(tx) => {
            m.insert(mv, tx);
            None
        }
        None => m.remove(&mv),
    }
}

fn survey(here: i32, foreign: Option<Vdso>) -> Result<Survey> {
    let all = maps::read(here).map_err(|_| MigrateError::Ended)?;
    let mut s = areas::of_body(&all, foreign)?;
    if foreign.is_none() {
        s.digest_vdso(here)?;
    }
    Ok(s)
}

fn head(pid: Pid, (here, needs): (i32, CpuSet), s: &Survey, tids: Vec<Tid>) -> Result<Head> {
    let st = status::read(here).map_err(|_| MigrateError::Ended)?;
    Ok(Head {
        engine: ENGINE_VERSION,
        pid,
        tids,
        command: st.name,
        areas: s.areas.clone(),
        brings: Views::default().lack(&s.areas),
        lasting: Vec::new(),
        mm: mm::read(here, s.vdso)?,
        need_kib: st.rss_kib,
        processor: Processor {
            needs,
            xsave: armento_sense::xsave().clone(),
        },
    })
}

/// Bodies that share memory with that of `pid`, itself among them, and what they map of it.
fn partners(zoo: &Zoo, pid: Pid) -> Result<Vec<(Pid, Vec<Area>)>> {
    if lock(&zoo.sh().objects).is_empty() {
        return Ok(Vec::new());
    }
    let of = |b: &Body| -> Result<Vec<Area>> {
        let foreign = b.vdso.as_ref().map(|f| f.home);
        let mut areas = survey(b.here, foreign)?.areas;
        areas.retain(|a| matches!(a.kind, Kind::Shared { .. }));
        Ok(areas)
    };
    let own = zoo.bodies.get(&pid).ok_or(MigrateError::Ended)?;
    let mut mine = Views::default();
    mine.add(&of(own)?);
    let mut all = Vec::new();
    for b in zoo.bodies.values().filter(|b| !b.quiet) {
        // One that ends just now shares nothing any more.
        let areas = of(b).unwrap_or_default();
        if objects::sizes(&areas).len() > mine.lack(&areas).len() {
            all.push((b.pid, areas));
        }
    }
    Ok(all)
}

/// Bytes of an object in one frame.
const PIECE: u64 = 256 << 10;

/// Tells home what an object holds, as offsets in it. Who maps it stands still, or has ended.
pub fn object(sh: &Shared, object: ObjectId, mut w: Writer) -> Result<()> {
    let known = match lock(&sh.objects).get(&object) {
        Some(o) => Some((o.file.clone(), o.all()?)),
        None => None,
    };
    if let Some((file, runs)) = known {
        let mut buf = vec![0; PIECE as usize];
        for (mut at, end) in runs {
            while at < end {
                let n = file
                    .read_at(&mut buf[..(end - at).min(PIECE) as usize], at)
                    .local("read a mapped file")?;
                if n == 0 {
                    break;
                }
                write_frame(&mut w, bulk::PAGES, &[&plain_head(&[(at, n)]), &buf[..n]])?;
                at += n as u64;
            }
        }
    }
    write_frame(&mut w, bulk::END, &[])?;
    Ok(())
}

/// Waits until everybody who shares memory with `pid` stands still, too: home asks for all of them at once.
fn all_frozen(sh: &Arc<Shared>, pid: Pid) -> Result<()> {
    let until = Instant::now() + TOGETHER_MAX;
    loop {
        let late = sh.hand.run(move |zoo| -> Result<Option<Pid>> {
            let all = partners(zoo, pid)?;
            let still = |p: &Pid| zoo.bodies.get(p).is_none_or(|b| b.still());
            Ok(all.into_iter().map(|(p, _)| p).find(|p| !still(p)))
        });
        let Some(p) = late.unwrap_or(Err(MigrateError::Ended))? else {
            return Ok(());
        };
        if Instant::now() > until {
            let why = format!("process {p}, which shares its memory, does not stand still");
            return Err(MigrateError::Stays(Stay::Busy, why));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Before: frozen. Home may have given it up since, and it runs on. `elsewhere`: its target has another vDSO.
fn capture(
    zoo: &mut Zoo,
    (mv, pid): (MoveId, Pid),
    here: i32,
    elsewhere: bool,
) -> Result<(Survey, State)> {
    let code = zoo.code.clone();
    let passage = zoo.passage();
    let sh = zoo.sh();
    let stands = zoo.bodies.get(&pid).is_some_and(Body::still);
    if sh.turns.aborted(mv) || !stands {
        return Err(MigrateError::Ended);
    }
    let mut others = Views::default();
    for (_, areas) in partners(zoo, pid)?.iter().filter(|(p, _)| *p < pid) {
        others.add(areas);
    }
    let b = zoo.bodies.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let foreign = b.vdso.clone();
    let mut last = survey(here, foreign.as_ref().map(|f| f.home))?;
    objects::travels(&last.areas)?;
    for (object, o) in lock(&sh.objects).iter().filter(|(_, o)| !o.lasts) {
        last.objects.extend(o.held(*object, &last.areas, &others)?);
    }
    let mut numbers = mm::read(here, last.vdso)?;
    let mut threads = Vec::new();
    let mut pending: Vec<(Option<i32>, Signal)> = Vec::new();
    let mut actions = Vec::new();
    let mut itimers = itimers::Itimers::default();
    let mut registered = 0;
    // Before calls of ours use any.
    let cpu = cpu_time::process_travels(&b.proc);
    let ignores = inject::ignores_trap(here);
    let all: Vec<&Th> = b.threads.values().collect();
    for part in all.chunks(BOOTHS) {
        let mut held = Vec::with_capacity(part.len());
        for (n, th) in part.iter().enumerate() {
            let here = th.cell.here;
            let used = cpu_time::thread_travels(&th.cell);
            let mut h = Hold::take_known(here, passage.clone(), ignores)?;
            if th.cell.tid == pid {
                mm::read_brk(&mut h, &code, &mut numbers)?;
                actions = sigs::read(&mut h, &code)?;
                itimers = itimers::read(&mut h, &code)?;
                registered = membarrier::read(&mut h, &code)?;
            }
            let own = thread::own_eintr(here);
            match (&foreign, last.vdso) {
                (Some(foreign), _) => foreign.leave(&mut h)?,
                (None, Some(vdso)) if elsewhere => vdso.leave(&mut h)?,
                (None, _) => {}
            }
            thread::ask(&mut h, &code.booth(n), thread::At::Host)?;
            held.push((h, used, own));
        }
        for (n, (th, (mut h, used, own))) in part.iter().zip(held).enumerate() {
            let mut t = thread::read(&mut h, &code.booth(n), th.cell.tid, own)?;
            // It would ask home, through its listener.
            t.name = status::comm(here, th.cell.here);
            t.cpu = used;
            remembered(&lock(&th.cell.st), &mut t);
            threads.push(t);
        }
    }
    for th in all {
        let (tid, here) = (th.cell.tid, th.cell.here);
        if let Some((_, info)) = th.halted.and_then(|h| h.signal) {
            pending.push((Some(tid), Signal(info.to_vec())));
        }
        for s in trace::pending(here, false)? {
            pending.extend(unveil(&zoo.veils, Some(tid), s));
        }
        if tid == pid {
            for s in trace::pending(here, true)? {
                pending.extend(unveil(&zoo.veils, None, s));
            }
        }
    }
    threads.sort_by_key(|t| (t.tid != pid, t.tid));
    let overruns = lock(&b.proc.overruns).clone().into_iter().collect();
    Ok((
        last,
        State {
            zeros: Vec::new(),
            threads,
            actions,
            mm: numbers,
            overruns,
            itimers,
            signalfds: b.proc.signalfds.load(Ordering::Relaxed),
            limits: sys::limits(here),
            persona: status::personality(here),
            membarrier: registered,
            names: Vec::new(),
            guards: Vec::new(),
            pending,
            cpu,
            vdso: Vec::new(),
        },
    ))
}

/// What is known of the call that a thread is in, until the next, whatever the kernel has made of the registers since.
fn remembered(st: &CellState, t: &mut ThreadState) {
    t.at_deputy = st.at_deputy;
    t.mask = st.lifted.unwrap_or(t.mask);
    if let Some(nr) = st.again.filter(|_| st.slept) {
        t.slept_in(nr.into());
    }
    if let (Some(nr), 1..) = (st.again, st.written) {
        t.has_written(st.written, nr.into());
    }
    if !t.at_deputy && t.restarts() {
        // The one restartable call that bodies make themselves.
        t.begin_anew(libc::SYS_futex);
    }
    futex_waits::leaves(st, t);
}

/// A waiting signal as it travels. It waits here still: the move may fail.
fn unveil(v: &Veils, to: Option<Tid>, s: sys::SigInfo) -> Option<(Option<Tid>, Signal)> {
    let real = match v.peek(&s) {
        Some(Face::Real(real)) => real,
        Some(Face::Void) => return None,
        None => s,
    };
    // A held thread gives a SIGTRAP back to its process.
    let to = v.directed(&s).unwrap_or(to);
    Some((to, Signal(real.to_vec())))
}
