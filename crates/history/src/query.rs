//! Questions to the file, each on a connection of its own that cannot write.

use crate::day;
use crate::error::HistoryError;
use crate::store::whole;
use armento_client::api::{HISTORY_ROWS_MAX, HistoryBy, HistoryJob, HistoryQuery, HistoryRow};
use armento_model::{NodeName, TreeId};
use jiff::tz::TimeZone;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer questions are given up.
const LIMIT: Duration = Duration::from_secs(10);
/// Steps of SQLite's machine between two looks at the clock: about a millisecond.
const STEPS: i32 = 100_000;
const BUSY: Duration = Duration::from_secs(2);

/// What every row sums up.
const SUMS: &str = "coalesce(sum(CASE WHEN node = home THEN cpu_ms ELSE 0 END), 0),
    coalesce(sum(CASE WHEN node = home THEN 0 ELSE cpu_ms END), 0),
    coalesce(sum(moves), 0), coalesce(sum(pause_us), 0), coalesce(sum(move_bytes), 0),
    coalesce(sum(calls), 0), coalesce(sum(call_bytes), 0)";

/// The rows of `query`, and whether there are more. `uid`: of that user's jobs only, whatever the question says. A file
/// that is not there has none.
pub fn read(
    path: &Path,
    query: &HistoryQuery,
    uid: Option<u32>,
    zone: &TimeZone,
) -> Result<(Vec<HistoryRow>, bool), HistoryError> {
    if !path.exists() {
        return Ok((Vec::new(), false));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    let until = Instant::now() + LIMIT;
    db.progress_handler(STEPS, Some(move || Instant::now() > until))?;
    let limit = query.rows.clamp(1, HISTORY_ROWS_MAX);
    let asked = match query.by {
        HistoryBy::Job => jobs(&db, query, uid, zone, limit),
        _ => sums(&db, query, uid, zone, limit),
    };
    let slow = |e: &rusqlite::Error| {
        e.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
    };
    let mut rows = match asked {
        Err(e) if slow(&e) => return Err(HistoryError::Slow(LIMIT.as_secs())),
        asked => asked?,
    };
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    Ok((rows, more))
}

/// Conditions and their values.
#[derive(Default)]
struct Where {
    text: String,
    values: Vec<Value>,
}

impl Where {
    /// `condition` has one `?`.
    fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.text.push_str(" AND ");
        self.text.push_str(condition);
        self.values.push(value.into());
    }

    fn days(&mut self, query: &HistoryQuery, zone: &TimeZone) {
        if let Some(ms) = query.since_ms {
            self.and("day >= ?", day::of(ms, zone));
        }
        if let Some(ms) = query.until_ms {
            self.and("day <= ?", day::of(ms, zone));
        }
    }

    fn user(&mut self, query: &HistoryQuery, uid: Option<u32>) {
        // A user who asks for another's gets none.
        for uid in [uid, query.uid].into_iter().flatten() {
            self.and("uid = ?", i64::from(uid));
        }
    }

    fn node(&mut self, query: &HistoryQuery) {
        if let Some(node) = &query.node {
            let id = "node = (SELECT id FROM name WHERE text = ?)";
            self.and(id, node.as_str().to_owned());
        }
    }

    fn command(&mut self, query: &HistoryQuery) {
        if let Some(part) = &query.command {
            let ids = "program IN (SELECT id FROM name WHERE instr(text, ?))";
            self.and(ids, part.clone());
        }
    }
}

fn sums(
    db: &Connection,
    query: &HistoryQuery,
    uid: Option<u32>,
    zone: &TimeZone,
    limit: u32,
) -> Result<Vec<HistoryRow>, rusqlite::Error> {
    let (group, key, order) = match query.by {
        HistoryBy::User | HistoryBy::Job => ("uid", "uid", "sum(cpu_ms) DESC"),
        HistoryBy::Node => ("node", NAME_OF_NODE, "sum(cpu_ms) DESC"),
        HistoryBy::Command => ("program", NAME_OF_PROGRAM, "sum(cpu_ms) DESC"),
        HistoryBy::Day => ("day", "day", "day DESC"),
    };
    let mut which = Where::default();
    which.days(query, zone);
    which.user(query, uid);
    which.node(query);
    which.command(query);
    let text = format!(
        "SELECT {key}, count(DISTINCT job), {SUMS} FROM used WHERE 1 {}
         GROUP BY {group} ORDER BY {order}, {group} LIMIT {}",
        which.text,
        limit + 1
    );
    let mut ask = db.prepare(&text)?;
    let row = |r: &Row| {
        let mut row = row_of(r, 2)?;
        row.jobs = whole_of(r, 1)?;
        row.key = match (query.by, r.get(0)?) {
            (HistoryBy::Day, Value::Integer(day)) => day::shown(day),
            (_, Value::Integer(n)) => n.to_string(),
            (_, Value::Text(text)) => text,
            _ => String::new(),
        };
        Ok(row)
    };
    let rows = ask.query_map(params_from_iter(which.values), row)?;
    rows.collect()
}

const NAME_OF_NODE: &str = "(SELECT text FROM name WHERE id = node)";
const NAME_OF_PROGRAM: &str = "(SELECT text FROM name WHERE id = program)";

/// Job after job, the newest first: of each its own rows are summed up, so that the others are not read.
fn jobs(
    db: &Connection,
    query: &HistoryQuery,
    uid: Option<u32>,
    zone: &TimeZone,
    limit: u32,
) -> Result<Vec<HistoryRow>, rusqlite::Error> {
    let mut used = Where::default();
    used.days(query, zone);
    used.node(query);
    let mut which = Where::default();
    which.user(query, uid);
    which.command(query);
    if let Some(ms) = query.since_ms {
        which.and("(end_ms IS NULL OR end_ms >= ?)", whole(ms));
    }
    if let Some(ms) = query.until_ms {
        which.and("start_ms <= ?", whole(ms));
    }
    if query.node.is_some() {
        let on = format!(
            "EXISTS (SELECT 1 FROM used WHERE used.job = job.id {})",
            used.text
        );
        which.text.push_str(" AND ");
        which.text.push_str(&on);
        which.values.extend(used.values.clone());
    }
    let text = format!(
        "SELECT tree, uid, command, (SELECT text FROM name WHERE id = home), start_ms, end_ms, status,
            procs, id
         FROM job WHERE 1 {} ORDER BY id DESC LIMIT {}",
        which.text,
        limit + 1
    );
    let mut ask = db.prepare(&text)?;
    let found = ask.query_map(params_from_iter(which.values), job_of)?;
    let text = format!("SELECT {SUMS} FROM used WHERE job = ? {}", used.text);
    let mut sum = db.prepare(&text)?;
    let mut rows = Vec::new();
    for job in found {
        let (id, job) = job?;
        let values = std::iter::once(Value::Integer(id)).chain(used.values.clone());
        let mut row = sum.query_row(params_from_iter(values), |r| row_of(r, 0))?;
        row.jobs = 1;
        row.key = job.tree.to_string();
        row.job = Some(job);
        rows.push(row);
    }
    Ok(rows)
}

fn whole_of(r: &Row, i: usize) -> Result<u64, rusqlite::Error> {
    r.get::<_, i64>(i).map(|n| u64::try_from(n).unwrap_or(0))
}

/// The sums from column `at` on.
fn row_of(r: &Row, at: usize) -> Result<HistoryRow, rusqlite::Error> {
    let n = |i| whole_of(r, at + i);
    Ok(HistoryRow {
        home_cpu_ms: n(0)?,
        away_cpu_ms: n(1)?,
        moves: n(2)?,
        pause_us: n(3)?,
        move_bytes: n(4)?,
        calls: n(5)?,
        call_bytes: n(6)?,
        ..HistoryRow::default()
    })
}

fn job_of(r: &Row) -> Result<(i64, HistoryJob), rusqlite::Error> {
    let home: Option<String> = r.get(3)?;
    let home = home.and_then(|h| h.parse::<NodeName>().ok());
    let job = HistoryJob {
        tree: TreeId(r.get::<_, i64>(0)?.cast_unsigned()),
        uid: r.get(1)?,
        command: r.get(2)?,
        home: home.ok_or(rusqlite::Error::InvalidQuery)?,
        start_ms: whole_of(r, 4)?,
        end_ms: r.get::<_, Option<i64>>(5)?.map(i64::unsigned_abs),
        status: r.get(6)?,
        procs: whole_of(r, 7)?,
    };
    Ok((r.get(8)?, job))
}
