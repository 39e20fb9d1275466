//! The lists of ompsinfo and mosps.

use armento_client::api::ProcInfo;
use armento_model::{NodeName, clean, size};

/// How a list shows a node.
pub type ShowNode<'a> = &'a dyn Fn(&NodeName) -> String;

/// cantmove: the code of the reason why it stays, or `-`.
pub fn reason(p: &ProcInfo) -> String {
    p.stay.map_or_else(|| "-".into(), |s| s.code().to_owned())
}

/// Rows with a column for each name of `columns`.
pub fn listing(columns: &[&str], procs: &[&ProcInfo], node: ShowNode, heading: bool) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    if heading {
        rows.push(columns.iter().map(|c| title(c)).collect());
    }
    for p in procs {
        rows.push(columns.iter().map(|c| cell(c, p, node)).collect());
    }
    let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}"));
        let line = cells.collect::<Vec<_>>().join(" ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn title(column: &str) -> String {
    match column {
        "command" => "CMD".into(),
        "place" => "WHERE".into(),
        other => other.to_uppercase(),
    }
}

fn cell(column: &str, p: &ProcInfo, node: ShowNode) -> String {
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    match column {
        "pid" => p.pid.to_string(),
        "node" if p.place == p.home => "0".into(),
        "node" | "where" => node(&p.place),
        "place" if p.place == p.home => "here".into(),
        "place" => node(&p.place),
        "name" => p.place.to_string(),
        "home" | "from" => node(&p.home),
        "nmigs" => p.moves.to_string(),
        "lock" => yes(p.locked),
        "frz" => yes(p.frozen),
        "cantmove" => reason(p),
        "user" => p.uid.to_string(),
        "mem" => size(p.rss_kib),
        "time" => {
            let s = p.cpu_ms / 1000;
            format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
        }
        _ => clean(&p.command),
    }
}
