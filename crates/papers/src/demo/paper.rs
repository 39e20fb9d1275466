//! The published rows of the switch case.

use crate::encoders::Mode;
use crate::published::{Row, table};

/// One run of the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Nodes that really ran; the table of the paper has one more (E-01).
    pub nodes: u32,
    pub makespan_s: f64,
    pub percent: f64,
    pub slowest_s: Option<f64>,
    pub fastest_s: Option<f64>,
    pub diff_s: Option<f64>,
    pub diff_percent: Option<f64>,
}

/// The stereo case of this topology (`single`, `hub`, `switch`, `p2p`).
pub fn stereo(topology: &str) -> Option<Published> {
    let table = table(Mode::Stereo.table()).ok()?;
    table.find(&[("topology", topology)]).and_then(published)
}

fn published(row: Row) -> Option<Published> {
    Some(Published {
        nodes: row.number("nodes_measured")? as u32,
        makespan_s: row.number("makespan_s")?,
        percent: row.number("percent_of_single_published")?,
        slowest_s: row.number("slowest_s"),
        fastest_s: row.number("fastest_s"),
        diff_s: row.number("diff_s_published"),
        diff_percent: row.number("diff_pct_published"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_case_is_read() {
        let s = stereo("switch").unwrap();
        assert_eq!((s.nodes, s.makespan_s, s.percent), (3, 2368.0, 36.66));
        assert_eq!((s.diff_s, s.diff_percent), (Some(31.0), Some(1.3)));
    }
}
