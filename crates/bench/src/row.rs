//! The report of a bench: one number against its bar, and all its samples.

use serde::Serialize;
use std::fmt;

/// The limit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

/// Samples of one side, in the order of measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Samples {
    pub what: String,
    pub unit: &'static str,
    pub values: Vec<f64>,
}

/// Median, least and greatest: a median alone hides that there are two kinds of samples.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.values.iter().copied().fold(f64::NAN, f64::min);
        let most = self.values.iter().copied().fold(f64::NAN, f64::max);
        let middle = median(&self.values);
        write!(f, "{} {middle:.2} ({least:.2}..{most:.2})", self.what)
    }
}

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub bench: &'static str,
    pub what: String,
    /// Absent: it could not be measured.
    pub value: Option<f64>,
    pub unit: &'static str,
    pub bar: Option<Bar>,
    pub note: String,
    pub samples: Vec<Samples>,
}

impl Row {
    pub fn failed(bench: &'static str, why: &str) -> Row {
        Row {
            bench,
            what: "not measured".into(),
            value: None,
            unit: "",
            bar: None,
            note: why.to_owned(),
            samples: Vec::new(),
        }
    }

    /// A ratio `over / under` of the medians of two sides.
    pub fn ratio(
        bench: &'static str,
        what: impl Into<String>,
        over: Samples,
        under: Samples,
        bar: impl Into<Option<Bar>>,
    ) -> Row {
        let (a, b) = (median(&over.values), median(&under.values));
        Row {
            bench,
            what: what.into(),
            value: Some(a / b),
            unit: "x",
            bar: bar.into(),
            note: format!("{over}, {under} {}", over.unit),
            samples: vec![over, under],
        }
    }

    /// The difference `more - less` of the medians of two sides.
    pub fn difference(
        bench: &'static str,
        what: impl Into<String>,
        more: Samples,
        less: Samples,
        bar: Bar,
    ) -> Row {
        let (a, b) = (median(&more.values), median(&less.values));
        Row {
            bench,
            what: what.into(),
            value: Some(a - b),
            unit: more.unit,
            bar: Some(bar),
            note: format!("{more}, {less} {}", more.unit),
            samples: vec![more, less],
        }
    }

    /// The median of one side, without a bar.
    pub fn alone(bench: &'static str, what: impl Into<String>, one: Samples) -> Row {
        Row {
            bench,
            what: what.into(),
            value: Some(median(&one.values)).filter(|v| v.is_finite()),
            unit: one.unit,
            bar: None,
            note: format!("{one} {}", one.unit),
            samples: vec![one],
        }
    }

    pub fn barred(self, bar: Bar) -> Row {
        Row {
            bar: Some(bar),
            ..self
        }
    }

    pub fn noted(mut self, more: &str) -> Row {
        self.note += &format!("; {more}");
        self
    }

    pub fn pass(&self) -> bool {
        match (self.value, self.bar) {
            (Some(v), Some(Bar::AtMost(b))) => v <= b,
            (Some(v), Some(Bar::AtLeast(b))) => v >= b,
            // Measured for information.
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    pub fn heading() -> String {
        format!(
            "{:<6} {:<36} {:>12} {:>10}  {:<5} {}",
            "bench", "what", "measured", "bar", "", "medians (least..greatest)"
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = match self.value {
            Some(v) => format!("{v:.3} {}", self.unit),
            None => "-".into(),
        };
        let bar = match self.bar {
            Some(Bar::AtMost(b)) => format!("<= {b}"),
            Some(Bar::AtLeast(b)) => format!(">= {b}"),
            None => "-".into(),
        };
        let word = match (self.pass(), self.bar) {
            (true, None) => "told",
            (true, Some(_)) => "PASS",
            (false, _) => "MISS",
        };
        write!(
            f,
            "{:<6} {:<36} {measured:>12} {bar:>10}  {word:<5} {}",
            self.bench, self.what, self.note
        )
    }
}

/// The rows so far; each is printed as it comes, since the whole table takes long.
#[derive(Debug, Default)]
pub struct Table(pub Vec<Row>);

impl Table {
    pub fn push(&mut self, row: Row) {
        println!("{row}");
        self.0.push(row);
    }

    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

/// The middle one, or the mean of the two middle ones; NaN (which passes no bar) of none.
pub fn median(values: &[f64]) -> f64 {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    match v.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => v[n / 2],
        n => (v[n / 2 - 1] + v[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(values: &[f64]) -> Samples {
        Samples {
            what: "side".into(),
            unit: "ms",
            values: values.to_vec(),
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert_eq!(side(&[3.0, 1.0, 2.0]).to_string(), "side 2.00 (1.00..3.00)");
    }

    #[test]
    fn bars_are_met_or_missed() {
        let ratio = |bar| Row::ratio("b", "r", side(&[2.0]), side(&[1.0]), bar);
        assert!(ratio(Bar::AtMost(2.0)).pass());
        assert!(!ratio(Bar::AtMost(1.9)).pass());
        assert!(ratio(Bar::AtLeast(2.0)).pass());
        assert!(ratio(Bar::AtMost(1.9)).to_string().contains("MISS"));
        let d = Row::difference("b", "d", side(&[5.0]), side(&[1.0]), Bar::AtMost(15.0));
        assert_eq!((d.value, d.pass()), (Some(4.0), true));
    }

    #[test]
    fn unmeasured_rows_do_not_pass() {
        assert!(!Row::failed("b", "broken").pass());
        let none = Row::ratio("b", "r", side(&[]), side(&[1.0]), Bar::AtMost(9.0));
        assert!(!none.pass());
    }
}
