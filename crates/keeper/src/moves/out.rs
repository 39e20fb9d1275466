//! A process leaves home.
//!
//! From: `move_process.rs`. Next: `migrate/src/source/mod.rs` facing `migrate/src/target.rs`.
//!
//! [`Departure`] runs the phases of a move (`migrate/src/phase.rs`) up to the flip. Home is the arbiter: until Thaw is sent the
//! process can go on where it was.

use super::departure::Departure;
use super::eligibility;
use super::hollow::hand_over;
use super::outcome::{MoveCost, reason_of_target};
use super::prepare::{Company, PRECOPY_MIN_KIB, Prepared, prepare, undo};
use super::tear_down::{DeferredTeardown, tear_down_memory};
use crate::calls::serve_host;
use crate::deputy::{Connection, HostLink};
use crate::hosts::{connect_host, open_for_move};
use crate::state::{Counted, Keep, MoveEvent, READY_MAX, await_ready};
use crate::sync::lock;
use armento_link::{Reader, Writer};
use armento_migrate::failpoint::point;
use armento_migrate::image::flags::Noted;
use armento_migrate::image::objects::Aim;
use armento_migrate::phase::Failpoint;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, NodeName, Pid};
use armento_tracee::spawn;
use armento_wire::talk::{Purpose, ToHost};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

pub fn out(keep: &Arc<Keep>, pid: Pid, node: &NodeName) -> Result<MoveCost> {
    point(Failpoint::HomeLeaving);
    let need = eligibility::may_leave(keep, pid, Aim::Move)?;
    // Meanwhile the other node may start a host.
    let way = || connect_host(keep, node, pid, need, serve_host);
    let (link, noted) = spawn::both("way", way, || eligibility::noted(pid));
    let (link, noted) = (link.unwrap_or(Err(MigrateError::Ended))?, noted?);
    point(Failpoint::HomeLinked);
    let (tx, news) = mpsc::channel();
    let mv = keep.moves.begin(tx, &[&link]);
    let runs_meanwhile = need > PRECOPY_MIN_KIB && !eligibility::direct_io(pid);
    let m = Move {
        keep,
        pid,
        link,
        mv,
        news,
    };
    let transfer = keep.transfers.begin(pid, node.clone());
    let r = m.prepare(runs_meanwhile).and_then(|(prep, (r, w))| {
        let mut connection = (r, transfer.counted(w));
        let departure = Leaving::new(&m, prep, &noted, &mut connection);
        departure.run(noted)
    });
    drop(transfer);
    keep.moves.end(mv);
    r
}

/// A process, and where it goes.
struct Move<'a> {
    keep: &'a Arc<Keep>,
    pid: Pid,
    link: Arc<HostLink>,
    mv: MoveId,
    /// What the host reports of this move.
    news: Receiver<MoveEvent>,
}

impl Move<'_> {
    /// Looks at the process and opens the connection of the move. After `Ok` the process is prepared; after an error it
    /// goes on.
    fn prepare(&self, runs_meanwhile: bool) -> Result<(Prepared, Connection)> {
        let (keep, pid) = (self.keep, self.pid);
        let early = lock(&keep.early_connections).remove(&pid);
        let (link, purpose) = (&self.link, Purpose::Bring(self.mv));
        let open = || open_for_move(keep, link, early, purpose);
        let look = || {
            keep.tracer
                .run(move |t| prepare(t, pid, Company::Alone))
                .unwrap_or(Err(MigrateError::Ended))
        };
        let (opened, prep) = match runs_meanwhile {
            // It is looked at while the other node opens its door: a handshake takes as long.
            true => {
                let (opened, prep) = spawn::both("open", open, look);
                (opened.unwrap_or(Err(MigrateError::Ended)), prep)
            }
            // From the look on it stands still, and a door may stay shut for seconds.
            false => (Ok(open()?), look()),
        };
        let prep = prep?;
        point(Failpoint::HomePrepared);
        match opened {
            Ok(connection) => Ok((prep, connection)),
            Err(e) => {
                keep.tracer.run(move |t| undo(t, pid));
                Err(e)
            }
        }
    }
}

/// A prepared process that leaves home for another node.
struct Leaving<'a> {
    of: &'a Move<'a>,
    phases: Departure<'a, Reader, Counted<Writer>>,
    /// Ends the connection of the move.
    closer: Option<TcpStream>,
}

/// A process whose body runs at the target.
struct Flipped {
    at: Instant,
    /// Memory that is still to be sent, and is given up after that.
    teardown: Option<DeferredTeardown>,
}

impl<'a> Leaving<'a> {
    fn new(
        of: &'a Move,
        mut prep: Prepared,
        noted: &Noted,
        (r, w): &'a mut (Reader, Counted<Writer>),
    ) -> Leaving<'a> {
        let closer = r.closer().ok();
        prep.head.engine = of.link.pass.common_engine();
        Leaving {
            of,
            phases: Departure::new(of.keep, of.pid, prep, noted, (r, w)),
            closer,
        }
    }

    /// Until the flip the process can go on at home. `noted`: the flags of its areas, as they were seen last.
    fn run(mut self, noted: Noted) -> Result<MoveCost> {
        let sent = self.phases.send(noted);
        let ready = sent.and_then(|()| await_ready(&self.of.news, READY_MAX));
        let ready = ready.map_err(|e| reason_of_target(e, &self.of.news));
        point(Failpoint::HomeReady);
        match ready.and_then(|_| self.flip()) {
            Ok(flipped) => Ok(self.postcopy(flipped)),
            Err(e) => {
                self.undo();
                Err(e)
            }
        }
    }

    /// Hands the process over: its threads become deputies, the target lets the body run. This returns as soon as Thaw
    /// is sent.
    fn flip(&mut self) -> Result<Flipped> {
        let (pid, mv, link) = (self.of.pid, self.of.mv, self.of.link.clone());
        let owes = self.phases.job.owes();
        // Its body may ask for memory as soon as it runs.
        let (thawed, said) = mpsc::sync_channel(1);
        self.of
            .keep
            .tracer
            .post(move |t| match hand_over(t, pid, &link, mv) {
                Ok((teardown, deputies)) => {
                    let (now, later) = if owes {
                        (None, teardown)
                    } else {
                        (teardown, None)
                    };
                    let _ = thawed.send(Ok(Flipped {
                        at: Instant::now(),
                        teardown: later,
                    }));
                    deputies.serve();
                    now.into_iter()
                        .for_each(|teardown| tear_down_memory(t, pid, teardown));
                }
                Err(e) => drop(thawed.send(Err(e))),
            });
        said.recv().unwrap_or(Err(MigrateError::Ended))
    }

    /// Sends the pages that are left, and gives up the memory here. It is the target's process by now, so no error is
    /// the move's.
    fn postcopy(self, flipped: Flipped) -> MoveCost {
        let (keep, pid) = (self.of.keep, self.of.pid);
        let Departure {
            prep,
            mut job,
            frozen,
            ..
        } = self.phases;
        prep.keep_files(keep);
        prep.keep_leases(keep, pid);
        let closer = self.closer;
        let cut = || drop(closer.as_ref().map(|c| c.shutdown(Shutdown::Both)));
        if let Err(e) = job.serve(&cut)
            && !matches!(e, MigrateError::Ended)
        {
            // There the process ends, and its host says so.
            eprintln!("process {pid}: the rest of its memory was not sent: {e}");
        }
        if let Some(teardown) = flipped.teardown {
            keep.tracer.run(move |t| tear_down_memory(t, pid, teardown));
        }
        MoveCost {
            pause: flipped.at - frozen,
            bytes: job.bytes,
            ..MoveCost::default()
        }
    }

    /// The target forgets the process, which goes on here.
    fn undo(&self) {
        let (pid, mv) = (self.of.pid, self.of.mv);
        self.of.link.send(&ToHost::Abort {
            mv,
            pid: HomePid::of_home(pid),
        });
        self.of.keep.tracer.run(move |t| undo(t, pid));
    }
}
