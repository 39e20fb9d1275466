//! Begin, confirm, undo.

use super::state::{ApplyError, Pending, VERSION, boot_id, now_s, pending, pending_dir, read};
use crate::diff::{commands, diff, restore};
use crate::file::replace_with_mode;
use crate::observe::{Observed, observe, run_ip};
use crate::plan::NodePlan;
use crate::render::{File, MARK};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A change that waits.
#[derive(Debug)]
pub struct Begun {
    /// The commands that were run; empty if nothing differed: then only files wait.
    pub commands: Vec<String>,
    pub until_s: u64,
}

/// What `confirm` did.
#[derive(Debug, Default)]
pub struct Confirmed {
    pub node: String,
    pub written: Vec<String>,
    /// Files of ours that the new ones replace, for instance of another back end.
    pub removed: Vec<String>,
}

/// What `undo` did.
#[derive(Debug)]
pub struct Undone {
    pub node: String,
    /// What could not be brought back.
    pub left: Vec<String>,
}

/// Changes the network to the plan. `timer` starts a program, with the identity of the change, that calls [`undo`] after `seconds` whatever
/// happens to this one; it is called after the old settings are safe and before anything changes.
///
/// Errors: what is left is in each; after an error no change waits.
pub fn begin(
    dir: &Path,
    plan: &NodePlan,
    files: Vec<File>,
    seconds: u64,
    timer: &dyn Fn(&str) -> io::Result<()>,
) -> Result<Begun, ApplyError> {
    let before = observe(plan.sysctls.keys().map(String::as_str)).map_err(ApplyError::Before)?;
    let until_s = now_s() + seconds;
    let change = Pending {
        v: VERSION,
        id: format!("{}-{}", std::process::id(), until_s),
        boot_id: boot_id(),
        node: plan.node.clone(),
        until_s,
        files: files
            .into_iter()
            .map(|f| (f.path, f.text, f.mode))
            .collect(),
        before,
    };
    snapshot(dir, &change)?;
    if let Err(e) = timer(&change.id) {
        drop_pending(dir);
        return Err(ApplyError::Timer(e));
    }
    let commands = commands(plan, &change.before);
    let changed = run_batch(&commands, false).and_then(|()| set(plan.sysctls.iter()));
    let missing = changed.and_then(|()| missing(plan));
    if let Err(what) = missing {
        let undone = undo(dir, Some(&change.id))?;
        return Err(match undone.left.is_empty() {
            true => ApplyError::Change(what),
            false => ApplyError::Undo(what, undone.left.join("; ")),
        });
    }
    Ok(Begun { commands, until_s })
}

/// Commands that succeeded and had no effect count as failed: the plan is what must be there.
fn missing(plan: &NodePlan) -> Result<(), String> {
    let seen = observe(plan.sysctls.keys().map(String::as_str)).map_err(|e| e.to_string())?;
    match diff(plan, &seen).first() {
        None => Ok(()),
        Some(d) => Err(format!(
            "{} of {} is {} after the change, not {}",
            d.code, d.link, d.found, d.wanted
        )),
    }
}

fn snapshot(dir: &Path, change: &Pending) -> Result<(), ApplyError> {
    let fail = |cause| ApplyError::Snapshot {
        dir: dir.to_owned(),
        cause,
    };
    if let Some(busy) = pending(dir) {
        let left_s = busy.until_s.saturating_sub(now_s());
        return Err(ApplyError::Busy {
            node: busy.node,
            left_s,
        });
    }
    // Prepared under another name: `pending` is there whole or not at all.
    let new = dir.join(format!("new-{}", change.id));
    fs::create_dir_all(&new).map_err(fail)?;
    // What is called pending is of an earlier start of the machine: the old settings came back with it.
    drop_pending(dir);
    let kept = (|| {
        let text = serde_json::to_vec(change).map_err(io::Error::other)?;
        replace_with_mode(&new.join("change.json"), &text, 0o600)?;
        for (file, family) in [("routes4", "-4"), ("routes6", "-6")] {
            replace_with_mode(&new.join(file), &saved_routes(family)?, 0o600)?;
        }
        fs::rename(&new, pending_dir(dir))
    })();
    kept.map_err(|cause| {
        let _ = fs::remove_dir_all(&new);
        fail(cause)
    })
}

/// KERNEL: `ip route save` writes the messages that `ip route restore` gives back to the kernel: nothing is lost.
fn saved_routes(family: &str) -> io::Result<Vec<u8>> {
    let mut ip = std::process::Command::new("ip");
    let output = ip
        .args([family, "route", "save", "table", "main"])
        .output()?;
    Ok(output.stdout)
}

/// KERNEL: iproute2 reads its input twice, so it must be a file. Routes that are there already are passed over.
fn restore_routes(family: &str, saved: &Path) -> io::Result<()> {
    let mut ip = std::process::Command::new("ip");
    ip.args([family, "route", "restore"])
        .stdin(fs::File::open(saved)?);
    ip.output().map(drop)
}

fn drop_pending(dir: &Path) {
    let _ = fs::remove_dir_all(pending_dir(dir));
}

fn run_batch(lines: &[String], force: bool) -> Result<(), String> {
    if lines.is_empty() {
        return Ok(());
    }
    let text = lines.join("\n") + "\n";
    let words: &[&str] = if force {
        &["-force", "-batch", "-"]
    } else {
        &["-batch", "-"]
    };
    run_ip(words, Some(text.as_bytes()))
        .map(drop)
        .map_err(|e| e.to_string())
}

fn set<'a>(sysctls: impl Iterator<Item = (&'a String, &'a String)>) -> Result<(), String> {
    for (key, value) in sysctls {
        fs::write(format!("/proc/sys/{key}"), value)
            .map_err(|e| format!("cannot set {key}: {e}"))?;
    }
    Ok(())
}

/// Keeps the change: its files are written, files of ours for other back ends are removed. `root`: below which they are.
pub fn confirm(dir: &Path, root: &Path) -> Result<Confirmed, ApplyError> {
    let change = pending(dir).ok_or(ApplyError::Nothing)?;
    let claimed = claim(dir, &change.id)?;
    let mut done = Confirmed {
        node: change.node.clone(),
        ..Confirmed::default()
    };
    let place = |path: &str| root.join(path.trim_start_matches('/'));
    for (path, text, mode) in &change.files {
        let to = place(path);
        let made = to.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| replace_with_mode(&to, text.as_bytes(), *mode));
        written.map_err(|cause| ApplyError::Install {
            path: to.display().to_string(),
            cause,
        })?;
        done.written.push(path.clone());
    }
    for path in ours(root) {
        let new = change.files.iter().any(|(p, ..)| place(p) == path);
        if !new && fs::remove_file(&path).is_ok() {
            done.removed.push(path.display().to_string());
        }
    }
    let _ = fs::remove_dir_all(&claimed);
    Ok(done)
}

/// Directories in which [`crate::render::node_files`] has files.
const PLACES: [&str; 6] = [
    "etc/systemd/system",
    "etc/systemd/network",
    "etc/netplan",
    "etc/network/interfaces.d",
    "etc/sysctl.d",
    "etc/armento",
];

/// Files that we wrote.
fn ours(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for place in PLACES {
        for entry in fs::read_dir(root.join(place))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if fs::read_to_string(&path).is_ok_and(|t| t.starts_with(MARK)) {
                found.push(path);
            }
        }
    }
    found
}

/// Takes the record away from everybody else.
fn claim(dir: &Path, id: &str) -> Result<PathBuf, ApplyError> {
    let to = dir.join(format!("decided-{id}"));
    fs::rename(pending_dir(dir), &to).map_err(|_| ApplyError::Late)?;
    Ok(to)
}

/// Brings the old network back. `id`: of the change that it is for; another one is left alone.
pub fn undo(dir: &Path, id: Option<&str>) -> Result<Undone, ApplyError> {
    let change = pending(dir)
        .filter(|p| id.is_none_or(|id| id == p.id))
        .ok_or(ApplyError::Nothing)?;
    let claimed = claim(dir, &change.id)?;
    let left = back(&change.before, &claimed);
    let undone = read(&claimed).map_or(change.node, |c| c.node);
    let _ = fs::remove_dir_all(&claimed);
    Ok(Undone { node: undone, left })
}

/// What could not be brought back.
fn back(before: &Observed, saved: &Path) -> Vec<String> {
    let keys = || before.sysctls.keys().map(String::as_str);
    // What fails here is seen below. Twice: what the first round made possible (a bond that is there again) the second completes.
    for _ in 0..2 {
        let Ok(now) = observe(keys()) else {
            continue;
        };
        // Single commands may fail because the kernel did the same already; what counts is looked at below.
        let _ = run_batch(&restore(before, &now), true);
        for (file, family) in [("routes4", "-4"), ("routes6", "-6")] {
            let _ = restore_routes(family, &saved.join(file));
        }
        let _ = set(before.sysctls.iter());
    }
    match observe(keys()) {
        Ok(now) => lacking(before, &now),
        Err(e) => vec![e.to_string()],
    }
}

fn lacking(before: &Observed, now: &Observed) -> Vec<String> {
    let mut left = Vec::new();
    for old in &before.links {
        let Some(new) = now.links.iter().find(|s| s.name == old.name) else {
            left.push(format!("{} is gone", old.name));
            continue;
        };
        let own = |a: &&ipnet::IpNet| !matches!(a, ipnet::IpNet::V6(a) if a.addr().is_unicast_link_local());
        for address in old
            .addresses
            .iter()
            .filter(own)
            .filter(|a| !new.addresses.contains(a))
        {
            left.push(format!("{} lacks {address}", old.name));
        }
        if (old.mtu, old.up, &old.bond) != (new.mtu, new.up, &new.bond) {
            left.push(format!(
                "{} has mtu {}, up {}, bond {:?}",
                old.name, new.mtu, new.up, new.bond
            ));
        }
    }
    for route in before
        .routes
        .iter()
        .filter(|r| r.protocol != "kernel" && !now.routes.contains(r))
    {
        left.push(format!(
            "the route to {} is gone",
            route.to.map_or("default".to_owned(), |t| t.to_string())
        ));
    }
    left
}
