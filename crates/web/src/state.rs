//! The farm as one user sees it, and what has changed since the last look.
//!
//! A full message has everything; a change has the fields that differ, by key. Pages put them together:
//!
//! ```text
//! {"v":1,"full":true,"at_ms":…,"me":"n1","nodes":[{"k":"n1",…}],"procs":[{"k":"n1/812",…}],"moves":[…]}
//! {"v":1,"at_ms":…,"procs":[{"k":"n1/812","place":"n3","moves":2}],"gone":["n1/77"]}
//! ```

use armento_client::api::{LogEntry, NodeInfo, Outcome, ProcRow, SafeInfo};
use armento_model::NodeName;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

/// The version of these messages.
pub const VERSION: u32 = 1;
/// Decisions that a new page gets.
const MOVES_MAX: usize = 200;
/// A decision is asked for again until its end is known, but not for longer, milliseconds (`client` `MOVE`).
const UNDER_WAY_MAX_MS: u64 = 130_000;
/// Times that are computed from ages jitter by less, milliseconds.
const SEEN_SLACK_MS: u64 = 300;
const BEGAN_SLACK_MS: u64 = 2_000;

type Fields = Map<String, Value>;
type Table = BTreeMap<String, Fields>;

/// What the daemon said in one look; a part that it did not say is left as it was.
#[derive(Default)]
pub struct Look {
    pub nodes: Vec<NodeInfo>,
    pub rows: Option<(Vec<ProcRow>, u64, Vec<NodeName>)>,
    pub log: Vec<LogEntry>,
}

#[derive(Default)]
pub struct State {
    pub me: String,
    pub farm: String,
    nodes: Table,
    procs: Table,
    moves: VecDeque<LogEntry>,
    left_out: u64,
    silent: Vec<String>,
    /// Why the daemon does not answer.
    lost: Option<String>,
    /// When the daemon answered last, Unix time, milliseconds.
    at_ms: u64,
    /// Moves and forwarded calls that were seen since the last point of the history.
    pub moved: u64,
    pub forwarded: u64,
    /// The longest pause among them, microseconds.
    pub pause_us: u64,
}

impl State {
    /// Everything.
    pub fn full(&self) -> Value {
        let rows = |table: &Table| -> Vec<Value> {
            let row = |(k, f): (&String, &Fields)| {
                let set = f
                    .iter()
                    .filter(|(_, v)| !v.is_null() && **v != Value::Bool(false));
                let set = set.map(|(n, v)| (n.clone(), v.clone()));
                keyed(k, set.collect())
            };
            table.iter().map(row).collect()
        };
        json!({
            "v": VERSION, "full": true, "at_ms": self.at_ms,
            "me": self.me, "farm": self.farm,
            "nodes": rows(&self.nodes), "procs": rows(&self.procs), "moves": self.moves,
            "left_out": self.left_out, "silent": self.silent, "lost": self.lost,
            "pages": crate::asset::version(),
        })
    }

    /// The number after which decisions are asked for.
    pub fn log_after(&self, now_ms: u64) -> u64 {
        let open = |e: &&LogEntry| {
            e.outcome == Outcome::UnderWay && now_ms.saturating_sub(e.at_ms) < UNDER_WAY_MAX_MS
        };
        match self.moves.iter().find(open) {
            Some(e) => e.seq.saturating_sub(1),
            None => self.moves.back().map_or(0, |e| e.seq),
        }
    }

    /// The daemon answers no more, for this reason. The data stays, and gets older.
    pub fn lose(&mut self, why: &str) -> Value {
        self.lost = Some(why.to_owned());
        json!({ "v": VERSION, "at_ms": self.at_ms, "lost": why })
    }

    /// A new daemon counts its decisions from the beginning.
    pub fn restarted(&mut self) {
        self.moves.clear();
    }

    /// Takes what was said at `now_ms` over, and returns what is new.
    pub fn take(&mut self, look: Look, now_ms: u64) -> Value {
        let mut said = json!({ "v": VERSION, "at_ms": now_ms });
        self.at_ms = now_ms;
        if self.lost.take().is_some() {
            said["lost"] = Value::Null;
        }
        let fresh = look.nodes.iter().map(|n| self.node(n, now_ms)).collect();
        let (nodes, gone) = differences(&mut self.nodes, fresh);
        put(&mut said, "nodes", nodes);
        put(&mut said, "gone_nodes", gone);
        if let Some((rows, left_out, silent)) = look.rows {
            let silent: Vec<String> = silent.iter().map(NodeName::to_string).collect();
            self.count(&rows);
            let mut fresh: Table = rows.iter().map(|r| self.proc(r, now_ms)).collect();
            // What a silent home said last is shown with its age.
            let kept = self.procs.iter().filter(|(_, f)| {
                let home = f.get("home").and_then(Value::as_str).unwrap_or_default();
                silent.iter().any(|s| s == home)
            });
            let kept: Vec<(String, Fields)> = kept.map(|(k, f)| (k.clone(), f.clone())).collect();
            for (k, f) in kept {
                fresh.entry(k).or_insert(f);
            }
            let (procs, gone) = differences(&mut self.procs, fresh);
            put(&mut said, "procs", procs);
            put(&mut said, "gone", gone);
            if self.left_out != left_out || self.silent != silent {
                said["left_out"] = left_out.into();
                said["silent"] = json!(silent);
            }
            (self.left_out, self.silent) = (left_out, silent);
        }
        let moves = self.decisions(look.log);
        put(&mut said, "moves", moves);
        said
    }

    fn node(&self, n: &NodeInfo, now_ms: u64) -> (String, Fields) {
        let k = n.name.to_string();
        let before = self.nodes.get(&k).and_then(|f| f.get("seen_ms")?.as_u64());
        let time = now_ms.saturating_sub(n.age_ms);
        let seen = match before {
            // The vector has forgotten it.
            Some(before) if n.state == "down" => before,
            before => steady(before, time, SEEN_SLACK_MS),
        };
        let fields = json!({
            "state": n.standing(), "load": (n.load * 100.0).round() / 100.0, "speed": n.speed, "cores": n.cores,
            "mem_kib": n.mem_total_kib, "free_kib": n.mem_free_kib, "guests": n.guests, "frozen": n.frozen,
            "seen_ms": seen, "wire": n.wire, "version": n.version, "addr": n.addr, "here": n.here,
            "clock_us": n.clock_us, "clock_apart": n.clock_apart,
        });
        (k, object(fields))
    }

    fn proc(&self, p: &ProcRow, now_ms: u64) -> (String, Fields) {
        let k = format!("{}/{}", p.home, p.pid);
        let before = self.procs.get(&k).and_then(|f| f.get("began_ms")?.as_u64());
        let began = steady(before, now_ms.saturating_sub(p.age_ms), BEGAN_SLACK_MS);
        let fields = json!({
            "pid": p.pid, "home": p.home, "place": p.place, "uid": p.uid, "command": p.command,
            "cpu_ms": p.cpu_ms, "rss_kib": p.rss_kib, "threads": p.threads, "busy": p.busy_percent,
            "moves": p.moves, "forwarded": p.forwarded, "stay": p.stay.map(|s| s.code()),
            "locked": p.locked, "frozen": p.frozen, "lost_ms": p.lost_ms, "began_ms": began,
            "stopped": p.stopped, "nice": p.nice, "direct": p.direct, "over_home": p.over_home,
            "messages": p.messages, "message_bytes": p.message_bytes,
            "safe": p.safe.as_ref().map(|s| self.safe(&k, s, now_ms)),
        });
        (k, object(fields))
    }

    /// What is kept of a process: times instead of ages, which change with every look.
    fn safe(&self, k: &str, s: &SafeInfo, now_ms: u64) -> Value {
        let before = self.procs.get(k).and_then(|f| f.get("safe"));
        let time = |name: &str, age_ms: u64| {
            let before = before.and_then(|s| s.get(name)?.as_u64());
            steady(before, now_ms.saturating_sub(age_ms), BEGAN_SLACK_MS)
        };
        json!({
            "at_ms": s.age_ms.map(|age| time("at_ms", age)), "kept_kib": s.kept_kib, "pause_us": s.pause_us,
            "calls": s.calls, "bytes": s.bytes, "replays": s.replays, "unsafe_now": s.unsafe_now,
            "kept_at": s.kept_at, "kept_ms": s.kept_at.as_ref().map(|_| time("kept_ms", s.kept_age_ms)),
        })
    }

    /// Moves and calls of processes that were there before.
    fn count(&mut self, rows: &[ProcRow]) {
        for row in rows {
            let Some(known) = self.procs.get(&format!("{}/{}", row.home, row.pid)) else {
                continue;
            };
            let number = |name: &str| known.get(name).and_then(Value::as_u64).unwrap_or(0);
            self.moved += row.moves.saturating_sub(number("moves"));
            self.forwarded += row.forwarded.saturating_sub(number("forwarded"));
        }
    }

    /// Adds decisions, or their ends; returns those that are new or different.
    fn decisions(&mut self, log: Vec<LogEntry>) -> Vec<Value> {
        let mut new = Vec::new();
        for entry in log {
            match self.moves.iter_mut().find(|e| e.seq == entry.seq) {
                Some(known) if *known == entry => continue,
                Some(known) => known.clone_from(&entry),
                None => self.moves.push_back(entry.clone()),
            }
            if let Outcome::Moved { pause_us, .. } = entry.outcome {
                self.pause_us = self.pause_us.max(pause_us);
            }
            new.push(json!(entry));
        }
        while self.moves.len() > MOVES_MAX {
            self.moves.pop_front();
        }
        new
    }

    /// Load of each node.
    pub fn loads(&self) -> impl Iterator<Item = (&str, f64)> {
        let load = |f: &Fields| f.get("load").and_then(Value::as_f64).unwrap_or(0.0);
        let alive = self.nodes.iter().filter(|(_, f)| {
            let state = f.get("state").and_then(Value::as_str);
            matches!(
                state,
                Some("alive" | "shut" | "draining" | "drained" | "suspect")
            )
        });
        alive.map(move |(k, f)| (k.as_str(), load(f)))
    }
}

/// `before` unless the new time is clearly another one.
fn steady(before: Option<u64>, time: u64, slack: u64) -> u64 {
    before.filter(|b| b.abs_diff(time) <= slack).unwrap_or(time)
}

fn object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}

fn keyed(k: &str, mut fields: Fields) -> Value {
    fields.insert("k".into(), k.into());
    Value::Object(fields)
}

fn put<T: Into<Value>>(said: &mut Value, name: &str, list: Vec<T>) {
    if !list.is_empty() {
        said[name] = Value::Array(list.into_iter().map(Into::into).collect());
    }
}

/// Replaces `known` by `fresh`; returns the fields that differ, and the keys that are gone.
fn differences(known: &mut Table, fresh: Table) -> (Vec<Value>, Vec<String>) {
    let gone = known
        .keys()
        .filter(|k| !fresh.contains_key(*k))
        .cloned()
        .collect();
    let mut changed = Vec::new();
    for (k, fields) in &fresh {
        match known.get(k) {
            None => changed.push(keyed(k, fields.clone())),
            Some(old) => {
                let other = fields.iter().filter(|(name, v)| old.get(*name) != Some(*v));
                let other: Fields = other.map(|(n, v)| (n.clone(), v.clone())).collect();
                if !other.is_empty() {
                    changed.push(keyed(k, other));
                }
            }
        }
    }
    *known = fresh;
    (changed, gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: i32, place: &str, moves: u64) -> ProcRow {
        let row = json!({
            "pid": pid, "home": "n1", "place": place, "uid": 7, "command": "<b>\u{1b}[31m", "cpu_ms": 1,
            "rss_kib": 2, "threads": 1, "busy_percent": 9, "moves": moves, "forwarded": 10 * moves, "age_ms": 5000,
        });
        serde_json::from_value(row).expect("a row")
    }

    fn look(rows: Vec<ProcRow>, silent: &[&str]) -> Look {
        let silent = silent.iter().map(|n| n.parse().expect("a name")).collect();
        Look {
            rows: Some((rows, 0, silent)),
            ..Look::default()
        }
    }

    #[test]
    fn a_change_has_only_what_differs() {
        let mut state = State::default();
        let first = state.take(look(vec![row(1, "n1", 0), row(2, "n1", 0)], &[]), 100_000);
        assert_eq!(first["procs"].as_array().map(Vec::len), Some(2));
        let same = state.take(look(vec![row(1, "n1", 0), row(2, "n1", 0)], &[]), 100_900);
        assert_eq!(same, json!({ "v": VERSION, "at_ms": 100_900 }));
        let moved = state.take(look(vec![row(1, "n2", 1)], &[]), 101_000);
        assert_eq!(
            moved["procs"],
            json!([{ "k": "n1/1", "place": "n2", "moves": 1, "forwarded": 10 }])
        );
        assert_eq!(moved["gone"], json!(["n1/2"]));
        assert_eq!((state.moved, state.forwarded), (1, 10));
        let full = state.full();
        assert_eq!(full["procs"][0]["command"], "<b>\u{1b}[31m");
        assert_eq!(full["procs"][0].get("locked"), None);
    }

    #[test]
    fn age_of_a_checkpoint_is_no_change() {
        let with = |age_ms: u64, calls: u64| {
            let mut row = row(1, "n2", 1);
            row.safe = Some(SafeInfo {
                age_ms: Some(age_ms),
                calls,
                kept_at: Some("n3".parse().expect("a name")),
                ..SafeInfo::default()
            });
            (row.nice, row.direct) = (7, 2);
            look(vec![row], &[])
        };
        let mut state = State::default();
        let first = state.take(with(4_000, 10), 100_000);
        let safe = &first["procs"][0]["safe"];
        assert_eq!(
            (&safe["at_ms"], &safe["kept_at"]),
            (&96_000.into(), &"n3".into())
        );
        assert_eq!(
            (&first["procs"][0]["nice"], &first["procs"][0]["direct"]),
            (&7.into(), &2.into())
        );
        let same = state.take(with(5_100, 10), 101_000);
        assert_eq!(same, json!({ "v": VERSION, "at_ms": 101_000 }));
        let called = state.take(with(6_000, 11), 102_000);
        assert_eq!(called["procs"][0]["safe"]["calls"], 11);
        let newer = state.take(with(100, 0), 103_000);
        assert_eq!(newer["procs"][0]["safe"]["at_ms"], 102_900);
    }

    #[test]
    fn processes_of_a_silent_home_stay() {
        let mut state = State::default();
        state.take(look(vec![row(1, "n1", 0)], &[]), 1);
        let said = state.take(look(vec![], &["n1"]), 2);
        assert_eq!(said.get("gone"), None);
        assert_eq!(said["silent"], json!(["n1"]));
        let said = state.take(look(vec![], &[]), 3);
        assert_eq!(said["gone"], json!(["n1/1"]));
    }

    #[test]
    fn lost_daemon_is_said_once_and_taken_back() {
        let mut state = State::default();
        state.take(look(vec![row(1, "n1", 0)], &[]), 7);
        let lost = state.lose("no answer");
        assert_eq!(
            lost,
            json!({ "v": VERSION, "at_ms": 7, "lost": "no answer" })
        );
        assert_eq!(state.full()["lost"], "no answer");
        let back = state.take(Look::default(), 9);
        assert_eq!(back["lost"], Value::Null);
        assert!(back.as_object().is_some_and(|o| o.contains_key("lost")));
    }
}
