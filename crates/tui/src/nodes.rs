//! The table of nodes: columns, order, sums.

use crate::columns::{Cell, Column, Width};
use crate::look::Role;
use armento_client::api::{NodeInfo, STANDARD_SPEED};
use armento_model::{clean, size, span};
use ratatui::text::Line;
use std::cmp::Ordering;

/// Data older than this is marked as old, milliseconds. Vectors are fresh within seconds on any farm that can be
/// simulated.
const OLD_MS: u64 = 10_000;

/// Higher loads do not occur, and have no room in the column.
const LOAD_MAX: f64 = 99_999.0;

pub const COLUMNS: &[Column<NodeInfo>] = &[
    Column {
        head: "NODE",
        about: "its name; * is the one asked",
        right: false,
        width: Width::Names,
        rank: 0,
        grows: 0,
        falls: false,
        cell: |n, c| {
            let star = if n.here { "*" } else { "" };
            c.text(format!("{}{star}", n.name), Role::Plain)
        },
        order: |a, b| natural(a.name.as_str(), b.name.as_str()),
    },
    Column {
        head: "STATE",
        about: "alive, suspect (no recent report), down, leaving",
        right: false,
        width: Width::Cells(7),
        rank: 1,
        grows: 0,
        falls: false,
        cell: |n, c| c.text(clean(n.standing()), state_role(n.standing())),
        order: |a, b| a.standing().cmp(b.standing()),
    },
    Column {
        head: "LOAD",
        about: "runnable work over power; 1.00 is a process for each standard processor, what is above looks different",
        right: false,
        width: Width::Cells(14),
        rank: 0,
        grows: 3,
        falls: true,
        cell: |n, c| if_reported(n, c, load),
        order: |a, b| a.load.total_cmp(&b.load),
    },
    Column {
        head: "CORES",
        about: "processors it may use",
        right: true,
        width: Width::Cells(5),
        rank: 3,
        grows: 0,
        falls: true,
        cell: |n, c| if_reported(n, c, |n, c| c.text(n.cores.to_string(), Role::Plain)),
        order: |a, b| a.cores.cmp(&b.cores),
    },
    Column {
        head: "SPEED",
        about: "of one; 10000 is the standard processor",
        right: true,
        width: Width::Cells(5),
        rank: 5,
        grows: 0,
        falls: true,
        cell: |n, c| if_reported(n, c, |n, c| c.text(n.speed.to_string(), Role::Plain)),
        order: |a, b| a.speed.cmp(&b.speed),
    },
    Column {
        head: "MEMORY",
        about: "used, of all",
        right: false,
        width: Width::Cells(20),
        rank: 4,
        grows: 2,
        falls: true,
        cell: |n, c| if_reported(n, c, memory),
        order: |a, b| used_share(a).total_cmp(&used_share(b)),
    },
    Column {
        head: "GUESTS",
        about: "bodies of other nodes' programs; +N frozen: their home does not answer",
        right: true,
        width: Width::Cells(6),
        rank: 2,
        grows: 0,
        falls: true,
        cell: |n, c| if_reported(n, c, guests),
        order: |a, b| a.guests.cmp(&b.guests),
    },
    Column {
        head: "AGE",
        about: "time since its last report",
        right: true,
        width: Width::Cells(6),
        rank: 2,
        grows: 0,
        falls: true,
        cell: |n, c| {
            let role = if n.age_ms >= OLD_MS {
                Role::Warn
            } else {
                Role::Plain
            };
            if_reported(n, c, |n, c| c.text(span(n.age_ms), Role::Plain)).style(c.look.style(role))
        },
        order: |a, b| a.age_ms.cmp(&b.age_ms),
    },
    Column {
        head: "WIRE",
        about: "tls or plain",
        right: false,
        width: Width::Cells(5),
        rank: 6,
        grows: 0,
        falls: false,
        cell: |n, c| if_reported(n, c, |n, c| c.text(clean(&n.wire), Role::Dim)),
        order: |a, b| a.wire.cmp(&b.wire),
    },
    Column {
        head: "ADDRESS",
        about: "where its daemon listens",
        right: false,
        width: Width::Cells(21),
        rank: 7,
        grows: 0,
        falls: false,
        cell: |n, c| c.text(clean(&n.addr), Role::Dim),
        order: |a, b| a.addr.cmp(&b.addr),
    },
];

fn state_role(state: &str) -> Role {
    match state {
        "alive" => Role::Good,
        "down" => Role::Bad,
        _ => Role::Warn,
    }
}

/// A node that has never reported has no cores.
fn if_reported(
    n: &NodeInfo,
    c: &Cell,
    cell: fn(&NodeInfo, &Cell) -> Line<'static>,
) -> Line<'static> {
    if n.cores == 0 {
        c.text("-", Role::Dim)
    } else {
        cell(n, c)
    }
}

fn load(n: &NodeInfo, c: &Cell) -> Line<'static> {
    let number = match n.load {
        100.0.. => format!("{:>5.0} ", n.load.min(LOAD_MAX)),
        load => format!("{load:>5.2} "),
    };
    let room = c.width.saturating_sub(number.len() as u16);
    let mut spans = vec![c.look.span(number, Role::Plain)];
    spans.extend(c.look.bar(n.load, 1.0, c.full, room));
    Line::from(spans)
}

fn memory(n: &NodeInfo, c: &Cell) -> Line<'static> {
    let number = format!(" {}/{}", size(used_kib(n)), size(n.mem_total_kib));
    // As wide as the widest: bars of all nodes end at the same column.
    let room = c.width.saturating_sub(14);
    let mut spans = c.look.bar(
        used_kib(n) as f64,
        n.mem_total_kib as f64,
        n.mem_total_kib as f64,
        room,
    );
    spans.push(c.look.span(number, Role::Plain));
    Line::from(spans)
}

fn guests(n: &NodeInfo, c: &Cell) -> Line<'static> {
    match n.frozen {
        0 => c.text(n.guests.to_string(), Role::Plain),
        frozen => c.text(
            format!("{}+{frozen}", n.guests.saturating_sub(frozen)),
            Role::Warn,
        ),
    }
}

pub fn used_kib(n: &NodeInfo) -> u64 {
    n.mem_total_kib.saturating_sub(n.mem_free_kib)
}

fn used_share(n: &NodeInfo) -> f64 {
    used_kib(n) as f64 / n.mem_total_kib.max(1) as f64
}

/// Sums over all nodes, for the header.
#[derive(Debug, Default, PartialEq)]
pub struct Sums {
    pub known: usize,
    pub up: usize,
    /// Runnable work, and standard processors, of nodes that are up.
    pub load: f64,
    pub power: f64,
    pub used_kib: u64,
    pub total_kib: u64,
}

pub fn is_up(n: &NodeInfo) -> bool {
    matches!(n.state.as_str(), "alive" | "suspect" | "leaving")
}

pub fn sums(nodes: &[NodeInfo]) -> Sums {
    let mut sums = Sums {
        known: nodes.len(),
        ..Sums::default()
    };
    for n in nodes.iter().filter(|n| is_up(n)) {
        let power = f64::from(n.cores) * f64::from(n.speed) / f64::from(STANDARD_SPEED);
        sums.up += 1;
        sums.load += n.load * power;
        sums.power += power;
        sums.used_kib = sums.used_kib.saturating_add(used_kib(n));
        sums.total_kib = sums.total_kib.saturating_add(n.mem_total_kib);
    }
    sums
}

/// How work is spread over the nodes that are up, where not all of them can be seen.
#[derive(Debug, Default, PartialEq)]
pub struct Spread {
    /// Less than half a process for each standard processor.
    pub idle: usize,
    /// More than one.
    pub full: usize,
    pub down: usize,
}

pub fn spread(nodes: &[NodeInfo]) -> Spread {
    let mut spread = Spread::default();
    for n in nodes {
        match n.load {
            _ if !is_up(n) => spread.down += 1,
            ..0.5 => spread.idle += 1,
            1.005.. => spread.full += 1,
            _ => {}
        }
    }
    spread
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} idle, {} full, {} down",
            self.idle, self.full, self.down
        )
    }
}

/// Load that a full bar stands for: the same for all nodes, at least their power.
pub fn full(nodes: &[NodeInfo]) -> f64 {
    nodes
        .iter()
        .map(|n| n.load.min(LOAD_MAX).ceil())
        .fold(1.0, f64::max)
}

/// n2 before n10.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let order = match (number(a), number(b)) {
            (Some((n, rest)), Some((m, other))) => {
                (a, b) = (rest, other);
                n.cmp(&m)
            }
            _ => {
                let (mut x, mut y) = (a.chars(), b.chars());
                let order = x.next().cmp(&y.next());
                (a, b) = (x.as_str(), y.as_str());
                order
            }
        };
        if order.is_ne() || a.is_empty() && b.is_empty() {
            return order;
        }
    }
}

/// The number with which `text` begins: its length without leading zeros and its digits order it.
fn number(text: &str) -> Option<((usize, &str), &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let short = digits.trim_start_matches('0');
    (end > 0).then_some(((short.len(), short), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_by_their_numbers() {
        let mut names = ["n10", "fast-2", "n9", "n1", "fast", "n010a", "2", "fast-10"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            ["2", "fast", "fast-2", "fast-10", "n1", "n9", "n10", "n010a"]
        );
        assert_eq!(natural("", "a"), Ordering::Less);
        assert_eq!(natural("n1", "n1"), Ordering::Equal);
    }
}
