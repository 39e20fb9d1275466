//! Columns of the table of processes.

use super::Proc;
use crate::columns::{Cell, Column, Width};
use crate::look::Role;
use crate::nodes::natural;
use armento_model::{size, span};
use ratatui::text::Line;

pub const COLUMNS: &[Column<Proc>] = &[
    Column {
        head: "PID",
        about: "its number at home",
        right: true,
        width: Width::Pids,
        rank: 0,
        grows: 0,
        falls: false,
        cell: |p, c| c.text(p.info.pid.to_string(), Role::Plain),
        order: |a, b| a.info.pid.cmp(&b.info.pid),
    },
    Column {
        head: "HOME",
        about: "where it was born",
        right: false,
        width: Width::Names,
        rank: 2,
        grows: 0,
        falls: false,
        cell: |p, c| c.text(p.info.home.as_str(), Role::Plain),
        order: |a, b| natural(a.info.home.as_str(), b.info.home.as_str()),
    },
    Column {
        head: "WHERE",
        about: "where it runs",
        right: false,
        width: Width::Names,
        rank: 0,
        grows: 0,
        falls: false,
        cell: |p, c| {
            let role = if p.is_away() { Role::Away } else { Role::Plain };
            c.text(p.info.place.as_str(), role)
        },
        order: |a, b| natural(a.info.place.as_str(), b.info.place.as_str()),
    },
    Column {
        head: "CPU%",
        about: "of one processor, of late",
        right: true,
        width: Width::Cells(5),
        rank: 0,
        grows: 0,
        falls: true,
        cell: |p, c| rate(p.cpu_percent, c),
        order: |a, b| {
            a.cpu_percent
                .unwrap_or(-1.0)
                .total_cmp(&b.cpu_percent.unwrap_or(-1.0))
        },
    },
    Column {
        head: "SINCE",
        about: "how long ago it started",
        right: true,
        width: Width::Cells(6),
        rank: 4,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(span(p.info.age_ms), Role::Plain),
        order: |a, b| a.info.age_ms.cmp(&b.info.age_ms),
    },
    Column {
        head: "MEMORY",
        about: "what it has in memory",
        right: true,
        width: Width::Cells(6),
        rank: 3,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(size(p.info.rss_kib), Role::Plain),
        order: |a, b| a.info.rss_kib.cmp(&b.info.rss_kib),
    },
    Column {
        head: "MOVES",
        about: "how often it moved",
        right: true,
        width: Width::Cells(5),
        rank: 5,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(p.info.moves.to_string(), Role::Plain),
        order: |a, b| a.info.moves.cmp(&b.info.moves),
    },
    Column {
        head: "CALL/s",
        about: "system calls sent home, of late",
        right: true,
        width: Width::Cells(6),
        rank: 4,
        grows: 0,
        falls: true,
        cell: |p, c| rate(p.calls_per_s, c),
        order: |a, b| {
            a.calls_per_s
                .unwrap_or(-1.0)
                .total_cmp(&b.calls_per_s.unwrap_or(-1.0))
        },
    },
    Column {
        head: "BYTE/s",
        about: "bytes to home's files and back, of late",
        right: true,
        width: Width::Cells(6),
        rank: 5,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(size(p.info.rates.bytes() >> 10), Role::Plain),
        order: |a, b| a.info.rates.bytes().cmp(&b.info.rates.bytes()),
    },
    Column {
        head: "CPU",
        about: "CPU time, home and away together, seconds",
        right: true,
        width: Width::Cells(8),
        rank: 6,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(seconds(p.info.cpu_ms), Role::Plain),
        order: |a, b| a.info.cpu_ms.cmp(&b.info.cpu_ms),
    },
    Column {
        head: "AWAY",
        about: "of which away",
        right: true,
        width: Width::Cells(8),
        rank: 7,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(seconds(p.info.away_cpu_ms), Role::Plain),
        order: |a, b| a.info.away_cpu_ms.cmp(&b.info.away_cpu_ms),
    },
    Column {
        head: "THR",
        about: "its threads",
        right: true,
        width: Width::Cells(4),
        rank: 8,
        grows: 0,
        falls: true,
        cell: |p, c| c.text(p.info.threads.to_string(), Role::Plain),
        order: |a, b| a.info.threads.cmp(&b.info.threads),
    },
    Column {
        head: "WHY",
        about: "why it stays where it is, as `armento why` explains",
        right: false,
        width: Width::Cells(12),
        rank: 1,
        grows: 1,
        falls: false,
        cell: |p, c| {
            let word = p.info.stay_word();
            let role = match (p.info.lost_ms, &*word) {
                (Some(_), _) => Role::Bad,
                (None, "-") => Role::Dim,
                (None, _) => Role::Plain,
            };
            c.text(word, role)
        },
        order: |a, b| a.info.stay_word().cmp(&b.info.stay_word()),
    },
    Column {
        head: "COMMAND",
        about: "its command line",
        right: false,
        width: Width::Cells(10),
        rank: 0,
        grows: 9,
        falls: false,
        cell: |p, c| {
            let room = c.width.saturating_sub(p.branch.len() as u16);
            let command = c.look.command(&p.command, room);
            c.text(format!("{}{command}", p.branch), Role::Plain)
        },
        order: |a, b| a.command.cmp(&b.command),
    },
];

/// A rate, which takes two snapshots.
fn rate(value: Option<f64>, c: &Cell) -> Line<'static> {
    match value {
        None => c.text("-", Role::Dim),
        Some(v) if v >= 1e6 => c.text(format!("{:.0}M", v / 1e6), Role::Plain),
        Some(v) if v >= 1e5 => c.text(format!("{:.0}k", v / 1e3), Role::Plain),
        Some(v) => c.text(format!("{v:.0}"), Role::Plain),
    }
}

fn seconds(ms: u64) -> String {
    format!("{:.1}", ms as f64 / 1000.0)
}
