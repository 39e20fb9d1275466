//! The value of a formula.

use super::parse::{Chain, Expr, Sign, Test};
use std::collections::{BTreeMap, BTreeSet};

/// Values by name, such as `mono.p2p.s`.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Values(pub BTreeMap<String, f64>);

/// Names without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub BTreeSet<String>);

/// How far a test is from its nearest bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Margin {
    /// Distance of the two sides, percent of the larger one; below zero if the comparison does not hold.
    pub percent: f64,
    pub holds: bool,
    pub left: f64,
    pub sign: Sign,
    pub right: f64,
    /// The number that `{n}` stands for.
    pub n: Option<u64>,
}

/// What stands for `{n}`.
const EACH: &str = "{n}";

impl Values {
    /// Adds a value.
    pub fn set(&mut self, name: impl Into<String>, value: f64) {
        self.0.insert(name.into(), value);
    }

    /// A value by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied().filter(|v| v.is_finite())
    }

    /// With the values of `other` where this has none.
    pub fn or(mut self, other: &Values) -> Values {
        for (name, value) in &other.0 {
            self.0.entry(name.clone()).or_insert(*value);
        }
        self
    }

    /// Numbers for which all of these names have a value; none where no name has `{n}`.
    pub fn numbers(&self, names: &[&str]) -> Option<Vec<u64>> {
        let patterns: Vec<(&str, &str)> = names
            .iter()
            .filter(|name| **name != EACH)
            .filter_map(|name| name.split_once(EACH))
            .collect();
        let (before, after) = patterns.first()?;
        let number = |name: &String| -> Option<u64> {
            let middle = name.strip_prefix(before)?.strip_suffix(after)?;
            middle.parse().ok()
        };
        let found: BTreeSet<u64> = self.0.keys().filter_map(number).collect();
        let all = |n: &u64| {
            let name = |(before, after): &(&str, &str)| format!("{before}{n}{after}");
            patterns.iter().all(|p| self.get(&name(p)).is_some())
        };
        Some(found.into_iter().filter(all).collect())
    }
}

impl Expr {
    /// Its value, with `n` for `{n}`.
    pub fn value(&self, values: &Values, n: Option<u64>) -> Result<f64, Missing> {
        let of = |e: &Expr| e.value(values, n);
        let all = |es: &[Expr]| es.iter().map(of).collect::<Result<Vec<f64>, _>>();
        Ok(match self {
            Expr::Number(number) => *number,
            Expr::Name(name) => {
                let missing = || Missing(BTreeSet::from([name.clone()]));
                match (&**name, n) {
                    (EACH, Some(n)) => n as f64,
                    (name, Some(n)) => {
                        let name = name.replace(EACH, &n.to_string());
                        values.get(&name).ok_or_else(missing)?
                    }
                    (name, None) => values.get(name).ok_or_else(missing)?,
                }
            }
            Expr::Minus(e) => -of(e)?,
            Expr::Of(sign, a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                match sign {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                }
            }
            Expr::Ceil(e) => of(e)?.ceil(),
            Expr::Min(es) => all(es)?.into_iter().fold(f64::INFINITY, f64::min),
            Expr::Max(es) => all(es)?.into_iter().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Its values: one, or one for each `{n}`, in the order of the numbers.
    pub fn all(&self, values: &Values) -> Result<Vec<(Option<u64>, f64)>, Missing> {
        each(values, &self.names())?
            .into_iter()
            .map(|n| Ok((n, self.value(values, n)?)))
            .collect()
    }
}

/// What `{n}` stands for in a formula with these names.
fn each(values: &Values, names: &[&str]) -> Result<Vec<Option<u64>>, Missing> {
    match values.numbers(names) {
        None => Ok(vec![None]),
        Some(found) if found.is_empty() => {
            let names = names.iter().filter(|n| n.contains(EACH) && **n != EACH);
            Err(Missing(names.map(|n| (*n).to_owned()).collect()))
        }
        Some(found) => Ok(found.into_iter().map(Some).collect()),
    }
}

impl Chain {
    fn margins(&self, values: &Values, n: Option<u64>) -> Result<Vec<Margin>, Missing> {
        let sides = self.sides.iter().map(|side| side.value(values, n));
        let sides: Vec<f64> = sides.collect::<Result<_, _>>()?;
        let pairs = sides.windows(2).zip(&self.signs);
        Ok(pairs
            .map(|(pair, sign)| margin(pair[0], *sign, pair[1], n))
            .collect())
    }
}

fn margin(left: f64, sign: Sign, right: f64, n: Option<u64>) -> Margin {
    let (holds, gap) = match sign {
        Sign::Less => (left < right, right - left),
        Sign::AtMost => (left <= right, right - left),
        Sign::More => (left > right, left - right),
        Sign::AtLeast => (left >= right, left - right),
    };
    let larger = left.abs().max(right.abs());
    Margin {
        percent: if larger > 0.0 {
            gap / larger * 100.0
        } else {
            0.0
        },
        holds,
        left,
        sign,
        right,
        n,
    }
}

impl Test {
    /// The comparison that is nearest to its bound, or farthest beyond it.
    pub fn judge(&self, values: &Values) -> Result<Margin, Missing> {
        let mut missing = BTreeSet::new();
        let mut margins = Vec::new();
        for chain in &self.0 {
            let names: Vec<&str> = chain.sides.iter().flat_map(Expr::names).collect();
            let all = each(values, &names).and_then(|each| {
                let all = each.into_iter().map(|n| chain.margins(values, n));
                all.collect::<Result<Vec<_>, _>>()
            });
            match all {
                Ok(all) => margins.extend(all.into_iter().flatten()),
                // All names without a value are of interest, not the first alone.
                Err(Missing(_)) => missing.extend(names.into_iter().filter_map(|name| {
                    let known = name == EACH
                        || values.get(name).is_some()
                        || values.numbers(&[name]).is_some_and(|n| !n.is_empty());
                    (!known).then(|| name.to_owned())
                })),
            }
        }
        if !missing.is_empty() {
            return Err(Missing(missing));
        }
        let order = |m: &Margin| (m.holds, m.percent);
        let least = margins.into_iter().min_by(|a, b| {
            let (a, b) = (order(a), order(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        least.ok_or_else(|| Missing(BTreeSet::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[(&str, f64)]) -> Values {
        Values(all.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect())
    }

    #[test]
    fn formulas_have_their_values() {
        let v = values(&[("a.b", 8.0), ("c", 2.0)]);
        let check = |text: &str, want: f64| {
            let e = Expr::parse(text).expect(text);
            assert_eq!(e.value(&v, None), Ok(want), "{text}");
        };
        check("a.b / c - 1", 3.0);
        check("(a.b - 1) * -c", -14.0);
        check("ceil(17 / 16) + max(1, c, 3) + min(a.b, 5)", 10.0);
        let none = Expr::parse("a.b / d").expect("good").value(&v, None);
        assert_eq!(none, Err(Missing(BTreeSet::from(["d".to_owned()]))));
    }

    #[test]
    fn each_number_at_hand_is_tested() {
        let v = values(&[
            ("x.1.a", 10.0),
            ("x.1.b", 10.0),
            ("x.17.a", 30.0),
            ("x.17.b", 20.0),
            ("x.18.a", 99.0),
        ]);
        let judge = |text: &str| Test::parse(text).expect(text).judge(&v);
        let m = judge("x.{n}.a / x.{n}.b <= 2").expect("known");
        assert_eq!((m.holds, m.n, m.percent), (true, Some(17), 25.0));
        let m = judge("x.{n}.a / x.{n}.b <= 1.2 and x.1.a > 0").expect("known");
        assert_eq!((m.holds, m.n), (false, Some(17)));
        assert!((m.percent + 20.0).abs() < 1e-9, "{m:?}");
        let m = judge("x.{n}.a >= {n}").expect("known");
        assert_eq!((m.holds, m.n), (true, Some(17)));
        let e = judge("x.{n}.c < 1 and x.1.a < y").expect_err("unknown");
        assert_eq!(e.0.into_iter().collect::<Vec<_>>(), ["x.{n}.c", "y"]);
    }

    #[test]
    fn chains_hold_when_all_neighbours_do() {
        let v = values(&[("a", 1.0), ("b", 2.0), ("c", 3.0)]);
        let holds = |text: &str| {
            let m = Test::parse(text).expect(text).judge(&v);
            m.expect("known").holds
        };
        assert!(holds("a < b < c"));
        assert!(!holds("a < c < b"));
        assert!(holds("2 <= b <= 2"));
        assert!(!holds("a < b < 2"));
    }
}
