//! The lab of the demo: started, used and taken down, also when the demo is interrupted.
//!
//! The lab is never kept: it ends with this process, even by SIGKILL. Waiting is interruptible, so that Ctrl-C takes it
//! down before the shell's prompt is back.

use anyhow::{Context, Result};
use armento_lab::{Lab, Link, Signals, Spec};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Ctrl-C, `kill`, a closed terminal.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// The demo was stopped by a signal.
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
    lab: Lab,
    /// n1's root directory, seen from outside.
    root: PathBuf,
}

impl Stage {
    /// Starts a farm of equal nodes.
    pub fn raise(nodes: usize, speed: f64, link: Link) -> Result<Stage> {
        let spec = Spec {
            name: format!("demo-{}", std::process::id()),
            nodes,
            speeds: vec![speed],
            link,
            ..Spec::default()
        };
        let lab = Lab::up(spec)?;
        Ok(Stage {
            root: lab.root(1)?,
            lab,
        })
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    pub fn nodes(&self) -> Vec<String> {
        self.lab.nodes().iter().map(|n| n.name.clone()).collect()
    }

    /// n1's file `path` as a path outside the node.
    pub fn n1(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Starts a shell script on n1 in `dir`.
    pub fn script(&self, dir: &str, script: &str, variables: &[String]) -> Result<Child> {
        let mut c = self.lab.node(1).command("env");
        c.args(variables)
            .args(["sh", "-c", &format!("cd {dir} && exec sh {script}")]);
        c.stdin(Stdio::null())
            .spawn()
            .context("cannot start a script on n1")
    }

    /// After `Ok` no trace of the lab is left.
    pub fn down(self) -> Result<()> {
        self.lab.down()
    }
}
