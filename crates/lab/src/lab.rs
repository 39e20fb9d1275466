//! A lab as a value for tests and the demo: started by [`Lab::up`], taken down on drop unless kept.

use crate::enter::Entry;
use crate::spec::{Plan, Spec};
use crate::state::{Dir, MARK};
use crate::switch::{COMMIT, Outcome};
use crate::{counters, down, enter, net, sys};
use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running lab. Dropping it takes it down; so does the end of this process, even by SIGKILL. [`Lab::keep`] lets it
/// outlive this process.
#[derive(Debug)]
pub struct Lab {
    plan: Plan,
    nodes: Vec<Node>,
    /// The switch process as long as it ends with this process.
    switch: Option<Child>,
    /// `down` was called, or another process is responsible for it.
    over: bool,
}

/// Bytes through one network interface of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub node: String,
    pub interface: String,
    pub received: u64,
    pub sent: u64,
}

/// One node of a lab.
#[derive(Clone, Debug)]
pub struct Node {
    pub lab: String,
    pub name: String,
    pub addr: String,
    exe: PathBuf,
}

/// The program and the processors of a lab that can be started.
fn checked(spec: &Spec) -> Result<(PathBuf, Vec<usize>)> {
    spec.check()?;
    check_machine()?;
    let exe = match &spec.exe {
        Some(e) => e.clone(),
        None => std::env::current_exe().context("cannot find our own binary")?,
    };
    let exe = exe
        .canonicalize()
        .with_context(|| format!("no binary {}", exe.display()))?;
    let cpus = sys::affinity();
    spec.check_processors(cpus.len())?;
    Ok((exe, cpus))
}

impl Lab {
    /// Starts the nodes of a lab. After `Err` nothing of it is left.
    pub(crate) fn nodes_up(spec: &Spec) -> Result<Lab> {
        let (exe, cpus) = checked(spec)?;
        let (dir, plan) = Dir::claim(&spec.name, |net| spec.plan(net, &cpus, exe))?;
        let mut lab = Lab {
            nodes: nodes_of(&plan),
            plan,
            switch: None,
            over: false,
        };
        lab.start_switch(&dir)?;
        Ok(lab)
    }

    /// The lab that `spec` describes, after all checks that change nothing; its network is chosen when it starts.
    pub(crate) fn planned(spec: &Spec) -> Result<Plan> {
        let (exe, cpus) = checked(spec)?;
        if down::traces().contains(&spec.name) {
            let name = &spec.name;
            bail!(
                "there is a lab `{name}` already\nhint: `armento lab down --name {name}` removes it"
            );
        }
        Ok(spec.plan(0, &cpus, exe))
    }

    /// Finds a lab that was started and kept; dropping this value leaves it up.
    pub fn find(name: &str) -> Result<Lab> {
        let plan = Dir::of(name)?.plan()?;
        Ok(Lab {
            nodes: nodes_of(&plan),
            plan,
            switch: None,
            over: true,
        })
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Node number `i`, counted from 1 as their names are: `node(1)` is n1.
    pub fn node(&self, i: usize) -> &Node {
        &self.nodes[i - 1]
    }

    /// Root directory of node number `i`, counted from 1, as seen from this machine.
    pub fn root(&self, i: usize) -> Result<PathBuf> {
        Ok(self.process(i)?.join("root"))
    }

    /// Bytes that each node's network interfaces have carried since the lab was started, in the order of the nodes.
    pub fn traffic(&self) -> Result<Vec<Traffic>> {
        let of_node = |(node, nics): (String, Vec<counters::Nic>)| {
            let one = move |nic: counters::Nic| Traffic {
                node: node.clone(),
                interface: nic.name,
                received: nic.rx_bytes,
                sent: nic.tx_bytes,
            };
            nics.into_iter().map(one)
        };
        let all = counters::of(&self.plan.name)?;
        Ok(all.into_iter().flat_map(of_node).collect())
    }

    /// Names of the nodes whose first process has ended: they are gone with all their processes.
    pub fn lost(&self) -> Vec<String> {
        let pids = Dir::of(&self.plan.name).ok().and_then(|dir| dir.pids());
        let first = pids.map(|p| p.nodes).unwrap_or_default();
        let alive = |i: usize| first.get(i).is_some_and(|p| p.alive());
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(i, _)| !alive(*i))
            .map(|(_, n)| n.name.clone())
            .collect()
    }

    /// Directory below /proc of the first process of node number `i`.
    fn process(&self, i: usize) -> Result<PathBuf> {
        let pids = Dir::of(&self.plan.name)?
            .pids()
            .context("the lab has no list of processes")?;
        let first = i.checked_sub(1).and_then(|i| pids.nodes.get(i));
        let first = first.context("the lab has no such node")?;
        Ok(PathBuf::from(format!("/proc/{}", first.pid)))
    }

    /// Takes the lab down. After `Ok` no trace of it is left.
    pub fn down(mut self) -> Result<()> {
        self.end()
    }

    /// From now on the lab lives until `armento lab down`.
    pub fn keep(mut self) -> Result<()> {
        if let Some(mut switch) = self.switch.take() {
            let sent = switch.stdin.as_mut().map(|i| writeln!(i, "{COMMIT}"));
            if !matches!(sent, Some(Ok(()))) {
                bail!("lab {} was taken down meanwhile", self.plan.name);
            }
        }
        self.over = true;
        Ok(())
    }

    fn start_switch(&mut self, dir: &Dir) -> Result<()> {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.log())?;
        let mut switch = Command::new(&self.plan.exe)
            .args(["lab-init", "switch", &self.plan.name])
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env(MARK, &self.plan.name)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {}", self.plan.exe.display()))?;
        let mut line = String::new();
        let says = switch.stdout.take().context("no pipe")?;
        self.switch = Some(switch);
        BufReader::new(says).read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Outcome::Up(_)) => Ok(()),
            Ok(Outcome::Failed(why)) => Err(anyhow!("the lab could not be raised: {why}")),
            Err(_) => {
                let log = fs::read_to_string(dir.log()).unwrap_or_default();
                bail!("the lab's switch process ended early: {}", log.trim_end())
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        // Closing its stdin would make it clean up too; one cleaner is enough.
        if let Some(mut switch) = self.switch.take() {
            let _ = switch.kill();
            let _ = switch.wait();
        }
        down::wipe(&self.plan.name, &mut down::short_pause)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            eprintln!("armento: {e:#}");
        }
    }
}

impl Node {
    /// A command that runs inside the node. Killing it kills the program.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut c = self.entry_command();
        c.arg("--").arg(program);
        c
    }

    /// As [`Node::command`], as an ordinary user of the node's /etc/passwd.
    pub fn command_as(&self, user: &str, program: impl AsRef<OsStr>) -> Command {
        let mut c = self.entry_command();
        c.args(["--user", user, "--"]).arg(program);
        c
    }

    /// As [`Node::command`], but the program stays when the command has returned; its output
    /// is appended to `log`, a file of the node.
    pub fn background(&self, log: &str, program: impl AsRef<OsStr>) -> Command {
        let mut c = self.entry_command();
        c.args(["--detach", log, "--"]).arg(program);
        c
    }

    fn entry_command(&self) -> Command {
        let mut c = Command::new(&self.exe);
        c.args(["lab-init", "exec", &self.lab, &self.name]);
        c
    }
}

/// `lab-init exec LAB NODE [--user U] [--detach LOG] -- CMD…`: the other end of [`Node::command`].
pub(crate) fn exec_main(args: &[std::ffi::OsString]) -> Result<i32> {
    let text = |i: usize| args.get(i).map(|a| a.to_string_lossy().into_owned());
    let (Some(lab), Some(node)) = (text(0), text(1)) else {
        bail!("lab-init exec: no node")
    };
    let mut entry = Entry {
        lab,
        node,
        user: None,
        detach: None,
        command: Vec::new(),
    };
    let mut rest = args[2..].iter();
    while let Some(a) = rest.next() {
        match a.to_str() {
            Some("--user") => entry.user = rest.next().map(|u| u.to_string_lossy().into_owned()),
            Some("--detach") => entry.detach = rest.next().map(Into::into),
            Some("--") => entry.command = rest.by_ref().cloned().collect(),
            _ => bail!("lab-init exec: what is {a:?}?"),
        }
    }
    enter::run(&entry)
}

fn nodes_of(plan: &Plan) -> Vec<Node> {
    let one = |n: &crate::spec::NodePlan| Node {
        lab: plan.name.clone(),
        name: n.name.clone(),
        addr: n.addr.clone(),
        exe: plan.exe.clone(),
    };
    plan.nodes.iter().map(one).collect()
}

/// Names in one line what this machine lacks for any lab.
fn check_machine() -> Result<()> {
    if !sys::is_root() {
        bail!(
            "a lab needs root: it makes namespaces, mounts and control groups\nhint: sudo armento lab up"
        );
    }
    match &net::missing_tools()[..] {
        [] => Ok(()),
        tools => bail!(
            "missing: {}\nhint: apt-get install iproute2",
            tools.join(", ")
        ),
    }
}
