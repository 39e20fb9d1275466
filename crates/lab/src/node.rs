//! The first process of a node: builds the node around itself, then only reaps children.
//!
//! ```text
//! switch: spawn ─► born ─► (links made) ─► go ─► up ─► for ever: reap
//! ```
//!
//! It dies with the switch process, and with it the kernel ends all processes of the node.

use crate::state::Dir;
use crate::sys::{self, Signals, Waited};
use crate::{cgroup, net, root};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// Sent by the switch when the node's link is made.
pub const GO: &str = "go";
/// Sent by a node.
pub const BORN: &str = "born";
pub const UP: &str = "up";

/// Runs node `me` (counted from 0) of `lab`. Before: pid 1 of a new pid namespace.
pub fn main(lab: &str, me: usize, groups: &[PathBuf]) -> Result<()> {
    sys::set_parent_death_signal(sys::SIGKILL)?;
    sys::setsid();
    sys::usual_umask();
    let dir = Dir::of(lab)?;
    let plan = dir.plan()?;
    let node = plan.nodes.get(me).context("no such node in the plan")?;
    // Groups first: the new cgroup namespace takes the present group as its top.
    cgroup::join(groups)?;
    sys::pin_to(&node.cpus).with_context(|| format!("cannot run on CPUs {:?}", node.cpus))?;
    let spaces = sys::CLONE_NEWNS
        | sys::CLONE_NEWNET
        | sys::CLONE_NEWUTS
        | sys::CLONE_NEWIPC
        | sys::CLONE_NEWCGROUP;
    sys::unshare(spaces).context("cannot make the node's namespaces")?;
    net::quiet_ipv6();
    send(BORN)?;
    wait_for_go()?;
    net::build_node(&plan, me)?;
    sys::sethostname(&node.name)?;
    root::enter(&plan, me, &dir.mnt())?;
    let signals = Signals::block(&[sys::SIGCHLD]);
    send(UP)?;
    sys::redirect_stdio(
        &fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?,
    )?;
    loop {
        while matches!(sys::wait_child(-1), Waited::Ended(..) | Waited::Stopped(_)) {}
        signals.wait();
    }
}

fn send(word: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}")
        .and_then(|()| out.flush())
        .context("the lab's switch is gone")
}

/// An end of file means that the switch has died.
fn wait_for_go() -> Result<()> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    if line.trim_end() == GO {
        Ok(())
    } else {
        bail!("the lab's switch is gone")
    }
}
