//! Which processes the daemon has name a keeper: those that their user's keeper could trace without Yama.

use armento_model::{Pid, Stay};
use armento_tracee::{status, text};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Refuses unless everything but Yama allows `keeper` to trace `pid`, both `uid`'s. Checked before the process is
/// stopped, and again while it is.
pub fn check(pid: Pid, keeper: Pid, uid: u32) -> Result<(), (Stay, String)> {
    let no = |stay: Stay, why: &str| Err((stay, why.to_owned()));
    let read = |of: Pid| {
        let text = text::read(format!("/proc/{of}/status"));
        text.map_err(|_| (Stay::Busy, format!("process {of} has ended")))
    };
    let text = read(pid)?;
    let (process, its_keeper) = (status::parse(&text), status::parse(&read(keeper)?));
    if process.uid.iter().any(|u| *u != uid) || permitted(&text) != Some(0) {
        return no(Stay::Privileged, "it has more than one user's rights");
    }
    if its_keeper.uid.iter().any(|u| *u != uid) {
        return no(Stay::NotPermitted, "its keeper is another user's");
    }
    // KERNEL: proc_pid(5): the files of a process that is not dumpable are root's.
    let owner = fs::metadata(format!("/proc/{pid}/status")).map(|m| m.uid());
    if owner.ok() != Some(uid) {
        return no(Stay::NotDumpable, "");
    }
    // KERNEL: TracerPid is the thread that traces it.
    let ours = |tracer| status::read(tracer).is_ok_and(|t| t.tgid == std::process::id() as Pid);
    if process.tracer != 0 && !ours(process.tracer) {
        return Err((
            Stay::Traced,
            format!("process {} traces it", process.tracer),
        ));
    }
    // A filter may end a process that calls prctl.
    if process.seccomp != 0 {
        return no(Stay::OwnFilter, "it runs under a seccomp filter");
    }
    for space in ["pid", "user"] {
        let of = |pid: Pid| fs::read_link(format!("/proc/{pid}/ns/{space}")).ok();
        if of(pid).is_none() || of(pid) != of(keeper) {
            return no(Stay::ForeignPidNamespace, "it has namespaces of its own");
        }
    }
    Ok(())
}

/// KERNEL: proc_pid_status(5), CapPrm.
fn permitted(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapPrm:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// A program that has not exec'd yet and its keeper run the same file.
pub fn same_program(a: Pid, b: Pid) -> bool {
    let file = |pid: Pid| {
        let m = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((m.dev(), m.ino()))
    };
    file(a).is_some() && file(a) == file(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_other_users_and_root_are_refused() {
        let me = std::process::id() as Pid;
        let uid = status::read(me).expect("own status").uid[0];
        let other = check(me, me, uid + 1);
        assert!(matches!(other, Err((Stay::Privileged, _))), "{other:?}");
        let root = check(1, me, 0);
        assert!(root.is_err(), "{root:?}");
        assert!(check(i32::MAX, me, uid).is_err());
    }

    #[test]
    fn programs_differ_by_their_files() {
        let me = std::process::id() as Pid;
        assert!(same_program(me, me));
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        assert!(!same_program(me, other.id() as Pid));
        other.kill().expect("it runs");
        other.wait().expect("it ends");
    }
}
