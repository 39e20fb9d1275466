//! A process leaves this host: the host's side of `migrate::source`.
//!
//! From: `host/src/home/messages.rs` (home sends Send). Next: `migrate/src/source.rs`.

use super::capture::capture;
use super::sharers::all_frozen;
use super::survey::{head, survey};
use super::{freeze, postcopy, throttle};
use crate::inject::ForeignVdso;
use crate::state::{GuestTable, Host, PREVIOUS_MAX, Pair, Process, Shared};
use crate::sync::lock;
use armento_client::api::CpuSet;
use armento_link::{Badge, dial};
use armento_migrate::failpoint::point;
use armento_migrate::image::areas::Survey;
use armento_migrate::image::flags::Noted;
use armento_migrate::source::Job;
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{ENGINE_VERSION, HomePid, HomeTid, MoveId, Pid, Stay};
use armento_tracee::sys;
use armento_tracee::uffd::Uffd;
use armento_wire::bulk::HELLO;
use armento_wire::talk::{self, FileKey, Hello, Purpose, ToHome, Whither};
use armento_wire::write_frame;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long to wait for the connection of the other side.
const MEET_MAX: Duration = Duration::from_secs(10);
/// A failed move's process waits so long for home's verdict, while home hears us. Home sends Abort or Drop at once, and
/// after 20 s at the latest (`READY_MAX`, `keeper/src/moves/run.rs`): a body that went on before might run twice.
const ABORT_MAX: Duration = Duration::from_secs(60);
/// Home acknowledges once a second (`PULSE_CALM`, `state/home_link.rs`).
const HEARD_MAX: Duration = Duration::from_millis(2500);

pub fn depart(host: &Arc<Host>, mv: MoveId, pid: HomePid, to: Whither) {
    if let Err(e) = leave(host, mv, pid, to) {
        failed(host, mv, &e);
    }
    sys::give_back();
}

fn failed(shared: &Shared, mv: MoveId, e: &MigrateError) {
    let (stay, detail) = (e.stay(), e.to_string());
    shared.home.send(&ToHome::Failed { mv, stay, detail });
}

fn leave(host: &Arc<Host>, mv: MoveId, pid: HomePid, to: Whither) -> Result<()> {
    let homeward = matches!(to, Whither::Home);
    let mut pair = connect(host, mv, to)?;
    let closer = pair.0.closer().ok();
    let outgoing = host.outgoing.begin(mv, pid, closer, PREVIOUS_MAX)?;
    let source = host
        .tracer
        .run(move |guests| Source::of(guests, pid))
        .flatten()
        .ok_or(MigrateError::Ended)?;
    let here = source.here;
    if let Err(e) = send(host, (mv, pid), source, &mut pair, homeward) {
        failed(host, mv, &e);
        // Home reads from it when the process comes home, and sends Abort when it ends.
        outgoing.cut();
        await_verdict(host, mv, (pid, here));
        freeze::unfreeze(host, pid);
    }
    Ok(())
}

/// Home answers with Abort when it has sent the signals that it kept: they come before the results of the calls that it
/// interrupted. Or it was handed over already, and Drop comes: the connection to the target may have broken after the last
/// byte. Without home no body may go on here.
fn await_verdict(shared: &Shared, mv: MoveId, (pid, here): (HomePid, Pid)) {
    // After a Drop it may come back meanwhile.
    let is_here = || {
        shared
            .threads
            .of_home(pid.leader())
            .is_some_and(|c| c.here == here)
    };
    let pause = Duration::from_micros(200);
    let mut waited = Duration::ZERO;
    while waited < ABORT_MAX && !shared.outgoing.aborted(mv) && is_here() {
        std::thread::sleep(pause);
        if shared.home.session.answered().elapsed() < HEARD_MAX {
            waited += pause;
        }
    }
}

/// A body that is to leave.
struct Source {
    here: Pid,
    needs: CpuSet,
    uffd: Option<Arc<Uffd>>,
    proc: Arc<Process>,
    tids: Vec<HomeTid>,
    vdso: Option<ForeignVdso>,
}

impl Source {
    fn of(guests: &mut GuestTable, pid: HomePid) -> Option<Source> {
        let b = guests.bodies.get(&pid).filter(|b| !b.quiet)?;
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
    host: &Arc<Host>,
    (mv, pid): (MoveId, HomePid),
    source: Source,
    (r, w): &mut Pair,
    homeward: bool,
) -> Result<()> {
    let closer = r.closer().ok();
    let (here, proc) = (source.here, source.proc);
    proc.pending_pages.wait()?;
    let mapped = proc.mapped.load(Ordering::Acquire);
    let noted = Noted::now(here)?;
    let home = source.vdso.as_ref().map(|f| f.home);
    let mut first = survey(here, home)?;
    noted.mark(&mut first.areas);
    let head = head(pid, (here, source.needs), &first, source.tids)?;
    let mut job = Job::new(here, r, w);
    job.vdso = source.vdso.map(|f| f.image);
    let slowed = host.clone();
    job.throttle = Some(Box::new(move || Box::new(throttle::on(&slowed, pid))));
    let files = host.files.clone();
    let mut files = move |k: &FileKey| files.get(k).and_then(|f| f.try_clone().ok());
    let accept = job.offer(&head, &mut files)?;
    let elsewhere = accept.vdso;
    let tracked = match source.uffd.filter(|_| accept.precopy) {
        Some(u) => {
            if proc.tracked.swap(true, Ordering::AcqRel) {
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
    freeze::freeze(host, mv, pid)?;
    job.stands();
    point("host.frozen");
    all_frozen(host, pid)?;
    let (mut last, mut state) = host
        .tracer
        .run(move |guests| capture(guests, (mv, pid), here, elsewhere))
        .unwrap_or(Err(MigrateError::Ended))?;
    let noted = Noted::frozen(here, noted)?;
    noted.mark(&mut last.areas);
    state.names = noted.names;
    // A file mapped meanwhile has replaced at home what was sent there: everything goes again. Another host maps nothing
    // before the last layout.
    let tracked = tracked && !(homeward && proc.mapped.load(Ordering::Acquire) != mapped);
    point("host.captured");
    // Before home can send Drop.
    let keeps = job
        .may_owe()
        .then(|| postcopy::PageSource::begin(host, pid, here));
    job.more(&last.areas, &mut files)?;
    job.finish(&last, state, tracked, &[])?;
    if job.owes() {
        postcopy::serve(pid, &mut job, closer.as_ref());
    }
    drop(keeps);
    Ok(())
}

/// An earlier move that failed has left its marks: where there is no page they look like one that is swapped out.
fn forget_marks(uffd: &Uffd, s: &Survey) {
    for a in &s.areas {
        // Memory that was never tracked refuses, and has none.
        let _ = uffd.filled(a.run());
    }
}

fn connect(host: &Arc<Host>, mv: MoveId, to: Whither) -> Result<Pair> {
    match to {
        Whither::Home => {
            let rx = host.meetings.wait_for(mv);
            rx.recv_timeout(MEET_MAX).map_err(|_| {
                host.meetings.take(mv);
                MigrateError::Stays(Stay::LinkLost, "home did not fetch it".into())
            })
        }
        Whither::Host { addr, expect } => {
            let expect: Badge = serde_json::from_str(&expect)
                .map_err(|e| MigrateError::Stays(Stay::LinkLost, e.to_string()))?;
            let me = lock(&host.identity).clone();
            let link = dial(&addr, &me, &expect, MEET_MAX)
                .map_err(|e| MigrateError::Stays(Stay::LinkLost, e.to_string()))?;
            let hello = Hello {
                engine: ENGINE_VERSION,
                tree: host.start.tree,
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
pub fn abort(shared: &Shared, mv: MoveId) {
    shared.outgoing.abort(mv);
    // The connection that it waits for will not come.
    shared.meetings.take(mv);
}
