//! Answers of several homes become one.

use armento_client::api::{HISTORY_ROWS_MAX, HistoryBy, HistoryRow};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The rows of all homes in the order of one home's answer ([`crate::read`]), and whether some were left out. Rows with one key
/// are summed up; jobs are of one home each.
pub fn merge_answers(
    by: HistoryBy,
    answers: Vec<Vec<HistoryRow>>,
    limit: u32,
) -> (Vec<HistoryRow>, bool) {
    let all = answers.into_iter().flatten();
    let mut rows: Vec<HistoryRow> = match by {
        HistoryBy::Job => all.collect(),
        _ => {
            let mut sums = BTreeMap::<String, HistoryRow>::new();
            for row in all {
                match sums.get_mut(&row.key) {
                    Some(sum) => add(sum, &row),
                    None => drop(sums.insert(row.key.clone(), row)),
                }
            }
            sums.into_values().collect()
        }
    };
    let cpu_ms = |r: &HistoryRow| r.home_cpu_ms.saturating_add(r.away_cpu_ms);
    let start_ms = |r: &HistoryRow| r.job.as_ref().map_or(0, |j| j.start_ms);
    match by {
        HistoryBy::Job => rows.sort_by_key(|r| Reverse(start_ms(r))),
        // As text they are in order.
        HistoryBy::Day => rows.sort_by(|a, b| b.key.cmp(&a.key)),
        HistoryBy::User | HistoryBy::Node | HistoryBy::Command => {
            rows.sort_by_key(|r| Reverse(cpu_ms(r)))
        }
    }
    let limit = limit.clamp(1, HISTORY_ROWS_MAX) as usize;
    let more = rows.len() > limit;
    rows.truncate(limit);
    (rows, more)
}

/// Other nodes count: no sum of their numbers may overflow.
fn add(sum: &mut HistoryRow, row: &HistoryRow) {
    let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
    add(&mut sum.jobs, row.jobs);
    add(&mut sum.home_cpu_ms, row.home_cpu_ms);
    add(&mut sum.away_cpu_ms, row.away_cpu_ms);
    add(&mut sum.moves, row.moves);
    add(&mut sum.pause_us, row.pause_us);
    add(&mut sum.move_bytes, row.move_bytes);
    add(&mut sum.calls, row.calls);
    add(&mut sum.call_bytes, row.call_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_client::api::HistoryJob;
    use armento_model::TreeId;

    fn row(key: &str, cpu_ms: u64) -> HistoryRow {
        HistoryRow {
            key: key.into(),
            jobs: 1,
            home_cpu_ms: cpu_ms,
            moves: u64::MAX - 1,
            ..HistoryRow::default()
        }
    }

    fn job(home: &str, start_ms: u64) -> HistoryRow {
        HistoryRow {
            job: Some(HistoryJob {
                tree: TreeId(7),
                uid: 1,
                command: "cc1".into(),
                home: home.parse().expect("name"),
                start_ms,
                end_ms: None,
                status: None,
                procs: 1,
            }),
            ..row("7", 1)
        }
    }

    #[test]
    fn rows_of_one_key_are_summed_up_the_largest_first() {
        let answers = vec![
            vec![row("cc1", 5), row("lame", 4)],
            vec![row("lame", 3), row("sh", 1)],
        ];
        let (rows, more) = merge_answers(HistoryBy::Command, answers.clone(), 2);
        let said: Vec<_> = rows
            .iter()
            .map(|r| (&*r.key, r.jobs, r.home_cpu_ms))
            .collect();
        assert_eq!(said, [("lame", 2, 7), ("cc1", 1, 5)]);
        assert!(more && rows[0].moves == u64::MAX);
        assert!(!merge_answers(HistoryBy::Command, answers, 3).1);
    }

    #[test]
    fn jobs_of_two_homes_stay_two_the_newest_first() {
        let (rows, more) = merge_answers(
            HistoryBy::Job,
            vec![vec![job("n1", 5)], vec![job("n2", 9)]],
            30,
        );
        let homes: Vec<_> = rows
            .iter()
            .filter_map(|r| Some(r.job.as_ref()?.home.as_str()))
            .collect();
        assert_eq!((homes, more), (vec!["n2", "n1"], false));
        let days = vec![
            vec![row("2026-11-29", 1)],
            vec![row("2026-11-30", 1), row("2026-11-29", 1)],
        ];
        let (rows, _) = merge_answers(HistoryBy::Day, days, 30);
        let said: Vec<_> = rows.iter().map(|r| (&*r.key, r.jobs)).collect();
        assert_eq!(said, [("2026-11-30", 1), ("2026-11-29", 2)]);
    }
}
