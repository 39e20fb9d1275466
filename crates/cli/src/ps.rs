//! `armento ps`.

mod choice;

use crate::out::{ask, document, say, table, unexpected_answer};
use crate::{users, watch};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, ProcInfo};
use armento_model::{NodeName, Stay, clean, size};
use armento_tui::forest;
use choice::{Choice, Sort};
use serde_json::{Value, json};
use std::time::Duration;

const HELP: &str = "Examples:
  armento ps
  armento ps --all                 of the whole farm, not only of this home
  armento ps --tree                each below its parent
  armento ps --watch --sort cpu    again every two seconds, the busiest first
  armento ps --node n3 --user alice --command cc1
  armento ps --json | jq '.procs[] | select(.place != .home) | .pid'

CALLS counts the calls that waited for home; CALL/s those of the last seconds, BYTE/s what they and posted writes and reads
ahead sent to home and back. You see your own processes; root sees all. `armento why PID` explains STAY;
it also shows whether the node where it runs has stopped reporting, or it is frozen for that.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Processes of all homes
    #[arg(long, short)]
    all: bool,
    /// Each process below its parent
    #[arg(long, short)]
    tree: bool,
    /// Show it again, every two seconds or so often
    #[arg(
        long,
        short,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = watch::interval
    )]
    watch: Option<Duration>,
    /// The order of lines; with --tree, of siblings
    #[arg(long, short, value_enum, default_value_t)]
    sort: Sort,
    /// Processes that run there only
    #[arg(long, value_name = "NODE")]
    node: Option<NodeName>,
    /// Processes of this user only, by name or number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Processes with this in their command line only
    #[arg(long, value_name = "TEXT")]
    command: Option<String>,
    /// Print JSON (schema armento.ps/1; with --watch one document a line)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let choice = Choice {
        sort: args.sort,
        node: args.node.clone(),
        uid: args.user.as_deref().map(users::uid).transpose()?,
        command: args.command.clone(),
    };
    match args.watch {
        Some(every) if args.json => loop {
            say(&format!("{}\n", shown_json(args, &choice)?));
            std::thread::sleep(every);
        },
        Some(every) => watch::repeat(every, || shown(args, &choice)),
        None if args.json => {
            say(&format!("{:#}\n", shown_json(args, &choice)?));
            Ok(0)
        }
        None => {
            say(&shown(args, &choice)?);
            Ok(0)
        }
    }
}

fn shown(args: &Args, choice: &Choice) -> anyhow::Result<String> {
    let procs = choice.apply(processes(args.all)?);
    Ok(match args.tree {
        true => render(&with_tree(procs)),
        false => render(&without_tree(procs)),
    })
}

fn shown_json(args: &Args, choice: &Choice) -> anyhow::Result<Value> {
    let procs = choice.apply(processes(args.all)?);
    let procs: Vec<Value> = procs.iter().map(fields).collect();
    Ok(document("armento.ps/1", json!({ "procs": procs })))
}

/// Each below its parent, where that is among them.
fn with_tree(procs: Vec<ProcInfo>) -> Vec<(String, ProcInfo)> {
    let family = |p: &ProcInfo| ((p.home.clone(), p.pid), (p.home.clone(), p.ppid));
    let families: Vec<_> = procs.iter().map(family).collect();
    let mut all: Vec<Option<ProcInfo>> = procs.into_iter().map(Some).collect();
    let order = forest(&families).into_iter();
    order
        .filter_map(|(i, branch)| Some((branch, all[i].take()?)))
        .collect()
}

fn without_tree(procs: Vec<ProcInfo>) -> Vec<(String, ProcInfo)> {
    procs.into_iter().map(|p| (String::new(), p)).collect()
}

/// Processes of this home, or of all, by home and pid.
pub fn processes(all: bool) -> anyhow::Result<Vec<ProcInfo>> {
    let Answer::Ps { mut procs } = ask(Ask::Ps { all }, ANSWER)? else {
        return Err(unexpected_answer());
    };
    procs.sort_by(|a, b| (&a.home, a.pid).cmp(&(&b.home, b.pid)));
    Ok(procs)
}

/// The daemon's fields, and the reason in words.
fn fields(p: &ProcInfo) -> Value {
    let mut doc = json!(p);
    doc["detail"] = json!((!p.detail.is_empty()).then_some(&p.detail));
    doc["explanation"] = json!(p.stay.map(Stay::explain));
    doc["remedy"] = json!(p.stay.map(Stay::remedy));
    doc
}

/// Each process with what is drawn before its command.
fn render(procs: &[(String, ProcInfo)]) -> String {
    let safe = procs.iter().any(|(_, p)| p.safe.is_some());
    let mut heads = vec![
        ("PID", true),
        ("HOME", false),
        ("WHERE", false),
        ("CPU", true),
        ("AWAY", true),
        ("MEMORY", true),
        ("MOVES", true),
        ("CALLS", true),
        ("CALL/s", true),
        ("BYTE/s", true),
        ("STAY", false),
        ("COMMAND", false),
    ];
    let mut rows: Vec<_> = procs.iter().map(row).collect();
    if safe {
        // Before the command, which is as long as it likes.
        let at = heads.len() - 1;
        heads.insert(at, ("SAFE", false));
        for (row, (_, p)) in rows.iter_mut().zip(procs) {
            row.insert(at, safe_word(p));
        }
    }
    table(&heads, &rows)
}

/// Age of its checkpoint, or that it could not go on if its node were lost now.
fn safe_word(p: &ProcInfo) -> String {
    let Some(safe) = &p.safe else {
        return String::new();
    };
    match (&safe.unsafe_now, safe.age_ms) {
        _ if safe.replays => "replays".into(),
        (Some(_), _) => "no".into(),
        (None, Some(ms)) => format!("{} s", ms / 1000),
        (None, None) => "home".into(),
    }
}

fn row((before, p): &(String, ProcInfo)) -> Vec<String> {
    let seconds = |ms: u64| format!("{:.1}", ms as f64 / 1000.0);
    vec![
        p.pid.to_string(),
        p.home.to_string(),
        p.place.to_string(),
        seconds(p.cpu_ms),
        seconds(p.away_cpu_ms),
        size(p.rss_kib),
        p.moves.to_string(),
        p.forwarded.to_string(),
        p.rates.waits.to_string(),
        size(p.rates.bytes() >> 10),
        p.stay_word().into_owned(),
        format!("{before}{}", clean(&p.command)),
    ]
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn proc() -> ProcInfo {
        let name = |n: &str| n.parse().expect("name");
        ProcInfo {
            pid: 4711,
            ppid: 1,
            tree: armento_model::TreeId(1),
            uid: 1000,
            home: name("n1"),
            place: name("n3"),
            command: "lame a\x1b[2J.wav".into(),
            cpu_ms: 12_340,
            away_cpu_ms: 12_000,
            rss_kib: 5120,
            threads: 1,
            busy_percent: 100,
            moves: 2,
            forwarded: 345,
            bytes_sent: 0,
            bytes_received: 0,
            files: armento_model::FileCounts::default(),
            rates: armento_model::FileRates {
                waits: 12,
                posts: 900,
                sent: 3 << 20,
                received: 1 << 20,
            },
            messages: None,
            stay: None,
            detail: String::new(),
            partner: None,
            locked: false,
            lost_ms: None,
            frozen: false,
            portable: false,
            age_ms: 15_000,
            last_exec: None,
            safe: None,
            connections: None,
            stopped: false,
            nice: 0,
            moving: None,
        }
    }

    #[test]
    fn each_process_has_one_line() {
        let golden = "\
\x20PID  HOME  WHERE   CPU  AWAY  MEMORY  MOVES  CALLS  CALL/s  BYTE/s  STAY  COMMAND
4711  n1    n3     12.3  12.0   5.0 M      2    345      12   4.0 M  -     lame a?[2J.wav
";
        let render = |p: ProcInfo| render(&without_tree(vec![p]));
        assert_eq!(render(proc()), golden);
        let lost = |frozen| ProcInfo {
            lost_ms: Some(4200),
            stay: Some(Stay::Busy),
            frozen,
            ..proc()
        };
        assert!(render(lost(false)).contains("  lost 4 s  "));
        assert!(render(lost(true)).contains("  frozen  "));
    }

    #[test]
    fn children_stand_below_their_parents_of_the_same_home() {
        let of = |(pid, ppid, home): (i32, i32, &str)| ProcInfo {
            pid,
            ppid,
            home: home.parse().expect("name"),
            ..proc()
        };
        let all = [(1, 0, "n1"), (2, 0, "n1"), (3, 1, "n1"), (4, 1, "n2")].map(of);
        let lines = with_tree(all.into());
        let line = |(branch, p): &(String, ProcInfo)| format!("{branch}{}", p.pid);
        let lines: Vec<String> = lines.iter().map(line).collect();
        assert_eq!(lines, ["1", " \\_ 3", "2", "4"]);
    }

    #[test]
    fn json_has_the_reason_in_words() {
        let free = fields(&proc());
        for field in ["stay", "explanation", "remedy", "detail", "partner"] {
            assert!(free[field].is_null(), "{field}");
        }
        let traced = fields(&ProcInfo {
            stay: Some(Stay::Traced),
            detail: "it is traced already".into(),
            partner: Some(4712),
            ..proc()
        });
        assert_eq!(traced["stay"], "traced");
        assert_eq!(traced["explanation"], Stay::Traced.explain());
        assert_eq!(traced["remedy"], Stay::Traced.remedy());
        assert_eq!(traced["partner"], 4712);
        assert_eq!(traced["pid"], 4711);
    }
}
