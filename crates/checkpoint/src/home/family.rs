//! Who is whose child, and what processes of the tree may not share.

use super::sys;
use super::types::Process;
use armento_model::Pid;
use std::collections::HashMap;
use std::fs;

/// Puts parents before their children, the root first, and notes the parents' indexes.
pub fn order(processes: &mut Vec<Process>) {
    let mut waiting = std::mem::take(processes);
    let root = waiting.first().map_or(0, |p| p.pid);
    let known: Vec<Pid> = waiting.iter().map(|p| p.pid).collect();
    // Those whose parent is outside begin trees of their own, behind the root's.
    waiting.sort_by_key(|p| (p.pid != root, known.contains(&p.ppid), p.pid));
    let mut at: HashMap<Pid, u32> = HashMap::new();
    while !waiting.is_empty() {
        let ready =
            |p: &Process| p.pid == root || !known.contains(&p.ppid) || at.contains_key(&p.ppid);
        // The kernel has no circles of parents; were there one, its first process counts as without a parent.
        let next = waiting.iter().position(ready).unwrap_or(0);
        let mut p = waiting.remove(next);
        p.parent = at.get(&p.ppid).copied().filter(|_| p.pid != root);
        at.insert(p.pid, processes.len() as u32);
        processes.push(p);
    }
}

/// What hinders, with the index of the process: shared tables, children that are not part of it.
pub fn hindrances(processes: &[Process]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, p) in processes.iter().enumerate() {
        for (what, name) in SHARED {
            for other in &processes[..at] {
                if sys::share(p.pid, other.pid, *what).unwrap_or(false) {
                    found.push((at, format!("it shares {name} with process {}", other.pid)));
                }
            }
            let threads = tasks(p.pid).into_iter().filter(|tid| *tid != p.pid);
            for tid in threads {
                if !sys::share(p.pid, tid, *what).unwrap_or(true) {
                    found.push((at, format!("its thread {tid} has {name} of its own")));
                }
            }
        }
        for child in children(p.pid) {
            if !processes.iter().any(|p| p.pid == child) {
                found.push((at, stranger(child)));
            }
        }
    }
    found
}

const SHARED: &[(i32, &str)] = &[
    (sys::KCMP_FILES, "a table of descriptors"),
    (sys::KCMP_FS, "a working directory and umask"),
];

fn stranger(child: Pid) -> String {
    let stat = fs::read(format!("/proc/{child}/stat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&stat);
    let state = text.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    match state {
        Some(Some('Z')) => format!("its child {child} has ended and was not waited for"),
        _ => format!("its child {child} is not part of the checkpoint"),
    }
}

fn tasks(pid: Pid) -> Vec<Pid> {
    let dir = fs::read_dir(format!("/proc/{pid}/task"));
    let names = dir.into_iter().flatten().flatten().map(|e| e.file_name());
    names.filter_map(|n| n.to_str()?.parse().ok()).collect()
}

/// KERNEL: proc_tid_children(5); a kernel without it (CONFIG_PROC_CHILDREN) is asked for all processes.
fn children(pid: Pid) -> Vec<Pid> {
    let lists = |tid: Pid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
    if lists(pid).is_ok() {
        let texts = tasks(pid).into_iter().filter_map(|tid| lists(tid).ok());
        let numbers = |t: String| {
            t.split_whitespace()
                .filter_map(|n| n.parse().ok())
                .collect()
        };
        return texts.flat_map(|t| -> Vec<Pid> { numbers(t) }).collect();
    }
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|child| parent(*child) == Some(pid)).collect()
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&stat).into_owned();
    text.rsplit_once(") ")?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}
