//! Takes labs down, also after a start that was killed half-way: uses the state directory, control groups by name and
//! processes by their mark, because each of them may be incomplete.

use crate::state::{self, Dir, MARK, Proc};
use crate::{cgroup, sys};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// How long processes may take to die. One in an uninterruptible wait can take longer, which is then reported.
const WIPE_MAX: Duration = Duration::from_secs(15);

/// Names of all labs that left any trace.
pub fn traces() -> BTreeSet<String> {
    let groups = cgroup::all_labs().into_iter().map(|(lab, _)| lab);
    let marked = marked().into_iter().map(|(_, lab)| lab);
    let found: BTreeSet<String> = state::names()
        .into_iter()
        .chain(groups)
        .chain(marked)
        .collect();
    found
        .into_iter()
        .filter(|n| crate::spec::check_name(n).is_ok())
        .collect()
}

/// Takes down the labs that this process raised under names of its own, which end with its number.
pub fn own() -> Result<()> {
    let end = format!("-{}", std::process::id());
    let mut ours = traces().into_iter().filter(|name| name.ends_with(&end));
    ours.try_for_each(|name| wipe(&name, &mut short_pause))
}

/// Removes every trace of the lab `name`. `pause` is called between attempts and waits a little. After `Err`: what it
/// names is left; calling again is safe.
pub fn wipe(name: &str, pause: &mut dyn FnMut()) -> Result<()> {
    let dir = Dir::of(name)?;
    let end = Instant::now() + WIPE_MAX;
    let mut execs = BTreeSet::new();
    loop {
        let left = kill_all(name, &mut execs);
        let groups = cgroup::of_lab(name);
        let stuck = groups.iter().filter(|g| cgroup::remove(g).is_err()).count();
        if left.is_empty() && stuck == 0 {
            return dir.remove();
        }
        if Instant::now() > end {
            bail!(
                "lab {name}: processes {left:?} do not end, {stuck} control groups stay\nhint: run `armento lab down --all` again in a moment"
            );
        }
        pause();
    }
}

/// The usual pause: until a process of the lab has ended, or a moment.
pub fn short_pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Sends SIGKILL to all remaining processes of the lab and returns them. `execs` collects every `lab exec` seen: its
/// child may be gone at the next attempt.
fn kill_all(name: &str, execs: &mut BTreeSet<i32>) -> Vec<i32> {
    let me = std::process::id() as i32;
    let carriers = marked()
        .into_iter()
        .filter(|(_, lab)| lab == name)
        .map(|(p, _)| p.pid);
    let members = cgroup::of_lab(name)
        .into_iter()
        .flat_map(|d| cgroup::members(&d));
    let all: BTreeSet<i32> = carriers
        .chain(members)
        .filter(|&p| p != me && p > 0)
        .collect();
    let procs: Vec<Proc> = all.iter().filter_map(|&p| Proc::of(p)).collect();
    // All of them before the first kill: killing one process of a node may end the rest at once.
    execs.extend(all.iter().filter_map(|&p| exec_of(p, &all)));
    execs.iter().for_each(|&d| wake(d));
    for p in &procs {
        if let Some(fd) = p.open() {
            let _ = sys::pidfd_kill(&fd, sys::SIGKILL);
        }
    }
    procs.into_iter().map(|p| p.pid).collect()
}

/// The `lab exec` that runs `pid` as its command.
fn exec_of(pid: i32, lab: &BTreeSet<i32>) -> Option<i32> {
    parent_of(pid).filter(|p| *p > 1 && !lab.contains(p) && is_exec(*p))
}

/// Continues a `lab exec` that was stopped, perhaps by Ctrl-Z, so that it reaps its child and reports to its parent.
fn wake(exec: i32) {
    if is_exec(exec) {
        sys::kill(exec, sys::SIGCONT);
    }
}

/// `armento lab exec …` or `armento lab-init exec …`.
fn is_exec(pid: i32) -> bool {
    cmdline(pid).iter().skip(1).take(2).any(|a| a == "exec")
}

/// Parent of a process, as this process's /proc tells.
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn cmdline(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes
        .split(|b| *b == 0)
        .map(|a| String::from_utf8_lossy(a).into_owned())
        .collect()
}

/// Switch, node and server processes of any lab, found by their command line and environment.
fn marked() -> Vec<(Proc, String)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let proc = Proc::of(pid)?;
        let args = cmdline(pid);
        let [_, init, role, lab, ..] = &args[..] else {
            return None;
        };
        if init != "lab-init" || !matches!(&role[..], "switch" | "node" | "rsh") {
            return None;
        }
        let env = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mark = format!("{MARK}={lab}");
        env.split(|b| *b == 0)
            .any(|v| v == mark.as_bytes())
            .then(|| (proc, lab.clone()))
    })
    .collect()
}
