//! A process leaves this host: the host's side of `migrate::source`.
//!
//! From: `host/src/home/messages.rs` (home sends Send). Next: `migrate/src/source/mod.rs`.
//!
//! [`Departure`] runs the phases of a move (`migrate/src/phase.rs`).

use super::capture::capture;
use super::connect::connect;
use super::sharers::all_frozen;
use super::survey::{head, survey};
use super::{freeze, postcopy, throttle};
use crate::inject::ForeignVdso;
use crate::state::{GuestTable, Host, PREVIOUS_MAX, Pair, Process, Shared};
use crate::sync::lock;
use armento_client::api::CpuSet;
use armento_link::{Reader, Writer};
use armento_migrate::failpoint::point;
use armento_migrate::image::areas::Survey;
use armento_migrate::image::flags::Noted;
use armento_migrate::image::vdso::Vdso;
use armento_migrate::image::{Head, State};
use armento_migrate::phase::Failpoint;
use armento_migrate::source::Job;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, HomeTid, MoveId, Pid};
use armento_tracee::sys;
use armento_tracee::uffd::Uffd;
use armento_wire::talk::{FileKey, ToHome, Whither};
use std::fs::File;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A failed move's process waits so long for home's verdict, while home hears us. Home sends Abort or Drop at once, and
/// after 20 s at the latest (`READY_MAX`, `keeper/src/moves/run.rs`): a body that went on before might run twice.
const ABORT_MAX: Duration = Duration::from_secs(60);
/// Home acknowledges once a second (`PULSE_CALM`, `state/home_link.rs`).
const HEARD_MAX: Duration = Duration::from_millis(2500);

pub fn depart(host: &Arc<Host>, mv: MoveId, pid: HomePid, to: Whither) {
    if let Err(e) = leave(host, mv, pid, to) {
        failed(host, mv, pid, &e);
    }
    host.outgoing.over(mv, pid);
    sys::give_back();
}

fn failed(shared: &Shared, mv: MoveId, pid: HomePid, e: &MigrateError) {
    // At once: those that share its memory do not wait for it any more.
    shared.outgoing.over(mv, pid);
    let (stay, detail) = (e.stay(), e.detail());
    shared.home.send(&ToHome::Failed { mv, stay, detail });
}

fn leave(host: &Arc<Host>, mv: MoveId, pid: HomePid, to: Whither) -> Result<()> {
    let homeward = matches!(to, Whither::Home);
    let checkpoint = match &to {
        Whither::Checkpoint { after } => Some(*after),
        Whither::Home | Whither::Host { .. } => None,
    };
    let mut pair = connect(host, mv, to)?;
    let closer = pair.0.closer().ok();
    let outgoing = host.outgoing.begin(mv, pid, closer, PREVIOUS_MAX)?;
    let source = host
        .tracer
        .run(move |guests| Source::of(guests, pid))
        .flatten()
        .ok_or(MigrateError::Ended)?;
    let m = Move {
        host,
        mv,
        pid,
        here: source.here,
        homeward,
        checkpoint,
    };
    if let Err(e) = send(&m, source, &mut pair) {
        failed(host, mv, pid, &e);
        // Home reads from it when the process comes home, and sends Abort when it ends.
        outgoing.cut();
        await_verdict(&m);
        freeze::unfreeze(host, pid);
    }
    Ok(())
}

/// Home answers with Abort when it has sent the signals that it kept: they come before the results of the calls that it
/// interrupted. Or it was handed over already, and Drop comes: the connection to the target may have broken after the last
/// byte. Without home no body may go on here.
fn await_verdict(m: &Move) {
    let body = || m.host.threads.of_home(m.pid.leader());
    // After a Drop it may come back meanwhile.
    let is_here = || body().is_some_and(|c| c.here == m.here);
    let pause = Duration::from_micros(200);
    let mut waited = Duration::ZERO;
    while waited < ABORT_MAX && !m.host.outgoing.aborted(m.mv) && is_here() {
        std::thread::sleep(pause);
        if m.host.home.session.answered().elapsed() < HEARD_MAX {
            waited += pause;
        }
    }
}

/// A body on its way to another node.
struct Move<'a> {
    host: &'a Arc<Host>,
    mv: MoveId,
    pid: HomePid,
    /// Its pid on this node.
    here: Pid,
    homeward: bool,
    /// It is a checkpoint, and the body goes on here when it has been sent; the one that home keeps.
    checkpoint: Option<Option<MoveId>>,
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

/// The phases of the source. After `Ok` the target has everything.
fn send(m: &Move, source: Source, pair: &mut Pair) -> Result<()> {
    let mut d = Departure::prepare(m, source, pair)?;
    d.offer()?;
    d.precopy()?;
    let (last, mut state) = d.freeze()?;
    // Before home can send Drop.
    let keeps = d.job.may_owe();
    let keeps = keeps.then(|| postcopy::PageSource::begin(m.host, m.pid, m.here));
    d.dirty(&last, &mut state)?;
    d.state(state)?;
    if m.checkpoint.is_some() && d.tracked {
        *lock(&d.proc.sent_before) = d.job.remember(m.mv);
    }
    d.postcopy();
    drop(keeps);
    Ok(())
}

/// A body that leaves, phase by phase. Flip and thaw are up to home, which sends Drop.
struct Departure<'a> {
    of: &'a Move<'a>,
    proc: Arc<Process>,
    /// Tracks writes, if the body has one.
    uffd: Option<Arc<Uffd>>,
    /// The place of the vDSO that it started with, if that is another node's.
    vdso: Option<Vdso>,
    /// How often it had mapped something when it was looked at first.
    mapped: u64,
    /// The flags of its areas, and the areas, as they were seen first.
    noted: Noted,
    first: Survey,
    head: Head,
    job: Job<'a, Reader, Writer>,
    /// Ends the connection of the move.
    closer: Option<TcpStream>,
    /// The target has another vDSO.
    elsewhere: bool,
    /// It is put upon an earlier checkpoint: the marks of that one hold.
    goes_on: bool,
    /// Pre-copy succeeded: which pages were written since is known.
    tracked: bool,
}

impl<'a> Departure<'a> {
    /// Looks at the body while it runs.
    fn prepare(of: &'a Move, source: Source, (r, w): &'a mut Pair) -> Result<Departure<'a>> {
        let closer = r.closer().ok();
        let (here, proc) = (source.here, source.proc);
        proc.pending_pages.wait()?;
        let mapped = proc.mapped.load(Ordering::Acquire);
        let noted = Noted::now(here)?;
        let vdso = source.vdso.as_ref().map(|f| f.home);
        let mut first = survey(here, vdso)?;
        noted.mark(&mut first.areas);
        let mut head = head(
            of.host.home.engine,
            of.pid,
            (here, source.needs),
            &first,
            source.tids,
        )?;
        let mut job = Job::new(here, r, w);
        // Any other move, and one that fails, takes the marks.
        let before = lock(&proc.sent_before).take();
        let before = before.filter(|b| of.checkpoint == Some(Some(b.by)));
        let goes_on = before.is_some();
        if let Some(before) = before {
            head.since = Some(before.by);
            job.goes_on_from(before);
        }
        job.vdso = source.vdso.map(|f| f.image);
        // A program is not throttled for the sake of its checkpoint: what it writes meanwhile is sent while it stands.
        if of.checkpoint.is_none() {
            let (slowed, pid) = (of.host.clone(), of.pid);
            job.throttle = Some(Box::new(move || Box::new(throttle::on(&slowed, pid))));
        }
        Ok(Departure {
            of,
            proc,
            uffd: source.uffd,
            vdso,
            mapped,
            noted,
            first,
            head,
            job,
            closer,
            elsewhere: false,
            goes_on,
            tracked: false,
        })
    }

    fn offer(&mut self) -> Result<()> {
        let accept = self.job.offer(&self.head, &mut opened(self.of.host))?;
        self.elsewhere = accept.vdso;
        // Also of a move that tracks nothing.
        if let Some(u) = &self.uffd
            && !self.goes_on
            && self.proc.tracked.swap(false, Ordering::AcqRel)
        {
            forget_marks(u, &self.first);
        }
        if !accept.precopy {
            self.uffd = None;
        }
        Ok(())
    }

    /// Sends memory while the body runs; then the files that it has mapped meanwhile.
    fn precopy(&mut self) -> Result<()> {
        let here = self.of.here;
        if let Some(u) = self.uffd.take() {
            self.proc.tracked.store(true, Ordering::Release);
            let mut now = survey(here, self.vdso)?;
            self.noted.mark(&mut now.areas);
            self.tracked = self.job.precopy(&u, &now, &self.proc.writes).is_ok();
        }
        if self.has_mapped() {
            let now = survey(here, self.vdso)?;
            self.job.more(&now.areas, &mut opened(self.of.host))?;
        }
        Ok(())
    }

    /// Whether it has mapped something since it was looked at first.
    fn has_mapped(&self) -> bool {
        self.proc.mapped.load(Ordering::Acquire) != self.mapped
    }

    /// Everything of the body but its memory. From now on it stands still.
    fn freeze(&mut self) -> Result<(Survey, State)> {
        let Move {
            host,
            mv,
            pid,
            here,
            ..
        } = *self.of;
        let noted = Noted::before_freeze(here, self.head.areas.len());
        point(Failpoint::HostFreezing);
        freeze::freeze(host, mv, pid)?;
        self.job.stands();
        point(Failpoint::HostFrozen);
        all_frozen(host, pid)?;
        let elsewhere = self.elsewhere;
        let (mut last, mut state) = host
            .tracer
            .run(move |guests| capture(guests, mv, pid, here, elsewhere))
            .unwrap_or(Err(MigrateError::Ended))?;
        let noted = Noted::frozen(here, noted)?;
        noted.mark(&mut last.areas);
        state.names = noted.names;
        // A file mapped meanwhile has replaced at home what was sent there: everything goes again. Another host maps
        // nothing before the last layout.
        self.tracked &= !(self.of.homeward && self.has_mapped());
        point(Failpoint::HostCaptured);
        Ok((last, state))
    }

    /// Sends the files that it has mapped since, the last layout, and the pages that are left.
    fn dirty(&mut self, last: &Survey, state: &mut State) -> Result<()> {
        self.job.more(&last.areas, &mut opened(self.of.host))?;
        self.job.dirty(last, state, self.tracked, &[])
    }

    fn state(&mut self, state: State) -> Result<()> {
        self.job.state(state)
    }

    /// Sends the pages that the target has been promised.
    fn postcopy(&mut self) {
        if self.job.owes() {
            postcopy::serve(self.of.pid, &mut self.job, self.closer.as_ref());
        }
    }
}

/// Opens files that this host has.
fn opened(host: &Host) -> impl FnMut(&FileKey) -> Option<File> {
    let files = host.files.clone();
    move |k| files.get(k).and_then(|f| f.try_clone().ok())
}

/// An earlier move that failed, or a checkpoint, has left its marks: where there is no page they look like one that is
/// swapped out, and would be sent as one.
fn forget_marks(uffd: &Uffd, s: &Survey) {
    for a in &s.areas {
        // Memory that was never tracked refuses, and has none.
        let _ = uffd.filled(a.run());
    }
}

/// Home gave this move up.
pub fn abort(shared: &Shared, mv: MoveId) {
    shared.outgoing.abort(mv);
    // The connection that it waits for will not come.
    shared.meetings.take(mv);
}
