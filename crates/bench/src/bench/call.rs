//! A forwarded call against a bare TCP round trip of the same bytes between the same two nodes, everything on one core:
//! one call with almost no data, one that reads 4 KiB, one that writes 64 KiB.
//!
//! The bytes are measured, not assumed: the traffic on the node's link for a run with the calls minus that for a run
//! with almost none, without headers.

use crate::row::{Bar, Row, Samples, Table};
use crate::run::{self, Limit, Running};
use crate::stage::{Farm, SOON, Stage};
use anyhow::{Context, Result, bail};
use armento_lab::{Lab, Node};

/// Calls and round trips of one batch, and batches of one run.
const N: u64 = 4000;
const BATCHES: &str = "3";
const PORT: &str = "7900";

/// A call, and its bars on a plain and on an encrypted farm.
struct Kind {
    call: &'static str,
    what: &'static str,
    plain: Bar,
    tls: Option<Bar>,
}

const KINDS: [Kind; 3] = [
    Kind {
        call: "getppid",
        what: "getppid",
        plain: Bar::AtMost(2.2),
        tls: Some(Bar::AtMost(3.0)),
    },
    Kind {
        call: "pread",
        what: "pread 4 KiB",
        plain: Bar::AtMost(2.2),
        tls: Some(Bar::AtMost(3.0)),
    },
    Kind {
        call: "write",
        what: "write 64 KiB",
        plain: Bar::AtMost(3.0),
        tls: None,
    },
];
/// Ethernet, IPv4, TCP with timestamps.
const HEADERS: f64 = 14.0 + 20.0 + 32.0;
/// Fewer bytes a call mean that the calls were not forwarded.
const BYTES_MIN: f64 = 8.0;

pub fn run(stage: &Stage, rows: &mut Table) -> Result<()> {
    for (wire, plain) in [("plain", true), ("tls", false)] {
        let lab = stage.farm(Farm {
            one_core: true,
            plain,
            no_policy: true,
            ..Farm::default()
        })?;
        check_wire(lab.node(1), wire)?;
        for kind in &KINDS {
            rows.push(one(stage, &lab, kind, wire)?);
        }
        lab.down()?;
    }
    Ok(())
}

fn one(stage: &Stage, lab: &Lab, kind: &Kind, wire: &str) -> Result<Row> {
    let (home, away) = (lab.node(1), lab.node(2));
    let (mut calls, ask, answer) = first(stage, home, away, kind.call)?;
    let mut trips = Vec::new();
    let mut serve = Running::start(stage.native(home, "echo", &["serve", PORT, &ask, &answer]))?;
    serve.line(Limit::secs(SOON))?;
    for round in 0..stage.rounds(5, 2) {
        let (n, addr) = (N.to_string(), home.addr.as_str());
        let args = ["ping", addr, PORT, &ask, &answer, &n, BATCHES];
        let ping = stage.native(away, "echo", &args);
        trips.extend(run::numbers(ping, Limit::secs(SOON))?);
        if round > 0 {
            calls.extend(forwarded(stage, home, away, kind.call, (N, BATCHES))?);
        }
    }
    let bar = if wire == "plain" {
        Some(kind.plain)
    } else {
        kind.tls
    };
    let row = Row::ratio(
        "call",
        format!("forwarded {} / TCP, {wire}", kind.what),
        side("call", &calls),
        side("round trip", &trips),
        bar,
    );
    Ok(row.noted(&format!("{ask} bytes there, {answer} back, one core")))
}

/// One run of the calls; returns the bytes of one call, request and answer.
fn first(
    stage: &Stage,
    home: &Node,
    away: &Node,
    call: &str,
) -> Result<(Vec<f64>, String, String)> {
    // The first run on a node transfers the program's files, once.
    forwarded(stage, home, away, call, (1, "1"))?;
    let before = Carried::by(away)?;
    forwarded(stage, home, away, call, (1, "1"))?;
    let few = Carried::by(away)?;
    let calls = forwarded(stage, home, away, call, (N, BATCHES))?;
    let many = Carried::by(away)?;
    let (ask, answer) = many.since(&few).a_call(&few.since(&before))?;
    Ok((calls, ask, answer))
}

fn forwarded(
    stage: &Stage,
    home: &Node,
    away: &Node,
    call: &str,
    (n, batches): (u64, &str),
) -> Result<Vec<f64>> {
    let on = ["--on", &away.name];
    let command = stage.armento(home, &on, "calls", &[call, &n.to_string(), batches]);
    run::numbers(command, Limit::secs(2 * SOON))
}

/// Microseconds each, from nanoseconds of a batch.
fn side(what: &str, batches_ns: &[f64]) -> Samples {
    Samples {
        what: what.into(),
        unit: "us",
        values: batches_ns.iter().map(|b| b / 1e3 / N as f64).collect(),
    }
}

/// The farm's wire must be the one of the bar.
fn check_wire(node: &Node, wire: &str) -> Result<()> {
    let mut c = node.command("armento");
    c.args(["nodes", "--json"]);
    let text = run::lines(c, Limit::secs(SOON))?.join("\n");
    let all: serde_json::Value = serde_json::from_str(&text).context("`armento nodes --json`")?;
    let nodes = all["nodes"].as_array().map_or(&[][..], |n| n);
    if nodes.is_empty() || nodes.iter().any(|n| n["wire"] != wire) {
        bail!("the farm does not speak {wire}");
    }
    Ok(())
}

/// Traffic on a node's link so far: bytes and packets, in and out.
struct Carried {
    received: (f64, f64),
    sent: (f64, f64),
}

impl Carried {
    fn by(node: &Node) -> Result<Carried> {
        let mut c = node.command("cat");
        c.arg("/proc/net/dev");
        Carried::parse(&run::lines(c, Limit::secs(SOON))?)
            .context("/proc/net/dev shows no cable of the node")
    }

    fn parse(table: &[String]) -> Option<Carried> {
        let cable = |l: &&String| l.contains(':') && !l.trim_start().starts_with("lo:");
        let numbers = table.iter().find(cable)?.split_once(':')?.1;
        let n: Vec<f64> = numbers
            .split_whitespace()
            .map_while(|w| w.parse().ok())
            .collect();
        Some(Carried {
            received: (*n.first()?, *n.get(1)?),
            sent: (*n.get(8)?, *n.get(9)?),
        })
    }

    fn since(&self, then: &Carried) -> Carried {
        let less = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0, a.1 - b.1);
        Carried {
            received: less(self.received, then.received),
            sent: less(self.sent, then.sent),
        }
    }

    /// Payload of one call, request and answer. `self`: traffic of the run with all calls, `none`: of the run without.
    fn a_call(&self, none: &Carried) -> Result<(String, String)> {
        let batches: f64 = BATCHES.parse()?;
        let calls = N as f64 * (batches + 0.1);
        let own = self.since(none);
        let payload = |(bytes, packets): (f64, f64)| (bytes - packets * HEADERS) / calls;
        let (ask, answer) = (payload(own.sent), payload(own.received));
        if ask < BYTES_MIN || answer < BYTES_MIN {
            bail!("only {ask:.1} and {answer:.1} bytes a call travelled: it did not run away");
        }
        Ok((format!("{ask:.0}"), format!("{answer:.0}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_call_are_the_traffic_of_the_link() {
        let table = |rx: f64, tx: f64, packets: f64| {
            let text = format!(
                "Inter-|\n face |\n    lo: 5 5 0 0 0 0 0 0 5 5 0 0 0 0 0 0\n\
                 \x20 eth0: {rx} {packets} 0 0 0 0 0 0 {tx} {packets} 0 0 0 0 0 0"
            );
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let calls = N as f64 * 3.1;
        let before = Carried::parse(&table(1000.0, 1000.0, 10.0)).unwrap();
        let after = table(1000.0 + calls * 106.0, 1000.0 + calls * 126.0, 10.0 + calls);
        let after = Carried::parse(&after).unwrap();
        assert_eq!(
            after.a_call(&before).unwrap(),
            ("60".to_string(), "40".to_string())
        );
        assert!(before.a_call(&before).is_err());
        assert_eq!(side("x", &[4e6]).values, [1.0]);
    }
}
