//! Errata, and the cells that they concern.

use super::tables::{Row, table};
use std::sync::LazyLock;

/// A published value that does not recompute, contradicts another or cannot be physical.
#[derive(Clone, Debug)]
pub struct Erratum {
    pub id: String,
    pub item: String,
    pub published: String,
    pub recomputed: String,
    pub basis: String,
    /// error, rounding, inconsistent, implausible, confounded, definition or gap.
    pub verdict: String,
}

/// A printed cell that an erratum concerns.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Path of the table below `papers/`.
    pub file: String,
    /// Columns and values that select the rows.
    pub place: Vec<(String, String)>,
    pub column: String,
    pub erratum: String,
}

/// All errata, in the order of their ids.
pub fn errata() -> &'static [Erratum] {
    static ALL: LazyLock<Vec<Erratum>> = LazyLock::new(|| {
        let text = |row: &Row, column: &str| row.text(column).unwrap_or_default().to_owned();
        let of = |row: Row| Erratum {
            id: text(&row, "id"),
            item: text(&row, "item"),
            published: text(&row, "published"),
            recomputed: text(&row, "recomputed"),
            basis: text(&row, "basis"),
            verdict: text(&row, "verdict"),
        };
        // A test reads every file of the program, so that none fails here.
        table("errata.csv").map_or_else(|_| Vec::new(), |t| t.rows().map(of).collect())
    });
    &ALL
}

/// All marked cells.
pub fn marks() -> &'static [Mark] {
    static ALL: LazyLock<Vec<Mark>> = LazyLock::new(|| {
        let text = |row: &Row, column: &str| row.text(column).unwrap_or_default().to_owned();
        let pair = |part: &str| {
            let (column, value) = part.split_once('=')?;
            Some((column.to_owned(), value.to_owned()))
        };
        let of = |row: Row| Mark {
            file: text(&row, "file"),
            place: text(&row, "where").split(';').filter_map(pair).collect(),
            column: text(&row, "column"),
            erratum: text(&row, "erratum"),
        };
        table("marks.csv").map_or_else(|_| Vec::new(), |t| t.rows().map(of).collect())
    });
    &ALL
}

/// The id of the erratum of a cell.
pub fn mark(row: &Row, column: &str) -> Option<&'static str> {
    let selects = |m: &&Mark| {
        let here = |(c, v): &(String, String)| row.text(c) == Some(v);
        m.file == row.path() && m.column == column && m.place.iter().all(here)
    };
    marks().iter().find(selects).map(|m| &*m.erratum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_names_an_erratum_and_a_cell_that_exists() {
        for m in marks() {
            assert!(errata().iter().any(|e| e.id == m.erratum), "{m:?}");
            let table = table(&m.file).unwrap_or_else(|e| panic!("{e}"));
            let place: Vec<(&str, &str)> = m.place.iter().map(|(c, v)| (&**c, &**v)).collect();
            let row = table.find(&place).unwrap_or_else(|| panic!("{m:?}"));
            assert!(!place.is_empty() && row.text(&m.column).is_some(), "{m:?}");
            assert_eq!(mark(&row, &m.column), Some(&*m.erratum));
        }
        assert_eq!(marks().len(), 30);
    }
}
