//! A process leaves home.
//!
//! From: `move_process.rs`. Next: `migrate/src/source.rs` facing `migrate/src/target.rs`.
//!
//! ```text
//! home    halt · map the region · offer · pre-copy (runs) · halt · state · Ready? · deputies · Thaw
//! ```
//! Home is the arbiter: until Thaw is sent the process can go on where it was.

use super::eligibility;
use super::freeze::{Leaves, freeze};
use super::hollow::{hand_over, restart_block_memory};
use super::outcome::{MoveCost, READY_MAX, await_ready, reason_of_target};
use super::prepare::{PRECOPY_MIN_KIB, prepare, survey, undo};
use super::tear_down::tear_down_memory;
use crate::calls::serve_host;
use crate::deputy::HostLink;
use crate::hosts::{connect_host, open_for_move};
use crate::state::{Keep, MoveEvent};
use crate::sync::lock;
use armento_migrate::failpoint::point;
use armento_migrate::image::flags::Noted;
use armento_migrate::image::objects::Views;
use armento_migrate::image::{ThreadState, mm};
use armento_migrate::source::Job;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, NodeName, Pid};
use armento_tracee::pages::Run;
use armento_tracee::spawn;
use armento_wire::talk::{Purpose, ToHost};
use std::net::Shutdown;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, RwLock};
use std::time::Instant;

pub fn out(keep: &Arc<Keep>, pid: Pid, node: &NodeName) -> Result<MoveCost> {
    point("home.leaving");
    let need = eligibility::may_leave(keep, pid)?;
    // Meanwhile the other node may start a host.
    let way = || connect_host(keep, node, pid, need, serve_host);
    let (link, noted) = spawn::both("way", way, || eligibility::noted(pid));
    let (link, noted) = (link.unwrap_or(Err(MigrateError::Ended))?, noted?);
    point("home.linked");
    let (tx, news) = mpsc::channel();
    let mv = keep.moves.begin(tx, &[&link]);
    let runs_meanwhile = need > PRECOPY_MIN_KIB && !eligibility::direct_io(pid);
    let r = try_out(keep, pid, noted, &link, (mv, &news), runs_meanwhile);
    keep.moves.end(mv);
    r
}

fn try_out(
    keep: &Arc<Keep>,
    pid: Pid,
    noted: Noted,
    link: &Arc<HostLink>,
    (mv, news): (MoveId, &Receiver<MoveEvent>),
    runs_meanwhile: bool,
) -> Result<MoveCost> {
    let tracer = &keep.tracer;
    let early = lock(&keep.early_connections).remove(&pid);
    let open = || open_for_move(keep, link, early, Purpose::Bring(mv));
    let look = || {
        tracer
            .run(move |t| prepare(t, pid, false))
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
    let mut prep = prep?;
    point("home.prepared");
    let (mut r, mut w) = match opened {
        Ok(opened) => opened,
        Err(e) => {
            tracer.run(move |t| undo(t, pid));
            return Err(e);
        }
    };
    let closer = r.closer().ok();
    noted.mark(&mut prep.head.areas);
    prep.head.processor = keep.processor(pid);
    let mut frozen = Instant::now();
    let mut job = Job::new(pid, &mut r, &mut w);
    let sent = (|| {
        let foreign = job.offer(&prep.head, &mut |k| prep.opened(k))?.vdso;
        let tracked = match &prep.uffd {
            // At home the keeper does not write into it; the kernel does so through its page tables.
            Some(u) => {
                let mut now = survey(keep, pid, Some(&prep.names))?;
                noted.mark(&mut now.areas);
                job.precopy(u, &now, &RwLock::new(())).is_ok()
            }
            None => false,
        };
        // One that stands still since it was looked at has mapped nothing.
        if prep.uffd.is_some() {
            let now = survey(keep, pid, Some(&prep.names))?;
            prep.mapped_more(now.files, now.leased, &now.names);
            job.more(&now.areas, &mut |k| prep.opened(k))?;
        }
        let noted = match prep.at_exec {
            true => Some(noted),
            false => Noted::before_freeze(pid, prep.head.areas.len()),
        };
        point("home.freezing");
        frozen = Instant::now();
        let how = Leaves {
            joint: false,
            foreign,
        };
        let (mut last, mut state) = tracer
            .run(move |t| freeze(t, pid, how, &Views::default()))
            .unwrap_or(Err(MigrateError::Ended))?;
        // Another process may have registered some of it since it was looked at.
        let noted = Noted::frozen(pid, noted)?;
        eligibility::carried(&noted, prep.uffd.is_some())?;
        noted.mark(&mut last.areas);
        state.names = noted.names;
        prep.mapped_more(
            std::mem::take(&mut last.files),
            std::mem::take(&mut last.leased),
            &last.names,
        );
        lock(&keep.names).extend(&prep.names);
        job.more(&last.areas, &mut |k| prep.opened(k))?;
        let used = used(&prep.head.mm, &state.threads);
        job.finish(&last, state, tracked, &used)?;
        await_ready(news, READY_MAX)
    })();
    let l = link.clone();
    let sent = sent.map_err(|e| reason_of_target(e, news));
    point("home.ready");
    let owes = job.owes();
    let over = sent.and_then(|_| {
        // Its body may ask for memory as soon as it runs.
        let (thawed, said) = mpsc::sync_channel(1);
        tracer.post(move |t| match hand_over(t, pid, &l, mv) {
            Ok((teardown, deputies)) => {
                let (now, later) = if owes {
                    (None, teardown)
                } else {
                    (teardown, None)
                };
                let _ = thawed.send(Ok((later, Instant::now())));
                deputies.serve();
                now.into_iter()
                    .for_each(|teardown| tear_down_memory(t, pid, teardown));
            }
            Err(e) => drop(thawed.send(Err(e))),
        });
        said.recv().unwrap_or(Err(MigrateError::Ended))
    });
    if over.is_ok() {
        prep.keep_leases(keep, pid);
    }
    match over {
        Ok((teardown, thawed)) => {
            let cut = || drop(closer.as_ref().map(|c| c.shutdown(Shutdown::Both)));
            if let Err(e) = job.serve(&cut)
                && !matches!(e, MigrateError::Ended)
            {
                // There the process ends, and its host says so.
                eprintln!("process {pid}: the rest of its memory was not sent: {e}");
            }
            if let Some(teardown) = teardown {
                tracer.run(move |t| tear_down_memory(t, pid, teardown));
            }
            Ok(MoveCost {
                pause: thawed - frozen,
                bytes: job.bytes,
                ..MoveCost::default()
            })
        }
        Err(e) => {
            link.send(&ToHost::Abort {
                mv,
                pid: HomePid::of_home(pid),
            });
            tracer.run(move |t| undo(t, pid));
            Err(e)
        }
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
