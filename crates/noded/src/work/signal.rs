//! A process of this home is stopped, continued, or gets another niceness, as its user asks at the dashboard.
//!
//! All of it is done at home, by the kernel's own calls: signals and niceness reach a body that is away as they do when a
//! shell sends them.

use super::migrate::{no_such, owner_of};
use crate::error::{Result, refusal};
use crate::state::{Node, may};
use crate::sys;
use armento_client::api::Answer;
use armento_model::Pid;
use std::io;

/// KERNEL: the range of setpriority(2).
const NICE: std::ops::RangeInclusive<i32> = -20..=19;

/// SIGSTOP.
pub fn stop(node: &Node, uid: u32, pid: Pid) -> Result<Answer> {
    send(node, uid, pid, libc::SIGSTOP)
}

/// SIGCONT.
pub fn resume(node: &Node, uid: u32, pid: Pid) -> Result<Answer> {
    send(node, uid, pid, libc::SIGCONT)
}

fn send(node: &Node, uid: u32, pid: Pid, signal: i32) -> Result<Answer> {
    let process = sys::PidFd::open(pid).map_err(|_| no_such(pid))?;
    // What the number means is settled now: the owner is that of the process that gets the signal.
    check(node, uid, pid)?;
    process.signal(signal).map_err(|e| failed(pid, &e))?;
    Ok(Answer::Done)
}

/// All its threads get this niceness. Only root lowers it, as with renice(1).
pub fn renice(node: &Node, uid: u32, pid: Pid, nice: i32) -> Result<Answer> {
    if !NICE.contains(&nice) {
        let what = format!(
            "a niceness lies between {} and {}",
            NICE.start(),
            NICE.end()
        );
        return Err(refusal("bad-niceness", what, "0 is the usual one"));
    }
    check(node, uid, pid)?;
    let now = sys::niceness_of(pid).map_err(|_| no_such(pid))?;
    if uid != 0 && nice < now {
        let what = format!("process {pid} has niceness {now}; only root lowers it");
        return Err(refusal("not-permitted", what, "choose a higher one"));
    }
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| no_such(pid))?;
    let numbers = threads.filter_map(|t| t.ok()?.file_name().to_str()?.parse().ok());
    for tid in numbers {
        match sys::renice(tid, nice) {
            // A thread that has ended.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            done => done.map_err(|e| failed(pid, &e))?,
        }
    }
    Ok(Answer::Done)
}

/// Whether it is a process of this farm that `uid` may command.
fn check(node: &Node, uid: u32, pid: Pid) -> Result<()> {
    let held = {
        let core = node.lock();
        let keeper = core.keepers.holder(pid);
        keeper.is_some_and(|k| may(uid, k.hello.uid))
    };
    let own = owner_of(pid).is_some_and(|owner| may(uid, owner));
    (held && own).then_some(()).ok_or_else(|| no_such(pid))
}

fn failed(pid: Pid, e: &io::Error) -> armento_client::api::Refusal {
    let what = format!("process {pid} was left as it is: {e}");
    refusal("failed", what, "has it ended? armento ps shows")
}
