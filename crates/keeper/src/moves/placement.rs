//! A fresh image stands at its exec: where it is to run.
//!
//! From: `run.rs`. Next: `move_process.rs`.

use super::move_process::{is_at_exec, move_now};
use super::{refusal, storm};
use crate::hosts::{dial_spare, early_connection};
use crate::state::{Keep, Loaded, Process, Tree};
use crate::sync::lock;
use crate::traced::{let_go, run_until_entry};
use armento_client::AskError;
use armento_client::api::{Answer, Ask, Dest, Report};
use armento_model::{NodeName, Pid};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A daemon that does not answer a placement in time leaves the program at home. Longer than a program waits
/// there for its turn (`noded/src/keepers/launch_queue.rs`).
const PLACE_MAX: Duration = Duration::from_secs(11);

/// The programs that begin after it wait no longer than this, until one has an answer: a daemon that hangs must not
/// hold up each exec of a `make`.
const PLACE_LATE: Duration = Duration::from_millis(250);

/// Places a fresh image that stands at its exec stop, or lets it go at home.
pub fn place_at_exec(keep: &Arc<Keep>, pid: Pid) {
    // A move of the image before it notices soon that it is no more.
    let mut turn = keep.move_locks.take(pid);
    if !is_at_exec(keep, pid) {
        return;
    }
    let node = choose(keep, pid);
    let node = node.filter(|n| *n != keep.settings.node);
    if let (Some(node), Ok(turn)) = (node, &mut turn) {
        if let Some(e) = early_connection(keep, &node) {
            lock(&keep.early_connections).insert(pid, e);
        }
        if run_until_entry(keep, pid) == Loaded::Gone {
            lock(&keep.early_connections).remove(&pid);
            keep.daemon.report(Report::Placed { pid });
            return;
        }
        let to = Dest::Node(node.clone());
        let waits = move |t: &mut Tree| t.awaits_named_node(pid);
        let gone = match keep.tracer.run(waits) {
            Some(true) => refusal::while_links_break(|| move_now(keep, turn, pid, &to, false)),
            _ => move_now(keep, turn, pid, &to, false),
        };
        lock(&keep.early_connections).remove(&pid);
        keep.daemon.report(Report::Placed { pid });
        match gone {
            Ok(_) => return dial_spare(keep, &node),
            Err(e) => {
                eprintln!("placement of {pid}: {e}");
                if keep.settings.pinned.is_some() {
                    keep.tracer.run(move |t| refusal::after(t, pid, &node, &e));
                }
            }
        }
    }
    keep.tracer.run(move |t| {
        if t.procs.get(&pid).is_some_and(Process::is_at_exec) {
            let_go(t, pid);
        }
    });
}

fn choose(keep: &Keep, pid: Pid) -> Option<NodeName> {
    let s = &keep.settings;
    if pid == s.root && s.hello.begins_here && s.storm.is_none() {
        return s.pinned.clone();
    }
    if let Some(calls) = keep.storm_call.as_ref().filter(|_| !s.stay) {
        return calls.start(|| storm::nodes(keep));
    }
    if s.pinned.is_some() || s.stay || s.storm.is_some() {
        return s.pinned.clone().filter(|_| !s.stay);
    }
    let program = move |t: &mut Tree| {
        let usage = &t.procs.get(&pid)?.usage;
        Some((usage.program()?.to_owned(), usage.ppid))
    };
    let (program, parent) = keep.tracer.run(program).flatten().unwrap_or_default();
    let ask = Ask::Place {
        tree: s.tree,
        pid,
        command: armento_tracee::status::command(pid),
        portable: keep.is_portable(pid),
        program,
        parent,
        waiting: keep.placements().len() as u32,
        ran: keep.ran.take(),
    };
    let limit = match keep.placement_late.load(Ordering::Relaxed) {
        true => PLACE_LATE,
        false => PLACE_MAX,
    };
    let answer = keep.daemon.ask(ask, limit);
    let late = matches!(answer, Err(AskError::Late));
    keep.placement_late.store(late, Ordering::Relaxed);
    match answer {
        Ok(Answer::Placed { node }) => node,
        _ => None,
    }
}
