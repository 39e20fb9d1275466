//! `armento mpi-env`: settings with which the processes of an MPI program can move.

use crate::out::{say, say_json};
use armento_mpi::{Kind, Setting, settings};
use serde_json::json;

const HELP: &str = "Examples:
  eval \"$(armento mpi-env --openmpi)\"
  mpirun -x PMIX_MCA_gds -np 8 armento run ./program
  armento mpi-env --mpich --json | jq -r '.settings[].name'";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// For Open MPI (default)
    #[arg(long, conflicts_with = "mpich")]
    openmpi: bool,
    /// For MPICH
    #[arg(long)]
    mpich: bool,
    /// Print JSON (schema armento.mpi-env/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let kind = if args.mpich {
        Kind::Mpich
    } else {
        Kind::OpenMpi
    };
    if args.json {
        let fields = json!({ "mpi": kind, "settings": settings(kind), "stays": stays(kind) });
        say_json("armento.mpi-env/1", fields);
    } else {
        say(&render(kind));
    }
    Ok(0)
}

/// What stays in spite of all settings.
fn stays(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::OpenMpi => &[
            "programs that make shared windows (MPI_Win_allocate_shared) or use one-sided calls on one node",
            "programs of InfiniBand and other devices that are mapped into their memory",
        ],
        Kind::Mpich => &[
            "programs that make shared windows (MPI_Win_allocate_shared)",
            "MPICH 5, which maps /dev/shm/mpich_shm files with these settings, too",
        ],
    }
}

fn render(kind: Kind) -> String {
    let line = |s: &Setting| {
        let need = if s.needed { "needed" } else { "better" };
        format!("# {need}: {}\nexport {}={}\n", s.why, s.name, s.value)
    };
    let mut text = format!(
        "# {}: with these settings processes can move.\n",
        kind.name()
    );
    text.extend(settings(kind).iter().map(line));
    if kind == Kind::OpenMpi {
        text += "# mpirun passes variables that begin with OMPI_ to all hosts, others where `-x NAME` says so: -x PMIX_MCA_gds\n";
    }
    for what in stays(kind) {
        text += &format!("# still stay: {what}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_can_read_it() {
        for kind in [Kind::OpenMpi, Kind::Mpich] {
            for line in render(kind).lines() {
                let plain = |c: char| c.is_ascii_alphanumeric() || "_=,".contains(c);
                let set = line
                    .strip_prefix("export ")
                    .is_some_and(|l| l.chars().all(plain));
                assert!(set || line.starts_with("# "), "{line}");
            }
        }
    }
}
