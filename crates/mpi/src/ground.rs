//! Where MPI programs run: in a lab made for them, or on hosts of the user's.

use crate::compile::{self, Program};
use crate::hostfile::{Host, with_np};
use crate::installed::{Installed, Kind};
use crate::job::{Job, Wait};
use crate::run::{Output, run};
use anyhow::{Context, Result};
use armento_lab::{Lab, Link, Node, Share, Spec, Traffic};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rate of the links of the papers' Fast Ethernet.
pub const LINK_BIT_S: u64 = 100_000_000;
/// Where nodes see compiled programs, and files of a run.
const AT: &str = "/srv/armento-mpi";
/// How long processes of MPICH may take to end.
const LINGER: Duration = Duration::from_secs(10);
/// What starts programs on other nodes of a lab.
const RSH: &str = "/usr/local/bin/armento-rsh";

/// A place for MPI programs.
#[derive(Debug)]
pub enum Ground {
    Lab {
        lab: Box<Lab>,
        /// The shared folder as this machine sees it.
        folder: PathBuf,
        interfaces: String,
    },
    Hosts {
        hosts: Vec<Host>,
        folder: PathBuf,
    },
}

impl Ground {
    /// A lab with a shared folder for programs. `spec` says the rest.
    pub fn lab(spec: Spec) -> Result<Ground> {
        let folder = compile::folder()?;
        let interfaces = match spec.second_link {
            true => "eth0,eth1",
            false => "eth0",
        };
        let mut shares = spec.shares.clone();
        shares.push(Share {
            dir: folder.clone(),
            at: AT.into(),
        });
        let lab = Lab::up(Spec { shares, ..spec })?;
        Ok(Ground::Lab {
            lab: Box::new(lab),
            folder,
            interfaces: interfaces.to_owned(),
        })
    }

    /// A lab of equal nodes behind a switch of 100 Mbit/s, without daemons: for communication, each at full speed as far as the
    /// machine has it.
    pub fn plain(name: &str, nodes: usize, speed: f64) -> Result<Ground> {
        Ground::lab(Spec {
            name: name.to_owned(),
            nodes,
            speeds: vec![speed],
            link: Link::Switch { bits: LINK_BIT_S },
            farm: false,
            ..Spec::default()
        })
    }

    pub fn hosts(hosts: Vec<Host>) -> Result<Ground> {
        Ok(Ground::Hosts {
            hosts,
            folder: compile::folder()?,
        })
    }

    /// Number of hosts.
    pub fn count(&self) -> usize {
        match self {
            Ground::Lab { lab, .. } => lab.nodes().len(),
            Ground::Hosts { hosts, .. } => hosts.len(),
        }
    }

    /// The first so many hosts, one process each; more processes than hosts are dealt in turn.
    pub fn first(&self, np: usize) -> Vec<Host> {
        match self {
            Ground::Lab { lab, .. } => {
                let all: Vec<Host> = lab.nodes().iter().map(|n| Host::new(&*n.name, 1)).collect();
                with_np(&all, np)
            }
            Ground::Hosts { hosts, .. } => {
                let one: Vec<Host> = hosts.iter().map(|h| Host::new(&*h.name, 1)).collect();
                let fit = if np > one.len() { hosts } else { &one };
                with_np(fit, np)
            }
        }
    }

    /// The path of a file of the folder on the hosts.
    pub fn there(&self, path: &Path) -> PathBuf {
        match self {
            Ground::Lab { folder, .. } => match path.strip_prefix(folder) {
                Ok(below) => Path::new(AT).join(below),
                Err(_) => path.to_owned(),
            },
            Ground::Hosts { .. } => path.to_owned(),
        }
    }

    /// A job of one of our programs on the first `np` hosts.
    pub fn job(
        &self,
        mpi: &Installed,
        program: Program,
        np: usize,
        args: &[String],
    ) -> Result<Job> {
        let (Ground::Lab { folder, .. } | Ground::Hosts { folder, .. }) = self;
        let built = compile::build(mpi, program, folder)?;
        Ok(Job {
            program: built,
            args: args.to_vec(),
            np,
            hosts: self.first(np),
            limit_s: 600.0,
            ..Job::default()
        })
    }

    /// Runs a job to its end.
    pub fn run(&self, mpi: &Installed, job: &Job) -> Result<Output> {
        // MPICH 4.0.2 may hang in MPI_Finalize, after its result.
        let linger = (mpi.kind == Kind::Mpich).then_some(LINGER);
        let mut job = job.clone();
        job.program = self.there(&job.program);
        if job.wait == Wait::Sleep && mpi.kind == Kind::OpenMpi {
            let (Ground::Lab { folder, .. } | Ground::Hosts { folder, .. }) = self;
            let library = self.there(&compile::patient(folder)?);
            let library = library.to_string_lossy().into_owned();
            job.env.push(("LD_PRELOAD".to_owned(), library));
        }
        match self {
            Ground::Lab {
                lab, interfaces, ..
            } => {
                job.rsh = Some(RSH.to_owned());
                job.interfaces.get_or_insert_with(|| interfaces.clone());
                // Commands in a node begin with an environment of their own.
                let line = job.line(mpi, true);
                let mut c = lab.node(1).command("env");
                c.args(line.env.iter().map(|(n, v)| format!("{n}={v}")));
                c.args(&line.words);
                run(c, job.limit_s, linger)
            }
            Ground::Hosts { .. } => {
                let line = job.line(mpi, armento_lab::is_root());
                let (first, rest) = line.words.split_first().context("a launcher")?;
                let mut c = std::process::Command::new(first);
                c.args(rest).envs(line.env);
                run(c, job.limit_s, linger)
            }
        }
    }

    /// Runs one of our programs on the first `np` hosts, and reads its result.
    pub fn measure<T: DeserializeOwned>(
        &self,
        mpi: &Installed,
        program: Program,
        np: usize,
        args: &[String],
    ) -> Result<T> {
        let job = self.job(mpi, program, np, args)?;
        self.run(mpi, &job)?.json()
    }

    /// The first node of a lab.
    pub fn node(&self) -> Option<&Node> {
        match self {
            Ground::Lab { lab, .. } => Some(lab.node(1)),
            Ground::Hosts { .. } => None,
        }
    }

    /// Bytes through the interfaces of a lab's nodes.
    pub fn traffic(&self) -> Result<Vec<Traffic>> {
        match self {
            Ground::Lab { lab, .. } => lab.traffic(),
            Ground::Hosts { .. } => Ok(Vec::new()),
        }
    }

    /// Why results are none: nodes that ended.
    pub fn problem(&self) -> Option<String> {
        let Ground::Lab { lab, .. } = self else {
            return None;
        };
        let lost = lab.lost();
        (!lost.is_empty()).then(|| format!("nodes were lost: {}", lost.join(", ")))
    }

    /// Takes a lab down; hosts are left as they are.
    pub fn down(self) -> Result<()> {
        match self {
            Ground::Lab { lab, .. } => lab.down(),
            Ground::Hosts { .. } => Ok(()),
        }
    }
}
