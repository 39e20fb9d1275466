//! What is in a checkpoint, for people and for scripts.

use super::error::Result;
use super::header::{Header, Totals};
use super::reader::Reader;
use crate::home::{Home, Process, changed};
use armento_model::Pid;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Inspect {
    pub header: Header,
    pub processes: Vec<Inspected>,
    pub totals: Totals,
    /// Memory of all processes.
    pub memory_bytes: u64,
    /// Memory that is stored: without zeros, equal pages once.
    pub distinct_bytes: u64,
    /// Of the checkpoint.
    pub file_bytes: u64,
    /// Files that are no longer as they were, as sentences.
    pub changed: Vec<String>,
}

/// One process of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Inspected {
    pub pid: Pid,
    pub parent: Option<Pid>,
    pub command: String,
    pub program: String,
    pub directory: String,
    pub memory_bytes: u64,
    /// "3: /home/u/data, at byte 4096".
    pub descriptors: Vec<String>,
}

/// Reads a checkpoint and compares its files with those of now.
pub fn inspect(path: &Path) -> Result<Inspect> {
    let reader = Reader::open(path)?;
    let home = reader.home();
    let one = |p: &Process| -> Result<Inspected> {
        let mut memory_bytes = 0;
        reader.runs(p.pid, &mut |run| -> Result<()> {
            memory_bytes = run.bytes().saturating_add(memory_bytes);
            Ok(())
        })?;
        Ok(Inspected {
            pid: p.pid,
            parent: p.parent.and(Some(p.ppid)),
            command: p.command(),
            program: p.exe.path.to_string(),
            directory: p.cwd.to_string(),
            memory_bytes,
            descriptors: descriptors(home, p),
        })
    };
    let processes: Vec<Inspected> = home.processes.iter().map(one).collect::<Result<_>>()?;
    Ok(Inspect {
        header: reader.header().clone(),
        memory_bytes: processes
            .iter()
            .fold(0, |sum: u64, p| sum.saturating_add(p.memory_bytes)),
        processes,
        totals: *reader.totals(),
        distinct_bytes: reader
            .totals()
            .distinct_pages
            .saturating_mul(super::PAGE as u64),
        file_bytes: reader.bytes(),
        changed: changed(home),
    })
}

fn descriptors(home: &Home, p: &Process) -> Vec<String> {
    let line = |d: &crate::home::Descriptor| {
        let what = home.descriptions.get(d.description as usize)?;
        Some(format!("{}: {what}", d.fd))
    };
    p.descriptors.iter().filter_map(line).collect()
}
