//! Measured beside ideal, for people and as JSON.

use super::ideal::Ideal;
use serde_json::{Value, json};
use std::fmt::Write;

/// How far off a median may be. Measured for rates up to 1 Gbit/s and quotas of 10 ms on a quiet machine: 1 %.
const OFF_MAX: f64 = 0.03;

#[derive(Debug, Default)]
pub struct Table {
    pub name: String,
    pub cpus: Vec<Cpu>,
    pub pairs: Vec<Pair>,
    pub apart: Vec<Apart>,
}

/// Processor time of a node that computes, processors.
#[derive(Debug)]
pub struct Cpu {
    pub node: String,
    pub measured: f64,
    pub ideal: f64,
}

#[derive(Debug)]
pub struct Pair {
    pub from: String,
    pub to: String,
    /// Number of the interface.
    pub nic: usize,
    /// TCP's payload, bit/s.
    pub bits: f64,
    pub ideal: Option<Ideal>,
    pub faulty: bool,
    pub rtt_us: Option<f64>,
}

/// Two nodes that must have no way to each other.
#[derive(Debug)]
pub struct Apart {
    pub from: String,
    pub to: String,
    pub reached: bool,
}

fn within(measured: f64, ideal: f64) -> bool {
    (measured / ideal - 1.0).abs() <= OFF_MAX
}

impl Pair {
    /// Whether it is what it should be; `None`: nothing says what that is.
    pub fn ok(&self) -> Option<bool> {
        let Ideal { usual, most } = self.ideal?;
        Some(self.bits >= usual * (1.0 - OFF_MAX) && self.bits <= most * (1.0 + OFF_MAX))
    }
}

fn verdict(good: bool) -> &'static str {
    if good { "ok" } else { "OFF" }
}

impl Table {
    /// Whether all that has an ideal is within 3 % of it.
    pub fn good(&self) -> bool {
        let cpus = self.cpus.iter().all(|c| within(c.measured, c.ideal));
        let pairs = self.pairs.iter().all(|p| p.ok() != Some(false));
        cpus && pairs && self.apart.iter().all(|a| !a.reached)
    }

    pub fn render(&self) -> String {
        let mut t = format!(
            "{:<10} {:>10} {:>10} {:>8}\n",
            "processor", "measured", "ideal", "of it"
        );
        for c in &self.cpus {
            let _ = writeln!(
                t,
                "{:<10} {:>10.3} {:>10.3} {:>6.1} %  {}",
                c.node,
                c.measured,
                c.ideal,
                100.0 * c.measured / c.ideal,
                verdict(within(c.measured, c.ideal))
            );
        }
        if !self.pairs.is_empty() {
            let head = ("TCP", "Mbit/s", "ideal", "of it", "round trip");
            let _ = writeln!(
                t,
                "{:<10} {:>10} {:>10} {:>8}      {:>10}",
                head.0, head.1, head.2, head.3, head.4
            );
        }
        for p in &self.pairs {
            let second = if p.nic == 1 { " eth1" } else { "" };
            let name = format!("{}→{}{second}", p.from, p.to);
            let (ideal, of_it, judged) = match p.ideal {
                Some(Ideal { usual, .. }) => (
                    format!("{:.2}", usual / 1e6),
                    format!("{:.1} %", 100.0 * p.bits / usual),
                    verdict(p.ok() == Some(true)),
                ),
                None if p.faulty => ("fault".into(), String::new(), ""),
                None => ("no limit".into(), String::new(), ""),
            };
            let rtt = p.rtt_us.map_or("lost".into(), |us| format!("{us:.0} µs"));
            let _ = writeln!(
                t,
                "{name:<10} {:>10.2} {ideal:>10} {of_it:>8}  {judged:<3} {rtt:>10}",
                p.bits / 1e6
            );
        }
        for a in &self.apart {
            let found = match a.reached {
                true => "reach each other, and should not: OFF",
                false => "have no way to each other: ok",
            };
            let _ = writeln!(t, "{} and {} {found}", a.from, a.to);
        }
        t
    }

    pub fn json(&self) -> Value {
        let cpu = |c: &Cpu| json!({ "node": c.node, "measured": c.measured, "ideal": c.ideal, "ok": within(c.measured, c.ideal) });
        let pair = |p: &Pair| {
            json!({
                "from": p.from, "to": p.to, "nic": format!("eth{}", p.nic),
                "mbit": p.bits / 1e6, "ideal_mbit": p.ideal.map(|i| i.usual / 1e6), "most_mbit": p.ideal.map(|i| i.most / 1e6), "fault": p.faulty,
                "rtt_us": p.rtt_us, "ok": p.ok(),
            })
        };
        let apart = |a: &Apart| json!({ "from": a.from, "to": a.to, "reached": a.reached, "ok": !a.reached });
        json!({
            "schema": "armento.lab-check/1", "v": 1, "name": self.name, "ok": self.good(),
            "processors": self.cpus.iter().map(cpu).collect::<Vec<_>>(),
            "links": self.pairs.iter().map(pair).collect::<Vec<_>>(),
            "apart": self.apart.iter().map(apart).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_percent_is_the_limit() {
        let table = |measured, bits, reached| Table {
            name: "x".into(),
            cpus: vec![Cpu {
                node: "n1".into(),
                measured,
                ideal: 0.5,
            }],
            pairs: vec![Pair {
                from: "n1".into(),
                to: "n2".into(),
                nic: 0,
                bits,
                ideal: Some(Ideal {
                    usual: 100.0,
                    most: 102.0,
                }),
                faulty: false,
                rtt_us: None,
            }],
            apart: vec![Apart {
                from: "n2".into(),
                to: "n3".into(),
                reached,
            }],
        };
        assert!(table(0.49, 102.0, false).good());
        assert!(!table(0.48, 100.0, false).good());
        assert!(table(0.5, 105.0, false).good());
        assert!(!table(0.5, 105.1, false).good());
        assert!(!table(0.5, 96.9, false).good());
        assert!(!table(0.5, 100.0, true).good());
        let text = table(0.48, 100.0, false).render();
        assert!(text.contains("OFF") && text.contains("n1→n2"), "{text}");
        assert_eq!(table(0.5, 100.0, false).json()["ok"], true);
    }
}
