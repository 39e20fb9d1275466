//! The measurements, one after the other: two at once would share the machine.

use super::ideal;
use super::table::{Apart, Cpu, Pair, Table};
use crate::lab::{Lab, Node};
use crate::probe::WARM_S;
use crate::spec::Plan;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::process::{Child, Command, Stdio};

/// Seconds of one measurement.
pub const SECONDS_RANGE: RangeInclusive<f64> = 0.2..=30.0;
/// Each is made so many times; the median counts.
const RUNS: usize = 3;
/// All pairs are measured if they are no more than this: those of four nodes.
const ALL_PAIRS_MAX: usize = 12;
/// Least bits of a rate measurement, in terms of the link's rate: 25 Mbit, 2.5 s at 10 Mbit/s. A segment lost before or at the
/// end of the measurement moves what a queue of 40 frames holds into it or out of it, 0.5 Mbit: 2 % of this.
const BITS_MIN: f64 = 25e6;
/// Datagrams of a round-trip measurement.
const PINGS: &str = "50";

pub struct Course<'a> {
    pub lab: &'a Lab,
    /// Of one measurement.
    pub seconds: f64,
    /// Told what is measured next.
    pub progress: fn(&str),
}

impl Course<'_> {
    pub fn run(&self) -> Result<Table> {
        let plan = self.lab.plan();
        let pairs = pairs(plan);
        let links = if plan.second_link { 2 } else { 1 };
        let all = plan.nodes.len() + pairs.len() * links;
        let rates = pairs.iter().map(|&(a, b)| self.rate_seconds(a, b) + WARM_S);
        let time = self.seconds * plan.nodes.len() as f64 + rates.sum::<f64>() * links as f64;
        (self.progress)(&format!(
            "{all} measurements, {RUNS} runs each: some {:.0} s",
            time * RUNS as f64
        ));
        let mut table = Table {
            name: plan.name.clone(),
            ..Table::default()
        };
        for (i, node) in plan.nodes.iter().enumerate() {
            let got = self.median(|| self.spin(i))?;
            table.cpus.push(Cpu {
                node: node.name.clone(),
                measured: got,
                ideal: ideal::power(node),
            });
        }
        for (a, b) in pairs {
            for nic in 0..links {
                (self.progress)(&format!("{} to {}", plan.nodes[a].name, plan.nodes[b].name));
                table.pairs.push(self.pair(plan, (a, b), nic)?);
            }
        }
        for (a, b) in apart(plan) {
            table.apart.push(Apart {
                from: plan.nodes[a].name.clone(),
                to: plan.nodes[b].name.clone(),
                reached: self.reached(plan, a, b)?,
            });
        }
        Ok(table)
    }

    fn pair(&self, plan: &Plan, (a, b): (usize, usize), nic: usize) -> Result<Pair> {
        let to = &plan.nodes[b];
        let addr = match &to.second_addr {
            Some(second) if nic == 1 => second,
            _ => &to.addr,
        };
        let rtt_us = self.rtt(a, b, addr)?;
        Ok(Pair {
            from: plan.nodes[a].name.clone(),
            to: to.name.clone(),
            nic,
            bits: self.median(|| self.rate(a, b, addr))?,
            ideal: ideal::rate(plan, a, b),
            faulty: plan.faults.iter().any(|f| [a, b].contains(&f.of().0)),
            rtt_us,
        })
    }

    fn median(&self, mut one: impl FnMut() -> Result<f64>) -> Result<f64> {
        let mut got = (0..RUNS).map(|_| one()).collect::<Result<Vec<f64>>>()?;
        got.sort_by(f64::total_cmp);
        Ok(got[RUNS / 2])
    }

    fn node(&self, i: usize) -> &Node {
        self.lab.node(i + 1)
    }

    fn probe(&self, i: usize, words: &[&str]) -> Command {
        let mut c = self.node(i).command("armento");
        c.args(["lab-init", "probe"]).args(words);
        c.stdin(Stdio::null()).stdout(Stdio::piped());
        c
    }

    fn spin(&self, i: usize) -> Result<f64> {
        let cores = self.lab.plan().nodes[i].cores.to_string();
        let seconds = self.seconds.to_string();
        let out = text(self.probe(i, &["spin", &seconds, &cores]))?;
        let [used, time] = numbers(&out)?;
        Ok(used / time)
    }

    /// Duration of a measurement of the rate between these two.
    fn rate_seconds(&self, a: usize, b: usize) -> f64 {
        let needed = ideal::rate(self.lab.plan(), a, b).map_or(0.0, |i| BITS_MIN / i.usual);
        self.seconds.max(needed).min(*SECONDS_RANGE.end())
    }

    /// Bits per second of TCP's payload; 0 if nothing came through.
    fn rate(&self, a: usize, b: usize, addr: &str) -> Result<f64> {
        let seconds = self.rate_seconds(a, b).to_string();
        let mut receiver = Listener::start(self.probe(b, &["receive", &seconds]))?;
        let to = format!("{addr}:{}", receiver.port);
        // It ends when the receiver has enough. One that finds no way, or too many frames lost, has a rate of nothing.
        let sent = self
            .probe(a, &["send", &to])
            .stderr(Stdio::null())
            .output()?;
        if !sent.status.success() {
            return Ok(0.0);
        }
        let said = receiver.line()?;
        let [bytes, ns] = numbers(&said)?;
        Ok(bytes * 8e9 / ns)
    }

    /// Median round trip of a datagram as ping(8) sends it, microseconds; `None`: all were lost.
    fn rtt(&self, a: usize, b: usize, addr: &str) -> Result<Option<f64>> {
        let echo = Listener::start(self.probe(b, &["echo", PINGS]))?;
        let to = format!("{addr}:{}", echo.port);
        let mut c = self.probe(a, &["ping", &to, PINGS]);
        let out = c.stderr(Stdio::null()).output()?;
        if !out.status.success() {
            return Ok(None);
        }
        let [median_ns, _lost] = numbers(&String::from_utf8_lossy(&out.stdout))?;
        Ok(Some(median_ns / 1e3))
    }

    fn reached(&self, plan: &Plan, a: usize, b: usize) -> Result<bool> {
        let out = text(self.probe(a, &["reach", &plan.nodes[b].addr]))?;
        Ok(out.trim() == "yes")
    }
}

/// A probe that prints its port first; ends with this value.
struct Listener {
    child: Child,
    port: u16,
    says: BufReader<std::process::ChildStdout>,
}

impl Listener {
    fn start(mut command: Command) -> Result<Listener> {
        let mut child = command.spawn()?;
        let out = child.stdout.take().context("no pipe")?;
        let mut listener = Listener {
            child,
            port: 0,
            says: BufReader::new(out),
        };
        let line = listener.line()?;
        listener.port = line
            .trim()
            .parse()
            .context("a node could not be measured")?;
        Ok(listener)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(mut command: Command) -> Result<String> {
    let out = command.output()?;
    if !out.status.success() {
        bail!("a node could not be measured\nhint: armento lab list");
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn numbers(line: &str) -> Result<[f64; 2]> {
    let mut words = line.split_whitespace().map(str::parse::<f64>);
    match (words.next(), words.next()) {
        (Some(Ok(a)), Some(Ok(b))) if b > 0.0 || a >= 0.0 => Ok([a, b]),
        _ => bail!("a node could not be measured: it said {line:?}"),
    }
}

/// The pairs to measure, counted from 0: all that have a way to each other, or each node with the next and with its server.
fn pairs(plan: &Plan) -> Vec<(usize, usize)> {
    let n = plan.nodes.len();
    let joined = |&(a, b): &(usize, usize)| a != b && plan.link.joins(n, a, b);
    let all = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
    let all: Vec<_> = all.filter(joined).collect();
    if all.len() <= ALL_PAIRS_MAX {
        return all;
    }
    let some = (0..n).flat_map(|i| [(i, (i + 1) % n), (plan.link.server(n, i), i)]);
    let mut some: Vec<_> = some.filter(joined).collect();
    some.sort_unstable();
    some.dedup();
    some
}

/// Pairs that must not reach each other.
fn apart(plan: &Plan) -> Vec<(usize, usize)> {
    let n = plan.nodes.len();
    let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    let apart = all.filter(|&(a, b)| !plan.link.joins(n, a, b));
    apart.take(ALL_PAIRS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    fn plan(link: &str, nodes: usize) -> Plan {
        let spec = Spec {
            link: link.parse().unwrap(),
            nodes,
            ..Spec::default()
        };
        spec.plan(1, &[0], "/armento".into())
    }

    #[test]
    fn pairs_are_bounded() {
        assert_eq!(pairs(&plan("switch100", 4)).len(), 12);
        assert_eq!(pairs(&plan("switch100", 1)), []);
        let many = pairs(&plan("switch100", 64));
        assert!(many.len() <= 128 && many.contains(&(63, 0)) && many.contains(&(0, 40)));
        assert_eq!(pairs(&plan("p2p", 3)), [(0, 1), (0, 2), (1, 0), (2, 0)]);
        assert_eq!(apart(&plan("p2p", 3)), [(1, 2)]);
        assert_eq!(apart(&plan("hub10", 4)), []);
    }
}
