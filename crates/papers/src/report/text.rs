//! A section for a terminal.

use super::sections::Section;
use crate::chapter::{Cell, Table};
use crate::published;
use crate::runner::On;
use std::collections::BTreeSet;

/// Width of paragraphs.
const WIDTH: usize = 100;

/// One experiment.
pub fn section(s: &Section) -> String {
    let e = s.experiment;
    let mut text = format!("\n{}: {}\n", e.id, e.title);
    text += &wrapped(&format!("{} ({}: {})", e.shows, e.paper, e.place));
    for fact in &s.facts {
        text += &wrapped(fact);
    }
    let mut errata = BTreeSet::new();
    for table in &s.chapter.tables {
        text += &format!("\n{}\n{}", table.title, grid(table));
        errata.extend(table.errata());
    }
    for note in &s.chapter.notes {
        text += &format!("\n{}", wrapped(note));
    }
    for id in errata {
        if let Some(e) = published::errata().iter().find(|e| e.id == id) {
            text += &wrapped(&format!(
                "{id}: {}: printed {}, {}",
                e.item, e.published, e.recomputed
            ));
        }
    }
    if !s.judged.is_empty() {
        text += "\nRelations\n";
    }
    for j in &s.judged {
        text += &format!(
            "{:<5}{:<13}{}\n",
            j.relation.id,
            j.verdict.word(),
            j.relation.text
        );
        let published = match &*j.relation.published {
            "" => String::new(),
            published => format!("; published {published}"),
        };
        let ground = match e.on {
            On::Paper => "computed",
            _ => "measured",
        };
        let measured = match &*j.measured {
            "" => format!("nothing {ground}"),
            measured => format!("{ground} {measured}"),
        };
        text += &format!(
            "     {}; rule: {}\n     {measured}{published}\n",
            j.verdict.detail(),
            j.relation.rule
        );
    }
    text
}

/// A table alone, below its title.
pub fn plain(table: &Table) -> String {
    format!("{}\n{}", table.title, grid(table))
}

fn wrapped(text: &str) -> String {
    let (mut all, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + word.chars().count() >= WIDTH {
            all += &format!("{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    all + &format!("{line}\n")
}

/// Columns as wide as their widest cell; heads have a word a line.
fn grid(table: &Table) -> String {
    let cells: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|r| r.iter().map(Cell::whole).collect())
        .collect();
    let heads: Vec<Vec<&str>> = table.heads.iter().map(|h| h.split(' ').collect()).collect();
    let width = |i: usize| {
        let column = cells.iter().map(|r| r[i].chars().count());
        let head = heads[i].iter().map(|w| w.chars().count());
        column.chain(head).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let lines = heads.iter().map(Vec::len).max().unwrap_or(0);
    let pad = |i: usize, text: &str| {
        let gap = " ".repeat(widths[i].saturating_sub(text.chars().count()));
        match table.has_words(i) {
            true => format!("{text}{gap}"),
            false => format!("{gap}{text}"),
        }
    };
    let mut text = String::new();
    let mut line = |of: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..widths.len()).map(|i| pad(i, &of(i))).collect();
        text += all.join("  ").trim_end();
        text.push('\n');
    };
    for l in 0..lines {
        // Heads stand on the rows.
        let word = |i: usize| {
            let at = (l + heads[i].len()).checked_sub(lines);
            at.and_then(|at| heads[i].get(at))
                .copied()
                .unwrap_or_default()
                .to_owned()
        };
        line(&word);
    }
    for row in &cells {
        line(&|i| row[i].clone());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let mut t = Table::new("t", &["N", "MOSIX published", "bar"]);
        t.rows.push(vec![
            Cell::label("1"),
            Cell::recomputed(301.9, 1),
            Cell::bar(Some(6.0)),
        ]);
        t.rows
            .push(vec![Cell::label("17"), Cell::unrun(), Cell::bar(Some(2.0))]);
        assert_eq!(
            grid(&t),
            "        MOSIX\nN   published  bar\n1       301.9  OOO\n17    not run  O\n"
        );
    }

    #[test]
    fn paragraphs_are_wrapped() {
        let text = wrapped(&"word ".repeat(50));
        assert!(text.lines().count() == 3 && text.lines().all(|l| l.len() <= WIDTH));
    }
}
