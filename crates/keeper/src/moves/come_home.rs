//! A process that must come home: for a call that only home can serve, or because another observes it.
//!
//! From: `run.rs`. Next: `move_process.rs`.

use super::move_process::{move_process, place};
use super::outcome::MoveCost;
use super::storm;
use crate::calls::make_call;
use crate::deputy::AGAIN;
use crate::state::{Keep, Place, StayReason};
use armento_client::api::{Dest, Report};
use armento_migrate::MigrateError;
use armento_model::{NodeName, Pid, Stay};
use std::sync::Arc;
use std::time::Duration;

/// How often a busy process is tried again when it must come home.
pub const TRY_AGAIN: u32 = 200;

/// How often when another process only observes it, and waits.
const TRY_OBSERVED: u32 = 50;

/// A body waits for a call that only home can serve: it must come, however busy it is. True: it did, or ended.
pub fn come_home(keep: &Arc<Keep>, pid: Pid, kept: &StayReason, tries: u32) -> bool {
    let storm = storm::hold(keep);
    eprintln!("process {pid} comes home: {}", kept.detail);
    let from = place(keep, pid).ok().and_then(|(place, _)| match place {
        Place::Away(link) => Some(link.node.clone()),
        Place::Home => None,
    });
    for _ in 0..tries {
        match move_process(keep, pid, &Dest::Home, false) {
            Ok((_, done)) => {
                if let Some(from) = from {
                    keep.daemon.report(came_home(pid, from, kept.stay, &done));
                }
                let kept = kept.clone();
                keep.tracer.run(move |t| t.hold_home(pid, kept, storm));
                return true;
            }
            Err(MigrateError::Ended) => return true,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    eprintln!("process {pid} cannot come home for {}", kept.detail);
    false
}

fn came_home(pid: Pid, from: NodeName, stay: Stay, done: &MoveCost) -> Report {
    Report::CameHome {
        pid,
        from,
        stay,
        pause_us: done.pause.as_micros() as u64,
        total_us: done.total.as_micros() as u64,
        bytes: done.bytes,
    }
}

/// What others of its tree are to see of a process is its body's.
pub fn come_home_observed(keep: &Arc<Keep>, pid: Pid, by: Pid) {
    let why = format!("process {by} looks at it in /proc");
    let kept = StayReason::new(Stay::ProcSelfOpen, &why).with(Some(by));
    let home = come_home(keep, pid, &kept, TRY_OBSERVED);
    for h in keep.held_opens.take_for(pid) {
        match home {
            // Issued again, they find it at home, or ended.
            true => h.by.link().reply(h.by.tid, h.call.seq, AGAIN, &[]),
            // It cannot come: they show what there is.
            false => make_call(keep, h.by, h.call),
        }
    }
}
