//! `armento bench`: the programs of the papers on a lab, on a user's hosts, or on the running farm, without a paper.
//!
//! The same programs and the same launcher as the experiments; published values are not shown. Start at [`run`];
//! `tables.rs` shows results.

mod measure;
mod tables;

use crate::report::plain;
use crate::runner;
use anyhow::{Context, Result, bail};
use armento_lab::{Link, Spec, say, write_out};
use armento_mpi::{Ground, Host, Kind, parse_hostfile};
use measure::Bench;
use std::fs;
use std::path::PathBuf;

const FLOPS_HELP: &str = "Examples:
  armento bench flops --lab-nodes 4
  armento bench flops --hostfile hosts --json
  armento bench flops                       on the running farm";
const TRANSFER_HELP: &str = "Example:
  armento bench transfer --lab-nodes 3 --largest 65536";
const NETTEST_HELP: &str = "Example:
  armento bench nettest --hostfile hosts --bytes 4096";
const MPITEST_HELP: &str = "Example:
  armento bench mpitest --lab-nodes 4 --fast 1000 --slow 10";
const NFSTEST_HELP: &str = "Example:
  armento bench nfstest --hostfile hosts --dir /home/user/shared";
const HPL_HELP: &str = "Examples:
  armento bench hpl --lab-nodes 2 --unknowns 2000
  armento bench hpl --hostfile hosts --unknowns 20000 --blas reference";

/// The benchmarks of MPI.
#[derive(Debug, clap::Subcommand)]
pub enum Cmd {
    /// Speed of the cluster and of each node: pi by 200 million points
    #[command(after_help = FLOPS_HELP)]
    Flops(Flops),
    /// Latency and bandwidth between the first node and each other
    #[command(after_help = TRANSFER_HELP)]
    Transfer(Transfer),
    /// Throughput of star, ring and complete graph, one way and both
    #[command(after_help = NETTEST_HELP)]
    Nettest(Nettest),
    /// Time of MPI's operations, every result checked
    #[command(after_help = MPITEST_HELP)]
    Mpitest(Mpitest),
    /// Speed and correctness of a directory that all nodes share
    #[command(after_help = NFSTEST_HELP)]
    Nfstest(Nfstest),
    /// HPL: solves a system of equations; built at first use
    #[command(after_help = HPL_HELP)]
    Hpl(Hpl),
}

/// Where it runs, and how it is shown.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// On a lab of so many nodes, made for it (root)
    #[arg(long, value_name = "N", conflicts_with = "hostfile")]
    lab_nodes: Option<usize>,
    /// On these hosts: a file of mpirun's form [default: the running farm]
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Speed of a lab's node, as a fraction of a core
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    speed: f64,
    /// Network of a lab
    #[arg(long, value_name = "LINK", default_value = "switch100")]
    link: Link,
    /// Number of processes [default: one a node]
    #[arg(long, value_name = "N")]
    np: Option<usize>,
    /// Use MPICH
    #[arg(long)]
    mpich: bool,
    /// Print JSON (schema armento.bench/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub struct Flops {
    #[command(flatten)]
    place: Place,
    /// Points of the whole
    #[arg(long, default_value_t = 200_000_000)]
    points: u64,
    /// Repeats, of which the mean is taken
    #[arg(long, default_value_t = 4)]
    repeats: u64,
}

#[derive(Debug, clap::Args)]
pub struct Transfer {
    #[command(flatten)]
    place: Place,
    /// Longest message, bytes
    #[arg(long, default_value_t = 1 << 20)]
    largest: u64,
    /// Shortest time of a measurement, seconds
    #[arg(long, default_value_t = 0.05)]
    seconds: f64,
}

#[derive(Debug, clap::Args)]
pub struct Nettest {
    #[command(flatten)]
    place: Place,
    /// Bytes of a message
    #[arg(long, default_value_t = 4096)]
    bytes: u64,
    /// Shortest time of a measurement, seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

#[derive(Debug, clap::Args)]
pub struct Mpitest {
    #[command(flatten)]
    place: Place,
    /// Repeats of short operations
    #[arg(long, default_value_t = 10_000)]
    fast: u64,
    /// Repeats of long operations
    #[arg(long, default_value_t = 100)]
    slow: u64,
}

#[derive(Debug, clap::Args)]
pub struct Nfstest {
    #[command(flatten)]
    place: Place,
    /// The directory, at the same path on all nodes [default in a lab: /srv/armento-mpi]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Bytes of each process's file
    #[arg(long, default_value_t = 4 << 20)]
    bytes: u64,
}

/// The library of linear algebra.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Blas {
    Tuned,
    Reference,
}

#[derive(Debug, clap::Args)]
pub struct Hpl {
    #[command(flatten)]
    place: Place,
    /// Number of unknowns; memory is 8 bytes times their square
    #[arg(long, default_value_t = 2000)]
    unknowns: u64,
    /// Columns of a block
    #[arg(long, default_value_t = 128)]
    block: u64,
    /// The library of linear algebra
    #[arg(long, value_enum, default_value = "tuned")]
    blas: Blas,
}

impl Cmd {
    fn place(&self) -> &Place {
        match self {
            Cmd::Flops(a) => &a.place,
            Cmd::Transfer(a) => &a.place,
            Cmd::Nettest(a) => &a.place,
            Cmd::Mpitest(a) => &a.place,
            Cmd::Nfstest(a) => &a.place,
            Cmd::Hpl(a) => &a.place,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Cmd::Flops(_) => "flops",
            Cmd::Transfer(_) => "transfer",
            Cmd::Nettest(_) => "nettest",
            Cmd::Mpitest(_) => "mpitest",
            Cmd::Nfstest(_) => "nfstest",
            Cmd::Hpl(_) => "hpl",
        }
    }
}

/// Runs one benchmark. `farm` names the hosts of the running farm.
pub fn run(cmd: Cmd, farm: impl FnOnce() -> Result<Vec<Host>>) -> Result<i32> {
    let place = cmd.place();
    if !(0.01..=1.0).contains(&place.speed) {
        bail!(
            "a speed is a fraction of a core, not {}\nhint: --speed 0.25",
            place.speed
        );
    }
    let mpi = match place.mpich {
        true => Kind::Mpich.find()?,
        false => Kind::OpenMpi.find()?,
    };
    let lab = place.lab_nodes.is_some();
    let stop = lab.then(|| runner::arm(format!("armento bench {}", cmd.name())));
    stop.transpose()?;
    let ground = ground(place, &cmd, farm)?;
    let np = place.np.unwrap_or_else(|| ground.count());
    let done = Bench {
        ground: &ground,
        mpi: &mpi,
        np,
        lab,
    }
    .run(&cmd);
    let problem = ground.problem();
    let traffic = ground.traffic();
    ground.down()?;
    if let Some(problem) = problem {
        bail!("{problem}\nhint: run it again");
    }
    let (table, mut doc) = done?;
    if place.json {
        doc["schema"] = "armento.bench/1".into();
        doc["bench"] = cmd.name().into();
        doc["mpi"] = mpi.version().into();
        doc["traffic"] = serde_json::to_value(traffic?)?;
        say!("{doc:#}");
    } else {
        for table in table {
            write_out(format_args!("\n{}", plain(&table)));
        }
    }
    Ok(0)
}

fn ground(place: &Place, cmd: &Cmd, farm: impl FnOnce() -> Result<Vec<Host>>) -> Result<Ground> {
    if let Some(nodes) = place.lab_nodes {
        return Ground::lab(Spec {
            name: format!("bench-{}", std::process::id()),
            nodes,
            speeds: vec![place.speed],
            link: place.link,
            farm: matches!(cmd, Cmd::Nfstest(a) if a.dir.as_ref().is_some_and(|d| d.starts_with("/mfs"))),
            ..Spec::default()
        });
    }
    let hosts = match &place.hostfile {
        None => farm()?,
        Some(file) => {
            let text = fs::read_to_string(file)
                .with_context(|| format!("{} cannot be read", file.display()))?;
            parse_hostfile(&text).with_context(|| file.display().to_string())?
        }
    };
    Ground::hosts(hosts)
}
