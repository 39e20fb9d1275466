//! Work beside a step that leaves the processors or the network idle.

use super::{as_from_a_shell, target};
use crate::root;
use anyhow::{Context, Result, bail};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// Debian packages that are being installed.
pub struct Packages(Option<Child>);

impl Packages {
    /// Begins; without packages there is nothing to wait for.
    pub fn install(names: &[String]) -> Result<Packages> {
        if names.is_empty() {
            return Ok(Packages(None));
        }
        let child = Command::new(root().join("scripts/need.sh"))
            .arg("--soft")
            .args(names)
            .current_dir(root())
            .stdin(Stdio::null())
            .spawn()
            .context("scripts/need.sh did not start")?;
        Ok(Packages(Some(child)))
    }

    /// An error when the installation has ended with one: a user other than root is told at once what to install.
    pub fn check(&mut self) -> Result<()> {
        let ended = self.0.as_mut().map(Child::try_wait).transpose()?.flatten();
        match ended {
            Some(status) if !status.success() => bail!("packages are missing; nothing was built"),
            _ => Ok(()),
        }
    }

    /// Waits for the end.
    pub fn wait(self) -> Result<()> {
        match self.0.map(|mut child| child.wait()).transpose()? {
            Some(status) if !status.success() => bail!("packages are missing; nothing was tested"),
            _ => Ok(()),
        }
    }
}

/// Clippy, and then the image of the Debian machines, at the lowest priority.
///
/// They begin when the tests run: `cargo test` needs cargo's lock of the build directory before, and `cargo clippy`
/// holds it.
pub struct Checks {
    start: Sender<()>,
    clippy: JoinHandle<Result<Clippy>>,
}

pub struct Clippy {
    pub passed: bool,
    /// Its warnings and errors.
    pub said: String,
    pub took: Duration,
}

impl Checks {
    /// They wait for [`Checks::start`]. `clippy`: the arguments of cargo, `None` where it is not installed.
    pub fn new(clippy: Option<&'static [&'static str]>) -> Checks {
        let (start, started) = channel();
        let run = move || {
            // A sender that is gone means that the tests have ended.
            let _ = started.recv();
            let begun = Instant::now();
            let out = clippy.map(lint).transpose()?;
            let took = begun.elapsed();
            // The tests of Debian machines build it themselves, and say what is wrong, where this fails.
            let mut image = at_lowest_priority(target().join("release/armento-machines"));
            let _ = image.arg("image").output();
            Ok(Clippy {
                passed: out.as_ref().is_none_or(|o| o.status.success()),
                said: out.map_or_else(String::new, |o| {
                    String::from_utf8_lossy(&o.stderr).into_owned()
                }),
                took,
            })
        };
        Checks {
            start,
            clippy: spawn(run),
        }
    }

    /// They may run now.
    pub fn start(&self) {
        // A receiver that is gone has begun before.
        let _ = self.start.send(());
    }

    /// Waits for both.
    pub fn finish(self) -> Result<Clippy> {
        drop(self.start);
        match self.clippy.join() {
            Ok(clippy) => clippy,
            Err(_) => bail!("the thread of clippy ended by a panic"),
        }
    }
}

fn lint(args: &[&str]) -> Result<Output> {
    let mut c = at_lowest_priority("cargo");
    as_from_a_shell(&mut c);
    let out = c.args(args).env("CARGO_TERM_QUIET", "true").output();
    out.context("cargo clippy did not start")
}

/// By nice(1): 19 is the lowest.
fn at_lowest_priority(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut c = Command::new("nice");
    c.args(["-n", "19"]).arg(program);
    c.current_dir(root()).stdin(Stdio::null());
    c
}
