//! Processes that are copied and stand still, at home or away, until they go on together.
//!
//! From: `save.rs`. Next: `keeper/src/moves/copy.rs` (at home), `keeper/src/safe/checkpoint.rs` (away).

use super::attributes::{self, Attributes};
use super::body::SavedBody;
use super::mapped;
use crate::deputy::HostLink;
use crate::moves::{Halted, copy_at_home, go_on_at_home, halt_at_home, signalfd_mask};
use crate::safe::{Ordered, go_on, order_copy};
use crate::state::{Keep, Place, Tree};
use armento_migrate::image::objects::{self, ObjectId, Views};
use armento_migrate::pages::PageStore;
use armento_migrate::stored::{Image, Taking};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{HomeTid, MoveId, Pid, Stay};
use armento_tracee::sys::SigInfo;
use armento_tracee::{status, sys, trace};
use armento_wire::talk::{FileKey, Signal};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Calls that a body had made before it stood still have ended by then.
const CALLS_MAX: Duration = Duration::from_secs(5);
const CALLS_LOOK: Duration = Duration::from_millis(1);

/// Where a process stands still.
enum Standing {
    Home,
    Away(Arc<HostLink>, MoveId),
}

/// A process, and why it was not copied.
pub type Failed = (Pid, MigrateError);

struct Copy {
    pid: Pid,
    pages: Arc<Mutex<PageStore>>,
    taking: Taking,
    standing: Standing,
    /// The names of the files that it maps.
    names: HashMap<FileKey, PathBuf>,
    /// What only home has of it.
    beside: Option<Beside>,
}

/// What home has of a body's threads.
struct Beside {
    blocks: Vec<(HomeTid, i64)>,
    waiting: Vec<(Option<HomeTid>, Signal)>,
    clock_ns: u64,
    attributes: Attributes,
}

/// A process that was copied, and goes on.
pub struct Copied {
    pub pid: Pid,
    pub body: SavedBody,
    pub names: HashMap<FileKey, PathBuf>,
    pub pages: Arc<Mutex<PageStore>>,
}

/// Processes that stand still; dropped, they go on, and what was copied is forgotten.
pub struct Copies<'a> {
    keep: &'a Arc<Keep>,
    all: Vec<Copy>,
    /// Stopped, and not copied yet.
    halted: Vec<Halted>,
    /// Since when the first of them stands still.
    since: Option<Instant>,
}

impl<'a> Copies<'a> {
    pub fn new(keep: &'a Arc<Keep>) -> Copies<'a> {
        Copies {
            keep,
            all: Vec::new(),
            halted: Vec::new(),
            since: None,
        }
    }

    /// Copies one more, which stands still then. Before: its move lock is held.
    pub fn add(&mut self, pid: Pid) -> Result<()> {
        let keep = self.keep;
        let place = self.place(pid)?;
        let pages = new_store()?;
        let (taking, standing, since) = match place {
            Place::Home => {
                let (taking, since) = copy_at_home(keep, pid, &pages)?;
                (taking, Standing::Home, since)
            }
            Place::Away(link) => {
                let ordered = order_copy(keep, pid, &link);
                let (taking, mv) = ordered.fetch(Taking::new(&pages, None))?;
                let since = taking.frozen_since();
                (taking, Standing::Away(link, mv), since)
            }
        };
        self.take(pid, pages, (taking, standing, since))
    }

    /// It stands still, and was copied.
    fn take(
        &mut self,
        pid: Pid,
        pages: Arc<Mutex<PageStore>>,
        (taking, standing, since): (Taking, Standing, Instant),
    ) -> Result<()> {
        self.since = Some(self.since.map_or(since, |s| s.min(since)));
        self.all.push(Copy {
            pid,
            pages,
            taking,
            standing,
            names: HashMap::new(),
            beside: None,
        });
        self.look_beside()?;
        if let Some(copy) = self.all.last_mut() {
            copy.names = mapped::names(self.keep, pid, copy.taking.areas())?;
        }
        Ok(())
    }

    /// Stops those that share memory, or could: all of them stand still before any of it is copied. Those that are away are
    /// copied, too. Before: their move locks are held.
    pub fn halt(&mut self, sharers: &[Pid]) -> std::result::Result<(), Failed> {
        let mut away = Vec::new();
        for pid in sharers {
            let one = match self.place(*pid).map_err(|e| (*pid, e))? {
                Place::Home => halt_at_home(self.keep, *pid),
                Place::Away(link) => {
                    away.push((*pid, link));
                    continue;
                }
            };
            self.halted.push(one.map_err(|e| (*pid, e))?);
        }
        self.copy_together(away)
    }

    /// Where it is, if it can be copied just now.
    fn place(&self, pid: Pid) -> Result<Place> {
        let place = move |t: &mut Tree| {
            let p = t.procs.get(&pid)?;
            Some((p.place(), p.is_before_exec() || p.is_at_exec(), p.replays()))
        };
        let found = self.keep.tracer.run(place).flatten();
        let why = match found.ok_or(MigrateError::Ended)? {
            (_, true, _) => "its program is about to begin",
            (_, _, true) => "it makes the calls again that it had made before its node was lost",
            (place, ..) => return Ok(place),
        };
        Err(MigrateError::Stays(Stay::Busy, why.into()))
    }

    /// Their hosts let none go before all stand still.
    fn copy_together(
        &mut self,
        away: Vec<(Pid, Arc<HostLink>)>,
    ) -> std::result::Result<(), Failed> {
        let order = |(pid, link)| (pid, order_copy(self.keep, pid, &link), link);
        let ordered: Vec<(Pid, Ordered, Arc<HostLink>)> = away.into_iter().map(order).collect();
        let copied: Vec<(Pid, Result<_>)> = std::thread::scope(|s| {
            let start = |(pid, ordered, link): (Pid, Ordered, Arc<HostLink>)| {
                let work = move || {
                    let pages = new_store()?;
                    let (taking, mv) = ordered.fetch(Taking::joint(&pages))?;
                    Ok((pages, taking, Standing::Away(link, mv)))
                };
                (pid, std::thread::Builder::new().spawn_scoped(s, work))
            };
            let all: Vec<_> = ordered.into_iter().map(start).collect();
            let wait = |t: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match t {
                Ok(t) => t.join().unwrap_or(Err(MigrateError::Ended)),
                Err(e) => Err(MigrateError::Stays(Stay::NoRoom, e.to_string())),
            };
            all.into_iter().map(|(pid, t)| (pid, wait(t))).collect()
        });
        let mut failed = None;
        for (pid, one) in copied {
            let taken = one.and_then(|(pages, taking, standing)| {
                let since = taking.frozen_since();
                self.take(pid, pages, (taking, standing, since))
            });
            if let Err(e) = taken {
                failed.get_or_insert((pid, e));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Copies those that were stopped. Of the memory in `known` they share, nothing.
    pub fn copy_halted(&mut self, known: &HashSet<ObjectId>) -> std::result::Result<(), Failed> {
        let mut others = Views::default();
        known.iter().for_each(|object| others.add_whole(*object));
        while !self.halted.is_empty() {
            let one = self.halted.remove(0);
            let pid = one.pid;
            let copied = self.copy_one(one, &mut others);
            if copied.is_err() {
                go_on_at_home(self.keep, pid);
            }
            copied.map_err(|e| (pid, e))?;
        }
        Ok(())
    }

    fn copy_one(&mut self, one: Halted, others: &mut Views) -> Result<()> {
        let (keep, pid, pages) = (self.keep, one.pid, new_store()?);
        let (taking, since) = one.copy(keep, others, &pages)?;
        self.take(pid, pages, (taking, Standing::Home, since))
    }

    /// What each of them maps of memory that processes share: the process, the object, its size in bytes as far as that is
    /// seen.
    pub fn shared(&self) -> Vec<(Pid, ObjectId, u64)> {
        let of = |c: &Copy| {
            let all = objects::sizes(c.taking.areas()).into_iter();
            let pid = c.pid;
            all.map(move |(object, size)| (pid, object, size))
                .collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of).collect()
    }

    /// Reads what home has of the threads of the last one.
    fn look_beside(&mut self) -> Result<()> {
        let Some(copy) = self.all.last_mut() else {
            return Ok(());
        };
        let pid = copy.pid;
        let until = Instant::now() + CALLS_MAX;
        loop {
            let seen = self.keep.tracer.run(move |t| look_beside(t, pid));
            match seen.unwrap_or(Err(MigrateError::Ended)) {
                Ok(Some(mut beside)) => {
                    if matches!(copy.standing, Standing::Away(..)) {
                        beside.attributes = attributes::away(self.keep, pid)?;
                    }
                    copy.beside = Some(beside);
                    return Ok(());
                }
                Ok(None) if Instant::now() > until => {
                    let why = "a call of it does not end".into();
                    return Err(MigrateError::Stays(Stay::Busy, why));
                }
                Ok(None) => std::thread::sleep(CALLS_LOOK),
                Err(e) => return Err(e),
            }
        }
    }

    /// All go on. Returns them and how long the first stood still.
    pub fn go_on(mut self) -> Result<(Vec<Copied>, Duration)> {
        let all = std::mem::take(&mut self.all);
        let goes_on = all.iter().map(|copy| release(self.keep, copy)).max();
        let stood = self.since.zip(goes_on);
        let pause = stood.map_or(Duration::ZERO, |(since, on)| {
            on.saturating_duration_since(since)
        });
        let complete = |copy: Copy| {
            let (image, _): (Image, _) = copy.taking.commit()?;
            let Beside {
                blocks,
                waiting,
                clock_ns,
                attributes,
            } = copy.beside.ok_or(MigrateError::Ended)?;
            Ok(Copied {
                pid: copy.pid,
                names: copy.names,
                body: SavedBody::new(image, (blocks, waiting), clock_ns, attributes),
                pages: copy.pages,
            })
        };
        let all = all.into_iter().map(complete).collect::<Result<_>>()?;
        Ok((all, pause))
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        for one in self.halted.drain(..) {
            go_on_at_home(self.keep, one.pid);
        }
        for copy in self.all.drain(..) {
            release(self.keep, &copy);
            copy.taking.discard();
        }
    }
}

fn new_store() -> Result<Arc<Mutex<PageStore>>> {
    let bytes_max = armento_sense::half_of_available();
    Ok(Arc::new(Mutex::new(PageStore::in_memory(bytes_max)?)))
}

/// Lets it go on: since when.
fn release(keep: &Keep, copy: &Copy) -> Instant {
    let at_home = match &copy.standing {
        Standing::Home => go_on_at_home(keep, copy.pid),
        Standing::Away(link, mv) => {
            go_on(keep, copy.pid, link, *mv);
            None
        }
    };
    at_home.unwrap_or_else(Instant::now)
}

/// `None`: a call that its body had made before is still under way.
fn look_beside(t: &mut Tree, pid: Pid) -> Result<Option<Beside>> {
    let clock_ns = sys::clock_ns(libc::CLOCK_MONOTONIC).local("read the clock")?;
    let p = t.procs.get(&pid).ok_or(MigrateError::Ended)?;
    // They would come to the body, which does not look for them.
    let seen = status::read(pid).map_err(|_| MigrateError::Ended)?;
    if (seen.sig_pending | seen.shared_pending) & signalfd_mask(pid) != 0 {
        let why = "a signal waits that it reads from a descriptor (signalfd)".into();
        return Err(MigrateError::Stays(Stay::Busy, why));
    }
    let (mut blocks, mut waiting) = (Vec::new(), Vec::new());
    let mut note = |to: Option<Pid>, info: &SigInfo| {
        waiting.push((to.map(HomeTid::of_home), Signal(info.to_vec())));
    };
    if let Some(away) = p.away() {
        if !p.deputies().all(|d| d.is_idle()) {
            return Ok(None);
        }
        for d in p.deputies() {
            let block = d
                .block()
                .map(|(nr, _)| (HomeTid::of_home(d.tid), nr.into()));
            blocks.extend(block);
        }
        away.signals
            .held()
            .iter()
            .for_each(|(to, info)| note(*to, info));
        return Ok(Some(Beside {
            blocks,
            waiting,
            clock_ns,
            // Asked of its deputies, by another thread.
            attributes: Attributes::default(),
        }));
    }
    let attributes = attributes::at_home(t, pid)?;
    let leaving = t.leaving.get(&pid).ok_or(MigrateError::Ended)?;
    for h in &leaving.stopped.halted {
        if let Some((_, info)) = &h.signal {
            note(Some(h.tid()), info);
        }
        for info in trace::pending(h.tid(), false)? {
            note(Some(h.tid()), &info);
        }
    }
    for info in trace::pending(pid, true)? {
        note(None, &info);
    }
    for tid in status::threads(pid).map_err(|_| MigrateError::Ended)? {
        let state = leaving.states.iter().find(|s| s.tid.at_home() == tid);
        let known = t.restart_blocks.get(&tid).copied();
        let nr = state
            .filter(|s| s.at_deputy)
            .and_then(|s| crate::moves::restarting(s, known));
        blocks.extend(nr.map(|nr| (HomeTid::of_home(tid), nr)));
    }
    Ok(Some(Beside {
        blocks,
        waiting,
        clock_ns,
        attributes,
    }))
}
