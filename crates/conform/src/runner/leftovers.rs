//! Processes that a guest leaves running: waited for, listed, ended. Possible because orphans are reparented to us.

use std::fs;
use std::time::{Duration, Instant};

use crate::sys;

/// Processes may outlive the guest this long (a keeper finishes its session); then they count as left.
const LINGER: Duration = Duration::from_secs(5);
/// Rounds of killing, 10 ms each; every round ends one generation of orphans.
const ROUNDS_MAX: u32 = 100;

/// Waits until no process of the run is left, ends those that remain, and returns their names.
pub fn clear_out() -> Vec<String> {
    let start = Instant::now();
    let mut wait = Duration::from_millis(1);
    loop {
        sys::reap();
        let living = descendants(std::process::id());
        if living.is_empty() {
            return Vec::new();
        }
        if start.elapsed() > LINGER || sys::interrupted() {
            let mut names: Vec<String> = living.iter().map(|(_, name)| name.clone()).collect();
            names.sort();
            end_all();
            return names;
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(Duration::from_millis(100));
    }
}

/// Kills every descendant; orphans are reparented to us, so a few rounds end all of them.
fn end_all() {
    for _ in 0..ROUNDS_MAX {
        let living = descendants(std::process::id());
        if living.is_empty() {
            return;
        }
        for (pid, _) in living {
            sys::kill(pid);
        }
        std::thread::sleep(Duration::from_millis(10));
        sys::reap();
    }
}

/// Every living process below `root`: pid and name.
fn descendants(root: u32) -> Vec<(u32, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        if let Some((name, state, parent)) = parse_stat(&stat)
            && state != "Z"
        {
            all.push((pid, name, parent));
        }
    }
    let mut found: Vec<(u32, String)> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for (pid, name, _) in all.iter().filter(|(_, _, p)| *p == parent) {
            parents.push(*pid);
            found.push((*pid, name.clone()));
        }
    }
    found
}

/// Name, state and parent from a line of `/proc/PID/stat`. The name may contain spaces and brackets.
fn parse_stat(stat: &str) -> Option<(String, String, u32)> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let mut rest = stat[close + 1..].split_whitespace();
    let state = rest.next()?.to_string();
    Some((
        stat[open + 1..close].to_string(),
        state,
        rest.next()?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_in_stat_are_parsed() {
        let line = "812 (a) b (c)) S 7 812 812 0 -1";
        assert_eq!(parse_stat(line), Some(("a) b (c)".into(), "S".into(), 7)));
        assert_eq!(parse_stat("nonsense"), None);
    }
}
