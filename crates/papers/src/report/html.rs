//! Sections as one page that needs nothing else: styles and pictures are within it.

use super::sections::Section;
use crate::chapter::{Cell, Kind, Table};
use crate::plot;
use crate::published;
use crate::relations::Judged;
use anyhow::Result;
use std::collections::BTreeSet;

const STYLE: &str = include_str!("page.css");

/// The whole report.
pub fn page(sections: &[Section]) -> Result<String> {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>The papers, re-run</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>The papers, re-run</h1>\n\
         <p>Published values are as printed, <span class=\"measured\">measured or simulated</span> ones of the scale that each section \
         states, <span class=\"recomputed\">recomputed</span> ones follow from either. Errata carry their ids.</p>\n"
    );
    text += &summary(sections);
    let mut errata = BTreeSet::new();
    for s in sections {
        text += &one(s)?;
        errata.extend(s.chapter.tables.iter().flat_map(Table::errata));
    }
    text += &errata_table(&errata);
    text += "</main>\n</body>\n</html>\n";
    Ok(text)
}

fn summary(sections: &[Section]) -> String {
    let mut text = "<table class=\"summary\">\n<tr><th>experiment</th><th>paper</th><th>on</th><th>pass</th><th>fail</th>\
                    <th>not measured</th></tr>\n"
        .to_owned();
    for s in sections {
        let [pass, fail, unmeasured] = s.counts();
        let e = s.experiment;
        text += &format!(
            "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td>{}</td><td class=\"n\">{pass}</td><td class=\"n\">{fail}</td>\
             <td class=\"n\">{unmeasured}</td></tr>\n",
            e.id,
            escaped(e.title),
            e.paper,
            e.on.word()
        );
    }
    text + "</table>\n"
}

fn one(s: &Section) -> Result<String> {
    let e = s.experiment;
    let mut text = format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"place\"><code>{}</code> · {}: {} · {}</p>\n<p>{}</p>\n<ul class=\"facts\">\n",
        e.id,
        escaped(e.title),
        e.id,
        e.paper,
        escaped(e.place),
        e.requirements.join(", "),
        escaped(e.shows)
    );
    for fact in &s.facts {
        text += &format!("<li>{}</li>\n", worded(fact));
    }
    text += "</ul>\n";
    for table in &s.chapter.tables {
        text += &grid(table);
    }
    for plot in &s.chapter.plots {
        text += &format!("<figure>{}</figure>\n", plot::svg(plot)?);
    }
    for note in &s.chapter.notes {
        text += &format!("<p>{}</p>\n", worded(note));
    }
    text += &relations(&s.judged);
    text += &traffic(s);
    Ok(text + "</section>\n")
}

fn grid(table: &Table) -> String {
    let mut text = format!(
        "<div class=\"wide\"><table>\n<caption>{}</caption>\n<tr>",
        worded(&table.title)
    );
    for (i, head) in table.heads.iter().enumerate() {
        let class = if table.has_words(i) {
            " class=\"words\""
        } else {
            ""
        };
        text += &format!("<th{class}>{}</th>", worded(head));
    }
    text += "</tr>\n";
    for row in &table.rows {
        text += "<tr>";
        row.iter().for_each(|c| text += &cell(c));
        text += "</tr>\n";
    }
    text + "</table></div>\n"
}

fn cell(c: &Cell) -> String {
    let class = match c.kind {
        Kind::Label => "label",
        Kind::Published => "n published",
        Kind::Recomputed => "n recomputed",
        Kind::Measured => "n measured",
        Kind::Empty => "n empty",
        Kind::Bar => "bar",
    };
    let mark = c.erratum.map_or(String::new(), |id| {
        format!(" <a class=\"erratum\" href=\"#{id}\">{id}</a>")
    });
    format!("<td class=\"{class}\">{}{mark}</td>", worded(&c.text))
}

fn relations(all: &[Judged]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = "<div class=\"wide\"><table class=\"relations\">\n<caption>Relations</caption>\n<tr><th>relation</th>\
                    <th>verdict</th><th>by how much</th><th>measured</th><th>published</th><th>rule</th></tr>\n"
        .to_owned();
    for j in all {
        let (r, word) = (j.relation, j.verdict.word());
        text += &format!(
            "<tr><td><b>{}</b> {}</td><td><span class=\"verdict {}\">{word}</span></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            r.id,
            escaped(&r.text),
            word.replace(' ', "-"),
            escaped(&j.verdict.detail()),
            escaped(&j.measured),
            escaped(&r.published),
            escaped(&r.rule)
        );
    }
    text + "</table></div>\n"
}

fn traffic(s: &Section) -> String {
    let all = s.traffic();
    if all.is_empty() {
        return String::new();
    }
    let mut text = "<details><summary>Bytes through the network of each run</summary>\n<div class=\"wide\"><table>\n<tr>\
                    <th>run</th><th>received by n1</th><th>sent by n1</th><th>sent by all nodes</th></tr>\n"
        .to_owned();
    for (run, received, sent, whole) in all {
        text += &format!(
            "<tr><td class=\"label\">{}</td><td class=\"n\">{received}</td><td class=\"n\">{sent}</td><td class=\"n\">{whole}</td></tr>\n",
            escaped(&run)
        );
    }
    text + "</table></div></details>\n"
}

fn errata_table(ids: &BTreeSet<&str>) -> String {
    let mut text = "<section id=\"errata\">\n<h2>Errata</h2>\n<p>Published values that do not recompute, contradict each other or \
                    cannot be physical. They are never corrected in place.</p>\n<div class=\"wide\"><table>\n<tr><th>id</th>\
                    <th>item</th><th>printed</th><th>recomputed</th><th>basis</th><th>verdict</th></tr>\n"
        .to_owned();
    for e in published::errata().iter().filter(|e| ids.contains(&*e.id)) {
        text += &format!(
            "<tr id=\"{}\"><td class=\"label\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            e.id,
            e.id,
            escaped(&e.item),
            escaped(&e.published),
            escaped(&e.recomputed),
            escaped(&e.basis),
            e.verdict
        );
    }
    text + "</table></div>\n</section>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Words between backticks are code.
fn worded(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let part = |(i, part): (usize, &str)| match i % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    };
    parts.map(part).collect()
}
