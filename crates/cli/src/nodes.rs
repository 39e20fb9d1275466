//! `armento nodes`.

use crate::out::{ask, paint, say, say_json, table, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, NodeInfo};
use armento_model::{size, span};
use serde_json::json;

const HELP: &str = "Examples:
  armento nodes
  armento nodes --json | jq '.nodes[] | select(.state == \"alive\") | .name'

LOAD is runnable work over power: 1.00 is one process for each standard processor.
AGE is how long ago the node reported. CLOCK is how far its clock is ahead of that of the node asked, which is
marked *.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Print JSON (schema armento.nodes/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let Answer::Nodes { nodes } = ask(Ask::Nodes, ANSWER)? else {
        return Err(unexpected_answer());
    };
    if args.json {
        say_json("armento.nodes/1", json!({ "nodes": nodes }));
    } else {
        say(&render(&nodes));
        clocks(&nodes);
    }
    Ok(0)
}

fn render(nodes: &[NodeInfo]) -> String {
    let heads = [
        ("NODE", false),
        ("STATE", false),
        ("LOAD", true),
        ("SPEED", true),
        ("CORES", true),
        ("FREE", true),
        ("MEMORY", true),
        ("GUESTS", true),
        ("AGE", true),
        ("CLOCK", true),
        ("WIRE", false),
        ("ADDRESS", false),
    ];
    let text = table(&heads, &nodes.iter().map(row).collect::<Vec<_>>());
    // Colour is applied last: it has no width.
    let states = [
        ("alive", 32),
        ("shut", 33),
        ("draining", 33),
        ("drained", 33),
        ("suspect", 33),
        ("leaving", 33),
        ("down", 31),
    ];
    states.iter().fold(text, |text, (word, sgr)| {
        text.replace(&format!(" {word} "), &format!(" {} ", paint(word, *sgr)))
    })
}

/// `+0.2 ms`; `-` when it was not measured.
fn clock(n: &NodeInfo) -> String {
    match n.clock_us {
        _ if n.here => "-".into(),
        None => "-".into(),
        Some(us) if us.abs() < 10_000 => format!("{:+.1} ms", us as f64 / 1000.0),
        Some(us) if us.abs() < 10_000_000 => format!("{:+} ms", us / 1000),
        Some(us) => format!("{:+} s", us / 1_000_000),
    }
}

/// One line for all nodes with clocks that differ.
pub fn clocks(nodes: &[NodeInfo]) {
    if let Some(text) = apart(nodes) {
        eprintln!("armento: {text}\nhint: {SYNCHRONISE}");
    }
}

pub const SYNCHRONISE: &str = "synchronise the clocks: apt-get install chrony on each node (`chronyc tracking` shows how far it is)";

fn apart(nodes: &[NodeInfo]) -> Option<String> {
    let names = nodes.iter().filter(|n| n.clock_apart && n.state == "alive");
    let names: Vec<String> = names
        .map(|n| format!("{} ({})", n.name, clock(n)))
        .collect();
    let apart = names.join(", ");
    (!names.is_empty()).then(|| {
        format!("nothing moves between this node and these, with clocks more than 20 ms from its own: {apart}")
    })
}

fn row(n: &NodeInfo) -> Vec<String> {
    let name = format!("{}{}", n.name, if n.here { "*" } else { "" });
    // A node that has never reported has no cores.
    let if_reported = |text: String| if n.cores == 0 { "-".into() } else { text };
    vec![
        name,
        n.standing().to_owned(),
        if_reported(format!("{:.2}", n.load)),
        if_reported(n.speed.to_string()),
        if_reported(n.cores.to_string()),
        if_reported(size(n.mem_free_kib)),
        if_reported(size(n.mem_total_kib)),
        if_reported(match n.frozen {
            0 => n.guests.to_string(),
            frozen => format!("{} ({frozen} frozen)", n.guests),
        }),
        if_reported(span(n.age_ms)),
        clock(n),
        if_reported(n.wire.clone()),
        n.addr.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_one_line() {
        let node = |name: &str, cores| NodeInfo {
            name: name.parse().expect("name"),
            addr: "10.0.0.1:7117".into(),
            state: if cores > 0 { "alive" } else { "down" }.into(),
            here: name == "n1",
            load: 1.5,
            speed: 10_000,
            cores,
            mem_total_kib: 8 << 20,
            mem_free_kib: 1 << 20,
            guests: 3,
            frozen: 0,
            shut: false,
            drained: false,
            age_ms: 420,
            wire: "tls".into(),
            version: "0.1.0".into(),
            clock_us: (name != "n1" && cores > 0).then_some(-214_000),
            clock_apart: name != "n1" && cores > 0,
        };
        let text = render(&[node("n1", 2), node("late", 1), node("fast", 0)]);
        let golden = "\
NODE  STATE  LOAD  SPEED  CORES   FREE  MEMORY  GUESTS     AGE    CLOCK  WIRE  ADDRESS
n1*   alive  1.50  10000      2  1.0 G   8.0 G       3  420 ms        -  tls   10.0.0.1:7117
late  alive  1.50  10000      1  1.0 G   8.0 G       3  420 ms  -214 ms  tls   10.0.0.1:7117
fast  down      -      -      -      -       -       -       -        -  -     10.0.0.1:7117
";
        let line = apart(&[node("n1", 2), node("late", 1), node("fast", 0)]);
        assert!(line.is_some_and(|t| t.ends_with(": late (-214 ms)")));
        assert_eq!(apart(&[node("n1", 2)]), None);
        assert_eq!(text, golden);
        let frozen = NodeInfo {
            frozen: 2,
            ..node("n1", 2)
        };
        assert!(render(&[frozen]).contains("  3 (2 frozen)  "));
    }
}
