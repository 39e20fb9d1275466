//! The words of `armento bench`.

use armento_lab::Link;
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

const EXCHANGE_HELP: &str = "Examples:
  armento bench exchange --lab-nodes 4 --link hub10 --cycles 6
  armento bench exchange --hostfile hosts --chain --kb 64";
const COPY_HELP: &str = "Examples:
  armento bench copy --lab-nodes 2 --mib 32
  armento bench copy                        from a node of the running farm to the next";

/// The benchmarks.
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
    /// Messages between neighbours over TCP, in a ring or a chain; without MPI
    #[command(after_help = EXCHANGE_HELP)]
    Exchange(Exchange),
    /// A file copied from the first node to the second through /mfs; without MPI
    #[command(after_help = COPY_HELP)]
    Copy(Copied),
}

/// Where it runs, and how it is shown.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// On a lab of so many nodes, made for it (root)
    #[arg(long, value_name = "N", conflicts_with = "hostfile")]
    pub lab_nodes: Option<usize>,
    /// On these hosts: a file of mpirun's form [default: the running farm]
    #[arg(long, value_name = "FILE")]
    pub hostfile: Option<PathBuf>,
    /// Speed of a lab's node, as a fraction of a core
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub speed: f64,
    /// Network of a lab
    #[arg(long, value_name = "LINK", default_value = "switch100")]
    pub link: Link,
    /// Number of processes [default: one a node]
    #[arg(long, value_name = "N")]
    pub np: Option<usize>,
    /// Use MPICH
    #[arg(long)]
    pub mpich: bool,
    /// Print JSON (schema armento.bench/1)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct Flops {
    #[command(flatten)]
    pub place: Place,
    /// Points of the whole
    #[arg(long, default_value_t = 200_000_000)]
    pub points: u64,
    /// Repeats, of which the mean is taken
    #[arg(long, default_value_t = 4)]
    pub repeats: u64,
}

#[derive(Debug, clap::Args)]
pub struct Transfer {
    #[command(flatten)]
    pub place: Place,
    /// Longest message, bytes
    #[arg(long, default_value_t = 1 << 20)]
    pub largest: u64,
    /// Shortest time of a measurement, seconds
    #[arg(long, default_value_t = 0.05)]
    pub seconds: f64,
}

#[derive(Debug, clap::Args)]
pub struct Nettest {
    #[command(flatten)]
    pub place: Place,
    /// Bytes of a message
    #[arg(long, default_value_t = 4096)]
    pub bytes: u64,
    /// Shortest time of a measurement, seconds
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
}

#[derive(Debug, clap::Args)]
pub struct Mpitest {
    #[command(flatten)]
    pub place: Place,
    /// Repeats of short operations
    #[arg(long, default_value_t = 10_000)]
    pub fast: u64,
    /// Repeats of long operations
    #[arg(long, default_value_t = 100)]
    pub slow: u64,
}

#[derive(Debug, clap::Args)]
pub struct Nfstest {
    #[command(flatten)]
    pub place: Place,
    /// The directory, at the same path on all nodes [default in a lab: /srv/armento-mpi]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Bytes of each process's file
    #[arg(long, default_value_t = 4 << 20)]
    pub bytes: u64,
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
    pub place: Place,
    /// Number of unknowns; memory is 8 bytes times their square
    #[arg(long, default_value_t = 2000)]
    pub unknowns: u64,
    /// Columns of a block
    #[arg(long, default_value_t = 128)]
    pub block: u64,
    /// The library of linear algebra
    #[arg(long, value_enum, default_value = "tuned")]
    pub blas: Blas,
}

#[derive(Debug, clap::Args)]
pub struct Exchange {
    #[command(flatten)]
    pub place: Place,
    /// Cycles; in each a process sends a message to each neighbour, and gets one
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub cycles: u32,
    /// Size of a message, KiB; may be given again
    #[arg(long, value_name = "KIB", default_values_t = [1, 16, 64], value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub kb: Vec<u32>,
    /// The last process is no neighbour of the first
    #[arg(long)]
    pub chain: bool,
}

#[derive(Debug, clap::Args)]
pub struct Copied {
    #[command(flatten)]
    pub place: Place,
    /// Size of the file, MiB
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub mib: u64,
}

impl Cmd {
    /// Where it runs.
    pub fn place(&self) -> &Place {
        match self {
            Cmd::Flops(a) => &a.place,
            Cmd::Transfer(a) => &a.place,
            Cmd::Nettest(a) => &a.place,
            Cmd::Mpitest(a) => &a.place,
            Cmd::Nfstest(a) => &a.place,
            Cmd::Hpl(a) => &a.place,
            Cmd::Exchange(a) => &a.place,
            Cmd::Copy(a) => &a.place,
        }
    }

    /// Its word.
    pub fn name(&self) -> &'static str {
        match self {
            Cmd::Flops(_) => "flops",
            Cmd::Transfer(_) => "transfer",
            Cmd::Nettest(_) => "nettest",
            Cmd::Mpitest(_) => "mpitest",
            Cmd::Nfstest(_) => "nfstest",
            Cmd::Hpl(_) => "hpl",
            Cmd::Exchange(_) => "exchange",
            Cmd::Copy(_) => "copy",
        }
    }
}
