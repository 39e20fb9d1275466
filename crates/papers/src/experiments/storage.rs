//! The common storage of the copy experiments: a directory of this machine that all nodes see, with each node's files and
//! their copies, and the MPI program that copies one.

use crate::tools::{OPEN_MPI, mpicc};
use anyhow::{Context, Result, bail};
use armento_lab::Share;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

const COPY: &str = include_str!("../../../../guests/mpi-io/copy.c");
/// The program in nodes.
const PROGRAM: &str = "/var/tmp/armento-mpi-copy";
/// Where nodes see the storage. PAPER(R, storage): two file systems of equal size, source and target.
const AT: &str = "/srv/riello";
const FROM: &str = "dati";
const TO: &str = "copie";
/// Ranks that can move: no mapped files in common (PMIx's store, shared file pointers), no shared memory. Ranks that do not
/// poll all the time.
const MPIRUN: &str = "PMIX_MCA_gds=hash mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none \
--mca btl tcp,self --mca mpi_yield_when_idle 1 --mca plm isolated --mca sharedfp individual";

/// Removed when dropped.
pub struct Storage {
    dir: PathBuf,
}

impl Drop for Storage {
    fn drop(&mut self) {
        // A failure here has no remedy, and the folder is a temporary one.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// What a copy costs for each MiB, beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Of a whole processor.
    pub cpu_s: f64,
    /// Asleep, as if the storage were busy.
    pub wait_s: f64,
}

impl Storage {
    /// Random files for each of `nodes` nodes, of these sizes. On a disk: what is read there can be throttled.
    pub fn new(nodes: usize, sizes: &[u64]) -> Result<Storage> {
        let dir = PathBuf::from(format!("/var/tmp/armento-riello-{}", std::process::id()));
        let storage = Storage { dir };
        for node in 1..=nodes {
            for half in [FROM, TO] {
                let dir = storage.dir.join(half).join(format!("n{node}"));
                fs::create_dir_all(&dir)
                    .with_context(|| format!("cannot make {}", dir.display()))?;
            }
            for (i, bytes) in sizes.iter().enumerate() {
                let path = storage.dir.join(FROM).join(format!("n{node}/{i}"));
                let mut random = File::open("/dev/urandom")?.take(*bytes);
                let mut file = File::create(&path)?;
                io::copy(&mut random, &mut file).context("no room for the files to copy")?;
            }
        }
        Ok(storage)
    }

    pub fn share(&self) -> Share {
        Share {
            dir: self.dir.clone(),
            at: AT.into(),
        }
    }

    /// Writes all files to the disk and drops them from the page cache, so that they are read from the disk.
    pub fn forget(&self) -> Result<()> {
        let script = "find \"$0\" -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \\;";
        let done = Command::new("sh")
            .args(["-c", script])
            .arg(&self.dir)
            .status()?;
        if !done.success() {
            bail!("the files to copy were not written to the disk");
        }
        Ok(())
    }

    /// How many files have a copy with the same SHA-256, and how many there are.
    pub fn compare(&self) -> Result<(usize, usize)> {
        let (from, to) = (sums(&self.dir.join(FROM))?, sums(&self.dir.join(TO))?);
        let same = from.iter().filter(|(path, sum)| to.get(*path) == Some(sum));
        Ok((same.count(), from.len()))
    }
}

fn sums(dir: &Path) -> Result<BTreeMap<String, String>> {
    let script = "find . -type f -exec sha256sum {} +";
    let out = Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = |l: &str| {
        let (sum, path) = l.split_once("  ")?;
        Some((path.to_owned(), sum.to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Paths, in every node, of file `i` of a node and of its copy.
pub fn paths(node: usize, i: usize) -> (String, String) {
    let path = |half: &str| format!("{AT}/{half}/n{node}/{i}");
    (path(FROM), path(TO))
}

/// The MPI program, compiled, and its path in nodes.
pub fn program() -> Result<(&'static str, Vec<u8>)> {
    Ok((PROGRAM, mpicc(&OPEN_MPI, "copy", COPY)?))
}

/// A line of shell: copies these files of a node, one after the other, each by so many processes.
pub fn mpi_copy(
    node: usize,
    files: Range<usize>,
    processes: usize,
    buffer: u64,
    under: bool,
    cost: Cost,
) -> String {
    let both = |i| {
        let (from, to) = paths(node, i);
        format!("{from} {to}")
    };
    let all: Vec<String> = files.map(both).collect();
    let run = if under { "armento run " } else { "" };
    let Cost { cpu_s, wait_s } = cost;
    format!(
        "{MPIRUN} -np {processes} {run}{PROGRAM} {buffer} {cpu_s:.6} {wait_s:.6} {}",
        all.join(" ")
    )
}

/// Start and end that a script has printed, Unix time.
pub fn times(said: &str) -> Result<(f64, f64)> {
    let all: Vec<f64> = said.split_whitespace().flat_map(str::parse).collect();
    match all[..] {
        [begin, end] => Ok((begin, end)),
        _ => bail!("the copies said {said:?} instead of two times"),
    }
}

/// A script that does these lines one after the other, and prints when it began and ended.
pub fn timed(lines: &[String]) -> String {
    format!(
        "begin=$(date +%s.%N); {} && echo $begin $(date +%s.%N)",
        lines.join(" && ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn has(program: &str) -> bool {
        Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    }

    /// Real MPI-IO on this machine: views of one to four processes over sizes that they do not divide.
    #[test]
    fn views_copy_every_byte() {
        if !has(OPEN_MPI.compiler) || !has(OPEN_MPI.launcher) {
            println!("skipped: views_copy_every_byte needs {}", OPEN_MPI.package);
            return;
        }
        let storage = Storage::new(1, &[100_003, 3]).expect("files");
        let (_, bytes) = program().expect("compiled");
        let path = storage.dir.join("program");
        fs::write(&path, bytes).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("executable");
        assert_eq!(storage.compare().expect("sums"), (0, 2));
        let cost = Cost {
            cpu_s: 0.1,
            wait_s: 0.1,
        };
        for processes in [1, 2, 4] {
            let line = mpi_copy(1, 0..2, processes, 7_000, false, cost);
            let line = line.replace(AT, storage.dir.to_str().expect("text"));
            let line = line.replace(PROGRAM, path.to_str().expect("text"));
            let out = Command::new("sh").args(["-c", &line]).output();
            let out = out.expect("a shell");
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(out.status.success(), "{line}: {said}");
            assert_eq!(storage.compare().expect("sums"), (2, 2), "{processes}");
            for i in 0..2 {
                fs::remove_file(storage.dir.join(TO).join(format!("n1/{i}"))).expect("gone");
            }
        }
    }
}
