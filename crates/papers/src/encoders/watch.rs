//! Polls n1's daemon for the place of each encoder, from outside the farm so that polling costs n1 nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// A daemon that does not answer within this time is asked again at the next sample.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// One encoder as n1 reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub pid: i64,
    /// Its number among the 24, from the name of its file.
    pub job: usize,
    pub place: String,
    pub cpu_ms: u64,
    pub away_cpu_ms: u64,
    pub moves: u64,
    pub forwarded: u64,
    pub stay: Option<String>,
}

#[derive(Debug)]
pub struct Watcher {
    socket: PathBuf,
    session: Option<BufReader<UnixStream>>,
}

impl Watcher {
    /// `root`: n1's root directory as seen from here.
    pub fn new(root: &std::path::Path) -> Watcher {
        Watcher {
            socket: root.join("run/armento/control.sock"),
            session: None,
        }
    }

    /// The encoders alive now. A request without an answer is an empty sample, not an error: the jobs go on, and so
    /// does the demo.
    pub fn encoders(&mut self) -> Option<Vec<Seen>> {
        let answer = self.ask(&json!({"type": "ps", "all": false}));
        if answer.is_none() {
            self.session = None;
        }
        let procs = answer?;
        let procs = procs.pointer("/ok/procs")?.as_array()?;
        Some(procs.iter().filter_map(seen).collect())
    }

    fn ask(&mut self, what: &Value) -> Option<Value> {
        if self.session.is_none() {
            let s = UnixStream::connect(&self.socket).ok()?;
            s.set_read_timeout(Some(ANSWER_MAX)).ok()?;
            s.set_write_timeout(Some(ANSWER_MAX)).ok()?;
            self.session = Some(BufReader::new(s));
        }
        let session = self.session.as_mut()?;
        let line = format!("{}\n", json!({"v": 1, "id": 1, "ask": what}));
        session.get_mut().write_all(line.as_bytes()).ok()?;
        let mut answer = String::new();
        session.read_line(&mut answer).ok()?;
        serde_json::from_str(&answer).ok()
    }
}

fn seen(p: &Value) -> Option<Seen> {
    let number = |key: &str| p.get(key).and_then(Value::as_u64).unwrap_or(0);
    Some(Seen {
        pid: p.get("pid")?.as_i64()?,
        job: job_of(p.get("command")?.as_str()?)?,
        place: p.get("place")?.as_str()?.to_owned(),
        cpu_ms: number("cpu_ms"),
        away_cpu_ms: number("away_cpu_ms"),
        moves: number("moves"),
        forwarded: number("forwarded"),
        stay: p.get("stay").and_then(Value::as_str).map(str::to_owned),
    })
}

/// 7 for `lame … audio07.wav audio07.mp3`.
pub fn job_of(command: &str) -> Option<usize> {
    let at = command.find("audio")? + "audio".len();
    command.get(at..at + 2)?.parse().ok()
}

/// CPU time of one job, as known at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub cpu_ms: u64,
    pub away_cpu_ms: u64,
    pub moves: u64,
    pub forwarded: u64,
}

/// The keepers' final summaries (one JSON object a line), which are exact; for jobs without one, the last sample.
pub fn usage(summary: &str, last: &BTreeMap<usize, Seen>) -> BTreeMap<usize, Usage> {
    let mut all: BTreeMap<usize, Usage> = last
        .iter()
        .map(|(job, s)| {
            let (cpu_ms, away_cpu_ms) = (s.cpu_ms, s.away_cpu_ms);
            (
                *job,
                Usage {
                    cpu_ms,
                    away_cpu_ms,
                    moves: s.moves,
                    forwarded: s.forwarded,
                },
            )
        })
        .collect();
    for v in summary
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok())
    {
        let Some(job) = v.get("command").and_then(Value::as_str).and_then(job_of) else {
            continue;
        };
        let number = |key: &str| v.get(key).and_then(Value::as_u64).unwrap_or(0);
        let said = Usage {
            cpu_ms: number("cpu_ms"),
            away_cpu_ms: number("away_cpu_ms"),
            moves: number("moves"),
            forwarded: number("forwarded"),
        };
        all.insert(job, said);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_identified_by_their_file() {
        assert_eq!(job_of("lame -b 256 audio07.wav audio07.mp3"), Some(7));
        assert_eq!(job_of("sh converti-om.sh"), None);
        assert_eq!(job_of("lame audio"), None);
    }

    #[test]
    fn summaries_override_samples() {
        let p = json!({"pid": 9, "command": "lame audio02.wav", "place": "n3", "cpu_ms": 5});
        let sample = seen(&p).unwrap();
        let summary = "{\"pid\":8,\"command\":\"lame audio01.wav\",\"cpu_ms\":100,\"away_cpu_ms\":90,\
                       \"moves\":1,\"forwarded\":7}\nhalf a li";
        let u = usage(summary, &BTreeMap::from([(2, sample)]));
        assert_eq!(
            u[&1],
            Usage {
                cpu_ms: 100,
                away_cpu_ms: 90,
                moves: 1,
                forwarded: 7
            }
        );
        assert_eq!(u[&2].cpu_ms, 5);
    }
}
