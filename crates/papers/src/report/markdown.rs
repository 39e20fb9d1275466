//! Sections as Markdown, with pictures as files beside it.

use super::sections::Section;
use crate::chapter::{Kind, Table};
use crate::plot;
use crate::published;
use anyhow::Result;
use std::collections::BTreeSet;

/// The whole report.
pub fn page(sections: &[Section]) -> String {
    let mut text = "# The papers, re-run\n\nPublished values are as printed; errata are marked with their ids and listed at \
                    the end. Times are of the scale that each section states.\n\n\
                    | experiment | paper | pass | fail | not measured |\n|---|---|---:|---:|---:|\n"
        .to_owned();
    for s in sections {
        let [pass, fail, unmeasured] = s.counts();
        let e = s.experiment;
        text += &format!(
            "| [{}](#{}) | {} | {pass} | {fail} | {unmeasured} |\n",
            e.id, e.id, e.paper
        );
    }
    let mut errata = BTreeSet::new();
    for s in sections {
        text += &one(s);
        errata.extend(s.chapter.tables.iter().flat_map(Table::errata));
    }
    text += "\n## Errata\n\n| id | item | printed | recomputed | basis |\n|---|---|---|---|---|\n";
    for e in published::errata()
        .iter()
        .filter(|e| errata.contains(&*e.id))
    {
        text += &format!(
            "| {} | {} | {} | {} | {} |\n",
            e.id,
            plain(&e.item),
            plain(&e.published),
            plain(&e.recomputed),
            plain(&e.basis)
        );
    }
    text
}

fn one(s: &Section) -> String {
    let e = s.experiment;
    let mut text = format!(
        "\n## {}\n\n**{}** ({}: {}). {}\n\n",
        e.id, e.title, e.paper, e.place, e.shows
    );
    for fact in &s.facts {
        text += &format!("- {fact}\n");
    }
    for table in &s.chapter.tables {
        text += &grid(table);
    }
    for (i, plot) in s.chapter.plots.iter().enumerate() {
        text += &format!("\n![{}]({}-{}.svg)\n", plot.title, e.id, i + 1);
    }
    for note in &s.chapter.notes {
        text += &format!("\n{note}\n");
    }
    if !s.judged.is_empty() {
        text += "\n| relation | verdict | by how much | measured | published | rule |\n|---|---|---|---|---|---|\n";
    }
    for j in &s.judged {
        let r = j.relation;
        text += &format!(
            "| {} {} | {} | {} | {} | {} | {} |\n",
            r.id,
            plain(&r.text),
            j.verdict.word(),
            plain(&j.verdict.detail()),
            plain(&j.measured),
            plain(&r.published),
            plain(&r.rule)
        );
    }
    let traffic = s.traffic();
    if !traffic.is_empty() {
        text +=
            "\n| run | bytes received by n1 | sent by n1 | sent by all |\n|---|---:|---:|---:|\n";
    }
    for (run, received, sent, all) in traffic {
        text += &format!("| {run} | {received} | {sent} | {all} |\n");
    }
    text
}

fn grid(table: &Table) -> String {
    let mut text = format!("\n{}\n\n|", table.title);
    for head in &table.heads {
        text += &format!(" {} |", plain(head));
    }
    text += "\n|";
    for i in 0..table.heads.len() {
        text += if table.has_words(i) { "---|" } else { "---:|" };
    }
    text.push('\n');
    for row in &table.rows {
        text.push('|');
        for cell in row {
            text += &match cell.kind {
                Kind::Bar => format!(" `{}` |", cell.text),
                _ => format!(" {} |", plain(&cell.whole())),
            };
        }
        text.push('\n');
    }
    text
}

/// What would end a cell, or begin one of HTML.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// All pictures by their file names.
pub fn pictures(sections: &[Section]) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for s in sections {
        for (i, plot) in s.chapter.plots.iter().enumerate() {
            let name = format!("{}-{}.svg", s.experiment.id, i + 1);
            all.push((name, plot::file(&[plot])?));
        }
    }
    Ok(all)
}
