//! A process arrives: the host's side of `migrate::target`.
//!
//! From: `migrate/src/target.rs`. Next: `build.rs`; then `host/src/calls/dispatch.rs`, when home sends Thaw.

use super::build::{self, unthawed};
use super::postcopy;
use crate::files::{Incoming, MORE_MAX, OTHER_MAX};
use crate::state::{GuestTable, Host, Process};
use crate::threads;
use armento_client::engine;
use armento_link::{Reader, Writer};
use armento_migrate::failpoint::point;
use armento_migrate::files::Like;
use armento_migrate::image::files_of;
use armento_migrate::image::processor::{self, Here};
use armento_migrate::image::{Accept, Head, Layout, State};
use armento_migrate::pages::Filler;
use armento_migrate::phase::Failpoint;
use armento_migrate::postcopy::Fetch;
use armento_migrate::target::{self, Builder};
use armento_migrate::{MigrateError, Result};
use armento_model::{CpuTime, HomePid, MoveId, Stay, Xsave, common_engine};
use armento_tracee::pages::Run;
use armento_tracee::sys as tsys;
use armento_wire::talk::{FileKey, ToHome};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Receives one process and notifies home of the outcome.
pub fn receive(host: &Arc<Host>, mv: MoveId, mut r: Reader, mut w: Writer) {
    let mut a = Arrival {
        host: host.clone(),
        head: None,
        files: Incoming::new(&host.files),
        mv,
        pid: None,
        away: CpuTime::default(),
        later: Vec::new(),
        rest: None,
        from: Xsave::default(),
    };
    match target::receive(&mut r, &mut w, &mut a) {
        Ok(bytes) => {
            let away = a.away;
            host.home.send(&ToHome::Ready { mv, bytes, away });
            if let (Some(pid), Some((proc, rest))) = (a.pid, a.rest.take()) {
                postcopy::fetch((pid, &proc), rest, (&mut r, &mut w));
            }
        }
        Err(e) => {
            if let Some(pid) = a.pid {
                host.tracer
                    .run(move |guests| drop_unthawed(guests, mv, pid));
            }
            let (stay, detail) = (e.stay(), e.to_string());
            host.home.send(&ToHome::Failed { mv, stay, detail });
        }
    }
    drop(a);
    tsys::give_back();
}

/// A body that never ran is thrown away. One that another move of the process has brought meanwhile is not: the message
/// about this move may have been delayed by the network.
pub fn drop_unthawed(guests: &mut GuestTable, mv: MoveId, pid: HomePid) {
    if unthawed(guests, mv, pid).is_ok() {
        threads::remove_body(guests, pid);
    }
}

/// An earlier body is removed in less time, unless the link stalls.
const DROP_MAX: Duration = Duration::from_millis(500);
/// Between two checks: a small part of what making a body takes.
const DROP_CHECK: Duration = Duration::from_micros(200);

struct Arrival {
    host: Arc<Host>,
    head: Option<Head>,
    files: Incoming,
    mv: MoveId,
    /// Known when a body was begun for it.
    pid: Option<HomePid>,
    /// CPU time that it used away before.
    away: CpuTime,
    /// Pages that come after the flip, and what receives them.
    later: Vec<Run>,
    rest: Option<(Arc<Process>, Fetch)>,
    /// Layout of the extended processor state (XSAVE) at the source.
    from: Xsave,
}

impl Arrival {
    /// The move and its process. Fails when no body was begun.
    fn begun(&self) -> Result<(MoveId, HomePid)> {
        let pid = self.pid.ok_or(MigrateError::Ended)?;
        Ok((self.mv, pid))
    }

    /// Home's order that an earlier body of the same process is to go comes on another stream, which may be slower.
    fn await_drop(&self, pid: HomePid) {
        let until = Instant::now() + DROP_MAX;
        let runs = move |guests: &mut GuestTable| guests.bodies.get(&pid).is_some_and(|b| !b.quiet);
        while self.host.tracer.run(runs) == Some(true) && Instant::now() < until {
            std::thread::sleep(DROP_CHECK);
        }
    }
}

impl Builder for Arrival {
    type Sink = Filler;

    fn offered(&mut self, head: Head) -> Result<Accept> {
        if common_engine(head.engine, engine()) != Some(head.engine) {
            return Err(MigrateError::Stays(
                Stay::EngineVersion,
                format!("we run {}, it comes with {}", engine(), head.engine),
            ));
        }
        if let Some((stay, why)) = self.host.drain.refuses() {
            return Err(MigrateError::Stays(stay, why));
        }
        here().takes(&head.processor)?;
        self.from = head.processor.xsave.clone();
        let files = self.files.missing(files_of(&head.areas), OTHER_MAX)?;
        let vdso = head.mm.vdso;
        self.head = Some(head);
        Ok(Accept {
            files,
            precopy: true,
            postcopy: postcopy::can(&self.host),
            vdso: vdso.is_some_and(|v| !v.is_ours()),
        })
    }

    fn lacks(&mut self, files: Vec<FileKey>) -> Result<Vec<FileKey>> {
        self.files.missing(files, MORE_MAX)
    }

    fn alike(&mut self, files: Vec<Like>) -> Result<Vec<FileKey>> {
        self.files.alike(files)
    }

    fn file(&mut self, key: &FileKey, off: u64, bytes: &[u8]) -> Result<()> {
        self.files.write(key, off, bytes)
    }

    fn ready_for_pages(&mut self) -> Result<Filler> {
        self.files.keep();
        let head = self.head.take().ok_or_else(|| {
            MigrateError::Stays(Stay::TargetFailed, "pages before an offer".into())
        })?;
        let (mv, pid) = (self.mv, head.pid);
        self.await_drop(pid);
        let begun = self
            .host
            .tracer
            .run(move |guests| build::begin(guests, mv, &head));
        let filler = begun.unwrap_or(Err(MigrateError::Ended))?;
        self.pid = Some(pid);
        Ok(filler)
    }

    fn give_up(&mut self, runs: Vec<Run>) -> Result<()> {
        let (mv, pid) = self.begun()?;
        self.host
            .tracer
            .run(move |guests| build::give_up(guests, mv, pid, &runs))
            .unwrap_or(Err(MigrateError::Ended))
    }

    fn layout(&mut self, mut layout: Layout) -> Result<()> {
        self.files.keep();
        let (mv, pid) = self.begun()?;
        self.later = std::mem::take(&mut layout.later);
        self.host
            .tracer
            .run(move |guests| build::lay_out(guests, mv, pid, layout))
            .unwrap_or(Err(MigrateError::Ended))
    }

    fn build(&mut self, mut state: State) -> Result<()> {
        processor::fit(&mut state.threads, &self.from, armento_sense::xsave())?;
        let (mv, pid) = self.begun()?;
        self.away = state.cpu.away;
        let later = std::mem::take(&mut self.later);
        self.rest = self
            .host
            .tracer
            .run(move |guests| build::finish(guests, mv, pid, &state, &later))
            .unwrap_or(Err(MigrateError::Ended))?;
        Ok(())
    }
}

/// This machine's processor, as far as guests may count on it.
fn here() -> &'static Here {
    static HERE: OnceLock<Here> = OnceLock::new();
    HERE.get_or_init(|| Here {
        has: armento_sense::claimed_cpu_set(),
        xsave: armento_sense::claimed_xsave(),
    })
}

/// Home hands the process over: it runs here. Signals that travelled are queued first.
pub fn thaw(guests: &mut GuestTable, mv: MoveId, pid: HomePid) {
    let Some(b) = guests.bodies.get_mut(&pid).filter(|b| b.mv == Some(mv)) else {
        // The body died before it ran. Home has handed the process over, and must not wait for it.
        let sig = libc::SIGKILL;
        return guests.shared.home.send(&ToHome::Died { pid, sig });
    };
    point(Failpoint::HostThawing);
    b.quiet = false;
    b.proc.live.store(true, Ordering::Release);
    let shared = guests.shared.clone();
    shared.has_changed();
    shared.home.send(&ToHome::Thawed { mv });
    threads::run_on(guests, pid);
    // It may have been on its way here when the drain began.
    shared.send_home(pid);
}
