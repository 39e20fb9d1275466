//! `armento hostfile`: the farm's nodes for programs that start others on them.

use crate::out::{Failure, ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, NodeInfo};
use armento_mpi::{Host, Kind, hostfile};
use serde_json::json;

const HELP: &str = "Examples:
  armento hostfile > hosts && mpirun --hostfile hosts -np 8 ./program
  armento hostfile --mpich > hosts && mpirun.mpich -f hosts -n 8 ./program
  armento hostfile --slots 1                one process a node
  armento hostfile --pvm > hosts && pvm hosts
  armento hostfile --parallel > hosts && parallel --sshloginfile hosts ./program ::: 1 2 3
  SLURM_HOSTFILE=$PWD/hosts srun -n 8 --distribution=arbitrary ./program    after --slurm --names > hosts

Only nodes that are alive and take guests are written, this node first.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    form: FormArgs,
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

#[derive(clap::Args)]
#[group(multiple = false)]
struct FormArgs {
    /// For Open MPI: `n1 slots=2` (default)
    #[arg(long)]
    openmpi: bool,
    /// For MPICH: `n1:2`
    #[arg(long)]
    mpich: bool,
    /// For PVM: `n1 sp=1000`, with the node's speed; 1000 is the standard core
    #[arg(long)]
    pvm: bool,
    /// For GNU parallel: `2/n1`
    #[arg(long)]
    parallel: bool,
    /// For Slurm's SLURM_HOSTFILE: `n1`, a line for each process
    #[arg(long)]
    slurm: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let nodes = alive()?;
    let hosts = hosts(&nodes, args.slots, args.names);
    if args.json {
        let one = |h: &Host| json!({ "name": h.name, "slots": h.slots });
        let all: Vec<_> = hosts.iter().map(one).collect();
        say_json("armento.hostfile/1", json!({ "hosts": all }));
        return Ok(0);
    }
    let f = &args.form;
    say(&match () {
        () if f.mpich => hostfile(&hosts, Kind::Mpich),
        () if f.pvm => pvm(&hosts, &nodes),
        () if f.parallel => lines(&hosts, |h| format!("{}/{}\n", h.slots, h.name)),
        () if f.slurm => lines(&hosts, |h| format!("{}\n", h.name).repeat(h.slots)),
        () => hostfile(&hosts, Kind::OpenMpi),
    });
    Ok(0)
}

fn lines(hosts: &[Host], line: impl Fn(&Host) -> String) -> String {
    hosts.iter().map(line).collect()
}

/// PVM: `sp` is 1 to 1000000, 1000 by default.
fn pvm(hosts: &[Host], nodes: &[NodeInfo]) -> String {
    let line = |(h, n): (&Host, &NodeInfo)| {
        let sp = (n.speed / 10).clamp(1, 1_000_000);
        format!("{} sp={sp}\n", h.name)
    };
    hosts.iter().zip(nodes).map(line).collect()
}

/// The farm's nodes as hosts of MPI.
pub fn farm(slots: Option<u32>, names: bool) -> anyhow::Result<Vec<Host>> {
    Ok(hosts(&alive()?, slots, names))
}

/// Nodes that are alive and take guests, this node first: what starts programs runs here, and its first ones are near.
fn alive() -> anyhow::Result<Vec<NodeInfo>> {
    let Answer::Nodes { nodes } = ask(Ask::Nodes, ANSWER)? else {
        return Err(unexpected_answer());
    };
    let nodes = chosen(nodes);
    if nodes.is_empty() {
        let failure = Failure {
            message: "no node of the farm is alive and takes guests".into(),
            hint: "`armento nodes` shows them".into(),
        };
        return Err(failure.into());
    }
    Ok(nodes)
}

fn chosen(mut nodes: Vec<NodeInfo>) -> Vec<NodeInfo> {
    nodes.retain(|n| n.state == "alive" && (n.here || !n.shut));
    nodes.sort_by_key(|n| !n.here);
    nodes
}

fn hosts(nodes: &[NodeInfo], slots: Option<u32>, names: bool) -> Vec<Host> {
    let host = |n: &NodeInfo| {
        let (addr, _) = n.addr.rsplit_once(':').unwrap_or((&n.addr, ""));
        let name = match names {
            true => n.name.to_string(),
            false => addr.trim_matches(['[', ']']).to_owned(),
        };
        Host::new(name, slots.unwrap_or(n.cores).max(1) as usize)
    };
    nodes.iter().map(host).collect()
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
            drained: false,
            age_ms: 0,
            wire: "tls".into(),
            version: String::new(),
            clock_us: None,
            clock_apart: false,
        };
        let nodes = chosen(vec![
            node("n1", "alive", false),
            node("n2", "alive", true),
            node("n3", "down", false),
            node("n4", "alive", true),
            node("v6", "alive", false),
        ]);
        let text = hostfile(&hosts(&nodes, None, false), Kind::OpenMpi);
        assert_eq!(
            text,
            "10.0.0.2 slots=2\n10.0.0.1 slots=2\nfd00::6 slots=2\n"
        );
        let text = hostfile(&hosts(&nodes, Some(1), true), Kind::Mpich);
        assert_eq!(text, "n2:1\nn1:1\nv6:1\n");
        let all = hosts(&nodes, None, true);
        assert_eq!(pvm(&all, &nodes), "n2 sp=1000\nn1 sp=1000\nv6 sp=1000\n");
        let each = lines(&all[..1], |h| format!("{}\n", h.name).repeat(h.slots));
        assert_eq!(each, "n2\nn2\n");
    }
}
