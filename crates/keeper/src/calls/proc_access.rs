//! One of the tree looks at another's memory or state in /proc, or sleeps by its CPU clock, while that is away: its
//! deputy is hollow and idle, so it comes home first, and stays as long as such a file is open or such a sleep lasts.
//!
//! From: `serve.rs` (an open came), `depart.rs`. Next: `mover.rs`; `signals.rs` turns back what is held here.
//!
//! ```text
//! open ──held──► the other comes home ──► turned back unmade ──► issued again: made
//! ```
//! A look on purpose counts: at memory, at a descendant, at one who was named. State is read in passing by whoever
//! lists all processes (and so has /proc itself open), which would bring everybody home. Who opens the file at home is not seen by anybody.

use crate::calls::dispatch;
use crate::deputy::thread::{AGAIN, Deputy};
use crate::moves::run::{Task, Why};
use crate::observers::descriptors;
use crate::signals::route;
use crate::state::keeper::{Keep, lock};
use armento_abi::{BodyFile, CpuClock, Packed, Whose, body_file, cpu_clock, whose_words};
use armento_client::api::Dest;
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay, Tid};
use armento_tracee::status;
use armento_tracee::timers::sleeps_by_cpu_time;
use armento_wire::call::Call;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Ancestors that are looked through.
const DEPTH_MAX: usize = 64;

/// Opens that wait for somebody to come home: one a thread at most.
#[derive(Default)]
pub struct Looks(Mutex<Vec<Held>>);

struct Held {
    target: Pid,
    by: Arc<Deputy>,
    call: Box<Call>,
}

/// Whom of those away this call would see hollow.
pub fn target(keep: &Keep, d: &Deputy, c: &Packed) -> Option<Pid> {
    let path = path_of(d, c)?;
    let of = |whose| match whose {
        Whose::Own => keep.deputy(d.pid),
        Whose::Of(n) => keep.deputy(n as Tid),
    };
    if let Some(of) = whose_words(&path).and_then(of) {
        // On its way home nobody keeps them up to date.
        return of.common.coming.load(Ordering::Acquire).then_some(of.pid);
    }
    let f = body_file(&path)?;
    let target = of(f.whose)?.pid;
    ((f.memory || !stopped(target)) && counts(d.pid, target, f)).then_some(target)
}

/// The path that a call opens, from the root if we can tell.
fn path_of(d: &Deputy, c: &Packed) -> Option<Vec<u8>> {
    let (dir, at) = match i64::from(c.nr) {
        libc::SYS_open => (None, 0),
        libc::SYS_openat | libc::SYS_openat2 => (Some(c.args[0] as i32), 1),
        _ => return None,
    };
    let path = c.data.get(c.args[at] as usize..)?;
    let path = path.split(|b| *b == 0).next()?;
    match dir.filter(|fd| *fd >= 0) {
        Some(fd) if !path.starts_with(b"/") => {
            let dir = std::fs::read_link(format!("/proc/{}/fd/{fd}", d.tid)).ok()?;
            let full = [dir.as_os_str().as_bytes(), path].join(&b'/');
            full.starts_with(b"/proc/").then_some(full)
        }
        _ => Some(path.to_vec()),
    }
}

fn counts(by: Pid, target: Pid, f: BodyFile) -> bool {
    by == target || f.memory || descends(target, by) || !lists(by)
}

/// Is it going through all processes?
fn lists(pid: Pid) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let all = |e: std::fs::DirEntry| {
        std::fs::read_link(e.path()).is_ok_and(|to| to == Path::new("/proc"))
    };
    fds.is_ok_and(|d| d.flatten().any(all))
}

/// By job control: it does not move before it goes on, and computes no more than its deputy does.
fn stopped(pid: Pid) -> bool {
    status::thread_state(pid).is_some_and(|s| s.eq_ignore_ascii_case(&'t'))
}

fn descends(pid: Pid, from: Pid) -> bool {
    let up = |p: &Pid| status::read(*p).ok().map(|s| s.ppid).filter(|p| *p > 1);
    std::iter::successors(up(&pid), up)
        .take(DEPTH_MAX)
        .any(|p| p == from)
}

/// Holds a call until `target` is home.
pub fn hold(keep: &Keep, target: Pid, by: Arc<Deputy>, call: Box<Call>) {
    let mut held = lock(&keep.looks.0);
    if by.common.breaking.load(Ordering::Acquire) {
        // The move has turned back what it found.
        return by.link().reply(by.tid, call.seq, AGAIN, &[]);
    }
    come_first(keep, target, by.pid);
    held.push(Held { target, by, call });
}

/// `target` is the next to move: home.
pub fn come_first(keep: &Keep, target: Pid, by: Pid) {
    keep.tasks.push_urgent(Task {
        pid: target,
        to: Dest::Home,
        why: Why::Look(by),
    });
}

impl Looks {
    /// The target is home, or ended: the calls are issued again and find it so. `false`: it cannot come; then
    /// they show what there is.
    pub fn over(&self, keep: &Keep, target: Pid, home: bool) {
        for h in self.take(|h| h.target == target) {
            match home {
                true => h.by.link().reply(h.by.tid, h.call.seq, AGAIN, &[]),
                false => dispatch::make(keep, h.by, h.call),
            }
        }
    }

    /// A move of who looks has begun: nothing of it was made.
    pub fn turn_back(&self, pid: Pid) {
        self.back(|h| h.by.pid == pid);
    }

    /// A signal came to a thread that waits here.
    pub fn nudge(&self, tid: Tid, seq: u32) {
        self.back(|h| h.by.tid == tid && h.call.seq == seq);
    }

    fn back(&self, which: impl Fn(&Held) -> bool) {
        for h in self.take(which) {
            let ret = route::unmade_result(h.call.packed.nr);
            h.by.link().reply(h.by.tid, h.call.seq, ret, &[]);
        }
    }

    fn take(&self, which: impl Fn(&Held) -> bool) -> Vec<Held> {
        lock(&self.0).extract_if(.., |h| which(h)).collect()
    }
}

/// By whose CPU clock a thread sleeps, at home. KERNEL: proc_pid_syscall(5).
fn sleeps_by(pid: Pid, tid: Tid) -> Option<Pid> {
    let (nr, args) = status::call(pid, tid)?;
    match cpu_clock(args[0] as i32, pid, tid).filter(|_| sleeps_by_cpu_time(nr, &args))? {
        CpuClock::Process(whose) => Some(whose),
        CpuClock::Thread(_) => None,
    }
}

/// Threads that are asked at a time what they sleep by: in larger trees such a sleep may be too long.
const SLEEPERS_MAX: usize = 64;

/// Those who sleep by somebody's CPU clock, and whose. Only home knows such sleeps.
fn sleepers(keep: &Keep) -> impl Iterator<Item = (Pid, Pid)> + use<> {
    let away: Vec<Pid> = keep.away();
    let home = keep.pids().into_iter().filter(move |p| !away.contains(p));
    let threads = |p: Pid| status::threads(p).unwrap_or_default();
    home.flat_map(move |p| threads(p).into_iter().map(move |t| (p, t)))
        .take(SLEEPERS_MAX)
        .filter_map(|(p, t)| Some((p, sleeps_by(p, t)?)))
}

/// Who is waited for so, and away, comes home.
pub fn watch(keep: &Keep) {
    if keep.away().is_empty() {
        return;
    }
    for (by, whose) in sleepers(keep) {
        if let Some(d) = keep.deputy(whose)
            && !keep.tasks.call_home(d.pid)
        {
            come_first(keep, d.pid, by);
        }
    }
}

/// While a process of the tree counts events, all the others are at home. To look for it takes as long as there are
/// descriptors.
pub fn watch_counters(keep: &Keep) {
    if keep.away().is_empty() {
        return;
    }
    for (pid, by) in descriptors::counted(keep) {
        if !keep.tasks.call_home(pid) {
            come_first(keep, pid, by);
        }
    }
}

/// Nobody of the tree waits for `pid` to use its processor.
pub fn unawaited(keep: &Keep, pid: Pid) -> Result<()> {
    let Some((by, _)) = sleepers(keep).find(|(_, whose)| *whose == pid) else {
        return Ok(());
    };
    let name = status::comm(by, by);
    let why = format!("process {by} ({name}) sleeps by its CPU clock");
    Err(MigrateError::Stays(Stay::UnsupportedCall, why))
}

/// Nobody of the tree has a file open that would show the deputy of `pid`, were it away.
pub fn unseen(keep: &Keep, pid: Pid) -> Result<()> {
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
        let whom = f.whose == Whose::Of(target as u32);
        (whom && counts(by, target, f)).then(|| to.display().to_string())
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
    fn looks_on_purpose_count() {
        let (me, parent) = (
            std::process::id() as Pid,
            std::os::unix::process::parent_id(),
        );
        let check = |by: Pid, target: Pid, file: &str, want: bool| {
            let f = body_file(format!("/proc/{target}/{file}").as_bytes()).expect("of the body");
            assert_eq!(counts(by, target, f), want, "{by} {target} {file}");
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
    fn open_files_about_others_are_found() {
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
