//! Our C programs, compiled at first use and kept by their content.

use crate::installed::{Installed, said};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xxhash_rust::xxh3::Xxh3;

macro_rules! programs {
    ($($variant:ident $name:literal)*) => {
        /// A program of `guests/mpi`; its first comment says what it does and takes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Program { $($variant),* }

        impl Program {
            pub const ALL: &'static [Program] = &[$(Program::$variant),*];
            pub fn name(self) -> &'static str { match self { $(Program::$variant => $name),* } }
            fn source(self) -> &'static str {
                match self { $(Program::$variant => include_str!(concat!("../../../guests/mpi/", $name, ".c"))),* }
            }
        }
    };
}

programs! {
    Flops "flops"
    Transfer "transfer"
    Nettest "nettest"
    Mpitest "mpitest"
    Nfstest "nfstest"
    Integral "integral"
    Halo "halo"
}

const COMMON: &str = include_str!("../../../guests/mpi/common.h");
/// The same code whatever the machine, so that a program also runs on other nodes.
const FLAGS: [&str; 2] = ["-O2", "-std=gnu11"];

/// Where compiled programs are kept: $XDG_CACHE_HOME/armento/mpi, by default below ~/.cache (XDG Base Directory Specification
/// 0.8).
pub fn folder() -> Result<PathBuf> {
    let var = |name| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|v| v.is_absolute())
    };
    let cache = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")));
    let cache = cache.context(
        "neither HOME nor XDG_CACHE_HOME is set\nhint: XDG_CACHE_HOME=/var/tmp keeps compiled programs there",
    )?;
    let folder = cache.join("armento/mpi");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// A name that depends on all of these.
pub(crate) fn key(parts: &[&str]) -> String {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    format!("{:016x}", hash.digest())
}

/// The compiled program below `folder`.
pub fn build(mpi: &Installed, program: Program, folder: &Path) -> Result<PathBuf> {
    // Both implementations print the compiler's command line, which names their version's folders.
    let command_line = said(&mpi.compiler, "-show");
    let key = key(&[
        program.source(),
        COMMON,
        &command_line,
        &mpi.compiler.to_string_lossy(),
    ]);
    let dir = folder.join(key);
    let done = dir.join(program.name());
    if done.is_file() {
        return Ok(done);
    }
    let written = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::create_dir_all(&dir)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))
    };
    written("common.h", COMMON)?;
    let source = format!("{}.c", program.name());
    written(&source, program.source())?;
    let fresh = format!("{}.{}", program.name(), std::process::id());
    let mut c = Command::new(&mpi.compiler);
    c.args(FLAGS)
        .args(["-o", &fresh, &source, "-lm"])
        .current_dir(&dir);
    compiled(c, mpi)?;
    fs::rename(dir.join(&fresh), &done)
        .with_context(|| format!("cannot write {}", done.display()))?;
    Ok(done)
}

/// A library with which processes of Open MPI sleep while they wait, below `folder`.
pub fn patient(folder: &Path) -> Result<PathBuf> {
    const SOURCE: &str = include_str!("../../../guests/mpi/patient.c");
    let dir = folder.join(key(&[SOURCE]));
    let done = dir.join("patient.so");
    if done.is_file() {
        return Ok(done);
    }
    let source = dir.join("patient.c");
    fs::create_dir_all(&dir)
        .and_then(|()| fs::write(&source, SOURCE))
        .with_context(|| format!("cannot write {}", source.display()))?;
    let fresh = dir.join(format!("patient.{}", std::process::id()));
    let out = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&fresh, &source])
        .output()
        .context("there is no C compiler\nhint: apt-get install -y gcc libc6-dev")?;
    if !out.status.success() {
        bail!(
            "cc failed: {}\nhint: apt-get install -y gcc libc6-dev",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    fs::rename(&fresh, &done).with_context(|| format!("cannot write {}", done.display()))?;
    Ok(done)
}

/// Runs a compiler; what is missing for it is named with its packages.
pub(crate) fn compiled(mut c: Command, mpi: &Installed) -> Result<()> {
    let out = c
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", mpi.compiler.display()))?;
    if out.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&out.stderr);
    let line = why
        .lines()
        .find(|l| l.contains("error") || l.contains("cannot find"));
    let line = line.or(why.lines().next()).unwrap_or_default();
    if [
        "mpi.h",
        "library cannot be found",
        "not find",
        "cannot find -lmpi",
    ]
    .iter()
    .any(|m| why.contains(m))
        && !why.contains("-lblas")
    {
        bail!(
            "{} cannot compile here: {line}\n{}",
            mpi.compiler.display(),
            mpi.kind.hint()
        );
    }
    bail!(
        "{} failed: {line}\nhint: it needs a C compiler and an MPI that fit each other: apt-get install -y gcc libc6-dev {}",
        mpi.compiler.display(),
        mpi.kind.packages()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_every_part() {
        let all = [key(&["a", "b"]), key(&["ab", ""]), key(&["a", "c"])];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        assert_eq!(all[0], key(&["a", "b"]));
    }

    #[test]
    fn every_program_says_what_it_takes() {
        for p in Program::ALL {
            let first = p.source().lines().next().unwrap_or_default();
            let begin = format!("/* {}", p.name());
            assert!(first.starts_with(&begin), "{first}");
        }
    }
}
