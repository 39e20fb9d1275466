//! A history of a million jobs: questions about a day, and about all of it.

use crate::row::{Bar, Row, Samples, Table};
use crate::stage::Stage;
use anyhow::{Context, Result};
use armento_client::api::{HistoryBy, HistoryQuery, JobUse, NodeUse};
use armento_history::{Began, Jobs, Store, TimeZone, read};
use armento_model::{NodeName, TreeId};
use std::path::PathBuf;
use std::time::Instant;

const JOBS: u64 = 1_000_000;
const DAYS: u64 = 400;
const BATCH: u64 = 2_500;
const DAY_MS: u64 = 86_400_000;
/// The first day, since 1970.
const FIRST: u64 = 20_000;
/// Room for all of them: what is measured is reading.
const BYTES_MAX: u64 = 1 << 30;
const BAR: Bar = Bar::AtMost(1000.0);

/// Gone with the bench.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn run(stage: &Stage, table: &mut Table) -> Result<()> {
    let dir =
        Dir(std::env::temp_dir().join(format!("armento-bench-history-{}", std::process::id())));
    std::fs::create_dir_all(&dir.0).context("no directory for the history")?;
    let file = dir.0.join("history.db");
    let count = if stage.quick { JOBS / 20 } else { JOBS };
    let begun = Instant::now();
    fill(&file, count)?;
    let filled = begun.elapsed();
    let mib = std::fs::metadata(&file)?.len() >> 20;
    let day = FIRST + DAYS / 2;
    let of_day = |by| HistoryQuery {
        by,
        since_ms: Some(day * DAY_MS),
        until_ms: Some((day + 1) * DAY_MS - 1),
        rows: 1000,
        ..HistoryQuery::default()
    };
    let all = HistoryQuery {
        by: HistoryBy::User,
        rows: 1000,
        ..HistoryQuery::default()
    };
    let cases = [
        ("a day by user", of_day(HistoryBy::User), Some(BAR)),
        ("a day by node", of_day(HistoryBy::Node), Some(BAR)),
        ("a day's jobs", of_day(HistoryBy::Job), Some(BAR)),
        ("400 days by user", all, None),
    ];
    for (what, query, bar) in cases {
        let mut values = Vec::new();
        for _ in 0..stage.rounds(9, 3) {
            let begun = Instant::now();
            let (rows, _) = read(&file, &query, None, &TimeZone::UTC)?;
            values.push(begun.elapsed().as_secs_f64() * 1e3);
            anyhow::ensure!(!rows.is_empty(), "{what}: no row");
        }
        let samples = Samples {
            what: "answered in".into(),
            unit: "ms",
            values,
        };
        let row = Row::alone("history", format!("{count} jobs: {what}"), samples);
        let noted = format!("{mib} MiB, written in {:.0} s", filled.as_secs_f64());
        let row = row.noted(&noted);
        table.push(match bar {
            Some(bar) => row.barred(bar),
            None => row,
        });
    }
    Ok(())
}

/// Jobs of 30 users and 200 programs, each on two of 40 nodes.
fn fill(file: &std::path::Path, count: u64) -> Result<()> {
    let name = |n: u64| format!("n{n}").parse::<NodeName>();
    let home = name(0)?;
    let mut store = Store::open(file, BYTES_MAX)?;
    for first in (0..count).step_by(BATCH as usize) {
        let day = FIRST + first * DAYS / count;
        let mut jobs = Jobs::default();
        for n in first..(first + BATCH).min(count) {
            let tree = TreeId(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let began = Began {
                tree,
                uid: 1000 + (n % 30) as u32,
                command: format!("/usr/bin/program{} --input file{n}.dat --level 3", n % 200),
                fresh: true,
            };
            jobs.began(&began, day * DAY_MS + n % DAY_MS);
            let used = NodeUse {
                cpu_ms: n % 10_000,
                moves: 1,
                ..NodeUse::default()
            };
            let said = JobUse {
                nodes: vec![(home.clone(), used), (name(n % 40 + 1)?, used)],
                procs: 1,
                status: Some(0),
            };
            jobs.used(tree, said);
            jobs.ended(tree, day * DAY_MS + n % DAY_MS + 10_000);
        }
        store.write(&home, day as i64, &jobs.unwritten(BATCH as usize))?;
    }
    Ok(())
}
