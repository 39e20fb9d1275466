//! `armento ps`.

use crate::out::{ask, say, say_json, table, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, ProcInfo};
use armento_model::{Stay, clean, size};
use serde_json::{Value, json};

const HELP: &str = "Examples:
  armento ps
  armento ps --all                 of the whole farm, not only of this home
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
    /// Print JSON (schema armento.ps/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let procs = processes(args.all)?;
    if args.json {
        let procs: Vec<Value> = procs.iter().map(fields).collect();
        say_json("armento.ps/1", json!({ "procs": procs }));
    } else {
        say(&render(&procs));
    }
    Ok(0)
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

fn render(procs: &[ProcInfo]) -> String {
    let heads = [
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
    table(&heads, &procs.iter().map(row).collect::<Vec<_>>())
}

fn row(p: &ProcInfo) -> Vec<String> {
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
        clean(&p.command),
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
        }
    }

    #[test]
    fn each_process_has_one_line() {
        let golden = "\
\x20PID  HOME  WHERE   CPU  AWAY  MEMORY  MOVES  CALLS  CALL/s  BYTE/s  STAY  COMMAND
4711  n1    n3     12.3  12.0   5.0 M      2    345      12   4.0 M  -     lame a?[2J.wav
";
        assert_eq!(render(&[proc()]), golden);
        let lost = |frozen| ProcInfo {
            lost_ms: Some(4200),
            stay: Some(Stay::Busy),
            frozen,
            ..proc()
        };
        assert!(render(&[lost(false)]).contains("  lost 4 s  "));
        assert!(render(&[lost(true)]).contains("  frozen  "));
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
