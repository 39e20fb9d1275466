//! The published side of the table: values of `papers/openmosix-topology`, read, never retyped.

/// The stereo runs: 24 jobs on one node, behind a hub, behind a switch, point to point.
const STEREO: &str = include_str!("../../../../papers/openmosix-topology/stereo.csv");
/// The same in mono.
#[cfg(test)]
const MONO: &str = include_str!("../../../../papers/openmosix-topology/mono.csv");
#[cfg(test)]
const POWER: &str = include_str!("../../../../papers/openmosix-topology/equivalent-power.csv");

/// PAPER(P, test bed): the 24 conversions of each run.
pub const JOBS: usize = 24;
/// PAPER(P, stereo, case 1): 6459 s / 24 conversions.
pub const CPU_S_PER_JOB: f64 = 269.125;
/// PAPER(P, test bed): 89,782,940 bytes of WAV and 16,287,870 of MP3.
pub const BYTES_PER_JOB: f64 = 106_070_810.0;
/// PAPER(P, stereo, case 3): the switch.
pub const LINK_BIT_S: f64 = 100e6;
/// PAPER(P, test bed): Pentium II.
pub const MHZ: f64 = 300.0;

/// One run of the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub topology: String,
    /// Nodes that really ran; the table of the paper has one more (E-01).
    pub nodes: u32,
    pub makespan_s: f64,
    pub percent: f64,
    pub slowest_s: Option<f64>,
    pub fastest_s: Option<f64>,
    pub diff_s: Option<f64>,
    pub diff_percent: Option<f64>,
    pub bar: String,
}

/// The stereo case of this topology (`single`, `hub`, `switch`, `p2p`).
pub fn stereo(topology: &str) -> Option<Published> {
    rows(STEREO).into_iter().find(|r| r.topology == topology)
}

fn rows(csv: &str) -> Vec<Published> {
    let table = Table::read(csv);
    table
        .rows
        .iter()
        .filter_map(|row| published(&table, row))
        .collect()
}

fn published(table: &Table, row: &[&str]) -> Option<Published> {
    let text = |name: &str| table.cell(row, name);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    Some(Published {
        topology: text("topology")?.to_owned(),
        nodes: number("nodes_measured")? as u32,
        makespan_s: number("makespan_s")?,
        percent: number("percent_of_single_published")?,
        slowest_s: number("slowest_s"),
        fastest_s: number("fastest_s"),
        diff_s: number("diff_s_published"),
        diff_percent: number("diff_pct_published"),
        bar: text("bar").or_else(|| text("bar_of_single"))?.to_owned(),
    })
}

/// A CSV file without quoted commas: comment lines, a header, rows.
struct Table<'a> {
    names: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

impl<'a> Table<'a> {
    fn read(csv: &'a str) -> Table<'a> {
        let mut lines = csv.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
        let names = lines.next().unwrap_or_default().split(',').collect();
        Table {
            names,
            rows: lines.map(|l| l.split(',').collect()).collect(),
        }
    }

    fn cell<'r>(&self, row: &'r [&'a str], name: &str) -> Option<&'r str> {
        let at = self.names.iter().position(|n| *n == name)?;
        row.get(at).copied().filter(|c| !c.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::{self, Spread};
    use super::*;

    #[test]
    fn the_switch_case_is_read() {
        let s = stereo("switch").unwrap();
        assert_eq!((s.nodes, s.makespan_s, s.percent), (3, 2368.0, 36.66));
        assert_eq!((s.diff_s, s.diff_percent), (Some(31.0), Some(1.3)));
        assert_eq!(
            stereo("single").unwrap().makespan_s / JOBS as f64,
            CPU_S_PER_JOB
        );
    }

    /// percents of the single node; printed values are truncated (E-05).
    #[test]
    fn percents_recompute() {
        for csv in [STEREO, MONO] {
            let all = rows(csv);
            for r in &all {
                let p = figures::percent(r.makespan_s, all[0].makespan_s);
                assert!(
                    (p - r.percent).abs() <= 0.011,
                    "{} {p} {}",
                    r.topology,
                    r.percent
                );
            }
        }
    }

    /// slow, fast, diff, diff % of slow; but for E-03 and E-04, one second off.
    #[test]
    fn spreads_recompute() {
        for csv in [STEREO, MONO] {
            for r in rows(csv) {
                let (Some(slow), Some(fast)) = (r.slowest_s, r.fastest_s) else {
                    continue;
                };
                let s = Spread::of(&[slow, fast]).unwrap();
                let (diff, percent) = (r.diff_s.unwrap(), r.diff_percent.unwrap());
                let off = match diff as u32 {
                    31 | 438 => 1.0, // E-03, E-04
                    _ => 0.0,
                };
                assert!((s.diff_s - diff).abs() <= off, "{} {}", s.diff_s, diff);
                assert!(
                    (s.diff_percent - percent).abs() < 0.06,
                    "{} {percent}",
                    s.diff_percent
                );
            }
        }
    }

    /// every printed bar; the one of E-17 is not in these tables.
    #[test]
    fn bars_redraw() {
        for csv in [STEREO, MONO] {
            for r in rows(csv) {
                assert_eq!(figures::bar(r.percent), r.bar, "{}", r.topology);
            }
        }
    }

    /// 567.52, 623.33 and 820.56 MHz; printed truncated (E-05), one difference wrong (E-06).
    #[test]
    fn equivalent_powers_recompute() {
        let (single, mono) = (3233.0, rows(MONO));
        let table = Table::read(POWER);
        for row in &table.rows {
            let number = |name| table.cell(row, name).and_then(|c| c.parse::<f64>().ok());
            let topology = table.cell(row, "topology").unwrap();
            let t = mono
                .iter()
                .find(|m| m.topology == topology)
                .unwrap()
                .makespan_s;
            let p = figures::Power::of(MHZ, number("tot_pc").unwrap() as u32, single, t);
            assert!(
                (p.w - number("w_recomputed_mhz").unwrap()).abs() < 0.006,
                "{topology}"
            );
            assert_eq!(
                p.w.trunc(),
                number("w_published_mhz").unwrap(),
                "{topology}"
            );
            if let Some(d) = number("difference_recomputed_pct") {
                assert!((p.difference_percent - d).abs() < 0.006, "{topology}");
            }
        }
    }
}
