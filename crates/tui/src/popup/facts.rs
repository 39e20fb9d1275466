//! An explanation as labelled lines.

use crate::look::{Look, Role};
use crate::procs::Proc;
use armento_client::api::{Answer, Connections, SafeInfo};
use armento_model::{NodeName, Stay, clean, size};
use ratatui::text::{Line, Span};

/// A label and its text.
pub type Fact = (&'static str, String);

/// Cells of a label.
pub const LABEL: usize = 10;

/// The answer of the daemon of `node` about a process; `procs` are the processes that are shown.
pub fn explained(answer: &Answer, procs: &[Proc], node: Option<&NodeName>) -> Option<Vec<Fact>> {
    let Answer::Why {
        pid: _,
        place,
        stay,
        explanation,
        remedy,
        detail,
        partner,
        away,
        safe,
        connections,
    } = answer
    else {
        return None;
    };
    let place = place.as_ref().map_or("an unknown node", |n| n.as_str());
    let code = stay.map_or_else(String::new, |s| format!(" [{}]", s.code()));
    let partner = partner.map(|pid| {
        let known = procs
            .iter()
            .find(|p| p.id.pid == pid && Some(&p.id.home) == node);
        format!("process {pid} {}", known.map_or("", |p| &p.command))
    });
    let files = away.as_ref().map(|a| {
        let (calls, bytes) = (a.calls_per_s, size(a.bytes_per_s >> 10));
        let percent = a.lost_permille as f64 / 10.0;
        format!(
            "on {}: {calls} calls/s wait for home, {bytes}/s, {percent:.0} % of its time",
            a.node
        )
    });
    let facts = [
        ("it is on", format!("{place}{code}")),
        ("because", explanation.clone()),
        ("more", detail.clone()),
        ("due to", partner.unwrap_or_default()),
        ("files", files.unwrap_or_default()),
        (
            "safe",
            safe.as_ref().map_or_else(String::new, SafeInfo::words),
        ),
        ("sockets", sockets(connections.as_deref())),
        ("remedy", remedy.clone()),
    ];
    Some(
        facts
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .collect(),
    )
}

/// Which connections go from node to node, and why others do not.
fn sockets(connections: Option<&Connections>) -> String {
    let lines = connections.map(Connections::lines).unwrap_or_default();
    lines.join("; ")
}

/// What this node has about a process of another home, which would have more.
pub fn known(proc: &Proc) -> Vec<Fact> {
    let info = &proc.info;
    let (because, remedy) = match info.stay {
        Some(Stay::Locked) | None if info.locked => (Stay::Locked.explain(), Stay::Locked.remedy()),
        Some(stay) => (stay.explain(), stay.remedy()),
        None => ("nothing is known here that keeps it", ""),
    };
    let lost = info.lost_ms.map(|ms| {
        let frozen = if info.frozen {
            ", and it is frozen there"
        } else {
            ""
        };
        format!("no report from there for {} s{frozen}", ms / 1000)
    });
    let facts = [
        ("it is on", info.place.to_string()),
        ("but", lost.unwrap_or_default()),
        ("because", because.to_owned()),
        (
            "safe",
            info.safe.as_ref().map_or_else(String::new, SafeInfo::words),
        ),
        ("sockets", sockets(info.connections.as_ref())),
        ("more", info.detail.clone()),
        ("remedy", remedy.to_owned()),
        (
            "ask",
            format!("`armento why {}` on {}, its home", info.pid, info.home),
        ),
    ];
    facts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// A label, and its text beside it in as many lines as needed.
pub fn fact(look: Look, label: &str, text: &str, width: u16) -> Vec<Line<'static>> {
    let indent = if label.is_empty() { 0 } else { LABEL };
    let room = usize::from(width).saturating_sub(indent).max(1);
    let rows = wrap(&clean(text), room).into_iter().enumerate();
    rows.map(|(i, row)| {
        let head = if i == 0 { label } else { "" };
        Line::from(vec![
            look.span(format!("{head:indent$}"), Role::Head),
            Span::raw(row),
        ])
    })
    .collect()
}

/// Rows of at most `width` cells, broken between words where that is possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        let bare = Span::raw(word.trim_end()).width();
        if used > 0 && used + bare > width {
            rows.push(std::mem::take(&mut row).trim_end().to_owned());
            used = 0;
        }
        for c in word.chars() {
            let wide = Span::raw(c.to_string()).width();
            if used + wide > width && c != ' ' {
                rows.push(std::mem::take(&mut row));
                used = 0;
            }
            row.push(c);
            used += wide;
        }
    }
    rows.push(row.trim_end().to_owned());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words() {
        let check =
            |text: &str, width, rows: &[&str]| assert_eq!(wrap(text, width), rows, "{text}");
        check("", 5, &[""]);
        check("one two three", 7, &["one two", "three"]);
        check("one two three", 20, &["one two three"]);
        check("abcdefgh ij", 3, &["abc", "def", "gh", "ij"]);
        check("日本 語", 4, &["日本", "語"]);
    }
}
