//! Relations that a re-run should show, judged on measured values.
//!
//! `papers/relations.csv` has those of the papers (Q-…), `papers/bars.csv` what this project asks of itself (B-…). Start
//! at [`relation`] and [`Relation::judge`].

use crate::formula::{Expr, Margin, Missing, Test, Values};
use crate::published::{self, Row};
use std::sync::LazyLock;

/// One relation.
#[derive(Clone, Debug)]
pub struct Relation {
    pub id: String,
    pub text: String,
    /// What the paper has.
    pub published: String,
    /// The rule, in words.
    pub rule: String,
    /// What is shown beside the verdict.
    pub measures: Vec<Expr>,
    /// None where no re-run can be put to it yet.
    pub test: Option<Test>,
}

/// What became of a relation.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Holds(Margin),
    Fails(Margin),
    /// Values that it needs were not measured.
    Unmeasured(Missing),
    /// It has no test; values are shown only.
    Shown,
}

/// A relation, judged.
#[derive(Clone, Debug)]
pub struct Judged {
    pub relation: &'static Relation,
    /// The measured values, as they are printed.
    pub measured: String,
    pub verdict: Verdict,
}

/// All relations and bars.
pub fn all() -> &'static [Relation] {
    static ALL: LazyLock<Vec<Relation>> = LazyLock::new(|| {
        let files = ["relations.csv", "bars.csv"];
        // Tests read every relation of the program, so that none is left out here.
        let tables = files.iter().filter_map(|f| published::table(f).ok());
        let mut all = Vec::new();
        for table in tables {
            all.extend(table.rows().filter_map(|row| read(&row).ok()));
        }
        all
    });
    &ALL
}

/// The relation with this id.
pub fn relation(id: &str) -> Option<&'static Relation> {
    all().iter().find(|r| r.id == id)
}

fn read(row: &Row) -> Result<Relation, String> {
    let text = |column: &str| row.text(column).unwrap_or_default();
    let id = text("id");
    let wrong = |e: String| format!("{}: {id}: {e}", row.path());
    let measures = text("measure").split(';').filter(|m| !m.trim().is_empty());
    let measures = measures.map(Expr::parse).collect::<Result<_, _>>();
    let test = row.text("test").map(Test::parse).transpose();
    Ok(Relation {
        id: id.to_owned(),
        text: text("relation").to_owned(),
        published: text("published").to_owned(),
        rule: text("pass_if").to_owned(),
        measures: measures.map_err(wrong)?,
        test: test.map_err(wrong)?,
    })
}

impl Relation {
    /// Puts it to measured values.
    pub fn judge(&'static self, values: &Values) -> Judged {
        let verdict = match &self.test {
            None => Verdict::Shown,
            Some(test) => match test.judge(values) {
                Err(missing) => Verdict::Unmeasured(missing),
                Ok(margin) if margin.holds => Verdict::Holds(margin),
                Ok(margin) => Verdict::Fails(margin),
            },
        };
        let measured = self.measures.iter().filter_map(|m| shown(m, values));
        Judged {
            relation: self,
            measured: measured.collect::<Vec<_>>().join("; "),
            verdict,
        }
    }
}

/// A value, or the range of values where `{n}` stands for several numbers.
fn shown(expr: &Expr, values: &Values) -> Option<String> {
    let all = expr.all(values).ok()?;
    let least = all.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = all.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let at = |(n, v): &(Option<u64>, f64)| match n {
        Some(n) => format!("{} (at {n})", digits(*v)),
        None => digits(*v),
    };
    match all.len() {
        1 => Some(at(least)),
        _ => Some(format!("{} to {}", at(least), at(most))),
    }
}

/// Four digits that matter, or all before the point.
pub fn digits(value: f64) -> String {
    let before = value.abs().max(1e-12).log10().floor() as i32;
    let decimals = (3 - before).clamp(0, 4) as usize;
    format!("{value:.decimals$}")
}

impl Verdict {
    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Holds(_) => "pass",
            Verdict::Fails(_) => "fail",
            Verdict::Unmeasured(_) => "not measured",
            Verdict::Shown => "shown only",
        }
    }

    /// By how much it passes or fails, or what is missing.
    pub fn detail(&self) -> String {
        match self {
            Verdict::Holds(m) | Verdict::Fails(m) => {
                let at = m.n.map_or(String::new(), |n| format!(" at {n}"));
                let sides = format!("{} {} {}", digits(m.left), m.sign.text(), digits(m.right));
                match m.holds {
                    true => format!("by {:.1} %: {sides}{at}", m.percent),
                    false => format!("by {:.1} %: not {sides}{at}", m.percent.abs()),
                }
            }
            Verdict::Unmeasured(missing) => {
                const SHOWN_MAX: usize = 4;
                let names: Vec<&str> = missing.0.iter().map(|n| &**n).collect();
                let more = match names.len().saturating_sub(SHOWN_MAX) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let first = &names[..names.len().min(SHOWN_MAX)];
                format!("needs {}{more}", first.join(", "))
            }
            Verdict::Shown => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_relation_can_be_read() {
        let mut count = 0;
        for file in ["relations.csv", "bars.csv"] {
            let table = published::table(file).unwrap_or_else(|e| panic!("{e}"));
            for row in table.rows() {
                read(&row).unwrap_or_else(|e| panic!("{e}"));
                count += 1;
            }
        }
        assert_eq!((count, all().len()), (54, 54));
    }

    /// The papers' own values, put to their relations: all hold, but for the one that E-12 is about.
    #[test]
    fn published_values_show_their_relations() {
        let values = published::values();
        for relation in all().iter().filter(|r| r.id.starts_with("Q-")) {
            let judged = relation.judge(values);
            let (id, verdict) = (&*relation.id, &judged.verdict);
            match id {
                "Q-08" => assert!(matches!(verdict, Verdict::Fails(_)), "{id}: {verdict:?}"),
                "Q-21" => assert_eq!(*verdict, Verdict::Shown, "{id}"),
                // The values of their figures are not printed.
                "Q-22" | "Q-30" => assert!(
                    matches!(verdict, Verdict::Unmeasured(_)),
                    "{id}: {verdict:?}"
                ),
                _ => assert!(matches!(verdict, Verdict::Holds(_)), "{id}: {verdict:?}"),
            }
        }
    }

    /// Each number in the column `published` is the value of one of the expressions, to its last digit.
    #[test]
    fn published_numbers_recompute() {
        let values = published::values();
        let mut checked = 0;
        for relation in all()
            .iter()
            .filter(|r| r.id.starts_with("Q-") && !r.measures.is_empty())
        {
            let all: Vec<f64> = relation
                .measures
                .iter()
                .flat_map(|m| {
                    m.all(values)
                        .unwrap_or_else(|e| panic!("{}: {e:?}", relation.id))
                })
                .map(|(_, value)| value)
                .collect();
            let part = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-');
            let numbers = relation
                .published
                .split(part)
                .filter(|n| n.parse::<f64>().is_ok());
            // Numbers of rows and files that stand beside the values.
            let words = ["13 of 16", "(64 KB", "All 8", "< 7"];
            if words.iter().any(|w| relation.published.contains(w)) {
                continue;
            }
            for number in numbers {
                let decimals = number.split_once('.').map_or(0, |(_, d)| d.len());
                let half = 0.500_001 * 10f64.powi(-(decimals as i32));
                let printed: f64 = number.parse().expect("a number");
                let near = all.iter().any(|v| (v - printed).abs() <= half);
                assert!(near, "{}: {number} is none of {all:?}", relation.id);
                checked += 1;
            }
        }
        assert!(checked > 60, "{checked}");
    }

    #[test]
    fn verdicts_say_by_how_much() {
        let relation = relation("Q-12").expect("known");
        let mut values = Values::default();
        values.set("test1.17.mosix", 460.0);
        values.set("test1.17.optimal", 450.0);
        let judged = relation.judge(&values);
        assert_eq!(judged.verdict.word(), "pass");
        assert_eq!(judged.measured, "1.022 (at 17)");
        values.set("test1.24.mosix", 540.0);
        values.set("test1.24.optimal", 450.0);
        let judged = relation.judge(&values);
        assert_eq!(judged.verdict.word(), "fail");
        assert_eq!(
            judged.verdict.detail(),
            "by 12.5 %: not 1.200 <= 1.050 at 24"
        );
        let judged = relation.judge(&Values::default());
        assert_eq!(
            judged.verdict.detail(),
            "needs test1.{n}.mosix, test1.{n}.optimal"
        );
    }
}
