//! Files of /proc by which one process of the tree observes another on purpose.
//!
//! From: `keeper/src/calls/proc_access.rs`, `keeper/src/moves/eligibility.rs`. State is read in passing by programs that
//! list all processes (and so have /proc itself open): that would bring every process home, and does not count.

use crate::state::Keep;
use armento_abi::{BodyFile, Owner, body_file};
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::status;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Ancestors that are looked through.
const DEPTH_MAX: usize = 64;

pub fn looks_on_purpose(by: Pid, target: Pid, f: BodyFile) -> bool {
    by == target || f.memory || descends(target, by) || !lists(by)
}

/// Whether it goes through all processes.
fn lists(pid: Pid) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let all = |e: std::fs::DirEntry| {
        std::fs::read_link(e.path()).is_ok_and(|to| to == Path::new("/proc"))
    };
    fds.is_ok_and(|d| d.flatten().any(all))
}

/// By job control: it does not move before it goes on, and computes no more than its deputy does.
pub fn is_stopped(pid: Pid) -> bool {
    status::thread_state(pid).is_some_and(|s| s.eq_ignore_ascii_case(&'t'))
}

fn descends(pid: Pid, from: Pid) -> bool {
    let up = |p: &Pid| status::read(*p).ok().map(|s| s.ppid).filter(|p| *p > 1);
    std::iter::successors(up(&pid), up)
        .take(DEPTH_MAX)
        .any(|p| p == from)
}

/// No process of the tree has a file open that would show the deputy of `pid`, were it away.
pub fn not_observed(keep: &Keep, pid: Pid) -> Result<()> {
    let others = keep.pids().into_iter().filter(|p| *p != pid);
    for by in others {
        if let Some(file) = open_at(by, pid) {
            let why = format!("process {by} ({}) has {file} open", status::comm(by, by));
            return Err(MigrateError::Stays(Stay::ProcSelfOpen, why));
        }
    }
    Ok(())
}

/// A file about `target` that `by` has open.
fn open_at(by: Pid, target: Pid) -> Option<String> {
    let dir = std::fs::read_dir(format!("/proc/{by}/fd")).ok()?;
    dir.flatten().find_map(|e| {
        let to = std::fs::read_link(e.path()).ok()?;
        let f = about(&to)?;
        let observed = f.owner == Owner::Of(target as u32);
        (observed && looks_on_purpose(by, target, f)).then(|| to.display().to_string())
    })
}

fn about(to: &Path) -> Option<BodyFile> {
    let to = to.as_os_str().as_bytes();
    to.starts_with(b"/proc/").then(|| body_file(to)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_on_purpose_count() {
        let (me, parent) = (
            std::process::id() as Pid,
            std::os::unix::process::parent_id(),
        );
        let check = |by: Pid, target: Pid, file: &str, want: bool| {
            let f = body_file(format!("/proc/{target}/{file}").as_bytes()).expect("of the body");
            assert_eq!(
                looks_on_purpose(by, target, f),
                want,
                "{by} {target} {file}"
            );
        };
        check(parent as Pid, me, "stat", true);
        check(me, parent as Pid, "stat", true);
        let all = std::fs::read_dir("/proc").expect("/proc");
        check(me, parent as Pid, "stat", false);
        check(me, parent as Pid, "maps", true);
        check(parent as Pid, me, "stat", true);
        drop(all);
        check(me, me, "stat", true);
    }

    #[test]
    fn open_proc_files_of_other_processes_are_found() {
        let me = std::process::id() as Pid;
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("60").spawn().expect("sleep");
        let path = format!("/proc/{}/smaps", child.id());
        let file = std::fs::File::open(&path);
        assert_eq!(open_at(me, child.id() as Pid), file.is_ok().then_some(path));
        drop(file);
        assert_eq!(open_at(me, child.id() as Pid), None);
        child.kill().expect("it lives");
        child.wait().expect("it ends");
    }
}
