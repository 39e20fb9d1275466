//! A process comes home: what the body had at the offer is mapped while it runs, so that pages can come before the freeze.
//!
//! From: `home.rs`. Next: `mappings.rs`, which maps the rest.

use super::mappings::{MappedEarly, grow_stack_calls, unneeded, without_kept_stack};
use crate::deputy::Deputy;
use crate::state::Keep;
use crate::sync::lock;
use armento_migrate::image::Area;
use armento_migrate::image::Kind;
use armento_migrate::image::areas::{self, Step};
use armento_migrate::image::flags::{self, Noted};
use armento_migrate::image::objects::Aim;
use armento_migrate::pages::StandIns;
use armento_migrate::target;
use armento_model::Pid;
use armento_tracee::maps;
use armento_tracee::pages::Run;
use std::time::Duration;

/// One call of the early mapping; longer means that the body blocks in a call of its own.
const EARLY_MAX: Duration = Duration::from_millis(100);

/// Maps what the body had at the offer, by the deputy itself and while the body runs. `None`: it cannot be done now.
pub fn map_early(keep: &Keep, pid: Pid, d: &Deputy, areas: &[Area]) -> Option<MappedEarly> {
    d.forget_housekeeping();
    // Memory that it is just giving up must be gone before we look, or we would count on it.
    d.tidy(libc::SYS_getpid, [0; 6], EARLY_MAX)?;
    let stand_ins = StandIns::default();
    let busy = keep.deputies.kept_memory(pid);
    for (nr, args) in grow_stack_calls(pid, areas, &busy, &stand_ins).ok()? {
        d.tidy(nr, args, EARLY_MAX)?;
    }
    let list = maps::read(pid).ok()?;
    let mut old = without_kept_stack(
        areas::of_deputy(&list, &lock(&keep.names), Aim::Move),
        areas,
    );
    Noted::now(pid).ok()?.mark(&mut old);
    let mut steps = areas::steps(&old, &areas::bare(areas));
    // A file may have been mapped for the body since the offer: what is too much goes at the freeze.
    steps.retain(|s| !matches!(s, Step::Unmap(_)));
    if steps.iter().any(
        |s| matches!(s, Step::Map(a) if matches!(a.kind, Kind::File { .. } | Kind::Shared { .. })),
    ) {
        return None;
    }
    if steps.iter().any(|s| maps_over(s, &busy)) {
        return None;
    }
    let stale = unneeded(pid, &old, &busy, &stand_ins);
    let empty = flags::unlock_calls(&old).into_iter();
    for (nr, args) in empty.chain(target::drop_calls(&stale)) {
        d.tidy(nr, args, EARLY_MAX)?;
    }
    for step in &steps {
        let (must, hints) = target::flag_calls(step);
        for (nr, args) in target::step_call(step).into_iter().chain(must) {
            d.tidy(nr, args, EARLY_MAX).filter(|r| *r >= 0)?;
        }
        for (nr, args) in hints {
            d.tidy(nr, args, EARLY_MAX)?;
        }
    }
    Some(MappedEarly {
        noted: Some(Noted::now(pid).ok()?),
        stand_ins,
        begins: None,
    })
}

fn maps_over(step: &Step, busy: &[Run]) -> bool {
    let meets = |a: &Area| busy.iter().any(|b| a.start < b.1 && b.0 < a.end);
    matches!(step, Step::Map(a) if meets(a))
}
