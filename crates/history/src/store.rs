//! The file: opened, written, kept within its bounds, put aside when it is damaged.

use crate::error::HistoryError;
use crate::jobs::{Job, Uses};
use crate::schema;
use armento_client::api::NodeUse;
use armento_model::{NodeName, TreeId};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// SQLite's own default.
const PAGE: u64 = 4096;
/// A reader holds no lock that a writer waits for; this is for `sqlite3` in somebody's terminal.
const BUSY: Duration = Duration::from_secs(2);
/// Of its pages the daemon keeps so many KiB in memory.
const CACHE_KIB: i64 = 1024;
/// The log of writes is cut to this size, bytes.
const LOG_MAX: i64 = 4 << 20;
/// When it is fuller than this, its oldest jobs go, until it is emptier than that, thousandths of the bound.
const FULL_PERMILLE: u64 = 950;
const ROOMY_PERMILLE: u64 = 850;
/// Names that are kept in memory.
const NAMES_MAX: usize = 4096;

/// The history, open for writing. One at a time.
pub struct Store {
    db: Connection,
    bytes_max: u64,
    names: HashMap<String, i64>,
}

/// Where a damaged file is kept: the last one only.
pub fn aside(path: &Path) -> PathBuf {
    path.with_extension("damaged.db")
}

/// SQLite's files beside the one of that name.
fn companions(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        name.into()
    })
}

impl Store {
    /// Opens the file, or begins it, for its owner alone. `bytes_max`: of the file.
    pub fn open(path: &Path, bytes_max: u64) -> Result<Store, HistoryError> {
        let failed = |why| HistoryError::File {
            path: path.to_owned(),
            why,
        };
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let mut db = Connection::open(path)?;
        db.busy_timeout(BUSY)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "cache_size", -CACHE_KIB)?;
        db.pragma_update(None, "journal_size_limit", LOG_MAX)?;
        db.pragma_update(None, "max_page_count", whole(bytes_max.div_ceil(PAGE)))?;
        let said: String = db.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
        if said != "ok" {
            let what = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(HistoryError::Damaged(rusqlite::Error::SqliteFailure(
                what,
                Some(said),
            )));
        }
        schema::migrate(&mut db, path)?;
        Ok(Store {
            db,
            bytes_max,
            names: HashMap::new(),
        })
    }

    /// Moves a damaged file out of the way, with what belongs to it; an earlier one goes.
    pub fn put_aside(path: &Path) -> Result<PathBuf, HistoryError> {
        let to = aside(path);
        std::fs::rename(path, &to).map_err(|why| HistoryError::File {
            path: path.to_owned(),
            why,
        })?;
        for (from, to) in companions(path).iter().zip(companions(&to)) {
            // Often there is none; one that was left would be taken for the new file's.
            if std::fs::rename(from, to).is_err() {
                let _ = std::fs::remove_file(from);
            }
        }
        Ok(to)
    }

    /// Writes what is new of these jobs, for `day`; returns the row of each. All or nothing.
    pub fn write(
        &mut self,
        home: &NodeName,
        day: i64,
        jobs: &[(TreeId, Job)],
    ) -> Result<Vec<i64>, HistoryError> {
        // Names that a write that fails has made are not there afterwards.
        let before = self.names.clone();
        let rows = self.write_all(home, day, jobs);
        if rows.is_err() {
            self.names = before;
        }
        rows
    }

    fn write_all(
        &mut self,
        home: &NodeName,
        day: i64,
        jobs: &[(TreeId, Job)],
    ) -> Result<Vec<i64>, HistoryError> {
        let t = self.db.transaction()?;
        let mut rows = Vec::with_capacity(jobs.len());
        for (tree, job) in jobs {
            let home_id = name_id(&t, &mut self.names, home.as_str())?;
            let program = name_id(&t, &mut self.names, program_of(&job.command))?;
            let known = match job.row {
                Some(row) => Some(row),
                None if job.fresh => None,
                // Of the daemon before this one.
                None => running(&t, *tree)?,
            };
            let counted = match (job.row, known) {
                (None, Some(row)) => counted(&t, row)?,
                // Some of it may have been counted in a row that has ended.
                (None, None) if !job.fresh => job.total.clone(),
                _ => job.counted.clone(),
            };
            let row = match known {
                Some(row) => {
                    t.prepare_cached(
                        "UPDATE job SET end_ms = ?2, status = ?3, procs = ?4 WHERE id = ?1",
                    )?
                    .execute(params![
                        row,
                        whole_opt(job.end_ms),
                        job.status,
                        whole(job.procs)
                    ])?;
                    row
                }
                None => {
                    t.prepare_cached(
                        "INSERT INTO job (tree, uid, program, command, home, start_ms, end_ms, status, procs)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    )?
                    .execute(params![
                        tree.0.cast_signed(),
                        job.uid,
                        program,
                        job.command,
                        home_id,
                        whole(job.start_ms),
                        whole_opt(job.end_ms),
                        job.status,
                        whole(job.procs)
                    ])?;
                    t.last_insert_rowid()
                }
            };
            let mut news: Vec<(i64, NodeUse)> = Vec::new();
            if known.is_none() {
                // So that a job without any use counts, too.
                news.push((home_id, NodeUse::default()));
            }
            for (node, total) in &job.total {
                let new = total.since(counted.get(node).unwrap_or(&NodeUse::default()));
                if !new.is_nothing() {
                    news.push((name_id(&t, &mut self.names, node.as_str())?, new));
                }
            }
            for (node, new) in news {
                t.prepare_cached(
                    "INSERT INTO used VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                     ON CONFLICT DO UPDATE SET cpu_ms = cpu_ms + excluded.cpu_ms,
                        moves = moves + excluded.moves, pause_us = pause_us + excluded.pause_us,
                        move_bytes = move_bytes + excluded.move_bytes,
                        calls = calls + excluded.calls, call_bytes = call_bytes + excluded.call_bytes",
                )?
                .execute(params![
                    day,
                    row,
                    node,
                    job.uid,
                    program,
                    home_id,
                    whole(new.cpu_ms),
                    whole(new.moves),
                    whole(new.pause_us),
                    whole(new.move_bytes),
                    whole(new.calls),
                    whole(new.call_bytes)
                ])?;
            }
            rows.push(row);
        }
        t.commit()?;
        Ok(rows)
    }

    /// Jobs that run by the file, but are none of `rows`, ended while no daemon saw it.
    pub fn end_unseen(&mut self, rows: &[i64], at_ms: u64) -> Result<(), HistoryError> {
        let open: Vec<i64> = self
            .db
            .prepare("SELECT id FROM job WHERE end_ms IS NULL")?
            .query_map([], |r| r.get(0))?
            .collect::<Result<_, _>>()?;
        let t = self.db.transaction()?;
        for row in open.iter().filter(|id| !rows.contains(id)) {
            t.prepare_cached("UPDATE job SET end_ms = max(start_ms, ?2) WHERE id = ?1")?
                .execute(params![row, whole(at_ms)])?;
        }
        t.commit()?;
        Ok(())
    }

    /// Forgets days before `oldest_day` (which began at `oldest_ms`), and the oldest jobs while the file is too full.
    pub fn prune(&mut self, oldest_day: i64, oldest_ms: u64) -> Result<(), HistoryError> {
        let old = self
            .db
            .execute("DELETE FROM used WHERE day < ?1", [oldest_day])?;
        let jobs = self
            .db
            .execute("DELETE FROM job WHERE end_ms < ?1", [whole(oldest_ms)])?;
        let mut gone = old + jobs;
        if self.bytes()? * 1000 > self.bytes_max * FULL_PERMILLE {
            gone += 1;
            self.make_room()?;
        }
        if gone > 0 {
            self.db.execute(
                "DELETE FROM name WHERE id NOT IN (SELECT program FROM job UNION SELECT home FROM job
                 UNION SELECT node FROM used UNION SELECT program FROM used UNION SELECT home FROM used)",
                [],
            )?;
            self.names.clear();
        }
        Ok(())
    }

    /// The oldest jobs that have ended go, until there is room again.
    pub fn make_room(&mut self) -> Result<(), HistoryError> {
        while self.bytes()? * 1000 > self.bytes_max * ROOMY_PERMILLE {
            let (first, last): (Option<i64>, Option<i64>) = self.db.query_row(
                "SELECT min(id), max(id) FROM job WHERE end_ms IS NOT NULL",
                [],
                |r| Ok((r.get(0)?, r.get(1)?)),
            )?;
            let Some((first, last)) = first.zip(last) else {
                return Ok(());
            };
            let until = first + (last - first) / 20;
            let t = self.db.transaction()?;
            t.execute(
                "DELETE FROM used WHERE job IN
                    (SELECT id FROM job WHERE id <= ?1 AND end_ms IS NOT NULL)",
                [until],
            )?;
            t.execute(
                "DELETE FROM job WHERE id <= ?1 AND end_ms IS NOT NULL",
                [until],
            )?;
            t.commit()?;
        }
        Ok(())
    }

    /// What the file holds, bytes; pages that are free are not counted.
    pub fn bytes(&self) -> Result<u64, HistoryError> {
        let get = |what| -> Result<u64, rusqlite::Error> {
            let pages: i64 = self.db.query_row(what, [], |r| r.get(0))?;
            Ok(pages.unsigned_abs() * PAGE)
        };
        Ok(get("PRAGMA page_count")?.saturating_sub(get("PRAGMA freelist_count")?))
    }
}

/// SQLite's integers are signed.
pub fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn whole_opt(n: Option<u64>) -> Option<i64> {
    n.map(whole)
}

/// The name of the program of a command line: its first word, without the directory.
fn program_of(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or("");
    first.rsplit('/').next().unwrap_or(first)
}

fn name_id(
    db: &Connection,
    names: &mut HashMap<String, i64>,
    text: &str,
) -> Result<i64, rusqlite::Error> {
    if let Some(id) = names.get(text) {
        return Ok(*id);
    }
    let known = db
        .prepare_cached("SELECT id FROM name WHERE text = ?1")?
        .query_row([text], |r| r.get(0))
        .optional()?;
    let id = match known {
        Some(id) => id,
        None => {
            db.prepare_cached("INSERT INTO name (text) VALUES (?1)")?
                .execute([text])?;
            db.last_insert_rowid()
        }
    };
    if names.len() >= NAMES_MAX {
        names.clear();
    }
    names.insert(text.to_owned(), id);
    Ok(id)
}

/// The row of a job that runs by the file.
fn running(db: &Connection, tree: TreeId) -> Result<Option<i64>, rusqlite::Error> {
    db.prepare_cached("SELECT max(id) FROM job WHERE tree = ?1 AND end_ms IS NULL")?
        .query_row([tree.0.cast_signed()], |r| r.get(0))
}

/// What is written of a job, by node.
fn counted(db: &Connection, row: i64) -> Result<Uses, rusqlite::Error> {
    let mut ask = db.prepare_cached(
        "SELECT name.text, sum(cpu_ms), sum(moves), sum(pause_us), sum(move_bytes), sum(calls),
            sum(call_bytes)
         FROM used JOIN name ON name.id = used.node WHERE job = ?1 GROUP BY node",
    )?;
    let rows = ask.query_map([row], |r| {
        let n = |i| r.get::<_, i64>(i).map(i64::unsigned_abs);
        let used = NodeUse {
            cpu_ms: n(1)?,
            moves: n(2)?,
            pause_us: n(3)?,
            move_bytes: n(4)?,
            calls: n(5)?,
            call_bytes: n(6)?,
        };
        Ok((r.get::<_, String>(0)?, used))
    })?;
    let mut all = Uses::new();
    for row in rows {
        let (node, used) = row?;
        if let Ok(node) = node.parse() {
            all.insert(node, used);
        }
    }
    Ok(all)
}
