//! One benchmark, run and shown.

use super::args::{Blas, Cmd, Hpl};
use super::tables;
use crate::chapter::Table;
use anyhow::{Context, Result, bail};
use armento_mpi::{
    Flops, Ground, Installed, Job, Mpitest, Nettest, Nfstest, Program, Transfer, build_hpl,
    hpl_input, parse_hpl,
};
use serde_json::{Value, json};
use std::fs;

/// What a benchmark runs on.
pub struct Bench<'a> {
    pub ground: &'a Ground,
    pub mpi: &'a Installed,
    pub np: usize,
    pub lab: bool,
}

type Shown = (Vec<Table>, Value);

/// Tells what takes long, beside the result.
fn progress(text: &str) {
    eprintln!("{text}");
}

impl Bench<'_> {
    pub fn run(&self, cmd: &Cmd) -> Result<Shown> {
        match cmd {
            Cmd::Flops(a) => self.flops(a.points, a.repeats),
            Cmd::Transfer(a) => {
                self.two()?;
                let all: Transfer = self.all(
                    Program::Transfer,
                    &[a.largest.to_string(), a.seconds.to_string()],
                )?;
                Ok((tables::transfer(&all), json!({ "result": all })))
            }
            Cmd::Nettest(a) => {
                self.two()?;
                let all: Nettest = self.all(
                    Program::Nettest,
                    &[a.bytes.to_string(), a.seconds.to_string()],
                )?;
                Ok((tables::nettest(&all), json!({ "result": all })))
            }
            Cmd::Mpitest(a) => {
                self.two()?;
                let all: Mpitest =
                    self.all(Program::Mpitest, &[a.fast.to_string(), a.slow.to_string()])?;
                Ok((tables::mpitest(&all), json!({ "result": all })))
            }
            Cmd::Nfstest(a) => {
                let dir = match (&a.dir, self.lab) {
                    (Some(dir), _) => dir.to_string_lossy().into_owned(),
                    (None, true) => "/srv/armento-mpi".to_owned(),
                    (None, false) => bail!("which directory do all nodes share?\nhint: --dir DIR"),
                };
                let all: Nfstest = self.all(Program::Nfstest, &[dir, a.bytes.to_string()])?;
                let shown = (tables::nfstest(&all), json!({ "result": all }));
                match all.wrong {
                    0 => Ok(shown),
                    wrong => bail!(
                        "{wrong} of {} checks were wrong: what one process has done was not there for another\nhint: mount the directory without a cache of attributes (NFS: noac)",
                        all.checks
                    ),
                }
            }
            Cmd::Hpl(a) => self.hpl(a),
            Cmd::Exchange(_) | Cmd::Copy(_) => bail!("{} needs no MPI", cmd.name()),
        }
    }

    fn two(&self) -> Result<()> {
        if self.np < 2 {
            bail!("that needs two processes or more\nhint: --lab-nodes 2, or --np 2");
        }
        Ok(())
    }

    fn all<T: serde::de::DeserializeOwned>(&self, program: Program, args: &[String]) -> Result<T> {
        progress(&format!(
            "{}: {} processes on {} hosts",
            program.name(),
            self.np,
            self.ground.count()
        ));
        self.ground.measure(self.mpi, program, self.np, args)
    }

    /// On one process, two, and so on.
    fn flops(&self, points: u64, repeats: u64) -> Result<Shown> {
        let args = [points.to_string(), repeats.to_string()];
        let mut all: Vec<Flops> = Vec::new();
        for n in 1..=self.np {
            progress(&format!("flops: {n} of {}", self.np));
            all.push(self.ground.measure(self.mpi, Program::Flops, n, &args)?);
        }
        Ok((tables::flops(&all), json!({ "result": all })))
    }

    fn hpl(&self, a: &Hpl) -> Result<Shown> {
        if a.unknowns == 0 || a.block == 0 || a.unknowns > 1_000_000 || a.block > a.unknowns {
            bail!(
                "{} unknowns in blocks of {} are no system\nhint: --unknowns 2000 --block 128",
                a.unknowns,
                a.block
            );
        }
        let blas = match a.blas {
            Blas::Tuned => armento_mpi::Blas::Tuned,
            Blas::Reference => armento_mpi::Blas::Reference,
        };
        let env = blas.env()?;
        let folder = armento_mpi::folder()?;
        let program = build_hpl(self.mpi, &folder, &progress)?;
        let run = folder.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&run)?;
        let (p, q) = grid(self.np);
        fs::write(
            run.join("hpccinf.txt"),
            hpl_input(a.unknowns as usize, a.block as usize, p, q),
        )?;
        progress(&format!(
            "hpl: {} unknowns on {p} times {q} processes",
            a.unknowns
        ));
        let job = Job {
            program,
            np: self.np,
            hosts: self.ground.first(self.np),
            env,
            args: vec![self.ground.there(&run).to_string_lossy().into_owned()],
            limit_s: 24.0 * 3600.0,
            ..Job::default()
        };
        let said = self.ground.run(self.mpi, &job);
        // A temporary folder.
        let _ = fs::remove_dir_all(&run);
        let said = said?;
        let found = parse_hpl(&said.stdout).context("HPL printed no result")?;
        if !found.passed {
            bail!("HPL's residual is too large: {found:?}\nhint: another --blas, or a memory test");
        }
        Ok((
            tables::hpl(&found, blas),
            json!({ "result": found, "blas": blas }),
        ))
    }
}

/// As square as can be, not more rows than columns: HPL's advice.
fn grid(np: usize) -> (usize, usize) {
    let rows = (1..=np).take_while(|p| p * p <= np);
    let p = rows.filter(|p| np.is_multiple_of(*p)).last().unwrap_or(1);
    (p, np / p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_nearly_square() {
        for (np, want) in [
            (1, (1, 1)),
            (2, (1, 2)),
            (4, (2, 2)),
            (6, (2, 3)),
            (7, (1, 7)),
            (12, (3, 4)),
        ] {
            assert_eq!(grid(np), want);
        }
    }
}
