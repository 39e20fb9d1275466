//! Two distributed Erlang nodes, of which one is moved while they exchange messages.

use super::play::farm_fits;
use crate::chapter::{Cell, Chapter, Table};
use crate::hosts::{Hosts, Running, finish};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, as_is, nothing};
use anyhow::{Context, Result, anyhow, bail};
use armento_lab::{Lab, Link, Spec};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

/// Share of a core of each node.
const SPEED: f64 = 0.3;
/// Seconds of messages at scale 1.
const TALK_S: f64 = 60.0;
/// Answers what it is sent, until it is told to stop.
const ECHO: &str = "register(echo, self()), L = fun F() -> receive {P, N} -> P ! N, F(); stop -> ok end end, L(), halt().";
/// Sends numbers, one after the other, and expects each back; prints how many passed each second. An answer that does not
/// come, or in another order, ends it with 1.
const ASK: &str = "B = list_to_atom(\"b@n2\"), \
P = fun F(0) -> io:format(\"no answer~n\"), halt(1); F(T) -> case net_adm:ping(B) of pong -> ok; pang -> timer:sleep(200), F(T - 1) end end, P(300), \
Now = fun() -> erlang:monotonic_time(millisecond) end, End = Now() + TALK_MS, io:format(\"begin~n\"), \
L = fun F(N, Mark, Since) -> {echo, B} ! {self(), N}, receive N -> ok after 30000 -> io:format(\"missing ~p~n\", [N]), halt(1) end, \
T = Now(), if T >= End -> io:format(\"end ~p~n\", [N]); T >= Mark -> io:format(\"~p~n\", [N - Since]), F(N + 1, Mark + 1000, N); \
true -> F(N + 1, Mark, Since) end end, L(1, Now() + 1000, 0), {echo, B} ! stop, timer:sleep(200), halt().";

pub static EXPERIMENT: Experiment = Experiment {
    id: "erlang",
    title: "A distributed Erlang node is moved while it exchanges messages",
    paper: "S",
    place: "distributed Erlang (named as a use of the cluster, without values)",
    requirements: &["R-070"],
    shows: "A virtual machine with its own scheduler, threads and compiler moves as any process, and its distribution goes on.",
    emulation: "lab: two Erlang nodes; one sends numbers and expects each back, and is moved to a third node and home again meanwhile; with the options of the default compiler, and with +JPperf true, under which it keeps its code in private memory",
    on: On::Lab,
    nodes: 3,
    nodes_range: 3..=3,
    scale: 0.15,
    scale_range: 0.1..=1.0,
    minutes: 0.6,
    tools: &[
        Tool {
            program: "erl",
            package: "erlang-base",
        },
        Tool {
            program: "ip",
            package: "iproute2",
        },
    ],
    relations: &["B-24"],
    fits: farm_fits,
    prepare: nothing,
    runs,
    perform,
    derive: as_is,
    chapter,
};

/// Name of the run and its values, options of erl, what the table calls it.
const RUNS: [(&str, &str, &str); 2] = [
    ("perf", "+JPperf true", "+JPperf true"),
    ("default", "", "default"),
];

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(name, _, _): (&str, &str, &str)| Run {
        name: name.to_owned(),
        expect_s: TALK_S * setting.scale + 10.0,
    };
    RUNS.map(run).to_vec()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let known = RUNS.iter().find(|(name, ..)| *name == run.name);
    let (name, options, _) = known.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let lab = Lab::up(Spec {
        name: format!("erlang-{}", std::process::id()),
        nodes: 3,
        speeds: vec![SPEED],
        link: Link::Switch { bits: 100_000_000 },
        ..Spec::default()
    })?;
    let talked = talk(&lab, options, TALK_S * setting.scale);
    let (lost, traffic) = (lab.lost(), lab.traffic());
    lab.down()?;
    let mut measured = Measured::default();
    if !lost.is_empty() {
        measured.problem = Some(format!("nodes were lost: {}", lost.join(", ")));
        return Ok(measured);
    }
    let talked = talked?;
    let mut set =
        |what: &str, value: f64| measured.values.set(format!("erlang.{name}.{what}"), value);
    let moved: Vec<f64> = talked.moves.iter().flatten().copied().collect();
    let moved: Vec<f64> = moved.into_iter().filter(|ms| *ms > 0.0).collect();
    set("missing", 0.0);
    set("messages", talked.messages);
    set("moved", moved.len() as f64);
    if let Some(most) = talked.rates.iter().copied().reduce(f64::max) {
        set("rate", most);
    }
    if let Some(ms) = moved.into_iter().reduce(f64::max) {
        set("still_ms", ms);
    }
    let moves: Vec<Value> = talked
        .moves
        .iter()
        .map(|m| match m {
            Ok(ms) => json!({ "still_ms": ms }),
            Err(why) => json!({ "stayed": why }),
        })
        .collect();
    measured.raw = json!({ "per_second": talked.rates, "moves": moves });
    measured.traffic = traffic?;
    Ok(measured)
}

struct Talked {
    /// Messages answered in order: all that were sent, or the run fails.
    messages: f64,
    /// … of each second.
    rates: Vec<f64>,
    /// Of each move asked for: how long it stood still, ms, zero where it was there already; or why it stayed.
    moves: Vec<Result<f64, String>>,
}

fn talk(lab: &Lab, options: &str, seconds: f64) -> Result<Talked> {
    let hosts = Hosts::of(lab)?;
    let erl = |name: &str, text: &str| {
        format!("-noshell -sname {name} -setcookie armento -eval '{text}'")
    };
    let script = format!("exec erl {}", erl("b", ECHO));
    let echo = hosts.command(1, &script).spawn()?;
    let mut running = Running(vec![echo]);
    let ask = ASK.replace("TALK_MS", &format!("{:.0}", seconds * 1e3));
    let script = format!("exec armento run erl {options} {}", erl("a", &ask));
    let mut child = hosts.command(0, &script).stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("no pipe")?);
    running.0.push(child);
    let mut line = String::new();
    output.read_line(&mut line)?;
    if line.trim() != "begin" {
        bail!("the Erlang nodes did not find each other: {line:?}");
    }
    let pid = hosts.said(0, "pgrep -x beam.smp")?;
    let mut moves = Vec::new();
    for to in ["n3", "home", "n3"] {
        std::thread::sleep(Duration::from_secs_f64(seconds / 5.0));
        moves.push(moved(&hosts, pid.trim(), to));
    }
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    finish(
        std::mem::take(&mut running.0),
        Duration::from_secs_f64(seconds * 3.0 + 60.0),
    )?;
    let text = reader.join().ok().context("the reader has failed")??;
    let messages = text
        .lines()
        .find_map(|l| l.strip_prefix("end ")?.parse().ok());
    Ok(Talked {
        messages: messages.with_context(|| format!("the Erlang node said {text:?}"))?,
        rates: text.lines().flat_map(str::parse).collect(),
        moves,
    })
}

/// How long it stood still, ms, or why it stays.
fn moved(hosts: &Hosts, pid: &str, to: &str) -> Result<f64, String> {
    let said = hosts.said(0, &format!("armento migrate {pid} {to} --json"));
    let said = said.map_err(|e| {
        let text = e.to_string();
        let why = text.split("armento: ").nth(1).unwrap_or(&text);
        why.lines().next().unwrap_or_default().to_owned()
    })?;
    let doc: Value = serde_json::from_str(&said).map_err(|e| e.to_string())?;
    let still = doc["pause_us"].as_f64();
    Ok(still.unwrap_or(0.0) / 1e3)
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "Two Erlang nodes that exchange messages",
        &[
            "options",
            "messages, all answered in order",
            "most in a second",
            "moves of three",
            "stood still at most, ms",
        ],
    );
    let mut stays = Vec::new();
    for (name, _, label) in RUNS {
        let get = |what: &str| found.mean(&format!("erlang.{name}.{what}"));
        all.rows.push(vec![
            Cell::label(label),
            Cell::measured(get("messages"), 0),
            Cell::measured(get("rate"), 0),
            Cell::measured(get("moved"), 0),
            match get("still_ms") {
                None => Cell::unprinted(),
                some => Cell::measured(some, 1),
            },
        ]);
        let samples = found.results.map_or(&[][..], |r| &r.samples);
        let reasons = samples
            .iter()
            .filter(|s| s.run == name)
            .flat_map(|s| s.raw["moves"].as_array().into_iter().flatten())
            .filter_map(|m| m["stayed"].as_str());
        stays.extend(reasons.map(|why| format!("{label}: {why}")));
    }
    stays.dedup();
    Chapter {
        tables: vec![all],
        notes: stays,
        ..Chapter::default()
    }
}
