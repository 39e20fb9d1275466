//! What an experiment has to show: tables, pictures, remarks. Pure data; `report` writes it as text, Markdown and HTML.

use crate::figures;
use crate::published::{self, Row};

/// What is shown of one experiment.
#[derive(Clone, Debug, Default)]
pub struct Chapter {
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    /// Remarks below, a paragraph each.
    pub notes: Vec<String>,
}

/// A table in the paper's form, with measured values beside the published ones.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub title: String,
    pub heads: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

/// Where the content of a cell comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Label,
    Published,
    /// Computed here from published values.
    Recomputed,
    Measured,
    /// Nothing was printed, or nothing was run.
    Empty,
    /// Drawn with characters: every one has its place.
    Bar,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub text: String,
    pub kind: Kind,
    /// The erratum of a published value.
    pub erratum: Option<&'static str>,
}

/// A measured value: the mean of its repeats, and their range.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Mean {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    pub count: usize,
}

impl Mean {
    /// None of no values.
    pub fn of(values: &[f64]) -> Option<Mean> {
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        Some(Mean {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            low,
            high,
            count: values.len(),
        })
    }

    /// In another unit.
    pub fn times(self, factor: f64) -> Mean {
        Mean {
            mean: self.mean * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }
}

impl Cell {
    /// A name.
    pub fn label(text: impl Into<String>) -> Cell {
        Cell::new(text, Kind::Label)
    }

    /// Nothing was printed in the paper.
    pub fn unprinted() -> Cell {
        Cell::new("", Kind::Empty)
    }

    /// What was not run.
    pub fn unrun() -> Cell {
        Cell::new("not run", Kind::Empty)
    }

    /// A cell of a published table, with its erratum.
    pub fn published(row: Option<Row>, column: &str) -> Cell {
        let text = row.and_then(|r| r.text(column));
        let (Some(row), Some(text)) = (row, text) else {
            return Cell::unprinted();
        };
        Cell {
            erratum: published::mark(&row, column),
            ..Cell::new(text, Kind::Published)
        }
    }

    /// A number computed here from others.
    pub fn recomputed(value: f64, decimals: usize) -> Cell {
        Cell::new(number(value, decimals), Kind::Recomputed)
    }

    /// A measured value, with its range where it was repeated.
    pub fn measured(mean: Option<Mean>, decimals: usize) -> Cell {
        let Some(m) = mean else { return Cell::unrun() };
        let [mean, low, high] = [m.mean, m.low, m.high].map(|v| number(v, decimals));
        let text = match low == high {
            true => mean,
            false => format!("{mean} ({low} to {high})"),
        };
        Cell::new(text, Kind::Measured)
    }

    /// A bar of a percentage, as the paper draws it: one cell for 2 %.
    pub fn bar(percent: Option<f64>) -> Cell {
        match percent {
            Some(percent) => Cell::new(figures::bar(percent), Kind::Bar),
            None => Cell::new("not run", Kind::Bar),
        }
    }

    fn new(text: impl Into<String>, kind: Kind) -> Cell {
        Cell {
            text: text.into(),
            kind,
            erratum: None,
        }
    }

    /// Its text, and the erratum's id.
    pub fn whole(&self) -> String {
        match self.erratum {
            Some(id) => format!("{} {id}", self.text),
            None => self.text.clone(),
        }
    }
}

/// Without the sign of a zero.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let zero = text.bytes().all(|b| matches!(b, b'-' | b'0' | b'.'));
    match zero {
        true => text.trim_start_matches('-').to_owned(),
        false => text,
    }
}

impl Table {
    /// Without rows.
    pub fn new(title: impl Into<String>, heads: &[&str]) -> Table {
        Table {
            title: title.into(),
            heads: heads.iter().map(|h| (*h).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Whether a column has words or bars, which begin at its left edge.
    pub fn has_words(&self, column: usize) -> bool {
        let kinds = self.rows.iter().filter_map(|r| Some(r.get(column)?.kind));
        let mut kinds = kinds.filter(|k| *k != Kind::Empty).peekable();
        kinds.peek().is_some() && kinds.all(|k| matches!(k, Kind::Label | Kind::Bar))
    }

    /// Ids of the errata that it carries, in their order.
    pub fn errata(&self) -> Vec<&'static str> {
        let cells = self.rows.iter().flatten();
        let mut ids: Vec<&str> = cells.filter_map(|c| c.erratum).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// How a series of points is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Points joined by lines.
    Joined,
    /// Thin and without points: a forecast, a bound.
    Thin,
    /// Published values: points only.
    Points,
}

/// A series of points.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub line: Line,
    pub points: Vec<(f64, f64)>,
}

/// One horizontal bar.
#[derive(Clone, Debug)]
pub struct Bar {
    pub label: String,
    pub value: f64,
    /// Its colour.
    pub series: usize,
}

/// The time that something spent in one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    pub row: usize,
    pub place: usize,
    pub from: f64,
    pub to: f64,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Plot {
    pub title: String,
    /// Names and units of the axes.
    pub x: String,
    pub y: String,
    pub content: Content,
}

/// What a picture shows.
#[derive(Clone, Debug)]
pub enum Content {
    Lines(Vec<Series>),
    Bars(Vec<Bar>),
    /// Rows, and the names of places.
    Stretches(Vec<Stretch>, Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_carry_errata_and_ranges() {
        let table = published::table("openmosix-topology/mono.csv").expect("a table");
        let hub = table.find(&[("topology", "hub")]);
        let cell = Cell::published(hub, "diff_s_published");
        assert_eq!(cell.whole(), "438 E-04");
        assert_eq!(
            Cell::published(hub, "percent_of_switch_published"),
            Cell::unprinted()
        );
        let mean = Mean::of(&[1.0, 2.0, 4.5]);
        assert_eq!(Cell::measured(mean, 1).text, "2.5 (1.0 to 4.5)");
        assert_eq!(
            Cell::measured(mean.map(|m| m.times(2.0)), 0).text,
            "5 (2 to 9)"
        );
        assert_eq!(Cell::measured(Mean::of(&[2.0, 2.0]), 1).text, "2.0");
        assert_eq!(Cell::measured(None, 1).text, "not run");
        assert_eq!(Cell::recomputed(-0.04, 1).text, "0.0");
    }
}
