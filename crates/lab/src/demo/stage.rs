//! The laboratory under the demo: raised, used and taken away, also when the demo is interrupted.
//!
//! The demo is a user of the command line: it runs `armento lab …` as anybody would. A guard
//! process holds the reading end of a pipe from us; when we vanish without a word it takes the lab
//! down, so that not even SIGKILL leaves anything behind.

use crate::state::Dir;
use crate::sys::{self, Signals};
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ctrl-C, `kill`, a closed terminal.
const SIGNALS: [i32; 3] = [libc::SIGINT, sys::SIGTERM, libc::SIGHUP];

/// The demo was told to stop; what it had raised is taken down on the way out.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted by signal {0}; the lab was taken down")]
pub struct Interrupted(pub i32);

/// Sleeps, but for signals. They are blocked only here: children must not inherit the mask.
pub fn pause(ms: u32) -> Result<()> {
    match Signals::block(&SIGNALS).wait_for(ms) {
        Some(signal) => Err(Interrupted(signal).into()),
        None => Ok(()),
    }
}

#[derive(Debug)]
pub struct Stage {
    exe: PathBuf,
    name: String,
    /// n1's root directory, seen from outside.
    root: PathBuf,
    guard: Guard,
}

impl Stage {
    /// Raises the lab; `shape` are further words for `armento lab up`.
    pub fn raise(exe: &Path, scratch: &Path, shape: &[String]) -> Result<Stage> {
        let name = format!("demo-{}", std::process::id());
        let guard = Guard::start(exe, &name, scratch)?;
        let mut up = Command::new(exe);
        up.args(["lab", "up", "--name", &name])
            .args(shape)
            .stdin(Stdio::null());
        let mut stage = Stage {
            exe: exe.to_owned(),
            name,
            root: PathBuf::new(),
            guard,
        };
        let child = up
            .stdout(Stdio::null())
            .spawn()
            .context("armento lab up did not start")?;
        let status = wait(child, Duration::from_secs(60))?;
        if status != 0 {
            bail!(
                "the laboratory could not be raised (armento lab up ended with {status})\nhint: armento doctor"
            );
        }
        let pids = Dir::of(&stage.name)?
            .pids()
            .context("the lab has no list of processes")?;
        let first = pids.nodes.first().context("the lab has no node")?;
        stage.root = PathBuf::from(format!("/proc/{}/root", first.pid));
        Ok(stage)
    }

    /// n1's file `path` as a path of ours.
    pub fn n1(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Starts a shell script on n1 in `dir`.
    pub fn script(&self, dir: &str, script: &str, variables: &[String]) -> Result<Child> {
        let mut c = Command::new(&self.exe);
        c.args(["lab", "exec", "--name", &self.name, "n1", "--", "env"])
            .args(variables);
        c.args(["sh", "-c", &format!("cd {dir} && exec sh {script}")]);
        c.stdin(Stdio::null())
            .spawn()
            .context("armento lab exec did not start")
    }

    /// Takes the lab down and says so to the guard.
    pub fn down(mut self) -> Result<()> {
        self.lower()
    }

    fn lower(&mut self) -> Result<()> {
        if self.name.is_empty() {
            return Ok(());
        }
        let name = std::mem::take(&mut self.name);
        let mut c = Command::new(&self.exe);
        // Ctrl-C on the terminal must not stop the cleaning.
        c.args(["lab", "down", "--name", &name]).process_group(0);
        let out = c
            .stdin(Stdio::null())
            .output()
            .context("armento lab down did not start")?;
        self.guard.dismiss();
        if !out.status.success() && Dir::of(&name)?.0.exists() {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            bail!(
                "the lab was not taken down: {}\nhint: armento lab down --all",
                said.trim()
            );
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(e) = self.lower() {
            eprintln!("armento demo: {e:#}");
        }
    }
}

/// Waits for a child, interruptibly; kills it when the time is over.
pub fn wait(mut child: Child, at_most: Duration) -> Result<i32> {
    let end = Instant::now() + at_most;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().unwrap_or(128));
        }
        let late = Instant::now() > end;
        if let Err(e) = if late {
            Err(anyhow::anyhow!("it took too long"))
        } else {
            pause(20)
        } {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Err(e);
        }
    }
}

/// Takes the lab down when we end without a word.
#[derive(Debug)]
struct Guard {
    child: Child,
}

impl Guard {
    fn start(exe: &Path, lab: &str, scratch: &Path) -> Result<Guard> {
        let watch = r#"read -r word || { "$1" lab down --name "$2"; rm -rf -- "$3"; }"#;
        let mut c = Command::new("sh");
        c.args(["-c", watch, "armento-demo-guard"])
            .arg(exe)
            .arg(lab)
            .arg(scratch);
        c.process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Guard {
            child: c.spawn().context("sh did not start")?,
        })
    }

    /// After: the guard has ended without doing anything.
    fn dismiss(&mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // A guard that is gone needs no dismissal.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.child.wait();
    }
}
