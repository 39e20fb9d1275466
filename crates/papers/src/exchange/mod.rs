//! Neighbour exchange: N processes in a ring or a chain send messages to both neighbours. PAPER(M, communication-bound).
//!
//! Start at [`install`], then [`measure`]: on any hosts, without a paper.

use crate::hosts::{Hosts, Running, finish};
use crate::tools;
use anyhow::{Context, Result, bail};
use armento_lab::pvm;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

const SOCKETS: &str = include_str!("../../../../guests/pvm/exchange.c");
const PVM: &str = include_str!("../../../../guests/pvm/exchange-pvm.c");
/// The program on hosts.
const PATH: &str = "/var/tmp/armento-exchange";
/// Port on which each process waits for its left neighbour.
const PORT: u16 = 17_117;
/// Of a hub of 10 Mbit/s, for the time limit.
const SLOWEST_BYTES_S: f64 = 250_000.0;
/// Number of processes.
pub const N_RANGE: std::ops::RangeInclusive<usize> = 3..=64;

/// What the messages go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// TCP between processes that were started one on each host; under `armento run` or not.
    Sockets { under: bool },
    /// Pipes between processes of one home, each moved to another node: all bytes pass the home.
    Pipes,
    /// Messages of PVM. Before: [`pvm::start`].
    Pvm,
}

/// How the neighbours are arranged. The paper does not say which it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Ring,
    Chain,
}

impl Shape {
    pub fn word(self) -> &'static str {
        match self {
            Shape::Ring => "ring",
            Shape::Chain => "chain",
        }
    }

    /// Messages of a cycle of n processes.
    pub fn messages(self, n: usize) -> usize {
        match self {
            Shape::Ring => 2 * n,
            Shape::Chain => 2 * (n - 1),
        }
    }
}

/// Messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub kb: u32,
    pub cycles: u32,
}

/// What was measured of one size, of the process that took longest.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Seen {
    pub kb: u32,
    pub cycles: u32,
    /// Seconds of all cycles, without what was computed.
    pub talked_s: f64,
    pub computed_s: f64,
}

/// Compiles the program and writes it to the first `n` hosts.
pub fn install(hosts: &Hosts, by: By, n: usize) -> Result<()> {
    let (path, program) = match by {
        By::Pvm => {
            let folder = tools::Folder::new("exchange")?;
            let program = pvm::compile(&folder.0, "exchange-pvm", PVM)?;
            (format!("{}/exchange-pvm", pvm::DIR), program)
        }
        By::Sockets { .. } | By::Pipes => (PATH.to_owned(), tools::cc("exchange", SOCKETS)?),
    };
    (0..n).try_for_each(|i| hosts.put(i, &path, &program))
}

/// Exchanges messages of all sizes, one size after the other, between processes on the first `n` hosts.
pub fn measure(hosts: &Hosts, by: By, shape: Shape, n: usize, sizes: &[Size]) -> Result<Vec<Seen>> {
    if !N_RANGE.contains(&n) || hosts.names.len() < n {
        bail!(
            "{n} processes cannot exchange messages on {} hosts\nhint: 3 to 64 processes, one on each host",
            hosts.names.len()
        );
    }
    let plan: Vec<String> = sizes
        .iter()
        .map(|s| format!("{}:{}", s.kb, s.cycles))
        .collect();
    let plan = plan.join(",");
    let words = format!("{} {n} {plan}", shape.word());
    let names = hosts.names[..n].join(" ");
    let bytes: f64 = sizes
        .iter()
        .map(|s| f64::from(s.kb) * 1024.0 * f64::from(s.cycles))
        .sum();
    let limit = bytes * shape.messages(n) as f64 / SLOWEST_BYTES_S * 2.0 + 120.0;
    let limit = Duration::from_secs_f64(limit);
    let start = |i: usize, script: &str| {
        let child = hosts.command(i, script).stdout(Stdio::piped()).spawn();
        child.with_context(|| format!("{} runs no commands", hosts.names[i]))
    };
    let said = match by {
        By::Sockets { under } => {
            let run = if under { "armento run " } else { "" };
            let mut all = Running(Vec::new());
            for rank in 0..n {
                let script = format!("{run}{PATH} sockets {words} {rank} {PORT} {names}");
                all.0.push(start(rank, &script)?);
            }
            finish(std::mem::take(&mut all.0), limit)?
        }
        By::Pvm => {
            let set = pvm::VARIABLES.join(" ");
            let script = format!(
                "env '{}' {}/exchange-pvm {words} {names}",
                set.replace(' ', "' '"),
                pvm::DIR
            );
            finish(vec![start(0, &script)?], limit)?
        }
        By::Pipes => vec![pipes(hosts, n, &words, limit)?],
    };
    seen(&said.concat(), n, sizes)
}

/// One process on each node, all of the same home.
fn pipes(hosts: &Hosts, n: usize, words: &str, limit: Duration) -> Result<String> {
    let script = format!("exec armento run {PATH} pipes {words} hold");
    let mut c = hosts.command(0, &script);
    let child = c.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut running = Running(vec![child]);
    let mut input = running.0[0].stdin.take().context("no pipe")?;
    let mut output = BufReader::new(running.0[0].stdout.take().context("no pipe")?);
    let mut line = String::new();
    for _ in 0..n {
        line.clear();
        output.read_line(&mut line)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["pid", rank, pid] = words[..] else {
            bail!("the exchange said {line:?} instead of a pid");
        };
        let node = hosts.names.get(rank.parse::<usize>()?);
        let node = node.context("a rank without a host")?;
        if node == &hosts.names[0] {
            continue;
        }
        hosts.said(0, &format!("armento migrate {pid} {node}"))?;
    }
    writeln!(input)?;
    drop(input);
    let child = std::mem::take(&mut running.0);
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text).map(|_| text)
    });
    finish(child, limit)?;
    let text = reader.join().ok().context("the reader has failed")?;
    Ok(text?)
}

/// The lines of all processes.
fn seen(said: &str, n: usize, sizes: &[Size]) -> Result<Vec<Seen>> {
    let line = |line: &str| {
        let w: Vec<f64> = line.split(' ').flat_map(str::parse).collect();
        match w[..] {
            [_, kb, cycles, talked, computed] => Some((kb, cycles, talked, computed)),
            _ => None,
        }
    };
    let all: Vec<_> = said.lines().filter_map(line).collect();
    let one = |s: &Size| {
        let mine = all
            .iter()
            .filter(|l| l.0 == f64::from(s.kb) && l.1 == f64::from(s.cycles));
        let mine: Vec<_> = mine.collect();
        if mine.len() != n {
            bail!(
                "{} of {n} processes told their times at {} KB",
                mine.len(),
                s.kb
            );
        }
        let most =
            |f: fn(&(f64, f64, f64, f64)) -> f64| mine.iter().map(|l| f(l)).fold(0.0, f64::max);
        Ok(Seen {
            kb: s.kb,
            cycles: s.cycles,
            talked_s: most(|l| l.2),
            computed_s: most(|l| l.3),
        })
    };
    sizes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_of_all_processes_counts() {
        let sizes = [Size { kb: 1, cycles: 60 }];
        let said = "1 1 60 0.5 0.1\n0 1 60 0.7 0.3\n2 1 60 0.9 0.2\n";
        let all = seen(said, 3, &sizes).expect("complete");
        assert_eq!((all[0].talked_s, all[0].computed_s), (0.9, 0.3));
        let e = seen(said, 4, &sizes).expect_err("one is missing");
        assert!(e.to_string().contains("3 of 4 processes"), "{e}");
    }

    /// Real processes, without a lab: the shell of each host is this machine's, and each host is a loopback address.
    #[test]
    fn neighbours_exchange_on_loopback() {
        let hosts = Hosts {
            names: (2..5).map(|i| format!("127.0.0.{i}")).collect(),
            shell: ["sh", "-c", "exec sh -c \"$1\""]
                .map(str::to_owned)
                .to_vec(),
        };
        let sizes = [Size { kb: 1, cycles: 3 }, Size { kb: 256, cycles: 2 }];
        let program = tools::cc("exchange", SOCKETS).expect("compiled");
        let folder = tools::Folder::new("loopback").expect("a folder");
        let path = folder.0.join("exchange");
        hosts
            .put(0, path.to_str().expect("text"), &program)
            .expect("written");
        for shape in ["ring", "chain"] {
            let script = format!("{} pipes {shape} 5 1:3,256:2", path.display());
            let said = hosts.said(0, &script).expect("it runs");
            let all = seen(&said, 5, &sizes).expect("complete");
            assert!(all[1].talked_s > 0.0);
        }
        let e = measure(&hosts, By::Pvm, Shape::Ring, 4, &sizes).expect_err("three hosts");
        assert!(e.to_string().contains("hint: 3 to 64"), "{e}");
    }
}
