//! Which MPI this machine has.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// An implementation of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    OpenMpi,
    Mpich,
}

/// The programs of an implementation.
#[derive(Clone, Debug)]
pub struct Installed {
    pub kind: Kind,
    /// `mpirun`.
    pub launcher: PathBuf,
    /// `mpicc`.
    pub compiler: PathBuf,
}

impl Kind {
    /// As a user says it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::OpenMpi => "openmpi",
            Kind::Mpich => "mpich",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::OpenMpi => "Open MPI",
            Kind::Mpich => "MPICH",
        }
    }

    /// Debian packages of launcher, compiler and headers.
    pub fn packages(self) -> &'static str {
        match self {
            Kind::OpenMpi => "openmpi-bin libopenmpi-dev",
            Kind::Mpich => "mpich libmpich-dev",
        }
    }

    /// What its launcher prints of itself.
    fn mark(self) -> &'static str {
        match self {
            Kind::OpenMpi => "Open MPI",
            Kind::Mpich => "HYDRA",
        }
    }

    /// Debian's names have the implementation at their end; elsewhere `mpirun` is asked what it is.
    pub fn find(self) -> Result<Installed> {
        let named = |program: &str| find_program(&format!("{program}.{}", self.word()));
        let plain = || {
            let launcher = find_program("mpirun")?;
            said(&launcher, "--version")
                .contains(self.mark())
                .then_some(())?;
            Some((launcher, find_program("mpicc")?))
        };
        match named("mpirun").zip(named("mpicc")).or_else(plain) {
            Some((launcher, compiler)) => Ok(Installed {
                kind: self,
                launcher,
                compiler,
            }),
            None => bail!("{} is not installed\n{}", self.name(), self.hint()),
        }
    }

    /// How to install it.
    pub fn hint(self) -> String {
        format!("hint: apt-get install -y {}", self.packages())
    }
}

impl Installed {
    /// The first line that the launcher prints of its version.
    pub fn version(&self) -> String {
        let text = said(&self.launcher, "--version");
        let line = text
            .lines()
            .find(|l| l.contains("MPI) ") || l.contains("Version"));
        let line = line.or(text.lines().next()).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("{}: {}", self.kind.name(), words.join(" "))
    }
}

/// All that a program says to a question of itself.
pub(crate) fn said(program: &std::path::Path, word: &str) -> String {
    let out = Command::new(program)
        .arg(word)
        .stdin(Stdio::null())
        .output();
    out.map_or_else(
        |_| String::new(),
        |o| String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned(),
    )
}

/// A program of the PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}

/// A program of the PATH, or the package that has it.
pub fn need(name: &str, package: &str) -> Result<PathBuf> {
    match find_program(name) {
        Some(path) => Ok(path),
        None => bail!("there is no program `{name}` here\nhint: apt-get install -y {package}"),
    }
}
