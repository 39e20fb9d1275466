//! `armento lab up`.

use super::describe::describe;
use crate::Waiting;
use crate::lab::Lab;
use crate::spec::{self, CableFault, Link, Share, Spec, imitate};
use anyhow::{Result, bail};
use armento_fabric::inventory::{Farm, parse};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

pub const HELP: &str = "Examples:
  armento lab up                                  four nodes, a farm, a gigabit switch
  armento lab up --nodes 4 --speed 0.1,0.2,0.3,0.4 --link switch100
  armento lab up --set 'policy = \"armento\"' --set 'dead_ms = 15000'
  armento lab up --dry-run --nodes 16
  armento lab up --name slow --rate 10mbit --no-farm
  armento lab up --link hub10 --no-farm           one medium of 10 Mbit/s for all nodes
  armento lab up --link p2p:n1 --rate 50mbit --mtu 9000
  armento lab up --nodes 2 --cores 2 --speed 0.5 --share /srv/data:/data --links 2
  armento lab up --from /etc/armento/farm.toml    the farm of an inventory: names, addresses, cables, MTU";

#[derive(Debug, Args)]
pub struct Up {
    /// Number of nodes
    #[arg(long, default_value_t = 4, value_name = "N")]
    nodes: usize,
    /// Nodes, addresses, cables and MTU of this inventory (armento fabric); what a lab cannot imitate is said
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "link", "links", "mtu"])]
    from: Option<PathBuf>,
    /// The net of that inventory which the nodes' first cards are in [default: the one they boot from, or the first]
    #[arg(long, requires = "from", value_name = "NET")]
    net: Option<String>,
    /// Refused: nodes of a lab are namespaces; it says how machines of QEMU boot from an inventory
    #[arg(long, requires = "from")]
    qemu: bool,
    /// Speed of the nodes as fractions of one core, repeated round the nodes
    /// [default: an equal share of this machine's cores, at most 1]
    #[arg(long, value_delimiter = ',', value_name = "S")]
    speed: Vec<f64>,
    /// Cores of the nodes, each of this speed, repeated round the nodes; all cores of a node share one quota
    #[arg(long, value_delimiter = ',', value_name = "N")]
    cores: Vec<usize>,
    /// Period in which the nodes' processor time is given out, 1 to 1000 [default: 10, longer for nodes below 0.1]
    #[arg(long, value_name = "MS")]
    period: Option<u32>,
    /// Memory of each node, its disk included, e.g. 512M [default: no limit]
    #[arg(long, value_parser = spec::parse_size, value_name = "SIZE")]
    mem: Option<u64>,
    /// Network of the nodes: switchN or hubN of N Mbit/s, p2p, p2p:NODE, two-p2p, or none
    #[arg(long, default_value = "switch1000")]
    link: Link,
    /// Rate of its links instead, e.g. 4gbit
    #[arg(long, value_parser = spec::parse_rate, value_name = "BITS")]
    rate: Option<u64>,
    /// Number of such networks: with 2 each node has eth1, too
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2), value_name = "N")]
    links: u8,
    /// Largest datagram on the links, bytes
    #[arg(long, default_value_t = spec::MTU, value_name = "BYTES")]
    mtu: u32,
    /// A fault of a node's cable: duplex:NODE or duplex:NODE:PERCENT of lost frames; may be repeated
    #[arg(long, value_name = "FAULT")]
    fault: Vec<CableFault>,
    /// A directory of this machine for all nodes, the same there or at AT; may be repeated
    #[arg(long, value_name = "DIR[:AT]")]
    share: Vec<Share>,
    /// Bytes per second that each node may read, and write, on this machine's disks by direct I/O, e.g. 5M
    #[arg(long, value_parser = spec::parse_size, value_name = "RATE")]
    disk: Option<u64>,
    /// That rate for each of so many channels instead, which the nodes share in turn
    #[arg(long, requires = "disk", value_name = "N")]
    disk_channels: Option<usize>,
    /// Name of the lab
    #[arg(long, default_value = "lab", value_name = "L")]
    name: String,
    /// Only start the nodes, without daemons
    #[arg(long)]
    no_farm: bool,
    /// A setting of all daemons, a line of TOML; may be repeated
    #[arg(long, value_name = "LINE")]
    set: Vec<String>,
    /// Show what would be started; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON (schema armento.lab/1; with --dry-run armento.dry-run/1)
    #[arg(long)]
    json: bool,
}

/// Starts a lab.
pub fn raise(up: Up) -> Result<i32> {
    if up.qemu {
        bail!(
            "nodes of a lab are namespaces, not machines of QEMU; nothing was started\n\
             hint: leave --qemu out for the same network in namespaces; machines boot from the inventory by `armento boot serve`, \
             also those of QEMU whose tap is on a bridge with that server: qemu-system-x86_64 -boot n -netdev tap,…"
        );
    }
    let link = match up.rate {
        Some(bits) if up.from.is_none() => up.link.with_rate(bits)?,
        _ => up.link,
    };
    let spec = Spec {
        name: up.name,
        nodes: up.nodes,
        speeds: up.speed,
        cores: up.cores,
        period_ms: up.period,
        mem: up.mem,
        link,
        second_link: up.links == 2,
        mtu: up.mtu,
        faults: up.fault,
        shares: up.share,
        disk: up.disk,
        disk_channels: up.disk_channels,
        farm: !up.no_farm,
        config: up.set.iter().map(|line| format!("{line}\n")).collect(),
        ..Spec::default()
    };
    let (spec, losses) = match &up.from {
        Some(file) => {
            let mut like = imitate(&inventory(file)?, up.net.as_deref())?;
            if let Some(bits) = up.rate {
                like.link = like.link.with_rate(bits)?;
            }
            let losses = std::mem::take(&mut like.losses);
            (like.of(spec), losses)
        }
        None => (spec, Vec::new()),
    };
    if up.dry_run {
        return plan(&spec, &losses, up.json);
    }
    for loss in &losses {
        eprintln!("armento: the lab differs: {loss}");
    }
    let farm = spec.farm;
    let waiting = Waiting::new(format!("{} nodes of lab {} start", spec.nodes, spec.name));
    let lab = Lab::up(spec)?;
    drop(waiting);
    let plan = lab.plan().clone();
    lab.keep()?;
    let first = plan.nodes.first().map_or("n1", |n| &n.name).to_owned();
    let name = plan.name;
    if up.json {
        say!("{}", describe(&name)?);
    } else {
        for n in &plan.nodes {
            let cpus: Vec<String> = n.cpus.iter().map(usize::to_string).collect();
            let cores = match n.cores {
                1 => String::new(),
                cores => format!("{cores} cores of "),
            };
            let cpus = cpus.join(", ");
            say!(
                "{:<4} {:<12} {cores}{:.2} of CPU {cpus}",
                n.name,
                n.addr,
                n.speed
            );
        }
        let option = if name == "lab" {
            String::new()
        } else {
            format!(" --name {name}")
        };
        let try_it = if farm { "armento nodes" } else { "hostname" };
        say!(
            "lab {name} is up: `armento lab exec{option} {first} -- {try_it}`, `armento lab down{option}`"
        );
    }
    Ok(0)
}

/// The inventory, with the files beside it that it names.
fn inventory(file: &Path) -> Result<Farm> {
    let name = file.display().to_string();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) => bail!(
            "cannot read {name}: {e}\nhint: name an inventory; `armento fabric import` makes one of other systems' files"
        ),
    };
    let beside = file.parent().unwrap_or(Path::new("")).to_owned();
    let open = |file: &str| std::fs::read_to_string(beside.join(file)).map_err(|e| e.to_string());
    match parse(&name, &text, &open) {
        Ok(farm) => Ok(farm),
        Err(e) => bail!(
            "the inventory is not usable:\n{e}\nhint: nothing was started; the lines above say what to write instead"
        ),
    }
}

/// What `raise` would start, after the checks that change nothing.
fn plan(spec: &Spec, losses: &[String], as_json: bool) -> Result<i32> {
    let plan = Lab::planned(spec)?;
    let daemons = if spec.farm {
        ", each with a daemon of one farm"
    } else {
        ""
    };
    let would: Vec<String> = plan
        .nodes
        .iter()
        .map(|n| {
            let cores = if n.cores == 1 { "core" } else { "cores" };
            format!(
                "start {}{} with {} {cores} of {:.2} of a CPU",
                n.name,
                if spec.places.is_empty() {
                    String::new()
                } else {
                    format!(" at {}", n.addr)
                },
                n.cores,
                n.speed
            )
        })
        .chain([format!(
            "call it lab {}: {} nodes{daemons}",
            plan.name,
            plan.nodes.len()
        )])
        .chain(losses.iter().map(|loss| format!("differ: {loss}")))
        .collect();
    if as_json {
        say!(
            "{}",
            json!({ "schema": "armento.dry-run/1", "would": would })
        );
    } else {
        for line in would {
            say!("would {line}");
        }
        say!("nothing was changed");
    }
    Ok(0)
}
