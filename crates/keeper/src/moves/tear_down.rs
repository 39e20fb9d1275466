//! A process that has left gives its memory up, piece by piece, through its deputy.
//!
//! From: `hollow.rs`, `out.rs`, `group_out.rs`. Next: `keeper/src/deputy/wait_loop.rs`.

use crate::deputy::{Deputy, Work};
use crate::sharing::sharers_of;
use crate::state::Tree;
use armento_migrate::image::{mm, objects};
use armento_model::Pid;
use armento_tracee::pages::{self, Pagemap, Run};
use armento_tracee::region::BASE;
use armento_tracee::uffd::Uffd;
use armento_tracee::{maps, spawn};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// One munmap of the teardown: a few milliseconds, so that calls of the body come between.
const CHUNK: u64 = 64 << 20;

/// What is left to tear down: a deputy whose memory the body does not have yet, or does not need any more.
pub struct DeferredTeardown {
    pub deputy: Arc<Deputy>,
    pub numbers: mm::Mm,
    pub uffd: Option<Arc<Uffd>>,
    /// What it shares has its content already, and is not emptied.
    pub begins: bool,
}

/// Gives its memory up. One that exec'd meanwhile, or ended, has other memory, or none.
pub fn tear_down_memory(t: &Tree, pid: Pid, mut teardown: DeferredTeardown) {
    let now = t.procs.get(&pid).and_then(|p| p.deputy(pid));
    if now.is_some_and(|d| Arc::ptr_eq(d, &teardown.deputy)) {
        let kept = t.keep.deputies.kept_memory(pid);
        tear_down(
            pid,
            &teardown.deputy,
            (&teardown.numbers, teardown.begins),
            kept,
            teardown.uffd.take(),
        );
    }
}

/// Gives up the memory piece by piece, through the deputy itself. Kept: files (their descriptors may be
/// closed by now), arguments and environment (for ps), what a restart block writes to, the vDSO, our region.
fn tear_down(
    pid: Pid,
    d: &Arc<Deputy>,
    (mm, begins): (&mm::Mm, bool),
    kept: Vec<Run>,
    uffd: Option<Arc<Uffd>>,
) {
    let page = |a: u64| a & !4095;
    let mut spare = kept;
    spare.push((page(mm.fields[7]), page(mm.fields[10] + 4095)));
    spare.sort_unstable();
    let Ok(all) = maps::read(pid) else { return };
    let ours = |v: &maps::Vma| v.start >= BASE && v.start < BASE + (1 << 40);
    // What comes home again is all that they hold. Not what lasts, and not of a group's: one of it may not get away.
    let lasts = all.iter().any(|v| objects::persistent(v).is_some());
    let shares = all.iter().any(|v| objects::nameless(v).is_some());
    let alone = shares && !begins && !lasts && sharers_of(pid).len() == 1;
    let given_up = |v: &&maps::Vma| alone && objects::nameless(v).is_some();
    for v in all.iter().filter(given_up) {
        d.submit(Work::Tidy {
            nr: libc::SYS_madvise,
            args: [v.start, v.len(), libc::MADV_REMOVE as u64, 0, 0, 0],
            done: mpsc::channel().0,
        });
    }
    let map = Pagemap::open(pid).ok();
    let mut last = None;
    for v in all
        .iter()
        .filter(|v| !v.is_vdso() && !v.is_vsyscall() && !ours(v) && !v.is_file())
    {
        for (mut a, e) in pages::minus(&[(v.start, v.end)], &spare) {
            while a < e {
                let n = unmap_step(map.as_ref(), (a, e));
                let (tx, rx) = mpsc::channel();
                d.submit(Work::Tidy {
                    nr: libc::SYS_munmap,
                    args: [a, n, 0, 0, 0, 0],
                    done: tx,
                });
                last = Some(rx);
                a += n;
            }
        }
    }
    if let (Some(u), Some(rx)) = (uffd, last) {
        // Closed after the memory is gone: closing it first walks all pages.
        // Without a thread for it, at once.
        let _ = spawn::start("uffd", move || {
            let _ = rx.recv_timeout(Duration::from_secs(60));
            drop(u);
        });
    }
}

/// How much of `run` to give up in one call: what holds no page costs nothing, however big it is.
fn unmap_step(map: Option<&Pagemap>, (start, end): Run) -> u64 {
    let bare = match map.map(|m| m.first((start, end))) {
        Some(Ok(Some(first))) => first.saturating_sub(start),
        Some(Ok(None)) => end - start,
        Some(Err(_)) | None => 0,
    };
    (end - start).min(bare + CHUNK)
}
