//! The namespaces of the machines and their network links.

use crate::image::{below_build, missing};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// One set of machines with the bridges between them. All of it ends when this value is dropped, and when the process
/// that has it ends, for whatever reason.
pub struct Site {
    holder: Child,
    /// Process 1 of the namespaces; it ends when this closes.
    pipe: Option<ChildStdin>,
    first: u32,
    dir: PathBuf,
}

/// Two bridges; addresses are the machines' own. Packets of the farm's bridge are not filtered.
const WIRE: &str = "set -e; ip link set lo up
for b in farm test; do ip link add $b type bridge; ip link set $b up; done";

impl Site {
    /// For tests: `None`, with the reason printed, where this machine cannot have one.
    pub fn new_or_skip() -> Option<Site> {
        if let Some(missing) = missing() {
            println!("skipped: Debian machines need {missing}");
            return None;
        }
        Some(Site::new().unwrap_or_else(|e| panic!("{e:#}")))
    }

    /// Before: root (see [`crate::Image::ready`]).
    pub fn new() -> Result<Site> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let all = below_build();
        sweep(&all);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = all.join(format!("site-{}-{n}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let mut c = Command::new("unshare");
        c.args([
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "cat",
        ]);
        let mut holder = c
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("unshare")?;
        let pipe = holder.stdin.take();
        let first = child_of(holder.id())?;
        let site = Site {
            holder,
            pipe,
            first,
            dir,
        };
        let wired = site.inside("sh", &["-c", WIRE]).output()?;
        good("bridges", &wired)?;
        Ok(site)
    }

    /// Files of its machines: overlays, consoles, sockets.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The network namespace, for a thread of the test that moves there.
    pub fn network(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.first).into()
    }

    /// A command inside the namespaces.
    pub fn inside(&self, program: &str, args: &[&str]) -> Command {
        let mut c = Command::new("nsenter");
        c.arg(format!("--target={}", self.first));
        c.args(["--net", "--pid", "--mount", "--", program])
            .args(args);
        c
    }

    /// Runs a shell script inside, which must succeed.
    pub fn sh(&self, script: &str) -> Result<String> {
        let out = self.inside("sh", &["-c", script]).output()?;
        good(script, &out)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.holder.wait();
        // Files of a failed test stay until the next run.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn good(what: &str, out: &Output) -> Result<String> {
    if !out.status.success() {
        let err = String::from_utf8_lossy(&out.stderr);
        bail!("{what}: {}: {}", out.status, err.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// unshare forks; its child is process 1 inside.
fn child_of(pid: u32) -> Result<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    for _ in 0..500 {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let child = text.split_whitespace().next();
        // Until it has exec'd its namespaces are not complete.
        if let Some(child) = child.and_then(|c| c.parse().ok())
            && fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|c| c.trim() == "cat")
        {
            return Ok(child);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    bail!("unshare started nothing: are namespaces permitted here?")
}

/// Directories of test processes that were killed.
fn sweep(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let pid = name.strip_prefix("site-").and_then(|n| n.split('-').next());
        if let Some(pid) = pid
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
