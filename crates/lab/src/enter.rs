//! Runs a program inside a node, as a child of the caller: same terminal, same process group,
//! the node's namespaces, control groups and CPU.

use crate::cgroup;
use crate::state::{Dir, Proc};
use crate::sys::{self, Signals, Waited};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Exit codes as env(1) and the rest of `armento` use them.
pub const FAILED: i32 = 125;
pub(crate) const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// A command and the node it runs in.
#[derive(Clone, Debug)]
pub struct Entry {
    pub lab: String,
    pub node: String,
    pub user: Option<String>,
    /// Leave it running in the background; its output goes to this file of the node.
    pub detach: Option<PathBuf>,
    pub command: Vec<OsString>,
}

/// Everything that must be looked up before the namespaces change.
pub(crate) struct Handles {
    first: OwnedFd,
    groups: Vec<PathBuf>,
    cpus: Vec<usize>,
    cwd: Option<PathBuf>,
}

impl Handles {
    /// `node`: its name, or an address of it.
    pub(crate) fn find(lab: &str, node: &str) -> Result<Handles> {
        let dir = Dir::of(lab)?;
        let plan = dir.plan()?;
        let Some(at) = plan.nodes.iter().position(|n| n.is_called(node)) else {
            let names: Vec<&str> = plan.nodes.iter().map(|n| &n.name[..]).collect();
            bail!(
                "lab {lab} has no node `{node}`\nhint: it has {}",
                names.join(", ")
            )
        };
        let pids = dir.pids();
        let first = pids.as_ref().and_then(|p| p.nodes.get(at).copied());
        let Some(first) = first.and_then(Proc::open) else {
            bail!(
                "node {node} of lab {lab} is not running\nhint: armento lab down --name {lab} && armento lab up --name {lab}"
            )
        };
        let groups = pids
            .and_then(|p| p.groups.get(at).cloned())
            .unwrap_or_default();
        Ok(Handles {
            first,
            groups,
            cpus: plan.nodes[at].cpus.clone(),
            cwd: std::env::current_dir().ok(),
        })
    }

    /// The node's first process.
    pub(crate) fn first(&self) -> &OwnedFd {
        &self.first
    }

    /// Joins everything but the pid namespace, which only children can join.
    pub(crate) fn join_namespaces(&self) -> Result<()> {
        cgroup::join(&self.groups)?;
        sys::pin_to(&self.cpus)?;
        let spaces = sys::CLONE_NEWNS
            | sys::CLONE_NEWNET
            | sys::CLONE_NEWUTS
            | sys::CLONE_NEWIPC
            | sys::CLONE_NEWCGROUP;
        sys::setns(&self.first, spaces).context("cannot enter the node")?;
        let here = self
            .cwd
            .as_deref()
            .is_some_and(|d| std::env::set_current_dir(d).is_ok());
        if !here {
            std::env::set_current_dir("/")?
        }
        Ok(())
    }
}

/// Runs the command and returns its exit code; 128 + N if signal N ended it. Before: the process has one thread.
pub fn run(entry: &Entry) -> Result<i32> {
    if !sys::is_root() {
        bail!("entering a node needs root\nhint: sudo armento lab exec …");
    }
    if entry.command.is_empty() {
        bail!(
            "no command given\nhint: armento lab exec {} -- hostname",
            entry.node
        );
    }
    let handles = Handles::find(&entry.lab, &entry.node)?;
    sys::setns(&handles.first, sys::CLONE_NEWPID).context("cannot enter the node")?;
    let passed_on = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ];
    let mut all = passed_on.to_vec();
    all.push(sys::SIGCHLD);
    let signals = Signals::block(&all);
    match sys::fork()? {
        None => {
            drop(signals);
            sys::exit_now(exec_command(entry, &handles))
        }
        Some(_) if entry.detach.is_some() => Ok(0),
        Some(child) => {
            let code = attend(child, &signals);
            // Blocked until exit: a Ctrl-C that the command handled must not end this process.
            std::mem::forget(signals);
            Ok(code)
        }
    }
}

/// Waits for the child, stops when it stops, and forwards signals that other processes send.
fn attend(child: i32, signals: &Signals) -> i32 {
    loop {
        match sys::wait_child(child) {
            Waited::Ended(_, code) => return code,
            Waited::NoChildren => return FAILED,
            Waited::Stopped(_) => {
                // Job control: the shell must see this process stop, and `fg` must reach the child.
                sys::stop_self();
                sys::kill(child, sys::SIGCONT);
                continue;
            }
            Waited::Nothing => {}
        }
        // The terminal signals the whole group, the child included; other processes signal only this one.
        let (signal, by_process) = signals.wait();
        if signal != sys::SIGCHLD && by_process {
            sys::kill(child, signal);
        }
    }
}

/// Runs in the child; returns only on failure.
fn exec_command(entry: &Entry, handles: &Handles) -> i32 {
    let error = match prepare(entry, handles) {
        Ok(mut command) => command.exec(),
        Err(e) => {
            eprintln!("armento: {e:#}");
            return FAILED;
        }
    };
    eprintln!(
        "armento: cannot run `{}` on {}: {error}",
        entry.command[0].display(),
        entry.node
    );
    match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}

fn prepare(entry: &Entry, handles: &Handles) -> Result<Command> {
    handles.join_namespaces()?;
    let mut command = Command::new(&entry.command[0]);
    command.args(&entry.command[1..]);
    if let Some(log) = &entry.detach {
        sys::setsid();
        sys::keep_files_private();
        let out = fs::OpenOptions::new().create(true).append(true).open(log)?;
        command
            .stdin(fs::File::open("/dev/null")?)
            .stdout(out.try_clone()?)
            .stderr(out);
    }
    if let Some(user) = &entry.user {
        let u = User::find(user)?;
        command
            .env("HOME", &u.home)
            .env("USER", user)
            .env("LOGNAME", user)
            .env("SHELL", &u.shell);
        sys::become_user(u.uid, u.gid, &u.groups)
            .with_context(|| format!("cannot become {user}"))?;
    }
    if entry.detach.is_none() {
        // Killing `lab exec` kills its command.
        sys::set_parent_death_signal(sys::SIGKILL)?;
    }
    Ok(command)
}

/// A user of the node's /etc/passwd and /etc/group.
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: String,
    pub(crate) shell: String,
    pub(crate) groups: Vec<u32>,
}

impl User {
    pub(crate) fn find(name: &str) -> Result<User> {
        let passwd = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let groups = fs::read_to_string("/etc/group").unwrap_or_default();
        Self::parse(name, &passwd, &groups).with_context(|| {
            format!("there is no user `{name}` in the node\nhint: see /etc/passwd")
        })
    }

    /// The user with this number, if the node has its name.
    pub(crate) fn of(uid: u32) -> Option<User> {
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        let name = passwd.lines().find_map(|l| {
            let mut fields = l.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
        })?;
        User::find(name).ok()
    }

    /// One that has no name.
    pub(crate) fn unnamed(uid: u32, gid: u32) -> User {
        User {
            name: uid.to_string(),
            uid,
            gid,
            home: "/".into(),
            shell: "/bin/sh".into(),
            groups: vec![gid],
        }
    }

    fn parse(name: &str, passwd: &str, group: &str) -> Option<User> {
        let line: Vec<&str> = passwd
            .lines()
            .map(|l| l.split(':').collect::<Vec<_>>())
            .find(|f| f[0] == name)?;
        let [_, _, uid, gid, _, home, shell] = line[..] else {
            return None;
        };
        let gid = gid.parse().ok()?;
        let mut groups = vec![gid];
        groups.extend(group.lines().filter_map(|l| {
            let f: Vec<&str> = l.split(':').collect();
            f.get(3)?
                .split(',')
                .any(|m| m == name)
                .then(|| f[2].parse::<u32>().ok())?
        }));
        // passwd(5): an empty shell is /bin/sh.
        let shell = if shell.is_empty() { "/bin/sh" } else { shell };
        Some(User {
            name: name.into(),
            uid: uid.parse().ok()?,
            gid,
            home: home.into(),
            shell: shell.into(),
            groups,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_with_their_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1001:,,:/home/ann:/bin/sh\n";
        let group = "root:x:0:\naudio:x:29:bob,ann\nann:x:1001:\n";
        let u = User::parse("ann", passwd, group).unwrap();
        assert_eq!(
            (u.uid, u.gid, &u.home[..], &u.shell[..]),
            (1000, 1001, "/home/ann", "/bin/sh")
        );
        assert_eq!(u.groups, [1001, 29]);
        assert!(User::parse("eve", passwd, group).is_none());
    }
}
