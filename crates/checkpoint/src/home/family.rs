//! Who is whose child, and what processes of the tree may not share.

use super::sys;
use super::types::Process;
use armento_model::Pid;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;

/// Puts parents before their children, the root first, and notes the parents' indexes.
pub fn order(processes: &mut Vec<Process>) {
    let mut waiting: BTreeMap<Pid, Process> = BTreeMap::new();
    let root = processes.first().map_or(0, |p| p.pid);
    for p in processes.drain(..) {
        waiting.insert(p.pid, p);
    }
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    // Those whose parent is outside begin trees of their own, behind the root's.
    let mut heads = vec![root];
    for p in waiting.values().filter(|p| p.pid != root) {
        match waiting.contains_key(&p.ppid) {
            true => children.entry(p.ppid).or_default().push(p.pid),
            false => heads.push(p.pid),
        }
    }
    for head in heads {
        let mut next = VecDeque::from([(head, None)]);
        while let Some((pid, parent)) = next.pop_front() {
            let Some(mut p) = waiting.remove(&pid) else {
                continue;
            };
            let index = processes.len() as u32;
            p.parent = parent;
            let own = children.remove(&pid).unwrap_or_default();
            next.extend(own.into_iter().map(|child| (child, Some(index))));
            processes.push(p);
        }
    }
}

/// What hinders, with the index of the process: shared tables, children that are not part of it.
pub fn hindrances(processes: &[Process]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let inside: BTreeSet<Pid> = processes.iter().map(|p| p.pid).collect();
    for (what, name) in SHARED {
        // In the kernel's order, so that each is compared with a few.
        let mut known: Vec<Pid> = Vec::new();
        for (at, p) in processes.iter().enumerate() {
            let order = |other: &Pid| sys::compare(*other, p.pid, *what);
            match known.binary_search_by(order) {
                Ok(same) => {
                    let other = known[same];
                    found.push((at, format!("it shares {name} with process {other}")));
                }
                Err(place) => known.insert(place, p.pid),
            }
            let threads = tasks(p.pid).into_iter().filter(|tid| *tid != p.pid);
            for tid in threads.filter(|tid| sys::compare(p.pid, *tid, *what).is_ne()) {
                found.push((at, format!("its thread {tid} has {name} of its own")));
            }
        }
    }
    for (at, p) in processes.iter().enumerate() {
        let strangers = children(p.pid).into_iter().filter(|c| !inside.contains(c));
        found.extend(strangers.map(|child| (at, stranger(child))));
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
