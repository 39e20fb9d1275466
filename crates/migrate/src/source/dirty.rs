//! What is left when the process is frozen: the last layout, and pages that were not sent or written since.
//!
//! From: the owner's freeze. Next: `state.rs`.

use super::job::Job;
use super::send_pages::{LATE_MIN, can_wait, plain};
use crate::failpoint::point;
use crate::image::areas::{self, Survey};
use crate::image::flags::ZEROS_MAX;
use crate::image::{Area, Kind, Layout, State, ThreadState, handlers, thread};
use crate::pages::{Rest, Unsent};
use crate::phase::Failpoint;
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::pages::{self, Pagemap, Run};
use armento_tracee::{PAGE, status};
use armento_wire::{bulk, talk, write_frame};
use std::io::{Read, Write};

/// For a process with more memory than this, KiB, zero pages are not looked for: that takes time in proportion to its
/// size, 5 to 20 ns a page.
const ZEROS_KIB: u64 = 32 << 10;

impl<R: Read, W: Write> Job<'_, R, W> {
    /// Before: frozen. Sends the layout, and every page not sent or written since. Adds to `state` what the source knows
    /// of its memory. `tracked`: pre-copy's records are still valid. `used`: ranges still in use by other processes
    /// here, which cannot come later.
    pub fn dirty(
        &mut self,
        survey: &Survey,
        state: &mut State,
        tracked: bool,
        used: &[Run],
    ) -> Result<()> {
        if !tracked {
            self.watch.forget();
            self.given_up.clear();
        }
        if self.wants_vdso {
            if self.vdso.is_none() && handlers::return_into_vdso(self.pid, state, &survey.areas) {
                let why = "a signal's handler interrupted it in the vDSO".into();
                return Err(MigrateError::Stays(Stay::Busy, why));
            }
            state.vdso = self.vdso_of(state)?;
        }
        point(Failpoint::SourceCopied);
        let map = Pagemap::open(self.pid).of_process("open its page map")?;
        let mut rest = self
            .watch
            .rest(&map, (&self.offered, survey), (&self.sent, &self.lost))?;
        state.guards = std::mem::take(&mut rest.guards);
        let used = [used, &touched(state)].concat();
        let later = self.later(survey, &mut rest, &used);
        if status::read(self.pid).is_ok_and(|s| s.rss_kib <= ZEROS_KIB) {
            state.zeros = zeros(&map, &survey.areas)?;
        }
        let layout = Layout {
            areas: survey.areas.clone(),
            dropped: pages::both(&self.sent, &rest.empty),
            later,
        };
        point(Failpoint::SourceFrozen);
        write_frame(self.w, bulk::LAYOUT, &[&talk::encode(&layout)])?;
        point(Failpoint::SourceLaidOut);
        self.pack.begin(plain(&survey.areas));
        self.runs(&rest.todo)?;
        self.flush()
    }

    /// The image of the vDSO that the process started with.
    fn vdso_of(&self, state: &State) -> Result<Vec<u8>> {
        match (&self.vdso, state.mm.vdso) {
            (Some(image), _) => Ok(image.to_vec()),
            (None, Some(place)) => place.read(self.pid),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Takes what comes after the flip out of `rest`: what was given up at the target and still exists, and what was
    /// written since, if it is much.
    fn later(&mut self, survey: &Survey, rest: &mut Rest, used: &[Run]) -> Vec<Run> {
        if self.given_up.is_empty() {
            return Vec::new();
        }
        let used = pages::union(used.to_vec(), &[]);
        let can = pages::minus(
            &can_wait(&areas::in_both(&self.offered, &survey.areas)),
            &used,
        );
        let fresh = pages::both(&rest.todo, &can);
        let fresh = match pages::total(&fresh) {
            n if n < LATE_MIN => Vec::new(),
            _ => fresh,
        };
        let mut order = vec![fresh.clone()];
        order.extend(std::mem::take(&mut self.given_up).into_iter().rev());
        let order = order.concat();
        let given_up = pages::minus(&pages::union(order.clone(), &[]), &rest.empty);
        let known = |runs: &[Run]| {
            let there: Vec<Run> = survey.areas.iter().map(Area::run).collect();
            pages::both(runs, &pages::union(there, &[]))
        };
        // What is sent now, because it was written again or may not wait.
        let now = pages::union(
            pages::minus(&rest.todo, &fresh),
            &known(&pages::minus(&given_up, &can)),
        );
        let later = pages::minus(&pages::both(&given_up, &can), &now);
        rest.empty = pages::union(std::mem::take(&mut rest.empty), &fresh);
        rest.todo = now;
        self.unsent = Unsent::new(&later, order);
        later
    }
}

/// Pages of memory that were read and never written: mincore(2) shows them. At most as many as a target creates.
fn zeros(map: &Pagemap, areas: &[Area]) -> Result<Vec<Run>> {
    let mut all = Vec::new();
    for a in areas.iter().filter(|a| a.kind == Kind::Anon) {
        let left = ZEROS_MAX.saturating_sub(pages::total(&all));
        all.extend(
            map.zeros(a.run(), left / PAGE)
                .of_process("read its page map")?,
        );
    }
    Ok(all)
}

/// Pages that a thread needs within its first hundred instructions: what its kernel writes as it goes on (rseq), its
/// stack, and what its segment base points to.
fn touched(state: &State) -> Vec<Run> {
    let page = |at: u64| {
        let start = at & !(PAGE - 1);
        (start, start.saturating_add(PAGE))
    };
    let of = |t: &ThreadState| {
        let regs = thread::from_words(&t.regs);
        let (sp, fs) = regs.map_or((0, 0), |r| (r.rsp, r.fs_base));
        [t.rseq.0, t.clear_tid, t.robust.0, sp, fs].map(page)
    };
    state.threads.iter().flat_map(of).collect()
}
