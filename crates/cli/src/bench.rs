//! `armento bench`: benchmarks of the papers without a paper.

use crate::hostfile;
pub use armento_papers::bench::Cmd;

pub fn run(cmd: Cmd) -> anyhow::Result<i32> {
    armento_papers::bench::run(cmd, || hostfile::farm(None, false))
}
