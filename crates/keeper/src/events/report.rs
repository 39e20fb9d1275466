//! What the daemon is told of the processes of the tree.
//!
//! From: `keeper/src/daemon.rs`. Next: `client/src/api.rs`.

use crate::lifecycle::{note_calls, scan_children};
use crate::sockets::busy_connections;
use crate::state::{Lease, Process, Tree};
use crate::sys;
use armento_client::api::{JobUse, ProcInfo, SafeInfo};
use armento_model::{FileRates, NodeName};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The processes that the daemon is told of. A program that has not been placed yet is left out: two dozen of them at
/// an instant would make home look too full for any.
pub fn report_processes(t: &mut Tree) -> (Vec<ProcInfo>, Option<JobUse>) {
    scan_children(t);
    let here = t.keep.settings.node.clone();
    let (tree, uid) = (t.keep.settings.tree, t.keep.settings.hello.uid);
    let mut all = Vec::new();
    let mut used = Vec::new();
    let placed = |p: &&mut Process| !p.is_at_exec() && !p.is_before_exec();
    for p in t.procs.values_mut().filter(placed) {
        p.usage.refresh(!p.is_away());
        let place: NodeName = p.link().map_or_else(|| here.clone(), |l| l.node.clone());
        note_calls(p, &place);
        used.push(p.usage.by_node(&here));
        let lost = p.link().and_then(|l| l.lost());
        all.push(ProcInfo {
            pid: p.pid,
            ppid: p.usage.ppid,
            tree,
            uid,
            home: here.clone(),
            place,
            command: p.usage.command.clone(),
            cpu_ms: p.usage.cpu_ms(),
            away_cpu_ms: p.usage.away_ms(),
            rss_kib: p.usage.rss_kib,
            threads: match p.away() {
                Some(a) => a.deputies().len() as u32,
                None => p.usage.threads,
            },
            busy_percent: p.usage.busy_percent,
            moves: p.moves(),
            forwarded: p.common.calls.load(Ordering::Relaxed),
            bytes_sent: p.common.bytes_sent.load(Ordering::Relaxed),
            bytes_received: p.common.bytes_received.load(Ordering::Relaxed),
            files: p.usage.files(),
            rates: FileRates::default(),
            messages: p.usage.messages(),
            stay: p.stay_reason().map(|k| k.stay),
            detail: p
                .stay_reason()
                .map_or_else(String::new, |k| k.detail.clone()),
            partner: p.stay_reason().and_then(|k| k.partner),
            locked: p.pins.any() || p.held_after_call(),
            lost_ms: lost.map(|t| t.as_millis() as u64),
            frozen: p.link().zip(lost).is_some_and(|(l, t)| l.freezes(t)),
            portable: t.keep.is_portable(p.pid),
            age_ms: p.age().as_millis() as u64,
            last_exec: p.usage.last_exec.clone(),
            safe: safe_info(p, t.keep.lease.kept(Lease::now())),
            connections: p.away().and_then(|_| busy_connections(&t.keep, p.pid)),
            stopped: match p.away() {
                Some(away) => away.is_stopped(),
                None => p.usage.stopped,
            },
            nice: sys::nice(p.pid).unwrap_or(0),
            moving: t.keep.transfers.of(p.pid),
        });
    }
    t.unseen = all.is_empty();
    let used = t.keep.job.report(used, &here, false);
    (all, used)
}

fn safe_info(p: &Process, kept: Option<(NodeName, Duration)>) -> Option<SafeInfo> {
    let safe = p.safe.as_ref()?;
    let size = safe.record.size();
    Some(SafeInfo {
        age_ms: safe.age().map(|a| a.as_millis() as u64),
        kept_kib: safe.bytes() >> 10,
        pause_us: safe.pause.as_micros() as u64,
        calls: size.calls,
        bytes: size.bytes as u64,
        replays: p.replays(),
        unsafe_now: safe.recoverable().err().filter(|_| p.is_away()),
        kept_age_ms: kept.as_ref().map_or(0, |(_, age)| age.as_millis() as u64),
        kept_at: kept.map(|(node, _)| node),
    })
}
