//! `armento log`.

use crate::out::{Failure, ask, say, say_json, table, unexpected_answer};
use crate::when::{self, Edge};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, LogEntry, Outcome};
use armento_model::{Pid, clean};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

const HELP: &str = "Examples:
  armento log
  armento log -n 100
  armento log --follow
  armento log --since 10m --pid 4711
  armento log --json | jq '.entries[] | select(.cause == \"turn\")'

What this node decided about its own programs: WHY is `placed` at its exec, `share` of a processor, `turn` for equal
progress, `files` that it works on, `memory` that runs out, `asked` by a user, `not-trusted`, `stop` or `bring`. NOW and THEN: what it gets of
a standard processor, here and there; PRICE: what the move costs one; BEHIND: how far it is behind the others;
FILES: the part of its time that it loses by being away from its files, here and there.";

const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// More entries than a daemon keeps.
const FOLLOWED_MAX: u32 = 4096;

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Number of newest entries to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30)]
    count: u32,
    /// Print new entries as they come
    #[arg(long, short)]
    follow: bool,
    /// Decisions from then on: 90s, 30m, 12h, 7d (ago), today, 2026-11-29, '2026-11-29 14:30'
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Decisions about this process only
    #[arg(long, value_name = "PID")]
    pid: Option<Pid>,
    /// Print JSON (schema armento.log/1; with --follow one document a line)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let which = Which {
        since_ms: since(args)?,
        pid: args.pid,
    };
    let entries = which.newest(newer(0, args.count, &which)?, args.count);
    if !args.follow {
        match args.json {
            true => say_json("armento.log/1", json!({ "entries": entries })),
            false => say(&render(&entries)),
        }
        return Ok(0);
    }
    let mut newest = 0;
    let mut entries = entries;
    loop {
        for entry in &entries {
            newest = newest.max(entry.seq);
            if !which.takes(entry) {
                continue;
            }
            match args.json {
                true => say(&format!("{}\n", json!(entry))),
                false => say(&line(entry)),
            }
        }
        sleep(FOLLOW_EVERY);
        entries = newer(newest, FOLLOWED_MAX, &which)?;
    }
}

fn since(args: &Args) -> Result<u64, Failure> {
    let Some(text) = &args.since else {
        return Ok(0);
    };
    when::parse(text, Edge::Begin, &Zoned::now()).map_err(|why| Failure {
        message: format!("--since: {why}"),
        hint: "armento log --since 10m".into(),
    })
}

/// The entries that are wanted.
struct Which {
    /// Unix time, milliseconds.
    since_ms: u64,
    pid: Option<Pid>,
}

impl Which {
    fn takes(&self, e: &LogEntry) -> bool {
        e.at_ms >= self.since_ms && self.pid.is_none_or(|pid| pid == e.pid)
    }

    /// The newest `count` that are wanted, oldest first: an older daemon returns others, too.
    fn newest(&self, mut entries: Vec<LogEntry>, count: u32) -> Vec<LogEntry> {
        entries.retain(|e| self.takes(e));
        let extra = entries.len().saturating_sub(count as usize);
        entries.drain(..extra);
        entries
    }
}

fn newer(after: u64, count: u32, which: &Which) -> anyhow::Result<Vec<LogEntry>> {
    let question = Ask::Log {
        after,
        count,
        since_ms: which.since_ms,
        pid: which.pid,
    };
    match ask(question, ANSWER)? {
        Answer::Log { entries } => Ok(entries),
        _ => Err(unexpected_answer()),
    }
}

const HEADS: [(&str, bool); 11] = [
    ("TIME", false),
    ("PID", true),
    ("FROM", false),
    ("TO", false),
    ("WHY", false),
    ("NOW", true),
    ("THEN", true),
    ("PRICE", true),
    ("BEHIND", true),
    ("FILES", true),
    ("OUTCOME, COMMAND", false),
];

fn render(entries: &[LogEntry]) -> String {
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    table(&HEADS, &rows)
}

/// One entry without its table.
fn line(entry: &LogEntry) -> String {
    let cells: Vec<String> = row(entry).into_iter().filter(|c| c != "-").collect();
    format!("{}\n", cells.join("  "))
}

fn row(e: &LogEntry) -> Vec<String> {
    let milli = |v: Option<u64>| v.map_or("-".into(), |v| format!("{:.2}", v as f64 / 1000.0));
    let ms = |v: Option<i64>| v.map_or("-".into(), |v| format!("{v} ms"));
    vec![
        time(e.at_ms),
        e.pid.to_string(),
        e.from.to_string(),
        e.to.to_string(),
        e.cause.clone(),
        milli(e.now_milli),
        milli(e.then_milli),
        ms(e.price_ms.map(|p| p as i64)),
        ms(e.lag_ms),
        files(e),
        format!("{}: {}", outcome(&e.outcome), clean(&e.command)),
    ]
}

/// The part of its time that it loses to files, here and there.
fn files(e: &LogEntry) -> String {
    match (e.lost_now_permille, e.lost_then_permille) {
        (Some(0), Some(0)) | (None, _) | (_, None) => "-".into(),
        (Some(now), Some(then)) => format!("{}>{} %", (now + 5) / 10, (then + 5) / 10),
    }
}

/// The local time of day.
fn time(at_ms: u64) -> String {
    let at = Timestamp::from_millisecond(at_ms as i64).unwrap_or_default();
    let there = at.to_zoned(TimeZone::system());
    there.strftime("%H:%M:%S%.3f").to_string()
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::UnderWay => "under way".into(),
        Outcome::Moved { pause_us, .. } => format!("moved in {:.1} ms", *pause_us as f64 / 1000.0),
        Outcome::Began => "began".into(),
        Outcome::Stayed { stay, detail } if detail.is_empty() => {
            format!("stayed [{}]", stay.code())
        }
        Outcome::Stayed { stay, detail } => format!("stayed [{}] {}", stay.code(), clean(detail)),
        Outcome::Gone => "ended first".into(),
        Outcome::DryRun => "dry run".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_model::Stay;

    #[test]
    fn entries_are_chosen_by_time_and_process() {
        let of = |seq: u64, pid| LogEntry {
            seq,
            at_ms: seq * 1000,
            pid,
            ..entry()
        };
        let all = || vec![of(1, 7), of(2, 8), of(3, 7), of(4, 7)];
        let check = |since_ms, pid, count, want: &[u64]| {
            let which = Which { since_ms, pid };
            let got: Vec<u64> = which.newest(all(), count).iter().map(|e| e.seq).collect();
            assert_eq!(got, want);
        };
        check(0, None, 9, &[1, 2, 3, 4]);
        check(0, None, 2, &[3, 4]);
        check(0, Some(7), 2, &[3, 4]);
        check(2000, Some(8), 9, &[2]);
        check(2001, Some(8), 9, &[]);
    }

    fn entry() -> LogEntry {
        LogEntry {
            seq: 1,
            at_ms: 1_000,
            pid: 812,
            uid: 1000,
            command: "lame\x1b[2J in.wav".into(),
            from: "n1".parse().expect("name"),
            to: "n2".parse().expect("name"),
            cause: "share".into(),
            now_milli: Some(500),
            then_milli: Some(1000),
            price_ms: Some(6),
            lag_ms: Some(-40),
            lost_now_permille: Some(312),
            lost_then_permille: Some(0),
            ticket: 0,
            outcome: Outcome::Moved {
                pause_us: 2_340,
                total_us: 9_000,
                bytes: 1,
            },
        }
    }

    #[test]
    fn log_line_shows_figures_and_outcome() {
        let mut entry = entry();
        let said = row(&entry)[1..].join(" ");
        assert_eq!(
            said,
            "812 n1 n2 share 0.50 1.00 6 ms -40 ms 31>0 % moved in 2.3 ms: lame?[2J in.wav"
        );
        entry.outcome = Outcome::Stayed {
            stay: Stay::Busy,
            detail: "vfork".into(),
        };
        (entry.now_milli, entry.lag_ms) = (None, None);
        entry.lost_now_permille = None;
        assert!(line(&entry).ends_with("1.00  6 ms  stayed [busy] vfork: lame?[2J in.wav\n"));
    }
}
