//! The switch process of a lab: holds the bridge's network namespace and is the parent of every node. Until `lab up`
//! has committed, its end is the end of the lab, for whatever reason.

use crate::cgroup::Groups;
use crate::spec::Plan;
use crate::state::{Dir, MARK, Pids, Proc};
use crate::sys::{self, Signals, Waited};
use crate::{down, net, node, rsh};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Sent by `lab up` when the lab shall outlive it.
pub const COMMIT: &str = "commit";

/// The answer of the switch to `lab up`, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Up(Pids),
    Failed(String),
}

/// Starts the lab of the state directory and runs it. Returns when it has ended.
pub fn main(lab: &str) -> Result<()> {
    sys::close_inherited();
    sys::setsid();
    let dir = Dir::of(lab)?;
    let (outcome, children) = match raise(&dir) {
        Ok((pids, children)) => (Outcome::Up(pids), children),
        Err(e) => (Outcome::Failed(format!("{e:#}")), Vec::new()),
    };
    let failed = matches!(outcome, Outcome::Failed(_));
    // `lab up` may be gone: the end of file on stdin shows that.
    let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string(&outcome)?);
    if !failed && received_commit() {
        serve()?;
    }
    end(lab, children)
}

fn received_commit() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok() && line.trim_end() == COMMIT
}

/// Runs until SIGTERM. A node that dies stays dead, as a machine would.
fn serve() -> Result<()> {
    let signals = Signals::block(&[sys::SIGCHLD, sys::SIGTERM]);
    sys::redirect_stdio(
        &fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?,
    )?;
    loop {
        while matches!(sys::wait_child(-1), Waited::Ended(..) | Waited::Stopped(_)) {}
        if signals.wait().0 == sys::SIGTERM {
            return Ok(());
        }
    }
}

fn end(lab: &str, children: Vec<Child>) -> Result<()> {
    let signals = Signals::block(&[sys::SIGCHLD]);
    for mut c in children {
        let _ = c.kill(); // already reaped is as good
    }
    // This process's children must be reaped while others wait for their end.
    let done = down::wipe(lab, &mut || {
        while matches!(sys::wait_child(-1), Waited::Ended(..) | Waited::Stopped(_)) {}
        signals.wait_for(20);
    });
    done.map(drop)
}

fn raise(dir: &Dir) -> Result<(Pids, Vec<Child>)> {
    let plan = dir.plan()?;
    sys::unshare(sys::CLONE_NEWNET).context("cannot make a network namespace")?;
    let switch = Proc::of(std::process::id() as i32).context("cannot read /proc")?;
    dir.write_pids(&Pids {
        switch,
        nodes: Vec::new(),
        groups: Vec::new(),
    })?;
    let server = rsh::start(&plan.name, rsh::bind(dir)?)?;
    let (mut births, groups) = spawn_all(&plan)?;
    for (b, n) in births.iter_mut().zip(&plan.nodes) {
        b.expect(node::BORN, &n.name, dir)?;
    }
    let first: Vec<i32> = births.iter().map(|b| b.child.id() as i32).collect();
    net::build_switch(&plan, &first)?;
    for b in &mut births {
        // A node that has died is detected by its missing answer below.
        let _ = b.child.stdin.as_mut().map(|i| writeln!(i, "{}", node::GO));
    }
    for (b, n) in births.iter_mut().zip(&plan.nodes) {
        b.expect(node::UP, &n.name, dir)?;
    }
    let nodes: Option<Vec<Proc>> = first.iter().map(|&p| Proc::of(p)).collect();
    let pids = Pids {
        switch,
        nodes: nodes.context("a node died at once")?,
        groups,
    };
    dir.write_pids(&pids)?;
    let children = births.into_iter().map(|b| b.child);
    Ok((pids, children.chain([server]).collect()))
}

struct Birth {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Birth {
    fn expect(&mut self, word: &str, name: &str, dir: &Dir) -> Result<()> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        if line.trim_end() == word {
            return Ok(());
        }
        let log = fs::read_to_string(dir.log()).unwrap_or_default();
        bail!("node {name} could not be built: {}", log.trim_end())
    }
}

/// Starts every node's first process, each as pid 1 of a new pid namespace.
fn spawn_all(plan: &Plan) -> Result<(Vec<Birth>, Vec<Vec<PathBuf>>)> {
    let groups = Groups::find(plan)?;
    let own = fs::File::open("/proc/self/ns/pid")?;
    let (mut births, mut all_dirs) = (Vec::new(), Vec::new());
    for (i, n) in plan.nodes.iter().enumerate() {
        let dirs = groups.create(n, n.mem)?;
        sys::unshare(sys::CLONE_NEWPID).context("cannot make a pid namespace")?;
        let mut child = Command::new("/proc/self/exe")
            .arg0("armento")
            .args(["lab-init", "node", &plan.name, &i.to_string()])
            .args(&dirs)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env(MARK, &plan.name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a node's first process")?;
        // KERNEL: a second unshare is refused until this process's children are born in its own namespace again.
        sys::setns(&own, sys::CLONE_NEWPID)?;
        let says = BufReader::new(child.stdout.take().context("no pipe")?);
        births.push(Birth { child, says });
        all_dirs.push(dirs);
    }
    Ok((births, all_dirs))
}
