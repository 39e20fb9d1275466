//! The live view: one line a node with a bar, and moves as they happen; plain lines without a terminal.

use super::watch::Seen;
use armento_lab::say;
use std::collections::BTreeMap;
use std::io::IsTerminal;

/// Plain progress: a line every so many seconds, and one for each move up to a bound.
const PLAIN_EVERY_S: f64 = 5.0;
/// Moves printed one by one; later ones are only counted.
const MOVES_SHOWN_MAX: usize = 60;

#[derive(Debug)]
pub struct View {
    nodes: Vec<String>,
    terminal: bool,
    colour: bool,
    drawn: usize,
    last_plain_s: f64,
    places: BTreeMap<usize, String>,
    pub moves: Vec<Hop>,
}

/// One move that was seen: when, which job, from where, to where.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Hop {
    pub at_s: f64,
    pub job: usize,
    pub from: String,
    pub to: String,
}

impl View {
    pub fn new(nodes: &[String]) -> View {
        let terminal = std::io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        View {
            nodes: nodes.to_vec(),
            terminal,
            colour: terminal && !plain,
            drawn: 0,
            last_plain_s: f64::MIN,
            places: BTreeMap::new(),
            moves: Vec::new(),
        }
    }

    /// Shows a sample taken `at_s` seconds after the start.
    pub fn show(&mut self, at_s: f64, seen: &[Seen], done: usize) {
        let fresh = self.note_moves(at_s, seen);
        if self.terminal {
            self.erase();
        }
        for m in &fresh {
            if self.moves.len() <= MOVES_SHOWN_MAX {
                say!(
                    "  {:5.1} s  lame {:02}: {} to {}",
                    m.at_s,
                    m.job,
                    m.from,
                    m.to
                );
            }
        }
        if self.terminal {
            self.draw(at_s, seen, done);
        } else if at_s - self.last_plain_s >= PLAIN_EVERY_S {
            self.last_plain_s = at_s;
            say!("{}", plain(at_s, &self.nodes, seen, done, self.moves.len()));
        }
    }

    /// Progress of the run on one node alone.
    pub fn alone(&mut self, at_s: f64, done: usize, of: usize) {
        let line = format!("  {at_s:5.1} s  n1 alone: {done} of {of} done");
        if self.terminal {
            self.erase();
            say!("{line}");
            self.drawn = 1;
        } else if at_s - self.last_plain_s >= 2.0 * PLAIN_EVERY_S {
            self.last_plain_s = at_s;
            say!("{line}");
        }
    }

    fn note_moves(&mut self, at_s: f64, seen: &[Seen]) -> Vec<Hop> {
        let mut fresh = Vec::new();
        for s in seen {
            // All start on n1; the first place seen may already be another.
            let home = self.nodes.first().cloned().unwrap_or_default();
            let from = self.places.insert(s.job, s.place.clone()).unwrap_or(home);
            if from != s.place {
                fresh.push(Hop {
                    at_s,
                    job: s.job,
                    from,
                    to: s.place.clone(),
                });
            }
        }
        self.moves.extend(fresh.iter().cloned());
        fresh
    }

    fn draw(&mut self, at_s: f64, seen: &[Seen], done: usize) {
        for node in &self.nodes {
            say!("{}", node_line(node, seen, self.colour));
        }
        say!("  {at_s:5.1} s  {done} done, {} moves", self.moves.len());
        self.drawn = self.nodes.len() + 1;
    }

    /// Erases the last drawing from the terminal.
    fn erase(&mut self) {
        if self.drawn > 0 {
            armento_lab::write_out(format_args!("\x1b[{}A\x1b[J", self.drawn));
            self.drawn = 0;
        }
    }
}

/// `  n2 ######        02 05 11 …`: a cell for each encoder, then their numbers.
fn node_line(node: &str, seen: &[Seen], colour: bool) -> String {
    let here: Vec<&Seen> = seen.iter().filter(|s| s.place == node).collect();
    let bar = "#".repeat(here.len());
    let numbers: Vec<String> = here.iter().map(|s| format!("{:02}", s.job)).collect();
    let (on, off) = if colour {
        ("\x1b[32m", "\x1b[0m")
    } else {
        ("", "")
    };
    format!("  {node:<4} {on}{bar:<24}{off} {}", numbers.join(" "))
}

fn plain(at_s: f64, nodes: &[String], seen: &[Seen], done: usize, moves: usize) -> String {
    let count = |n: &String| seen.iter().filter(|s| s.place == *n).count();
    let each: Vec<String> = nodes.iter().map(|n| format!("{n} {}", count(n))).collect();
    format!(
        "  {at_s:5.1} s  {}; {done} done, {moves} moves",
        each.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(job: usize, place: &str) -> Seen {
        Seen {
            pid: 1,
            job,
            place: place.into(),
            cpu_ms: 0,
            away_cpu_ms: 0,
            moves: 0,
            forwarded: 0,
            stay: None,
        }
    }

    #[test]
    fn lines_show_jobs_by_node() {
        let s = [seen(2, "n2"), seen(11, "n2"), seen(1, "n1")];
        assert_eq!(
            node_line("n2", &s, false).trim_end(),
            format!("  n2   {:<24} 02 11", "##")
        );
        let nodes = ["n1".to_owned(), "n2".to_owned()];
        assert_eq!(
            plain(1.0, &nodes, &s, 3, 2),
            "    1.0 s  n1 1, n2 2; 3 done, 2 moves"
        );
    }

    #[test]
    fn moves_are_seen_once() {
        let mut v = View::new(&["n1".to_owned(), "n2".to_owned()]);
        assert_eq!(v.note_moves(0.5, &[seen(1, "n1"), seen(2, "n2")]).len(), 1);
        assert_eq!(v.note_moves(1.0, &[seen(1, "n1"), seen(2, "n2")]).len(), 0);
        let back = v.note_moves(1.5, &[seen(2, "n1")]);
        assert_eq!((back[0].from.as_str(), back[0].to.as_str()), ("n2", "n1"));
        assert_eq!(v.moves.len(), 2);
    }
}
