//! `armento fabric cost`.

use super::source::Source;
use crate::out::{say, say_json, table};
use anyhow::Result;
use armento_fabric::topology::{Cost, MBIT, cost, cost_table};
use serde_json::json;

const HELP: &str = "Examples:
  armento fabric cost                      the farm's nets as they are, and as they could be wired
  armento fabric cost --nodes 16 --mbit 100

Rates in Mbit/s. ALL is what all pairs can send at once; TO SERVER what all others can send to one.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// For so many nodes, without an inventory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    nodes: Option<u32>,
    /// Rate of a port in Mbit/s
    #[arg(long, value_name = "MBIT", requires = "nodes", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    mbit: Option<u32>,
    /// Print JSON (schema armento.fabric.cost/1)
    #[arg(long)]
    json: bool,
}

const HEADS: [(&str, bool); 11] = [
    ("NET", false),
    ("TOPOLOGY", false),
    ("NODES", true),
    ("CARDS", true),
    ("CABLES", true),
    ("KIND", false),
    ("PORTS", true),
    ("MOST CARDS", true),
    ("TO SERVER", true),
    ("ALL", true),
    ("NODES AT MOST", false),
];

pub fn run(args: &Args) -> Result<i32> {
    // (net, as declared, its cost)
    let mut rows: Vec<(String, bool, Cost)> = Vec::new();
    match args.nodes {
        Some(nodes) => {
            let all = cost_table(nodes as usize, args.mbit.unwrap_or(MBIT));
            rows.extend(all.into_iter().map(|c| ("-".to_owned(), false, c)));
        }
        None => {
            let farm = args.source.read()?;
            for net in farm.nets.values() {
                let own = cost(&farm, net);
                let others = cost_table(own.nodes, net.mbit.unwrap_or(MBIT));
                let others = others.into_iter().filter(|c| c.topology != own.topology);
                let others: Vec<_> = others.map(|c| (net.name.clone(), false, c)).collect();
                rows.push((net.name.clone(), true, own));
                rows.extend(others);
            }
        }
    }
    if args.json {
        let one = |(net, declared, cost): &(String, bool, Cost)| json!({ "net": net, "declared": declared, "cost": cost });
        say_json(
            "armento.fabric.cost/1",
            json!({ "nets": rows.iter().map(one).collect::<Vec<_>>() }),
        );
        return Ok(0);
    }
    let cells = rows.iter().map(|(net, declared, c)| {
        let mark = if *declared { "*" } else { "" };
        let most = c.nodes_max.map_or("-".to_owned(), |[one, two]| {
            format!("{one}, double cards {two}")
        });
        vec![
            net.clone(),
            format!("{}{mark}", c.topology),
            c.nodes.to_string(),
            c.nics.to_string(),
            c.cables.to_string(),
            c.cable.to_owned(),
            c.ports.to_string(),
            c.server_nics.to_string(),
            c.to_server_mbit.to_string(),
            c.all_mbit.to_string(),
            most,
        ]
    });
    say(&table(&HEADS, &cells.collect::<Vec<_>>()));
    if rows.iter().any(|r| r.1) {
        say("* as the inventory has it\n");
    }
    Ok(0)
}
