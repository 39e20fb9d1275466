//! The phases of a process that is at home and leaves, or is copied: up to where everything of it has been sent.
//!
//! From: `out.rs` (to another node), `copy.rs` (into a checkpoint). Next: `migrate/src/source/mod.rs` facing
//! `migrate/src/target.rs`.

use super::eligibility;
use super::freeze::{Leaves, freeze};
use super::hollow::restart_block_memory;
use super::prepare::{Company, Prepared, survey};
use crate::state::Keep;
use crate::sync::lock;
use armento_migrate::failpoint::point;
use armento_migrate::image::areas::Survey;
use armento_migrate::image::flags::Noted;
use armento_migrate::image::objects::{Aim, Views};
use armento_migrate::image::{State, ThreadState, mm};
use armento_migrate::phase::Failpoint;
use armento_migrate::source::Job;
use armento_migrate::{MigrateError, Result};
use armento_model::Pid;
use armento_tracee::pages::Run;
use std::io::{Read, Write};
use std::sync::{Arc, RwLock};
use std::time::Instant;

/// A prepared process that is sent, phase by phase.
pub struct Departure<'a, R: Read, W: Write> {
    keep: &'a Arc<Keep>,
    pid: Pid,
    pub prep: Prepared,
    pub job: Job<'a, R, W>,
    /// The target has another vDSO.
    foreign: bool,
    /// Pre-copy succeeded: which pages were written since is known.
    tracked: bool,
    company: Company,
    /// What of shared memory was sent with others.
    pub others: Views,
    /// Since when it is frozen.
    pub frozen: Instant,
}

impl<'a, R: Read, W: Write> Departure<'a, R, W> {
    /// `noted`: the flags of its areas, as they were seen last.
    pub fn new(
        keep: &'a Arc<Keep>,
        pid: Pid,
        mut prep: Prepared,
        noted: &Noted,
        (r, w): (&'a mut R, &'a mut W),
    ) -> Departure<'a, R, W> {
        noted.mark(&mut prep.head.areas);
        prep.head.processor = keep.processor(pid);
        Departure {
            keep,
            pid,
            prep,
            job: Job::new(pid, r, w),
            foreign: false,
            tracked: false,
            company: Company::Alone,
            others: Views::default(),
            frozen: Instant::now(),
        }
    }

    /// It is copied with those that share its memory, which stand still. `others`: what of that was sent with them.
    pub fn with_sharers(mut self, others: Views) -> Self {
        self.company = Company::Checkpoint;
        self.others = others;
        self
    }

    /// All phases up to the state. After `Ok` the target has everything that it needs, and the process stands still.
    pub fn send(&mut self, noted: Noted) -> Result<()> {
        self.offer()?;
        self.precopy(&noted)?;
        let (mut last, mut state) = self.freeze(noted)?;
        self.dirty(&mut last, &mut state)?;
        self.job.state(state)
    }

    fn offer(&mut self) -> Result<()> {
        let prep = &self.prep;
        let accept = self.job.offer(&prep.head, &mut |k| prep.opened(k))?;
        self.foreign = accept.vdso;
        Ok(())
    }

    /// Sends memory while the process runs; then the files that it has mapped meanwhile.
    fn precopy(&mut self, noted: &Noted) -> Result<()> {
        let (keep, pid) = (self.keep, self.pid);
        // One that stands still since it was looked at has mapped nothing.
        let Some(uffd) = &self.prep.uffd else {
            return Ok(());
        };
        let mut now = survey(keep, pid, Some(&self.prep.names), Aim::Move)?;
        noted.mark(&mut now.areas);
        // At home the keeper does not write into it; the kernel does so through its page tables.
        self.tracked = self.job.precopy(uffd, &now, &RwLock::new(())).is_ok();
        let now = survey(keep, pid, Some(&self.prep.names), Aim::Move)?;
        self.prep.mapped_more(now.files, now.leased, &now.names);
        let prep = &self.prep;
        self.job.more(&now.areas, &mut |k| prep.opened(k))
    }

    /// Everything of the process but its memory. From now on it stands still.
    fn freeze(&mut self, noted: Noted) -> Result<(Survey, State)> {
        let pid = self.pid;
        let noted = match self.prep.at_exec {
            true => Some(noted),
            false => Noted::before_freeze(pid, self.prep.head.areas.len()),
        };
        point(Failpoint::HomeFreezing);
        self.frozen = Instant::now();
        let how = Leaves {
            company: self.company,
            foreign: self.foreign,
        };
        let (tracer, others) = (&self.keep.tracer, self.others.clone());
        let (mut last, mut state) = tracer
            .run(move |t| freeze(t, pid, how, &others))
            .unwrap_or(Err(MigrateError::Ended))?;
        self.others.add(&last.areas);
        // Another process may have registered some of it since it was looked at.
        let noted = Noted::frozen(pid, noted)?;
        eligibility::carried(&noted, self.prep.uffd.is_some())?;
        noted.mark(&mut last.areas);
        state.names = noted.names;
        Ok((last, state))
    }

    /// Sends the files that it has mapped since, the last layout, and the pages that are left.
    fn dirty(&mut self, last: &mut Survey, state: &mut State) -> Result<()> {
        self.prep.mapped_more(
            std::mem::take(&mut last.files),
            std::mem::take(&mut last.leased),
            &last.names,
        );
        lock(&self.keep.names).extend(&self.prep.names);
        let prep = &self.prep;
        self.job.more(&last.areas, &mut |k| prep.opened(k))?;
        let used = used(&prep.head.mm, &state.threads);
        self.job.dirty(last, state, self.tracked, &used)
    }
}

/// What goes on being used here: by the kernel for calls that sleep, and by processes that read its arguments.
fn used(numbers: &mm::Mm, threads: &[ThreadState]) -> Vec<Run> {
    let mut all: Vec<Run> = threads.iter().flat_map(restart_block_memory).collect();
    all.push((
        numbers.fields[7] & !4095,
        (numbers.fields[10] + 4095) & !4095,
    ));
    all
}
