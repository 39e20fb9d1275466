//! Capabilities: a program that began again with others than it had would be able to do what it had given up.
//!
//! From: `save.rs`. Next: nothing.

use super::refuse::refused;
use armento_client::api::Refusal;
use armento_model::Pid;
use armento_tracee::{status, text};

/// Fails for a process whose capabilities are not those that programs of its user begin with: this process is one of them.
pub fn has_plain_rights(pid: Pid) -> Result<(), Refusal> {
    let me = std::process::id() as Pid;
    let plain = match (of(pid), of(me)) {
        // It has ended, which is said elsewhere.
        (None, _) => true,
        (Some(its), Some(ours)) if same_user(pid, me) => its == ours,
        // It was root's and is another user's: then it has none.
        (Some(its), _) => its.iter().all(|(name, set)| name == BOUNDING || *set == 0),
    };
    match plain && threads_are_alike(pid) {
        true => Ok(()),
        false => {
            let what = format!(
                "process {pid}, or a thread of it, has other capabilities or another user than programs of its user begin with; no file was written"
            );
            let hint =
                "a restarted program would have those of its user: checkpoint it without them";
            Err(refused("cannot-be-saved", what, hint))
        }
    }
}

/// Threads are made again as the first one is.
fn threads_are_alike(pid: Pid) -> bool {
    let of = |tid: Pid| {
        let text = text::read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let tells = |line: &&str| TELLING.iter().any(|name| line.starts_with(name));
        Some(text.lines().filter(tells).collect::<Vec<_>>().join("\n"))
    };
    let first = of(pid);
    let tids = status::threads(pid).unwrap_or_default();
    // One that has ended meanwhile is no hindrance.
    tids.into_iter().filter_map(of).all(|it| Some(it) == first)
}

/// Lines of a thread's status that say what it may do.
const TELLING: [&str; 5] = ["Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:"];

fn same_user(a: Pid, b: Pid) -> bool {
    let user = |pid| status::read(pid).map(|s| s.uid).ok();
    user(a) == user(b)
}

/// The set that limits what an exec may give.
const BOUNDING: &str = "CapBnd";

/// The sets of capabilities by name. KERNEL: proc_pid_status(5), CapInh to CapAmb.
fn of(pid: Pid) -> Option<Vec<(String, u64)>> {
    let text = text::read(format!("/proc/{pid}/status")).ok()?;
    let set = |line: &str| {
        let (name, set) = line.split_once(':')?;
        let set = u64::from_str_radix(set.trim(), 16).ok()?;
        name.starts_with("Cap").then(|| (name.to_owned(), set))
    };
    Some(text.lines().filter_map(set).collect())
}
