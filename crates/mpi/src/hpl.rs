//! HPL: built at first use from the sources of Debian's hpcc, its input written, its output read.

use crate::compile::{compiled, key};
use crate::installed::{Installed, need};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MAIN: &str = include_str!("../../../guests/mpi/hpl_main.c");
/// Calls of MPI-1 that MPI-3 has removed (MPI 3.0, chapter 16), and those that took their places.
const RENAMED: [(&str, &str); 2] = [
    ("MPI_Type_struct", "MPI_Type_create_struct"),
    ("MPI_Address", "MPI_Get_address"),
];

/// A library of linear algebra.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blas {
    /// OpenBLAS, tuned for the processor, with one thread a process.
    Tuned,
    /// The reference implementation.
    Reference,
}

impl Blas {
    /// As a user says it.
    pub fn word(self) -> &'static str {
        match self {
            Blas::Tuned => "tuned",
            Blas::Reference => "reference",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Blas::Tuned => "libopenblas0-serial",
            Blas::Reference => "libblas3",
        }
    }

    /// Debian keeps each in a folder of its own, beside the one that is chosen for all programs.
    fn folders(self) -> &'static [&'static str] {
        match self {
            Blas::Tuned => &["openblas-serial", "openblas-pthread"],
            Blas::Reference => &["blas"],
        }
    }

    /// The folder of the library, for LD_LIBRARY_PATH.
    pub fn find(self) -> Result<PathBuf> {
        let libraries = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let folders: Vec<PathBuf> = libraries
            .flat_map(|arch| self.folders().iter().map(move |f| arch.path().join(f)))
            .collect();
        let mut all = folders.into_iter();
        match all.find(|dir| dir.join("libblas.so.3").exists()) {
            Some(dir) => Ok(dir),
            None => bail!(
                "there is no {} BLAS here\nhint: apt-get install -y {}",
                self.word(),
                self.package()
            ),
        }
    }

    /// Variables with which a program uses it.
    pub fn env(self) -> Result<Vec<(String, String)>> {
        let dir = self.find()?.to_string_lossy().into_owned();
        let one = ("OPENBLAS_NUM_THREADS".to_owned(), "1".to_owned());
        Ok(vec![("LD_LIBRARY_PATH".to_owned(), dir), one])
    }
}

/// What has to be there to build it.
pub fn tools() -> Result<()> {
    need("apt-get", "apt")?;
    need("tar", "tar")?;
    Blas::Reference.find()?;
    Ok(())
}

/// The built program. `progress` is told what takes long.
pub fn build(mpi: &Installed, folder: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf> {
    let show = crate::installed::said(&mpi.compiler, "-show");
    let dir = folder.join(format!("hpl-{}", key(&[MAIN, &show])));
    let done = dir.join("xhpl");
    if done.is_file() {
        return Ok(done);
    }
    tools()?;
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    progress("HPL: fetching Debian's source package hpcc");
    let archive = fetch(&dir)?;
    let mut unpack = Command::new("tar");
    unpack
        .args(["--extract", "--strip-components=1", "--file"])
        .arg(&archive)
        .current_dir(&dir);
    done_or(unpack, "hpcc's archive cannot be unpacked")?;
    let mut sources = Vec::new();
    for part in ["hpl/src", "hpl/testing"] {
        collect(&dir.join(part), &mut sources)?;
    }
    for file in &sources {
        rename_calls(file)?;
    }
    let main = dir.join("hpl_main.c");
    fs::write(&main, MAIN).with_context(|| format!("cannot write {}", main.display()))?;
    progress("HPL: compiling, some 30 s");
    let mut c = Command::new(&mpi.compiler);
    c.args([
        "-O2",
        "-w",
        "-DAdd_",
        "-DF77_INTEGER=int",
        "-DStringSunStyle",
    ])
    .args(["-Ihpl/include", "-Iinclude", "-o", "hpl.new", "hpl_main.c"])
    .args(&sources)
    .args(["-l:libblas.so.3", "-lm"])
    .current_dir(&dir);
    compiled(c, mpi)?;
    fs::rename(dir.join("hpl.new"), &done)
        .with_context(|| format!("cannot write {}", done.display()))?;
    // The archive and apt's lists are of no more use.
    let _ = fs::remove_dir_all(dir.join("lists"));
    Ok(done)
}

/// Downloads the archive with lists of its own: the machine's lists and settings stay.
fn fetch(dir: &Path) -> Result<PathBuf> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |name: &str| {
        let line = release.lines().find_map(|l| l.strip_prefix(name));
        line.map(|v| v.trim_matches(['=', '"']).to_owned())
    };
    let Some(codename) =
        field("VERSION_CODENAME").filter(|_| field("ID").as_deref() == Some("debian"))
    else {
        bail!(
            "HPL is built from a source package of Debian, and this is another system\nhint: run this on Debian 12 or newer"
        );
    };
    let lists = dir.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let list = dir.join("sources.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(
        &list,
        format!("deb-src [signed-by={keys}] http://deb.debian.org/debian {codename} main\n"),
    )?;
    let apt = |words: &[&str]| {
        let mut c = Command::new("apt-get");
        c.args(["-q", "-o"])
            .arg(format!("Dir::Etc::SourceList={}", list.display()))
            .args(["-o", "Dir::Etc::SourceParts=/dev/null", "-o"])
            .arg(format!("Dir::State::Lists={}", lists.display()))
            .args([
                "-o",
                "Dir::Cache::srcpkgcache=",
                "-o",
                "Dir::Cache::pkgcache=",
            ])
            .args(["-o", "APT::Sandbox::User=root"])
            .args(words)
            .current_dir(dir);
        done_or(c, "Debian's source package hpcc cannot be fetched")
    };
    apt(&["update"])?;
    apt(&["source", "--tar-only", "hpcc"])?;
    let files = fs::read_dir(dir)?.flatten().map(|f| f.path());
    let mut archives = files.filter(|p| p.to_string_lossy().contains(".orig.tar"));
    archives
        .next()
        .context("apt-get has fetched no archive of hpcc")
}

fn done_or(mut c: Command, what: &str) -> Result<()> {
    let out = c.stdin(Stdio::null()).output();
    let out = out.with_context(|| what.to_owned())?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let line = said
            .lines()
            .find(|l| l.starts_with("E:"))
            .or(said.lines().last());
        bail!(
            "{what}: {}\nhint: it needs the network once; see /etc/apt for the proxy",
            line.unwrap_or_default()
        );
    }
    Ok(())
}

/// All C files below a folder.
fn collect(dir: &Path, all: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("hpcc has no {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, all)?;
        } else if path.extension().is_some_and(|e| e == "c") {
            all.push(path);
        }
    }
    all.sort();
    Ok(())
}

fn rename_calls(file: &Path) -> Result<()> {
    // Some comments are not UTF-8.
    let text = fs::read(file)?;
    let old = String::from_utf8_lossy(&text);
    let mut new = old.clone().into_owned();
    for (from, to) in RENAMED {
        new = new.replace(&format!("{from}("), &format!("{to}("));
        new = new.replace(&format!("{from} ("), &format!("{to} ("));
    }
    if new != old {
        fs::write(file, new)?;
    }
    Ok(())
}

/// A system of `n` equations on a grid of `p` times `q` processes.
pub fn input(n: usize, block: usize, p: usize, q: usize) -> String {
    format!(
        "HPLinpack benchmark input file\nwritten by armento\nHPL.out\n6\n1\n{n}\n1\n{block}\n0\n1\n{p}\n{q}\n16.0\n1\n2\n1\n4\n1\n2\n1\n1\n1\n1\n1\n1\n2\n64\n0\n0\n1\n8\n"
    )
}

/// What HPL has measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hpl {
    pub n: u64,
    pub block: u64,
    pub p: u64,
    pub q: u64,
    pub s: f64,
    pub gflops: f64,
    /// The residual is within its bound.
    pub passed: bool,
}

/// Reads a result line, `WR11C2R4  4000  128  2  2  3.90  1.09e+01`, and the verdict below.
pub fn parse(stdout: &str) -> Option<Hpl> {
    let line = stdout
        .lines()
        .find(|l| l.starts_with("WR") || l.starts_with("WC"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let whole = |i: usize| words.get(i)?.parse().ok();
    let real = |i: usize| words.get(i)?.parse().ok();
    Some(Hpl {
        n: whole(1)?,
        block: whole(2)?,
        p: whole(3)?,
        q: whole(4)?,
        s: real(5)?,
        gflops: real(6)?,
        passed: stdout.contains("PASSED") && !stdout.contains("FAILED"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_hpl_is_read() {
        let text = "T/V  N  NB  P  Q  Time  Gflops\n---\nWR11C2R4        4000   128     2     2               3.90          1.094e+01\n\
                    ||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=  0.0044 ...... PASSED\n";
        let got = parse(text).expect("read");
        assert_eq!(
            (got.n, got.q, got.gflops, got.passed),
            (4000, 2, 10.94, true)
        );
        assert!(
            !parse(&text.replace("PASSED", "FAILED"))
                .expect("read")
                .passed
        );
        assert_eq!(parse("nothing"), None);
        assert_eq!(input(100, 8, 1, 2).lines().count(), 31);
    }
}
