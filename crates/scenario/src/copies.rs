//! When the copies of each node ended, beside what was published.

use crate::Row;
use std::collections::{BTreeMap, BTreeSet};

/// The policy with which others are compared: everything stays where it is started.
const BASE: &str = "none";

/// Ends by node, or of the longest, with their ratio to those of the first column.
struct Column {
    head: String,
    ends: BTreeMap<usize, f64>,
    base: Option<BTreeMap<usize, f64>>,
}

/// Stands for the longest of all nodes, of each run.
const LONGEST: usize = usize::MAX;

/// Empty where nothing was copied.
pub(crate) fn render(
    rows: &[Row],
    policies: &[&str],
    published: &BTreeMap<String, Vec<f64>>,
) -> String {
    let nodes: BTreeSet<usize> = rows
        .iter()
        .flat_map(|r| r.copies_s.keys().copied())
        .collect();
    if nodes.is_empty() {
        return String::new();
    }
    let ends = |policy: &str| -> BTreeMap<usize, f64> {
        let median = |node: usize| {
            let of = rows.iter().filter(|r| r.policy == policy);
            let end = |r: &Row| match node {
                LONGEST => r.copies_s.values().copied().reduce(f64::max),
                node => r.copies_s.get(&node).copied(),
            };
            let mut all: Vec<f64> = of.filter_map(end).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied()
        };
        let all = nodes.iter().chain([&LONGEST]);
        all.filter_map(|n| Some((*n, median(*n)?))).collect()
    };
    let base = Some(ends(BASE)).filter(|_| policies.contains(&BASE));
    let mut columns: Vec<Column> = policies
        .iter()
        .map(|policy| Column {
            head: (*policy).to_owned(),
            ends: ends(policy),
            base: base.clone().filter(|_| *policy != BASE),
        })
        .collect();
    let numbered = |values: &Vec<f64>| -> BTreeMap<usize, f64> {
        values
            .iter()
            .enumerate()
            .map(|(i, v)| (i + 1, *v))
            .collect()
    };
    let first = published.values().next().map(numbered);
    for (i, (head, values)) in published.iter().enumerate() {
        columns.push(Column {
            head: head.clone(),
            ends: numbered(values),
            base: first.clone().filter(|_| i > 0),
        });
    }
    let mut text = format!(
        "\nend of the last copy of each node, s, medians (over `{BASE}`); published columns in their own unit\n\nnode   "
    );
    columns
        .iter()
        .for_each(|c| text += &format!(" {:>16}", c.head));
    text.push('\n');
    for node in &nodes {
        text += &format!("{:<7}", format!("n{node}"));
        for c in &columns {
            let of = |ends: &BTreeMap<usize, f64>| ends.get(node).copied();
            text += &format!(" {:>16}", cell(of(&c.ends), c.base.as_ref().and_then(of)));
        }
        text.push('\n');
    }
    // The median of the longest is no less than any node's.
    text += "longest";
    for c in &columns {
        let of = |ends: &BTreeMap<usize, f64>| ends.values().copied().reduce(f64::max);
        text += &format!(" {:>16}", cell(of(&c.ends), c.base.as_ref().and_then(of)));
    }
    text + "\n"
}

fn cell(end: Option<f64>, base: Option<f64>) -> String {
    match (end, base) {
        (None, _) => "-".into(),
        (Some(end), None) => format!("{end:.1}"),
        (Some(end), Some(base)) => format!("{end:.1} ({:.2})", end / base),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_compared_with_its_end_without_moves() {
        let row = |policy: &str, ends: [f64; 2]| Row {
            policy: policy.into(),
            copies_s: [(1, ends[0]), (2, ends[1])].into(),
            ..Row::default()
        };
        let rows = [row("armento", [20.0, 24.0]), row("none", [20.0, 30.0])];
        let published = [
            ("no openMosix".to_owned(), vec![200.0, 300.0]),
            ("openMosix".to_owned(), vec![270.0, 240.0]),
        ];
        let text = render(&rows, &["armento", "none"], &published.into());
        for line in [
            "n1           20.0 (1.00)             20.0            200.0     270.0 (1.35)\n",
            "n2           24.0 (0.80)             30.0            300.0     240.0 (0.80)\n",
            "longest      24.0 (0.80)             30.0            300.0     270.0 (0.90)\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert_eq!(render(&[Row::default()], &["none"], &BTreeMap::new()), "");
    }
}
