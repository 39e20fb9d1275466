//! `armento history`.

use crate::out::{Failure, ask, say, say_json, table, unexpected_answer};
use crate::users;
use crate::when::{self, Edge};
use armento_client::api::{Answer, Ask, HistoryBy, HistoryInfo, HistoryQuery, HistoryRow};
use armento_model::{NodeName, clean, size, span};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const HELP: &str = "Examples:
  armento history                            the newest jobs
  armento history --by user --since 30d
  armento history --by node --since yesterday
  armento history --by day --user alice
  armento history --farm --by user --since 7d    all homes of the farm
  armento history --by command --csv > used.csv
  armento history --json | jq '.rows[] | select(.away_cpu_ms > 0) | .job.command'

A job is what one `armento run` started, or a process that was moved by hand, with all its children. CPU is what it used
on all nodes, AWAY the part elsewhere than at its home; PAUSE is how long moves stopped it, MOVED their bytes; CALLS
went home from other nodes, with BYTES. The history of a node has the jobs whose home it is; --farm asks all nodes,
and names those that do not answer. You see your own jobs; root sees all. Amounts are kept by day: with --by other than job, --since and --until mean whole days.";

/// Longer than the daemon takes at most.
const ANSWER: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// What the lines are about
    #[arg(long, value_enum, default_value_t = By::Job)]
    by: By,
    /// From then on: 90s, 30m, 12h, 7d, 2w (ago), today, yesterday, 2026-11-29, '2026-11-29 14:30'
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Until then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Jobs of this user only, by name or number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// What was used on this node only
    #[arg(long, value_name = "NODE")]
    node: Option<NodeName>,
    /// Programs with this in their name only
    #[arg(long, value_name = "TEXT")]
    command: Option<String>,
    /// Jobs of every home of the farm, not only of this one
    #[arg(long)]
    farm: bool,
    /// Number of lines at most, 1 to 1000
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    /// Print JSON (schema armento.history/1)
    #[arg(long)]
    json: bool,
    /// Print CSV with a head line, times as Unix milliseconds
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    User,
    Job,
    Node,
    Day,
    Command,
}

impl By {
    fn asked(self) -> HistoryBy {
        match self {
            By::User => HistoryBy::User,
            By::Job => HistoryBy::Job,
            By::Node => HistoryBy::Node,
            By::Day => HistoryBy::Day,
            By::Command => HistoryBy::Command,
        }
    }
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let now = Zoned::now();
    let time = |text: &Option<String>, edge, option: &str| {
        let parsed = text
            .as_ref()
            .map(|t| when::parse(t, edge, &now))
            .transpose();
        parsed.map_err(|why| Failure {
            message: format!("--{option}: {why}"),
            hint: "armento history --since 7d".into(),
        })
    };
    let query = HistoryQuery {
        by: args.by.asked(),
        since_ms: time(&args.since, Edge::Begin, "since")?,
        until_ms: time(&args.until, Edge::End, "until")?,
        uid: args.user.as_deref().map(users::uid).transpose()?,
        node: args.node.clone(),
        command: args.command.clone(),
        rows: args.count,
    };
    let Answer::History(info) = ask(
        Ask::History {
            query,
            farm: args.farm,
        },
        ANSWER,
    )?
    else {
        return Err(unexpected_answer());
    };
    if args.json {
        say_json("armento.history/1", json!(info));
    } else if args.csv {
        say(&csv(args.by, &info.rows));
    } else {
        say(&render(args.by, &info.rows, &names(args.by, &info.rows)));
    }
    notes(args, &info);
    Ok(0)
}

/// What the rows do not show, on standard error.
fn notes(args: &Args, info: &HistoryInfo) {
    if info.more && !args.json {
        eprintln!(
            "armento: there are more lines: -n {} shows more",
            1000.min(args.count * 4)
        );
    }
    if info.lost > 0 {
        eprintln!(
            "armento: {} jobs were not recorded: the disk was full for too long",
            info.lost
        );
    }
    if !info.trouble.is_empty() {
        eprintln!("armento: {}", clean(&info.trouble));
    }
    if !info.silent.is_empty() {
        let silent = info.silent.iter().map(NodeName::as_str);
        eprintln!(
            "armento: no answer of {}: jobs of these homes are missing\nhint: armento nodes shows which nodes are up",
            silent.collect::<Vec<_>>().join(", ")
        );
    }
}

fn names(by: By, rows: &[HistoryRow]) -> BTreeMap<u32, String> {
    match by {
        By::User => users::names(rows.iter().filter_map(|r| r.key.parse().ok())),
        By::Job => users::names(rows.iter().filter_map(|r| Some(r.job.as_ref()?.uid))),
        _ => BTreeMap::new(),
    }
}

fn render(by: By, rows: &[HistoryRow], names: &BTreeMap<u32, String>) -> String {
    let user = |uid: u32| {
        names
            .get(&uid)
            .map_or_else(|| uid.to_string(), |n| clean(n))
    };
    let sums = |r: &HistoryRow| {
        vec![
            span(r.home_cpu_ms.saturating_add(r.away_cpu_ms)),
            span(r.away_cpu_ms),
            r.moves.to_string(),
            span(r.pause_us / 1000),
            size(r.move_bytes >> 10),
            r.calls.to_string(),
            size(r.call_bytes >> 10),
        ]
    };
    const SUMS: [(&str, bool); 7] = [
        ("CPU", true),
        ("AWAY", true),
        ("MOVES", true),
        ("PAUSE", true),
        ("MOVED", true),
        ("CALLS", true),
        ("BYTES", true),
    ];
    if by == By::Job {
        let mut heads = vec![("START", false), ("TOOK", true), ("USER", false)];
        heads.extend(SUMS);
        heads.extend([("PROCS", true), ("STATUS", true), ("COMMAND", false)]);
        let row = |r: &HistoryRow| {
            let job = r.job.as_ref()?;
            let took = job.end_ms.map(|end| span(end.saturating_sub(job.start_ms)));
            let mut cells = vec![
                time(job.start_ms),
                took.unwrap_or_else(|| "-".into()),
                user(job.uid),
            ];
            cells.extend(sums(r));
            cells.push(job.procs.to_string());
            cells.push(match (job.end_ms, job.status) {
                (None, _) => "runs".into(),
                (Some(_), None) => "?".into(),
                (Some(_), Some(status)) => status.to_string(),
            });
            cells.push(clean(&job.command));
            Some(cells)
        };
        let cells: Vec<Vec<String>> = rows.iter().filter_map(row).collect();
        return table(&heads, &cells);
    }
    let head = match by {
        By::User => "USER",
        By::Node => "NODE",
        By::Day => "DAY",
        By::Command | By::Job => "PROGRAM",
    };
    let mut heads = vec![(head, false), ("JOBS", true)];
    heads.extend(SUMS);
    let row = |r: &HistoryRow| {
        let key = match by {
            By::User => r.key.parse().map_or_else(|_| clean(&r.key), user),
            _ => clean(&r.key),
        };
        let mut cells = vec![key, r.jobs.to_string()];
        cells.extend(sums(r));
        cells
    };
    let cells: Vec<Vec<String>> = rows.iter().map(row).collect();
    table(&heads, &cells)
}

/// Local date and time of day.
fn time(at_ms: u64) -> String {
    let at = Timestamp::from_millisecond(i64::try_from(at_ms).unwrap_or(i64::MAX));
    let there = at.unwrap_or_default().to_zoned(TimeZone::system());
    there.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// RFC 4180. Control characters are replaced, as on screens.
fn csv(by: By, rows: &[HistoryRow]) -> String {
    let field = |text: &str| {
        let text = clean(text);
        match text.contains([',', '"']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text,
        }
    };
    let mut lines = String::new();
    let key = match by {
        By::User => "uid",
        By::Job => "tree,uid,home,start_ms,end_ms,status,procs,command",
        By::Node => "node",
        By::Day => "day",
        By::Command => "program",
    };
    lines +=
        &format!("{key},jobs,home_cpu_ms,away_cpu_ms,moves,pause_us,move_bytes,calls,call_bytes\n");
    for r in rows {
        let mut cells = vec![field(&r.key)];
        if let Some(job) = &r.job {
            let or_empty = |n: Option<String>| n.unwrap_or_default();
            cells.extend([
                job.uid.to_string(),
                job.home.to_string(),
                job.start_ms.to_string(),
                or_empty(job.end_ms.map(|n| n.to_string())),
                or_empty(job.status.map(|n| n.to_string())),
                job.procs.to_string(),
                field(&job.command),
            ]);
        }
        let sums = [
            r.jobs,
            r.home_cpu_ms,
            r.away_cpu_ms,
            r.moves,
            r.pause_us,
            r.move_bytes,
            r.calls,
            r.call_bytes,
        ];
        cells.extend(sums.map(|n| n.to_string()));
        lines += &cells.join(",");
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_client::api::HistoryJob;

    fn row() -> HistoryRow {
        HistoryRow {
            key: "00000000000000ab".into(),
            job: Some(HistoryJob {
                tree: armento_model::TreeId(0xab),
                uid: 4_000_000_000,
                command: "lame \x1b]0;x\x07 \"a\", b.wav".into(),
                home: "n1".parse().expect("name"),
                start_ms: 1_000,
                end_ms: Some(61_000),
                status: Some(0),
                procs: 3,
            }),
            jobs: 1,
            home_cpu_ms: 1_500,
            away_cpu_ms: 42_000,
            moves: 2,
            pause_us: 3_400,
            move_bytes: 5 << 20,
            calls: 17,
            call_bytes: 2048,
        }
    }

    #[test]
    fn each_job_has_one_line_without_escape_sequences() {
        let text = render(By::Job, &[row()], &BTreeMap::new());
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some(
                "START                  TOOK  USER           CPU    AWAY  MOVES  PAUSE  MOVED  CALLS  BYTES  PROCS  STATUS  COMMAND"
            )
        );
        let line = lines.next().expect("the job");
        assert!(
            line.ends_with(
                "60.0 s  4000000000  43.5 s  42.0 s      2   3 ms  5.0 M     17    2 K      3       0  lame ?]0;x? \"a\", b.wav"
            ),
            "{line}"
        );
        let mut runs = row();
        if let Some(job) = &mut runs.job {
            (job.end_ms, job.status) = (None, None);
        }
        assert!(render(By::Job, &[runs], &BTreeMap::new()).contains("  runs  "));
    }

    #[test]
    fn users_have_names_where_they_are_known() {
        let mut r = row();
        (r.key, r.job) = ("0".into(), None);
        let names = BTreeMap::from([(0, "root".into())]);
        let text = render(By::User, &[r.clone()], &names);
        assert!(text.starts_with("USER  JOBS"), "{text}");
        assert!(text.contains("\nroot     1  43.5 s"), "{text}");
        (r.key) = "2026-11-29".into();
        assert!(render(By::Day, &[r], &names).contains("\n2026-11-29     1  43.5 s"));
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let text = csv(By::Job, &[row()]);
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some(
                "tree,uid,home,start_ms,end_ms,status,procs,command,jobs,home_cpu_ms,away_cpu_ms,moves,pause_us,move_bytes,calls,call_bytes"
            )
        );
        assert_eq!(
            lines.next(),
            Some(
                "00000000000000ab,4000000000,n1,1000,61000,0,3,\"lame ?]0;x? \"\"a\"\", b.wav\",1,1500,42000,2,3400,5242880,17,2048"
            )
        );
    }
}
