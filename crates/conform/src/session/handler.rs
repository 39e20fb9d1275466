//! The session's end of a runner: sends tasks, receives outcomes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::farm::{self, Farm};
use crate::task::{End, LINE_MAX, Outcome, Task};

/// Another conform process inside the node, which receives tasks.
pub struct Runner {
    child: Child,
    tasks: Option<ChildStdin>,
    outcomes: BufReader<ChildStdout>,
}

impl Runner {
    pub fn start(farm: Option<&Farm>, base: &Path) -> Result<Runner> {
        let me = std::env::current_exe().context("cannot tell which program this is")?;
        let mut command = match farm {
            Some(farm) => farm.inside(&farm::shared(&me, base)?),
            None => Command::new(&me),
        };
        if farm::is_verb() {
            command.arg("conform");
        }
        command
            .arg("--runner")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a runner")?;
        let tasks = child.stdin.take();
        let outcomes = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Runner {
            child,
            tasks,
            outcomes,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn ask(&mut self, task: &Task) -> Outcome {
        self.talk(task)
            .unwrap_or_else(|cause| Outcome::without_run(End::Broken(format!("{cause:#}"))))
    }

    fn talk(&mut self, task: &Task) -> Result<Outcome> {
        let mut line = serde_json::to_vec(task)?;
        line.push(b'\n');
        let tasks = self
            .tasks
            .as_mut()
            .context("the runner takes no more tasks")?;
        tasks
            .write_all(&line)
            .context("the runner in the node has ended")?;
        let mut answer = String::new();
        let got = (&mut self.outcomes)
            .take(LINE_MAX as u64)
            .read_line(&mut answer)?;
        if got == 0 {
            bail!("the runner in the node ended before the guest did");
        }
        serde_json::from_str(&answer).context("the runner's answer cannot be read")
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // The end of its input ends it; it removes its guest first.
        self.tasks = None;
        let _ = self.child.wait();
    }
}
