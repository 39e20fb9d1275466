//! What the symbolic names below the mount point mean for a process: `here`, `home`, `lastexec`, `magic`, `selected`.
//!
//! From: `noded/src/control/requests.rs`. FUSE names the thread that calls; a program that is away calls through its
//! deputy, whose numbers are the program's own.

use crate::error::{Result, refusal};
use crate::file_servers::Said;
use crate::process::Process;
use crate::state::{Node, may, no_such_node};
use crate::work::{no_such, owner_of};
use armento_client::api::{Answer, MfsPlaces};
use armento_model::{NodeName, Pid};
use std::fs;

pub fn places(node: &Node, thread: Pid) -> MfsPlaces {
    let pid = leader(thread).unwrap_or(thread);
    let home = node.farm.node.clone();
    let (here, last_exec) = {
        let core = node.lock();
        let held = core.keepers.holder(pid).and_then(|k| k.holds(pid));
        let last_exec = core.keepers.all().find_map(|k| k.last_exec(pid)).cloned();
        // A fresh program begins where it was placed, and is reported later.
        let here = held.map(|p| &p.place).or(core.ledger.bound_for(pid));
        (here.cloned(), last_exec)
    };
    let here = here.unwrap_or_else(|| home.clone());
    let notes = node.mfs.notes();
    let said = |what| notes.get(pid, what, Process::of, parent);
    MfsPlaces {
        magic: said(Said::Magic).unwrap_or_else(|| here.clone()),
        selected: said(Said::Selected).unwrap_or_else(|| home.clone()),
        last_exec: last_exec.unwrap_or_else(|| home.clone()),
        here,
        home,
    }
}

/// That process made a file on `on` through `magic`.
pub fn made(node: &Node, thread: Pid, on: NodeName) {
    let pid = leader(thread).unwrap_or(thread);
    if let Some(process) = Process::of(pid) {
        node.mfs.notes().put(process, Said::Magic, on);
    }
}

/// `armento mfs select`: by the user `uid`, for a process of that user.
pub fn select(node: &Node, uid: u32, pid: Pid, selected: NodeName) -> Result<Answer> {
    let known = selected == node.farm.node || node.lock().members.contains(&selected);
    if !known {
        return Err(no_such_node(node, &selected));
    }
    let process = Process::of(pid).ok_or_else(|| no_such(pid))?;
    if !owner_of(pid).is_some_and(|owner| may(uid, owner)) {
        return Err(refusal(
            "not-trusted",
            format!("process {pid} is another user's; nothing was changed"),
            "select for a process of your own",
        ));
    }
    node.mfs.notes().put(process, Said::Selected, selected);
    Ok(Answer::Done)
}

/// KERNEL: proc_pid_status(5).
fn status(pid: Pid, key: &str) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.trim().parse().ok()
}

/// The process of a thread.
fn leader(thread: Pid) -> Option<Pid> {
    status(thread, "Tgid:")
}

fn parent(pid: Pid) -> Option<Pid> {
    status(pid, "PPid:").filter(|parent| *parent > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_a_process_and_a_parent() {
        let me = std::process::id() as Pid;
        let thread = std::thread::spawn(|| {
            let link = fs::read_link("/proc/thread-self").expect("a thread");
            let tid = link.file_name().and_then(|n| n.to_str()).map(str::to_owned);
            leader(tid.expect("a number").parse().expect("a number"))
        });
        assert_eq!(thread.join().expect("it ends"), Some(me));
        assert!(parent(me).is_some());
        assert_eq!(parent(1), None);
        assert_eq!(leader(0), None);
    }
}
