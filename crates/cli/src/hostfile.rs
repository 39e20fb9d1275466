//! `armento hostfile`: the farm's nodes for mpirun.

use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, NodeInfo};
use armento_mpi::{Host, Kind, hostfile};
use serde_json::json;

const HELP: &str = "Examples:
  armento hostfile > hosts && mpirun --hostfile hosts -np 8 ./program
  armento hostfile --mpich > hosts && mpirun.mpich -f hosts -n 8 ./program
  armento hostfile --slots 1                one process a node

Only nodes that are alive and take guests are written, this node first.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// For Open MPI: `n1 slots=2` (default)
    #[arg(long, conflicts_with = "mpich")]
    openmpi: bool,
    /// For MPICH: `n1:2`
    #[arg(long)]
    mpich: bool,
    /// Processes of a node [default: its cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    slots: Option<u32>,
    /// Write node names instead of addresses: they must resolve on every node
    #[arg(long)]
    names: bool,
    /// Print JSON (schema armento.hostfile/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let hosts = farm(args.slots, args.names)?;
    if args.json {
        let one = |h: &Host| json!({ "name": h.name, "slots": h.slots });
        let all: Vec<_> = hosts.iter().map(one).collect();
        say_json("armento.hostfile/1", json!({ "hosts": all }));
        return Ok(0);
    }
    let kind = if args.mpich {
        Kind::Mpich
    } else {
        Kind::OpenMpi
    };
    say(&hostfile(&hosts, kind));
    Ok(0)
}

/// The farm's nodes as hosts of MPI.
pub fn farm(slots: Option<u32>, names: bool) -> anyhow::Result<Vec<Host>> {
    let Answer::Nodes { nodes } = ask(Ask::Nodes, ANSWER)? else {
        return Err(unexpected_answer());
    };
    let hosts = hosts(&nodes, slots, names);
    if hosts.is_empty() {
        let failure = Failure {
            message: "no node of the farm is alive and takes guests".into(),
            hint: "`armento nodes` shows them".into(),
        };
        return Err(failure.into());
    }
    Ok(hosts)
}

fn hosts(nodes: &[NodeInfo], slots: Option<u32>, names: bool) -> Vec<Host> {
    let mut alive: Vec<&NodeInfo> = nodes
        .iter()
        .filter(|n| n.state == "alive" && (n.here || !n.shut))
        .collect();
    // mpirun runs here: its first processes are near.
    alive.sort_by_key(|n| !n.here);
    let host = |n: &&NodeInfo| {
        let (addr, _) = n.addr.rsplit_once(':').unwrap_or((&n.addr, ""));
        let name = match names {
            true => n.name.to_string(),
            false => addr.trim_matches(['[', ']']).to_owned(),
        };
        Host::new(name, slots.unwrap_or(n.cores).max(1) as usize)
    };
    alive.iter().map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_take_processes_are_hosts() {
        let node = |name: &str, state: &str, shut| NodeInfo {
            name: name.parse().expect("name"),
            addr: match name {
                "v6" => "[fd00::6]:7117".into(),
                name => format!("10.0.0.{}:7117", &name[1..]),
            },
            state: state.into(),
            here: name == "n2",
            load: 0.0,
            speed: 10_000,
            cores: 2,
            mem_total_kib: 0,
            mem_free_kib: 0,
            guests: 0,
            frozen: 0,
            shut,
            age_ms: 0,
            wire: "tls".into(),
            version: String::new(),
            clock_us: None,
            clock_apart: false,
        };
        let nodes = [
            node("n1", "alive", false),
            node("n2", "alive", true),
            node("n3", "down", false),
            node("n4", "alive", true),
            node("v6", "alive", false),
        ];
        let text = hostfile(&hosts(&nodes, None, false), Kind::OpenMpi);
        assert_eq!(
            text,
            "10.0.0.2 slots=2\n10.0.0.1 slots=2\nfd00::6 slots=2\n"
        );
        let text = hostfile(&hosts(&nodes, Some(1), true), Kind::Mpich);
        assert_eq!(text, "n2:1\nn1:1\nv6:1\n");
    }
}
