//! Compilers and launchers of the C programs in `guests/`, and the packages to install where they are missing.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// An MPI of Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mpi {
    pub name: &'static str,
    pub compiler: &'static str,
    pub launcher: &'static str,
    pub package: &'static str,
}

pub const OPEN_MPI: Mpi = Mpi {
    name: "Open MPI",
    compiler: "mpicc.openmpi",
    launcher: "mpirun.openmpi",
    package: "openmpi-bin libopenmpi-dev",
};

/// Removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty folder of this process; an interrupted command removes it by its name.
    pub fn new(what: &str) -> Result<Folder> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("armento-{what}{count}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Folder(dir))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure here has no remedy, and the folder is a temporary one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles a C program that needs no library at run time.
pub fn cc(name: &str, source: &str) -> Result<Vec<u8>> {
    compile("cc", &["-O2", "-static"], "gcc libc6-dev", name, source)
}

/// Compiles an MPI program.
pub fn mpicc(mpi: &Mpi, name: &str, source: &str) -> Result<Vec<u8>> {
    compile(mpi.compiler, &["-O2"], mpi.package, name, source)
}

fn compile(
    compiler: &str,
    options: &[&str],
    package: &str,
    name: &str,
    source: &str,
) -> Result<Vec<u8>> {
    let folder = Folder::new(name)?;
    let (from, to) = (folder.0.join(format!("{name}.c")), folder.0.join(name));
    fs::write(&from, source)?;
    let mut c = Command::new(compiler);
    c.args(options).arg("-o").args([&to, &from]);
    let done = c.output().with_context(|| {
        format!("{compiler} is not installed\nhint: apt-get install -y {package}")
    })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let first = said.lines().take(3).collect::<Vec<_>>().join("; ");
        bail!("{compiler}: {first}\nhint: apt-get install -y {package}");
    }
    read(&to)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let none = Mpi {
            compiler: "mpicc.none",
            ..OPEN_MPI
        };
        let e = mpicc(&none, "x", "int main;").expect_err("no compiler");
        assert!(
            format!("{e:#}").contains("hint: apt-get install -y openmpi-bin libopenmpi-dev"),
            "{e:#}"
        );
        let e = cc("x", "int main").expect_err("no program");
        assert!(e.to_string().contains("cc: "), "{e}");
    }
}
