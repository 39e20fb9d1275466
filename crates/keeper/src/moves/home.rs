//! A process comes home: its deputies become the program again.
//!
//! From: `move_process.rs`. Next: `restore_threads.rs`, then nothing: the program runs untraced.

use super::map_early::map_early;
use super::mappings::{MappedEarly, rebuild};
use super::outcome::MoveCost;
use super::restore_threads::{Fetched, restore_threads};
use crate::calls::close_mapped_files;
use crate::calls::end_leases_of_attributes;
use crate::deputy::HostLink;
use crate::hosts::open_connection;
use crate::state::{Keep, MoveEvent, Process, Tree};
use crate::traced::resume_process;
use armento_migrate::failpoint::point;
use armento_migrate::image::objects::ObjectId;
use armento_migrate::image::processor::{Here, Processor};
use armento_migrate::image::{Accept, Head, Layout, State, flags, objects, processor};
use armento_migrate::pages::Filler;
use armento_migrate::phase::Failpoint;
use armento_migrate::stop_threads::StoppedThreads;
use armento_migrate::target::{self, Builder};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{HomePid, MoveId, Pid, Stay, Xsave};
use armento_tracee::call::{Call, vdso_syscall};
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::region::BASE;
use armento_tracee::{pages, trace};
use armento_wire::talk::{FileKey, Purpose, ToHost, Whither};
use std::collections::HashSet;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::time::Instant;

pub fn bring(keep: &Arc<Keep>, pid: Pid, link: &Arc<HostLink>) -> Result<MoveCost> {
    let (tx, news) = mpsc::channel();
    let mv = keep.moves.begin(tx, &[link]);
    let r = try_bring(keep, pid, link, mv);
    keep.moves.end(mv);
    r.map_err(|e| match news.try_recv() {
        // The source's own reason is the better one.
        Ok(MoveEvent::Failed { stay, detail }) => MigrateError::Stays(stay, detail),
        _ => e,
    })
}

fn try_bring(keep: &Arc<Keep>, pid: Pid, link: &Arc<HostLink>, mv: MoveId) -> Result<MoveCost> {
    let l = link.clone();
    order(keep, pid, link, mv);
    let done = fetch(keep, pid, link, mv).and_then(|got| {
        let (bytes, frozen) = (got.bytes, got.frozen);
        let flip = move |t: &mut Tree| {
            restore_threads(t, pid, &got)?;
            flip(t, pid, &l, mv)
        };
        let flipped = keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended));
        flipped.map(|()| (bytes, frozen))
    });
    match done {
        Ok((bytes, frozen)) => Ok(MoveCost {
            pause: frozen.elapsed(),
            bytes,
            ..MoveCost::default()
        }),
        Err(e) => {
            give_back(keep, pid, link, mv);
            Err(e)
        }
    }
}

/// Tells the host to send it; [`fetch`] follows.
pub fn order(keep: &Keep, pid: Pid, link: &HostLink, mv: MoveId) {
    keep.tracer.run(move |t| t.set_coming_home(pid, true));
    link.send(&ToHost::Send {
        mv,
        pid: HomePid::of_home(pid),
        to: Whither::Home,
    });
}

/// Everything of a process that is away and was ordered. After `Ok` its memory is here, its threads are still deputies,
/// stopped, and the host has it all the same.
pub fn fetch(keep: &Arc<Keep>, pid: Pid, link: &Arc<HostLink>, mv: MoveId) -> Result<Fetched> {
    let mut b = Return::new(keep, pid, MappedEarly::default());
    let (r, mut w) = open_connection(keep, &link.way(), Purpose::Fetch(mv))?;
    let transfer = keep.transfers.begin(pid, keep.settings.node.clone());
    let mut r = transfer.counted(r);
    let bytes = target::receive(&mut r, &mut w, &mut b)?;
    b.fetched(bytes)
}

/// The same of a process whose body is in a checkpoint: its pages and state come from `source`, which writes what a source
/// of a move does. `known`: shared memory whose content is here already.
pub fn fetch_kept(
    keep: &Arc<Keep>,
    pid: Pid,
    known: HashSet<ObjectId>,
    source: impl FnOnce(&mut UnixStream, &mut UnixStream) -> Result<()> + Send,
) -> Result<Fetched> {
    keep.tracer.run(move |t| t.set_coming_home(pid, true));
    let early = MappedEarly {
        begins: Some(known),
        ..MappedEarly::default()
    };
    let mut b = Return::new(keep, pid, early);
    let (bytes, sent) = by_a_thread(source, |r, w| target::receive(r, w, &mut b))?;
    // The reason of the target is the better one.
    let bytes = match (bytes, sent) {
        (Err(MigrateError::Link(_)), Err(e)) | (Ok(_), Err(e)) | (Err(e), _) => return Err(e),
        (Ok(bytes), Ok(())) => bytes,
    };
    b.fetched(bytes)
}

/// The return failed: the host's body goes on.
pub fn give_back(keep: &Arc<Keep>, pid: Pid, link: &Arc<HostLink>, mv: MoveId) {
    keep.moves.end(mv);
    keep.tracer.run(move |t| {
        back_to_deputies(t, pid);
        t.set_coming_home(pid, false);
    });
    link.send(&ToHost::Abort {
        mv,
        pid: HomePid::of_home(pid),
    });
}

/// Source and target face each other in this process: the source in a thread of its own.
fn by_a_thread<T>(
    source: impl FnOnce(&mut UnixStream, &mut UnixStream) -> Result<()> + Send,
    target: impl FnOnce(&mut UnixStream, &mut UnixStream) -> Result<T>,
) -> Result<(Result<T>, Result<()>)> {
    let (from, to) = UnixStream::pair().local("make a pair of sockets")?;
    let both =
        |s: UnixStream| Ok::<_, MigrateError>((s.try_clone().local("copy a descriptor")?, s));
    let ((mut r, mut w), (mut reads, mut writes)) = (both(from)?, both(to)?);
    std::thread::scope(|scope| {
        let source = std::thread::Builder::new().spawn_scoped(scope, move || {
            let sent = source(&mut r, &mut w);
            // A target that still reads is not to wait for ever.
            if sent.is_err() {
                let _ = r.shutdown(Shutdown::Both);
            }
            sent
        });
        let source = source.local("start a thread")?;
        let came = target(&mut reads, &mut writes);
        let _ = reads.shutdown(Shutdown::Both);
        let sent = source.join().map_err(|_| MigrateError::Ended)?;
        Ok((came, sent))
    })
}

struct Return {
    keep: Arc<Keep>,
    pid: Pid,
    frozen: Option<Instant>,
    /// Where its memory is mapped already, pages came before the freeze.
    early: MappedEarly,
    close: Vec<Call>,
    lock: Vec<Call>,
    state: Option<State>,
    /// How threads' extended state is laid out where it was.
    from: Xsave,
}

impl Return {
    fn new(keep: &Arc<Keep>, pid: Pid, early: MappedEarly) -> Return {
        Return {
            keep: keep.clone(),
            pid,
            frozen: None,
            early,
            close: Vec::new(),
            lock: Vec::new(),
            state: None,
            from: Xsave::default(),
        }
    }

    fn fetched(self, bytes: u64) -> Result<Fetched> {
        Ok(Fetched {
            state: self.state.ok_or(MigrateError::Ended)?,
            stale: target::drop_calls(&self.early.stand_ins.left()),
            close: self.close,
            lock: self.lock,
            bytes,
            frozen: self.frozen.unwrap_or_else(Instant::now),
        })
    }
}

impl Builder for Return {
    type Sink = Filler;

    fn offered(&mut self, head: Head) -> Result<Accept> {
        self.from = head.processor.xsave.clone();
        if self.early.begins.is_some() {
            let here = Here {
                has: armento_sense::claimed_cpu_set(),
                xsave: armento_sense::claimed_xsave(),
            };
            here.takes(&Processor {
                needs: head.processor.needs,
                xsave: self.from.clone(),
            })?;
            return Ok(Accept::default());
        }
        // Deputies keep the file mappings. Pages can come early if the leader's deputy is free to map.
        let leader = self.keep.deputy(self.pid).filter(|d| !d.in_call());
        let early = leader.and_then(|d| {
            let early = map_early(&self.keep, self.pid, &d, &head.areas);
            d.forget_housekeeping();
            early
        });
        self.early = early.unwrap_or_default();
        Ok(Accept {
            files: Vec::new(),
            precopy: self.early.noted.is_some(),
            postcopy: false,
            vdso: false,
        })
    }

    /// Whatever it maps was mapped here first.
    fn lacks(&mut self, _: Vec<FileKey>) -> Result<Vec<FileKey>> {
        Ok(Vec::new())
    }

    fn file(&mut self, _: &FileKey, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn ready_for_pages(&mut self) -> Result<Filler> {
        let stand_ins = self.early.stand_ins.clone();
        Ok(Filler::new(self.pid, None, stand_ins).loose())
    }

    fn give_up(&mut self, _: Vec<pages::Run>) -> Result<()> {
        Err(MigrateError::Stays(
            Stay::TargetFailed,
            "home takes no pages behind the flip".into(),
        ))
    }

    fn layout(&mut self, layout: Layout) -> Result<()> {
        self.frozen = Some(Instant::now());
        let pid = self.pid;
        let early = MappedEarly {
            noted: self.early.noted.take(),
            stand_ins: self.early.stand_ins.clone(),
            begins: self.early.begins.clone(),
        };
        self.close = objects::close_calls(&layout.areas);
        self.lock = flags::lock_calls(&layout.areas);
        self.keep
            .tracer
            .run(move |t| rebuild(t, pid, &layout, &early))
            .unwrap_or(Err(MigrateError::Ended))
    }

    /// Later, right before the flip: what it does to the threads cannot be undone.
    fn build(&mut self, mut state: State) -> Result<()> {
        processor::fit(&mut state.threads, &self.from, armento_sense::xsave())?;
        self.state = Some(state);
        Ok(())
    }
}

/// The flip: the host forgets its body, the process is the program again and runs.
pub fn flip(t: &mut Tree, pid: Pid, link: &Arc<HostLink>, mv: MoveId) -> Result<()> {
    let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let region = p.away().ok_or(MigrateError::Ended)?.region().clone();
    let (at, _) = vdso_syscall(pid)?;
    let mut h = Hold::take(pid, Arc::new(Unfiltered))?;
    point(Failpoint::ReturnBuilt);
    link.send(&ToHost::Drop {
        mv,
        pid: HomePid::of_home(pid),
    });
    point(Failpoint::ReturnDropped);
    h.call_at(at, libc::SYS_munmap, [BASE, region.len(), 0, 0, 0, 0])?;
    drop(h);
    let keep = t.keep.clone();
    let p = t.procs.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let halted = p.take_halted();
    let deputies = p.come_home(&keep.deputies);
    let mut stopped = StoppedThreads::new(pid);
    for h in &halted {
        t.remember_restart_block(h.tid());
        stopped.seized.insert(h.tid());
    }
    stopped.halted = halted;
    close_mapped_files(t);
    // Its next call may see them.
    end_leases_of_attributes(&keep);
    resume_process(t, pid, stopped);
    // Last, for every waiter thread wakes up and wants a processor.
    deputies.iter().for_each(|d| d.close());
    Ok(())
}

/// The return failed: the threads are deputies again.
fn back_to_deputies(t: &mut Tree, pid: Pid) {
    let Some(code) = t.code_of(pid) else { return };
    let p = t.procs.get_mut(&pid);
    for h in p.map_or_else(Vec::new, Process::take_halted) {
        let tid = h.tid();
        t.cpu_fixup.restarted.forget(tid);
        if let (Some(d), Ok(mut r)) = (t.keep.deputy(tid), trace::regs(tid)) {
            r.rip = code.deputy;
            r.r15 = d.slot.addr();
            r.rsp = 0;
            r.orig_rax = u64::MAX;
            let _ = trace::set_regs(tid, &r);
            let _ = trace::set_sigmask(tid, d.slot.idle());
        }
        let _ = trace::resume(h.thread, 0);
    }
    t.release_held(pid);
}
