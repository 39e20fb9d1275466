//! The last hour, kept in memory so that a new page has it at once: load of nodes for all, moves, pauses and forwarded calls
//! as one user sees them.

use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};

/// Between two points, milliseconds.
pub const EVERY_MS: u64 = 2_000;
/// An hour.
const POINTS_MAX: usize = 1_800;
/// Nodes whose load is kept: 4 MB in all.
const NODES_MAX: usize = 1_024;
/// Points that a page gets: more than it has pixels for its charts.
const SHOWN_MAX: usize = 450;
/// A node that was not there.
const NONE: u16 = u16::MAX;

/// Loads of nodes, in hundredths.
#[derive(Default)]
pub struct Loads {
    times: VecDeque<u64>,
    nodes: HashMap<String, VecDeque<u16>>,
}

impl Loads {
    /// Adds a point if the last one is old enough.
    pub fn add<'a>(&mut self, now_ms: u64, loads: impl Iterator<Item = (&'a str, f64)>) {
        if self.times.back().is_some_and(|t| now_ms < t + EVERY_MS) {
            return;
        }
        self.times.push_back(now_ms);
        let before = self.times.len() - 1;
        for (name, load) in loads {
            if !self.nodes.contains_key(name) && self.nodes.len() >= NODES_MAX {
                continue;
            }
            let all = self.nodes.entry(name.to_owned()).or_default();
            all.resize(before, NONE);
            all.push_back((load.clamp(0.0, 600.0) * 100.0).round() as u16);
        }
        let full = self.times.len() > POINTS_MAX;
        if full {
            self.times.pop_front();
        }
        let len = self.times.len();
        self.nodes.retain(|_, all| {
            all.resize(len + usize::from(full), NONE);
            if full {
                all.pop_front();
            }
            all.iter().any(|l| *l != NONE)
        });
    }

    /// The mean load of the farm, or that of one node.
    pub fn shown(&self, node: Option<&str>) -> Value {
        let step = step(self.times.len());
        let at = |i: usize| -> Option<f64> {
            let known = |all: &VecDeque<u16>| all.get(i).copied().filter(|l| *l != NONE);
            match node {
                Some(name) => self
                    .nodes
                    .get(name)
                    .and_then(known)
                    .map(|l| f64::from(l) / 100.0),
                None => {
                    let all: Vec<u16> = self.nodes.values().filter_map(known).collect();
                    let sum: f64 = all.iter().map(|l| f64::from(*l)).sum();
                    (!all.is_empty()).then(|| (sum / all.len() as f64).round() / 100.0)
                }
            }
        };
        let shown: Vec<usize> = (0..self.times.len()).step_by(step).collect();
        let times: Vec<u64> = shown.iter().map(|i| self.times[*i]).collect();
        let loads: Vec<Option<f64>> = shown.iter().map(|i| at(*i)).collect();
        json!({ "t": times, "load": loads })
    }
}

/// Moves, pauses and forwarded calls between two points.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    pub at_ms: u64,
    pub moves: u64,
    pub pause_us: u64,
    pub forwarded: u64,
}

#[derive(Default)]
pub struct Counts(VecDeque<Point>);

impl Counts {
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.0.back().is_none_or(|p| now_ms >= p.at_ms + EVERY_MS)
    }

    pub fn add(&mut self, point: Point) {
        self.0.push_back(point);
        if self.0.len() > POINTS_MAX {
            self.0.pop_front();
        }
    }

    /// Neighbours are added up where there are more than a page shows.
    pub fn shown(&self) -> Value {
        let step = step(self.0.len());
        let all: Vec<Point> = self.0.iter().copied().collect();
        let sum = |part: &[Point]| {
            part.iter().fold(Point::default(), |a, p| Point {
                at_ms: p.at_ms,
                moves: a.moves + p.moves,
                pause_us: a.pause_us.max(p.pause_us),
                forwarded: a.forwarded + p.forwarded,
            })
        };
        let sums: Vec<Point> = all.chunks(step).map(sum).collect();
        let of = |get: fn(&Point) -> u64| sums.iter().map(get).collect::<Vec<_>>();
        json!({
            "t": of(|p| p.at_ms), "moves": of(|p| p.moves), "pause_us": of(|p| p.pause_us),
            "forwarded": of(|p| p.forwarded), "step_ms": step as u64 * EVERY_MS,
        })
    }
}

fn step(len: usize) -> usize {
    len.div_ceil(SHOWN_MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_and_thinned() {
        let mut loads = Loads::default();
        for i in 0..2_000_u64 {
            let n2 = (i >= 1_990).then_some(("n2", 3.0));
            let all = [("n1", 1.0)].into_iter().chain(n2);
            loads.add(i * EVERY_MS, all);
            loads.add(i * EVERY_MS + 1, [("n1", 9.0)].into_iter());
        }
        assert_eq!(loads.times.len(), POINTS_MAX);
        assert!(loads.nodes.values().all(|n| n.len() == POINTS_MAX));
        let shown = loads.shown(None);
        assert!(shown["t"].as_array().is_some_and(|t| t.len() <= SHOWN_MAX));
        assert_eq!(shown["load"][0], 1.0);
        assert_eq!(loads.shown(Some("n2"))["load"][0], Value::Null);
        // A node that is gone for an hour is forgotten.
        for i in 2_000..4_000_u64 {
            loads.add(i * EVERY_MS, [("n1", 1.0)].into_iter());
        }
        assert!(!loads.nodes.contains_key("n2"));
    }

    #[test]
    fn sums_of_counts_stay() {
        let mut counts = Counts::default();
        for i in 0..1_000 {
            assert!(counts.is_due(i * EVERY_MS));
            counts.add(Point {
                at_ms: i * EVERY_MS,
                moves: 1,
                pause_us: i,
                forwarded: 2,
            });
            assert!(!counts.is_due(i * EVERY_MS + 1));
        }
        let shown = counts.shown();
        let moves = shown["moves"].as_array().expect("a list");
        assert_eq!(moves.iter().filter_map(Value::as_u64).sum::<u64>(), 1_000);
        assert!(moves.len() <= SHOWN_MAX);
    }
}
