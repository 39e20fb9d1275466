//! The workloads, in C, so that they measure only the machine; compiled for each run into a directory that any user can
//! run from, removed with the value.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADER: (&str, &str) = ("clock.h", include_str!("../programs/clock.h"));
const SOURCES: &[(&str, &str)] = &[
    ("bulk", include_str!("../programs/bulk.c")),
    ("calls", include_str!("../programs/calls.c")),
    ("dirty", include_str!("../programs/dirty.c")),
    ("echo", include_str!("../programs/echo.c")),
    ("execs", include_str!("../programs/execs.c")),
    ("forks", include_str!("../programs/forks.c")),
    ("hold", include_str!("../programs/hold.c")),
    ("pair", include_str!("../programs/pair.c")),
    ("spin", include_str!("../programs/spin.c")),
    ("talk", include_str!("../programs/talk.c")),
];
/// Lab nodes have a /tmp of their own; this directory they share with the machine.
const BELOW: &str = "/var/tmp";
const PREFIX: &str = "armento-bench-";

#[derive(Debug)]
pub struct Programs {
    dir: PathBuf,
}

impl Programs {
    pub fn compile() -> Result<Programs> {
        remove_stale();
        let dir = Path::new(BELOW).join(format!("{PREFIX}{}", std::process::id()));
        // Fails when another user has made it: then it must not be used.
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let made = Programs { dir };
        fs::write(made.dir.join(HEADER.0), HEADER.1)?;
        for (name, text) in SOURCES {
            made.compile_one(name, text)?;
        }
        Ok(made)
    }

    fn compile_one(&self, name: &str, text: &str) -> Result<()> {
        let source = self.dir.join(format!("{name}.c"));
        fs::write(&source, text)?;
        let gcc = Command::new("gcc")
            .args(["-std=gnu11", "-O2", "-pthread", "-o"])
            .arg(self.dir.join(name))
            .arg(&source)
            .output()
            .context("cannot run gcc; nothing was measured\nhint: apt-get install gcc libc6-dev")?;
        if !gcc.status.success() {
            let says = String::from_utf8_lossy(&gcc.stderr);
            bail!("gcc refuses {name}.c: {}", says.trim());
        }
        Ok(())
    }

    /// Path of the program `name`, on the machine and on every node of a lab started later.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // The next run removes what remains.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Removes the directory of a killed run.
fn remove_stale() {
    let me = fs::metadata("/proc/self").map(|m| m.uid()).ok();
    for entry in fs::read_dir(BELOW).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX));
        let Some(pid) = pid.and_then(|p| p.parse::<u32>().ok()) else {
            continue;
        };
        let ours = entry.metadata().is_ok_and(|m| Some(m.uid()) == me);
        if ours && !Path::new(&format!("/proc/{pid}")).exists() {
            // Another run may be removing it as well.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_compiles_and_is_removed_on_drop() {
        let p = Programs::compile().unwrap();
        let dir = p.dir.clone();
        for (name, _) in SOURCES {
            assert!(p.path(name).is_file(), "{name}");
        }
        let out = Command::new(p.path("spin")).arg("1000").output().unwrap();
        let says = String::from_utf8(out.stdout).unwrap();
        assert!(says.trim().parse::<u64>().is_ok(), "{says}");
        drop(p);
        assert!(!dir.exists());
    }
}
