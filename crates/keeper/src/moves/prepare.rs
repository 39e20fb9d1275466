//! A process is prepared to leave: halted, the deputies' region mapped into it, looked at; or set free again.
//!
//! From: `out.rs`, `group.rs`. Next: `freeze.rs`.

use super::eligibility;
use crate::deputy::{Limits, make_uffd, map_region, unmap_region};
use crate::observers::untouched;
use crate::restart::timed_sleepers;
use crate::sharing::shared_only_with;
use crate::state::{Keep, Leaving, Tree};
use crate::sync::lock;
use crate::traced::{call_fixups, resume_for_move, resume_process};
use armento_client::engine;
use armento_migrate::image::areas::{self, Survey};
use armento_migrate::image::files::{self, Names};
use armento_migrate::image::itimers::Itimers;
use armento_migrate::image::objects::{self, Aim, Views};
use armento_migrate::image::{Head, Processor, mm, uncarried};
use armento_migrate::stop_threads::{Halted, StoppedThreads, delicate};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, HomeTid, Pid, Stay, Tid};
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::uffd::Uffd;
use armento_tracee::{maps, status, trace};
use armento_wire::talk::FileKey;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

/// Below this much memory a stop-copy is shorter than preparing a pre-copy.
pub const PRECOPY_MIN_KIB: u64 = 2048;

/// Code segment of 32-bit programs. KERNEL: __USER32_CS.
pub const CS_32: u64 = 0x23;

/// What is sent of a process, and what is needed to send it.
pub struct Prepared {
    pub head: Head,
    pub files: HashMap<FileKey, File>,
    pub leased: Vec<FileKey>,
    pub names: Names,
    pub uffd: Option<Arc<Uffd>>,
    /// It has not begun yet, and stands still until it is away: what was seen of it stays true.
    pub at_exec: bool,
}

impl Prepared {
    pub fn opened(&self, key: &FileKey) -> Option<File> {
        self.files.get(key).and_then(|f| files::readable(f).ok())
    }

    /// Files that it has mapped since it was looked at first, and those of them that were leased.
    pub fn mapped_more(
        &mut self,
        files: HashMap<FileKey, File>,
        leased: Vec<FileKey>,
        names: &Names,
    ) {
        self.files.extend(files);
        self.leased.extend(leased);
        self.names.extend(names);
    }

    /// It is away, and its body may have to be built again: its files are needed then, under whatever names.
    pub fn keep_files(&self, keep: &Keep) {
        if keep.settings.safe.is_none() {
            return;
        }
        let mut known = lock(&keep.files);
        for key in self.files.keys() {
            if known.len() < keep.files_max
                && !known.contains_key(key)
                && let Some(file) = self.opened(key)
            {
                known.insert(*key, Arc::new(file));
            }
        }
    }

    /// It is away: a process that writes into a file which it maps shared is to be noticed.
    pub fn keep_leases(mut self, keep: &Keep, pid: Pid) {
        let files = &mut self.files;
        let held = self
            .leased
            .iter()
            .filter_map(|k| Some((pid, Arc::new(files.remove(k)?))));
        lock(&keep.leases).extend(held);
    }
}

/// `known`: its files at an earlier look.
pub fn survey(keep: &Keep, pid: Pid, known: Option<&Names>, aim: Aim) -> Result<Survey> {
    let maps = maps::read(pid).map_err(|_| MigrateError::Ended)?;
    areas::of_home(pid, &maps, known, &|| untouched(keep, pid), aim)
}

/// With whom a process is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    Alone,
    /// It moves with those that share its memory, and stands still from now on. They are looked at for all of them.
    Group,
    /// The same, into one checkpoint.
    Checkpoint,
}

impl Company {
    pub fn aim(self) -> Aim {
        match self {
            Company::Checkpoint => Aim::Checkpoint,
            Company::Alone | Company::Group => Aim::Move,
        }
    }
}

/// Halts the process, maps the region into it, and looks at it. It runs on meanwhile when it is big and alone.
pub fn prepare(t: &mut Tree, pid: Pid, company: Company) -> Result<Prepared> {
    let p = t.procs.get(&pid).ok_or(MigrateError::Ended)?;
    if p.is_away() {
        return Err(MigrateError::Stays(Stay::Busy, "it is not at home".into()));
    }
    if p.is_before_exec() {
        let why = "its program is about to begin".into();
        return Err(MigrateError::Stays(Stay::Busy, why));
    }
    let at_exec = p.is_at_exec();
    let mut stopped = StoppedThreads::new(pid);
    stopped.calls = Some(call_fixups(t, pid));
    if at_exec {
        // From the exec event to a stop at the user-mode boundary.
        let stands = t.take_standing(pid).and_then(Halted::deliver);
        let (thread, sig) = stands.ok_or(MigrateError::Ended)?;
        stopped.seized.insert(pid);
        trace::set_options(pid, trace::WATCH | trace::EXITKILL)?;
        trace::interrupt(pid)?;
        trace::resume(thread, sig)?;
        stopped.halt_one(pid)?;
    } else {
        let asleep = timed_sleepers(&delicate(pid)?);
        let restarted = t.cpu_fixup.restarted.clone();
        let halted = halt(&mut stopped)
            .and_then(|()| restarted.ensure_input_complete(pid, &stopped.halted))
            .and_then(|()| uncarried::of_threads(stopped.halted.iter().map(Halted::tid)));
        if let Err(e) = halted {
            resume_process(t, pid, stopped);
            return Err(e);
        }
        asleep.iter().for_each(|a| t.wait_deadlines.woken(a));
        t.futex_waits.stopped(&asleep, &stopped.halted);
    }
    t.passing.extend(stopped.seized.iter().copied());
    match look(&t.keep, pid, &mut stopped, at_exec, company) {
        Ok((prep, leaving)) => {
            let mut leaving = Leaving { stopped, ..leaving };
            for h in &leaving.stopped.halted {
                t.remember_restart_block(h.tid());
            }
            if prep.uffd.is_some() {
                let options = t.passing_options(pid);
                for h in &leaving.stopped.halted {
                    trace::set_options(h.tid(), options)?;
                }
                resume_for_move(t, pid, &mut leaving.stopped);
            }
            lock(&t.keep.names).extend(&prep.names);
            t.leaving.insert(pid, leaving);
            Ok(prep)
        }
        Err(e) => {
            for h in &stopped.halted {
                t.remember_restart_block(h.tid());
            }
            if at_exec {
                // It stays seized: the placement lets it go.
                t.passing.retain(|tid| !stopped.seized.contains(tid));
                t.keep_standing(pid, stopped.disband());
            } else {
                resume_process(t, pid, stopped);
            }
            Err(e)
        }
    }
}

/// Halts every thread. Should we be killed from now on, it ends: its registers are changed.
fn halt(stopped: &mut StoppedThreads) -> Result<()> {
    let options = trace::WATCH | trace::EXITKILL;
    stopped.halt(options)?;
    for h in &stopped.halted {
        // Those that were watched were seized with others.
        trace::set_options(h.tid(), options)?;
    }
    Ok(())
}

fn look(
    keep: &Keep,
    pid: Pid,
    stopped: &mut StoppedThreads,
    at_exec: bool,
    company: Company,
) -> Result<(Prepared, Leaving)> {
    let joint = company != Company::Alone;
    let regs = trace::regs(pid)?;
    if regs.cs == CS_32 {
        return Err(MigrateError::Stays(
            Stay::ThirtyTwoBit,
            "a 32-bit program".into(),
        ));
    }
    let first = survey(keep, pid, None, company.aim())?;
    objects::travels(&first.areas)?;
    if !joint {
        shared_only_with(&[pid], &first.areas)?;
    }
    let rss = status::read(pid).map(|s| s.rss_kib).unwrap_or(0);
    let tids: Vec<Tid> = stopped.seized.iter().copied().collect();
    let mut h = Hold::take(pid, Arc::new(Unfiltered))?;
    let begins = keep.restarts.as_ref().map_or(0, |r| r.threads(pid));
    let region = map_region(&mut h, tids.len().max(begins))?;
    let code = region.code();
    let mut numbers = mm::read(pid, first.vdso)?;
    mm::read_brk(&mut h, &code, &mut numbers)?;
    files::look_below(&mut h, &code, &first.areas, &first.files)?;
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
        since: None,
        engine: engine(),
        pid: HomePid::of_home(pid),
        tids: tids.into_iter().map(HomeTid::of_home).collect(),
        command: status::comm(pid, pid),
        brings: Views::default().lack(&first.areas),
        persistent: Vec::new(),
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
    let stopped = StoppedThreads::new(pid);
    Ok((
        prep,
        Leaving {
            stopped,
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

/// The move failed: the process goes on at home as if nothing had been. Since when; the end of its userfaultfd, which walks its
/// page tables, comes after that.
pub fn undo(t: &mut Tree, pid: Pid) -> Option<Instant> {
    let mut l = t.leaving.remove(&pid)?;
    let halted = l.stopped.halt(trace::WATCH);
    if halted.is_ok() {
        for h in &l.stopped.halted {
            t.remember_restart_block(h.tid());
        }
        if let Ok(mut h) = Hold::take(pid, Arc::new(Unfiltered))
            && l.mapped
        {
            let _ = unmap_region(&mut h, &l.region);
        }
    }
    if halted.is_ok() && t.awaits_named_node(pid) {
        // `refusal.rs` ends it.
        t.passing.retain(|tid| !l.stopped.seized.contains(tid));
        t.keep_standing(pid, l.stopped.disband());
        return None;
    }
    if let Some(p) = t.procs.get_mut(&pid) {
        p.leave_exec_stop();
    }
    resume_process(t, pid, l.stopped);
    Some(Instant::now())
}
