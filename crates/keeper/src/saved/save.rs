//! Writes a checkpoint file.
//!
//! ```text
//! look (while they run): what cannot be saved is refused before anything stops
//! copy memory (while they run) ─► stand still ─► rest of the memory, threads, descriptors ─► go on
//! write the file (while they run)
//! ```
//!
//! From: `keeper/src/daemon.rs` (an order). Next: `copies.rs`; then `write.rs`.

use super::copies::Copies;
use super::memory::{self, Sharing};
use super::refuse::{not_copied, refused};
use super::rights::has_plain_rights;
use super::write::{Taken, write};
use crate::state::Keep;
use armento_checkpoint::home::{Home, Options, Subject, Uncarried, capture};
use armento_client::api::{CheckpointOrder, Checkpointed, Refusal, Report};
use armento_migrate::MigrateError;
use armento_model::Pid;
use armento_tracee::status;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Most processes in one file.
const PROCESSES_MAX: usize = 1024;
/// Reasons that are printed; more are counted.
const REASONS_MAX: usize = 20;

/// Carries out an order and reports.
pub fn write_file(keep: &Arc<Keep>, ticket: u64, order: &CheckpointOrder) {
    keep.daemon.report(match save_file(keep, order) {
        Ok(done) => Report::Checkpointed { ticket, done },
        Err(no) => Report::NotCheckpointed {
            ticket,
            code: no.code,
            message: no.message,
            hint: no.hint,
        },
    });
}

/// Writes a file, if none is being written.
pub fn save_file(keep: &Arc<Keep>, order: &CheckpointOrder) -> Result<Checkpointed, Refusal> {
    let done = match keep.saving.swap(true, Ordering::AcqRel) {
        true => Err(refused(
            "busy",
            "another checkpoint of this tree is being written; nothing was written".into(),
            "try again when it is done",
        )),
        false => {
            let done = try_save(keep, order);
            keep.saving.store(false, Ordering::Release);
            done
        }
    };
    armento_tracee::sys::give_back();
    done
}

fn try_save(keep: &Arc<Keep>, order: &CheckpointOrder) -> Result<Checkpointed, Refusal> {
    let begun = Instant::now();
    let pids = with_descendants(&order.pids);
    if pids.len() > PROCESSES_MAX {
        let what = format!(
            "{} processes are too many for one file; nothing was written",
            pids.len()
        );
        return Err(refused("too-many", what, "name a part of the tree"));
    }
    can_be_written(order)?;
    for pid in &pids {
        has_plain_rights(*pid)?;
    }
    // What cannot be saved is named before anything is stopped.
    let home = look(&pids, order)?;
    let sharing = Sharing::of(&pids)?;
    sharing.is_inside(&pids, &home)?;
    let sharers = sharing.sharers(&pids);
    let turn = keep.move_locks.take_all(&pids);
    let turn = turn.map_err(|e| not_copied(pids.first().copied().unwrap_or(0), &e))?;
    let mut copies = Copies::new(keep);
    for pid in pids.iter().filter(|pid| !sharers.contains(pid)) {
        copies.add(*pid).map_err(|e| not_copied(*pid, &e))?;
    }
    let failed = |(pid, e): (Pid, MigrateError)| not_copied(pid, &e);
    copies.halt(&sharers).map_err(failed)?;
    // All of them stand still.
    let mut home = look(&pids, order)?;
    Sharing::of(&pids)?.is_inside(&pids, &home)?;
    let memory = memory::contents(&home)?;
    copies.copy_halted(&memory::open(&home)).map_err(failed)?;
    memory::note(&mut home, &copies.shared())?;
    for pid in &pids {
        has_plain_rights(*pid)?;
    }
    let files = home.copies_of_files().map_err(|e| {
        let what = format!("an open file cannot be copied: {e}; nothing was written");
        refused("not-copied", what, "leave --with-files away")
    })?;
    let (copied, pause) = copies.go_on().map_err(|e| not_copied(pids[0], &e))?;
    drop(turn);
    let taken = Taken {
        copied,
        files,
        memory,
    };
    let mut done = write(keep, home, taken, order)?;
    done.pause_us = pause.as_micros() as u64;
    done.total_us = begun.elapsed().as_micros() as u64;
    Ok(done)
}

/// As far as that can be seen before.
fn can_be_written(order: &CheckpointOrder) -> Result<(), Refusal> {
    let file = Path::new(&order.file);
    if !order.overwrite && file.exists() {
        let what = format!(
            "{} exists already; nothing was stopped or written",
            order.file
        );
        let hint = "name another file, or say --overwrite";
        return Err(refused("exists", what, hint));
    }
    let dir = file.parent().unwrap_or(Path::new("/"));
    if !dir.is_dir() {
        let what = format!(
            "there is no directory {}; nothing was stopped or written",
            dir.display()
        );
        return Err(refused(
            "no-directory",
            what,
            "make it, or name another file",
        ));
    }
    Ok(())
}

/// The processes and all that descend from them; a parent before its children.
pub fn with_descendants(named: &[Pid]) -> Vec<Pid> {
    let mut all: Vec<Pid> = Vec::new();
    let mut next: Vec<Pid> = named.to_vec();
    while let Some(pid) = next.pop() {
        if !all.contains(&pid) && all.len() <= PROCESSES_MAX {
            all.push(pid);
            next.extend(status::children(pid));
        }
    }
    all
}

fn look(pids: &[Pid], order: &CheckpointOrder) -> Result<Home, Refusal> {
    let subjects: Result<Vec<Subject>, Refusal> = pids
        .iter()
        .map(|pid| {
            Subject::of(*pid).map_err(|e| {
                let what = format!("process {pid} cannot be looked at: {e}; nothing was written");
                refused("gone", what, "`armento ps` shows what lives")
            })
        })
        .collect();
    let options = Options {
        with_files: order.with_files,
        besides: vec![std::process::id() as Pid],
    };
    capture(&subjects?, &options).map_err(|all| cannot(&all))
}

fn cannot(all: &[Uncarried]) -> Refusal {
    let mut lines: Vec<String> = all
        .iter()
        .take(REASONS_MAX)
        .map(ToString::to_string)
        .collect();
    if all.len() > REASONS_MAX {
        lines.push(format!("and {} more", all.len() - REASONS_MAX));
    }
    let message = format!(
        "a checkpoint cannot hold this; no file was written, and all go on:\n  {}",
        lines.join("\n  ")
    );
    refused(
        "cannot-be-saved",
        message,
        "docs/manual/checkpoint.md says what a checkpoint holds",
    )
}
