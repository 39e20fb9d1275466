//! The tables, their version, and the steps from each version to the next.
//!
//! ```text
//! name  id text                                nodes and programs: each text once
//! job   id tree uid program command home       one `armento run`, or a process that was moved by hand
//!       start_ms end_ms status procs           end_ms NULL: it runs
//! used  day job node | cpu_ms moves pause_us …  what a job used on a node on a day
//!       uid program home                       of the job, repeated: a day is one range of this table
//! ```

use crate::error::HistoryError;
use rusqlite::Connection;
use std::path::Path;

/// `STEPS[n]` leads from version n to n+1. Never change a step that was released: add one.
const STEPS: [&str; 1] = ["
CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    tree INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    program INTEGER NOT NULL,
    command TEXT NOT NULL,
    home INTEGER NOT NULL,
    start_ms INTEGER NOT NULL,
    end_ms INTEGER,
    status INTEGER,
    procs INTEGER NOT NULL
);
CREATE INDEX job_runs ON job (tree) WHERE end_ms IS NULL;
CREATE TABLE used (
    day INTEGER NOT NULL,
    job INTEGER NOT NULL,
    node INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    program INTEGER NOT NULL,
    home INTEGER NOT NULL,
    cpu_ms INTEGER NOT NULL,
    moves INTEGER NOT NULL,
    pause_us INTEGER NOT NULL,
    move_bytes INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    call_bytes INTEGER NOT NULL,
    PRIMARY KEY (day, job, node)
) WITHOUT ROWID;
CREATE INDEX used_job ON used (job);
"];
pub const VERSION: i64 = STEPS.len() as i64;

/// Brings the file to this version. After an error it is as it was.
pub fn migrate(db: &mut Connection, path: &Path) -> Result<(), HistoryError> {
    let found: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if found > VERSION {
        return Err(HistoryError::Later {
            path: path.to_owned(),
            found,
            known: VERSION,
        });
    }
    let from = usize::try_from(found).unwrap_or(0);
    if from == STEPS.len() {
        return Ok(());
    }
    let step = db.transaction()?;
    for text in &STEPS[from..] {
        step.execute_batch(text)?;
    }
    step.pragma_update(None, "user_version", VERSION)?;
    step.commit()?;
    Ok(())
}
