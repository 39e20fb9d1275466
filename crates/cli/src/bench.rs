//! `armento bench`: benchmarks of the papers without a paper.

use crate::hostfile;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Cmd {
    #[command(flatten)]
    Mpi(armento_papers::bench::Cmd),
}

pub fn run(cmd: Cmd) -> anyhow::Result<i32> {
    match cmd {
        Cmd::Mpi(cmd) => armento_papers::bench::run(cmd, || hostfile::farm(None, false)),
    }
}
