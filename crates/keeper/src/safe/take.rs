//! What a host sends of a body for a checkpoint: asked for, received, and the body let go on.
//!
//! From: `checkpoint.rs`, `together.rs`, `keeper/src/saved/copies.rs`. Next: `migrate/src/stored.rs`.

use crate::deputy::{Connection, HostLink};
use crate::hosts::open_connection;
use crate::state::{Keep, MoveEvent, Process, Tree, told_reason};
use armento_migrate::failpoint::point;
use armento_migrate::phase::Failpoint;
use armento_migrate::stored::Taking;
use armento_migrate::{MigrateError, Result, target};
use armento_model::{HomePid, MoveId, Pid, Stay};
use armento_wire::talk::{Purpose, ToHost, Whither};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};

/// Whether its body is on another node, which answers, and no move of it is under way.
pub fn takes_one(t: &Tree, p: &Process) -> bool {
    let there = p.link().filter(|l| l.node != t.keep.settings.node);
    let moving = p.common.breaking.load(Ordering::Acquire);
    there.is_some_and(|l| l.lost().is_none()) && !moving
}

/// What became of a checkpoint.
pub enum Outcome {
    Made,
    /// It cannot be had just now: a move is under way, or the link is down.
    Later,
    Refused(Stay),
}

/// The connection over which the host sends it.
pub fn ask_for_it(
    keep: &Keep,
    pid: Pid,
    (link, mv): (&Arc<HostLink>, MoveId),
    after: Option<MoveId>,
) -> Result<Connection> {
    link.ensure_connected()?;
    order(link, mv, pid, after);
    open_connection(keep, &link.way(), Purpose::Fetch(mv))
}

fn order(link: &HostLink, mv: MoveId, pid: Pid, after: Option<MoveId>) {
    link.send(&ToHost::Send {
        mv,
        pid: HomePid::of_home(pid),
        to: Whither::Checkpoint { after },
    });
}

/// A copy of a body that its host was told to send: [`Ordered::fetch`] follows. Dropped before, the body goes on.
pub struct Ordered {
    keep: Arc<Keep>,
    pid: Pid,
    link: Arc<HostLink>,
    mv: MoveId,
    news: Receiver<MoveEvent>,
    stands: bool,
}

/// Orders a copy of a body. Those that share memory are all ordered before the first is fetched: their host lets none of them
/// go that shares memory with one which is not.
pub fn order_copy(keep: &Arc<Keep>, pid: Pid, link: &Arc<HostLink>) -> Ordered {
    let (tx, news) = mpsc::channel();
    let mv = keep.moves.begin(tx, &[link]);
    order(link, mv, pid, None);
    Ordered {
        keep: keep.clone(),
        pid,
        link: link.clone(),
        mv,
        news,
        stands: false,
    }
}

impl Ordered {
    /// Copies the body into `taking`. After `Ok` it stands still, until [`go_on`] with the move that is returned. Before: its
    /// move lock is held. After an error it goes on.
    pub fn fetch(mut self, mut taking: Taking) -> Result<(Taking, MoveId)> {
        match self.receive(&mut taking) {
            Ok(()) => {
                self.stands = true;
                Ok((taking, self.mv))
            }
            Err(e) => {
                taking.discard();
                Err(reason_of_source(e, &self.news))
            }
        }
    }

    fn receive(&self, taking: &mut Taking) -> Result<()> {
        let (keep, pid) = (&self.keep, self.pid);
        self.link.ensure_connected()?;
        let (mut r, mut w) = open_connection(keep, &self.link.way(), Purpose::Fetch(self.mv))?;
        point(Failpoint::SafeAsked);
        let closer = r.closer().ok();
        keep.tracer.run(move |t| {
            if let Some(safe) = t.procs.get_mut(&pid).and_then(|p| p.safe.as_mut()) {
                safe.comes_over(closer);
            }
        });
        target::receive(&mut r, &mut w, taking).map(drop)
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        self.keep.moves.end(self.mv);
        if !self.stands {
            go_on(&self.keep, self.pid, &self.link, self.mv);
        }
    }
}

/// The body goes on where it is.
pub fn go_on(keep: &Keep, pid: Pid, link: &Arc<HostLink>, mv: MoveId) {
    keep.tracer.run(move |t| t.release_held(pid));
    link.send(&ToHost::Abort {
        mv,
        pid: HomePid::of_home(pid),
    });
}

/// A source that fails gives its own reason.
pub fn reason_of_source(e: MigrateError, news: &Receiver<MoveEvent>) -> MigrateError {
    match told_reason(&e, news) {
        Some((stay, detail)) => MigrateError::Stays(stay, detail),
        None => e,
    }
}
