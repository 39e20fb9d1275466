//! Control groups as files: making one, moving processes into it.

use armento_sense::{Controller, OWN};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Processes that are forked while others are moved are looked for again so often.
const ROUNDS_MAX: usize = 50;

/// Makes the group `name` with these files written.
pub fn make(c: &Controller, name: &str, files: &[(&str, String)]) -> io::Result<PathBuf> {
    if c.v2 {
        enable(c)?;
    }
    let dir = c.dir.join(name);
    match fs::create_dir(&dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    for (file, value) in files {
        fs::write(dir.join(file), value)?;
    }
    Ok(dir)
}

/// Version 2: the daemon makes room in its own group, if no other process is in it, and hands the controller down.
/// KERNEL: cgroup-v2.rst, "No Internal Process Constraint".
fn enable(c: &Controller) -> io::Result<()> {
    let control = c.dir.join("cgroup.subtree_control");
    let mut rounds = ROUNDS_MAX;
    loop {
        let on = fs::read_to_string(&control)?;
        if on.split_whitespace().any(|one| one == c.name) {
            return Ok(());
        }
        make_room(c)?;
        match fs::write(&control, format!("+{}", c.name)) {
            // A process was forked there meanwhile.
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && rounds > 0 => rounds -= 1,
            r => return r,
        }
    }
}

/// The daemon goes to a group below its own, with the hosts that it is just starting.
fn make_room(c: &Controller) -> io::Result<()> {
    let inside = fs::read_to_string(c.dir.join("cgroup.procs"))?;
    let inside: Vec<i32> = inside.lines().filter_map(|l| l.parse().ok()).collect();
    // The first group of all has no type: processes may be in it.
    if inside.is_empty() || !c.dir.join("cgroup.type").exists() {
        return Ok(());
    }
    let ours = family(std::process::id() as i32);
    if let Some(p) = inside.iter().find(|p| !ours.contains(p)) {
        let dir = c.dir.display();
        let why = format!(
            "process {p} is in the daemon's group {dir}, too: start the daemon in one of its own (a service with Delegate=yes)"
        );
        return Err(io::Error::other(why));
    }
    let own = c.dir.join(OWN);
    match fs::create_dir(&own) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    for p in inside {
        match fs::write(own.join("cgroup.procs"), p.to_string()) {
            // It has ended.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            r => r?,
        }
    }
    Ok(())
}

/// Moves a host and all below it into a group. A process that is forked meanwhile is found in the next round.
pub fn join(dir: &Path, host: i32) -> io::Result<()> {
    let procs = dir.join("cgroup.procs");
    fs::write(&procs, host.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let inside = fs::read_to_string(&procs)?;
        let inside: Vec<i32> = inside.lines().filter_map(|l| l.parse().ok()).collect();
        let mut outside = family(host);
        outside.retain(|p| !inside.contains(p));
        if outside.is_empty() {
            return Ok(());
        }
        for p in outside {
            // One that ended meanwhile.
            let _ = fs::write(&procs, p.to_string());
        }
    }
    Err(io::Error::other(
        "its guests are born faster than they are found",
    ))
}

/// A process and all below it.
fn family(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(&p) = all.get(at) {
        for task in fs::read_dir(format!("/proc/{p}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(
                text.split_whitespace()
                    .filter_map(|c| c.parse::<i32>().ok()),
            );
        }
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain files stand for the kernel's.
    #[test]
    fn controllers_are_enabled_where_the_daemon_is_alone() {
        let dir = std::env::temp_dir().join(format!("armento-cgroup-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        let put = |file: &str, text: &str| fs::write(dir.join(file), text).expect("written");
        put("cgroup.subtree_control", "");
        put("cgroup.type", "domain\n");
        put("cgroup.procs", &format!("{}\n", std::process::id()));
        let c = Controller {
            name: "memory",
            v2: true,
            dir: dir.clone(),
        };
        let made = make(&c, "armento-x", &[("memory.max", "4096".into())]);
        let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
        let got = [
            "cgroup.subtree_control",
            "daemon/cgroup.procs",
            "armento-x/memory.max",
        ]
        .map(read);
        // Another process is in it.
        put("cgroup.procs", "1\n");
        put("cgroup.subtree_control", "");
        let refused = make(&c, "armento-y", &[]).map_err(|e| e.to_string());
        fs::remove_dir_all(&dir).expect("gone");
        assert!(made.is_ok());
        assert!(refused.is_err_and(|e| e.contains("process 1 is in")));
        assert_eq!(
            got,
            [
                "+memory".to_owned(),
                std::process::id().to_string(),
                "4096".into()
            ]
        );
    }

    #[test]
    fn descendants_are_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let all = family(std::process::id() as i32);
        let _ = child.kill();
        let _ = child.wait();
        assert!(all.contains(&(child.id() as i32)));
    }
}
