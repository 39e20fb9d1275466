//! Columns beside PID in what ps and top print.

use armento_model::{Pid, clean};
use std::collections::BTreeMap;

/// Where a process is, as the added columns show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// 0: here.
    pub node: u16,
    pub moves: u64,
    pub locked: bool,
    /// The code of the reason why it stays; empty if there is none.
    pub cantmove: String,
    pub home: String,
    pub name: String,
}

/// `text` with the columns added behind PID. Lines before a heading with PID, and texts without one, stay as they are.
/// `info`: NMIGS, LOCK and CANTMOVE as well; `long`: HOME and WHERE by name as well.
pub fn add_columns(text: &str, places: &BTreeMap<Pid, Place>, info: bool, long: bool) -> String {
    let mut column = None;
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        let line = clean(&line.replace('\t', "        "));
        if let Some(n) = line.split_whitespace().position(|w| w == "PID") {
            column = Some(n);
            out += &with(&line, n, &heading(info, long));
        } else {
            let found = column.and_then(|n| Some((n, token(&line, n)?)));
            let pid = found.and_then(|(n, (a, b))| Some((n, line[a..b].parse::<Pid>().ok()?)));
            match pid {
                Some((n, pid)) => {
                    let here = Place::default();
                    let place = places.get(&pid).unwrap_or(&here);
                    out += &with(&line, n, &cells(place, info, long));
                }
                None => out += &line,
            }
        }
        out.push('\n');
    }
    out
}

fn heading(info: bool, long: bool) -> String {
    let mut text = format!(" {:>5}", "NODE");
    if info {
        text += &format!(" {:>5} {:<4} {:<16}", "NMIGS", "LOCK", "CANTMOVE");
    }
    if long {
        text += &format!(" {:<8} {:<8}", "HOME", "WHERE");
    }
    text
}

fn cells(p: &Place, info: bool, long: bool) -> String {
    let or_dash = |s: &str| {
        if s.is_empty() {
            "-".to_owned()
        } else {
            s.to_owned()
        }
    };
    let mut text = format!(" {:>5}", p.node);
    if info {
        let lock = if p.locked { "yes" } else { "no" };
        text += &format!(" {:>5} {:<4} {:<16}", p.moves, lock, or_dash(&p.cantmove));
    }
    if long {
        text += &format!(" {:<8} {:<8}", or_dash(&p.home), or_dash(&p.name));
    }
    text
}

/// The line with `cells` behind its word number `n`.
fn with(line: &str, n: usize, cells: &str) -> String {
    match token(line, n) {
        Some((_, end)) => format!("{}{cells}{}", &line[..end], &line[end..]),
        None => line.to_owned(),
    }
}

/// Begin and end of word number `n`.
fn token(line: &str, n: usize) -> Option<(usize, usize)> {
    let word = line.split_whitespace().nth(n)?;
    let begin = word.as_ptr() as usize - line.as_ptr() as usize;
    Some((begin, begin + word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_follows_pid() {
        let places = BTreeMap::from([(
            812,
            Place {
                node: 3,
                moves: 2,
                locked: true,
                cantmove: "io-uring".into(),
                home: "n1".into(),
                name: "n3".into(),
            },
        )]);
        let ps = "  PID TTY          TIME CMD\n    1 ?        00:00:01 init\n  812 pts/0    00:00:00 a\x1b[2J\n";
        let got = add_columns(ps, &places, false, false);
        let want = "  PID  NODE TTY          TIME CMD\n    1     0 ?        00:00:01 init\n  812     3 pts/0    00:00:00 a?[2J\n";
        assert_eq!(got, want);
        let info = add_columns(ps, &places, true, true);
        let line = info.lines().nth(2).expect("a line");
        assert!(
            line.starts_with("  812     3     2 yes  io-uring         n1       n3       pts/0"),
            "{line}"
        );
        let user = "USER PID %CPU COMMAND\nroot 812 0.0 x\n";
        assert!(add_columns(user, &places, false, false).ends_with("root 812     3 0.0 x\n"));
        let top = "top - 10:00:00 up 1 day\nTasks: 812 total\n\n  PID USER\n  812 root\n";
        let top = add_columns(top, &places, false, false);
        assert!(top.starts_with("top - 10:00:00 up 1 day\nTasks: 812 total\n\n  PID  NODE USER\n"));
        assert_eq!(
            add_columns("CMD\ninit\n", &places, false, false),
            "CMD\ninit\n"
        );
    }
}
