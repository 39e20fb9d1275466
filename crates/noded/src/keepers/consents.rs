//! Which program named which keeper before it began, and which processes descend from it.

use crate::process::Process;
use crate::state_dir::StateDir;
use armento_model::{Pid, TreeId};
use armento_tracee::{status, text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where it is kept for the next daemon.
const FILE: &str = "keepers.json";
/// Trees at once: sessions are bounded by as much.
const TREES_MAX: usize = 16_384;
/// Processes of one tree: as many as a keeper reports.
const MEMBERS_MAX: usize = 4096;
const GENERATIONS_MAX: usize = 256;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Consent {
    tree: TreeId,
    uid: u32,
    root: Process,
    keeper: Process,
    /// Those that were seen to descend from it: their parents may have ended since.
    #[serde(skip)]
    members: BTreeMap<Pid, u64>,
}

impl Consent {
    pub fn new(tree: TreeId, uid: u32, root: Process, keeper: Process) -> Consent {
        Consent {
            tree,
            uid,
            root,
            keeper,
            members: BTreeMap::new(),
        }
    }

    fn has(&self, process: Process) -> bool {
        process == self.root || self.members.get(&process.pid) == Some(&process.started)
    }

    /// The process `pid`, if it descends from the program or from a process that was seen to.
    fn descends(&self, pid: Pid) -> Option<Process> {
        let process = Process::of(pid)?;
        let mut at = process;
        for _ in 0..GENERATIONS_MAX {
            if self.has(at) {
                return Some(process);
            }
            let parent = Process::of(status::read(at.pid).ok()?.ppid)?;
            // The number of a parent that ended may be another's by now: a parent is older than its child.
            if parent.started > at.started || !at.lives() {
                return None;
            }
            at = parent;
        }
        None
    }
}

/// What the next daemon finds.
#[derive(Serialize, Deserialize)]
pub struct Saved {
    boot: String,
    consents: Vec<Consent>,
}

impl Saved {
    pub fn write(&self, state: &StateDir) {
        if let Err(e) = state.note_json(FILE, self) {
            tracing::warn!(
                "{e}: after a restart of this daemon children of what runs now stay home"
            );
        }
    }
}

#[derive(Default)]
pub struct Consents(BTreeMap<TreeId, Consent>);

impl Consents {
    /// What an earlier daemon of this boot was told.
    pub fn recover(state: &StateDir) -> Consents {
        let saved = state.read_json::<Saved>(FILE);
        let saved = saved.ok().flatten().filter(|s| s.boot == boot());
        let all = saved.into_iter().flat_map(|s| s.consents);
        let live = all.filter(|c| c.keeper.lives()).take(TREES_MAX);
        Consents(live.map(|c| (c.tree, c)).collect())
    }

    pub fn add(&mut self, consent: Consent) {
        self.0.retain(|_, c| c.keeper.lives());
        if self.0.len() < TREES_MAX {
            self.0.insert(consent.tree, consent);
        }
    }

    pub fn saved(&self) -> Saved {
        Saved {
            boot: boot(),
            consents: self.0.values().cloned().collect(),
        }
    }

    /// The keeper that the program of this tree named.
    pub fn keeper_of(&self, tree: TreeId, uid: u32) -> Option<Process> {
        let consent = self.0.get(&tree).filter(|c| c.uid == uid)?;
        Some(consent.keeper).filter(Process::lives)
    }

    /// `pid`, if it descends from the program of this tree.
    pub fn member(&mut self, tree: TreeId, pid: Pid) -> Option<Process> {
        let consent = self.0.get_mut(&tree)?;
        let process = consent.descends(pid)?;
        if consent.members.len() < MEMBERS_MAX {
            consent.members.insert(process.pid, process.started);
        }
        Some(process)
    }

    /// The keeper reports its processes. Those that descend from the program now still count when their parents have
    /// ended.
    pub fn reported(&mut self, tree: TreeId, pids: impl Iterator<Item = Pid>) {
        let Some(consent) = self.0.get(&tree) else {
            return;
        };
        let mut members = BTreeMap::new();
        for pid in pids.take(MEMBERS_MAX) {
            if let Some(started) = consent.members.get(&pid) {
                members.insert(pid, *started);
            } else if let Some(process) = consent.descends(pid) {
                members.insert(pid, process.started);
            }
        }
        if let Some(consent) = self.0.get_mut(&tree) {
            consent.members = members;
        }
    }
}

/// KERNEL: random(4), boot_id.
fn boot() -> String {
    let id = text::read("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    const TREE: TreeId = TreeId(7);

    fn consents(root: Pid, keeper: Pid) -> Consents {
        let known = |pid| Process::of(pid).expect("it runs");
        let mut all = Consents::default();
        all.add(Consent::new(TREE, 0, known(root), known(keeper)));
        all
    }

    #[test]
    fn descendants_of_the_program_belong_to_its_tree() {
        let me = std::process::id() as Pid;
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id() as Pid;
        let mut all = consents(me, me);
        assert!(all.member(TREE, pid).is_some());
        assert!(all.member(TreeId(8), pid).is_none());
        assert!(
            all.member(TREE, status::read(me).expect("own").ppid)
                .is_none()
        );
        // Of the child nothing but itself.
        let mut all = consents(pid, me);
        assert!(all.member(TREE, pid).is_some());
        assert!(all.member(TREE, me).is_none());
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(all.member(TREE, pid).is_none());
    }

    #[test]
    fn a_reported_orphan_stays_in_its_tree() {
        let mut parent = Command::new("sh")
            .args(["-c", "sleep 60 >/dev/null & echo $!; read end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let root = parent.id() as Pid;
        let mut out = parent.stdout.take().expect("piped");
        let mut line = Vec::new();
        let mut byte = [0u8];
        while out.read(&mut byte).is_ok_and(|n| n == 1) && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        let orphan: Pid = String::from_utf8_lossy(&line).parse().expect("a number");
        let me = std::process::id() as Pid;
        let (mut reported, mut unreported) = (consents(root, me), consents(root, me));
        reported.reported(TREE, [root, orphan].into_iter());
        drop(parent.stdin.take());
        parent.wait().expect("it ends");
        assert!(reported.member(TREE, orphan).is_some());
        assert!(unreported.member(TREE, orphan).is_none());
        armento_tracee::sys::kill(orphan, libc::SIGKILL).expect("it runs");
    }

    #[test]
    fn consents_last_until_the_next_boot() {
        let dir = std::env::temp_dir().join(format!("armento-consents-{}", std::process::id()));
        let state = StateDir::new(dir.clone());
        state.create().expect("a directory");
        let me = std::process::id() as Pid;
        consents(me, me).saved().write(&state);
        assert!(Consents::recover(&state).keeper_of(TREE, 0).is_some());
        assert!(Consents::recover(&state).keeper_of(TREE, 1).is_none());
        let saved = Saved {
            boot: "another".into(),
            consents: Vec::from_iter(consents(me, me).0.into_values()),
        };
        state.note_json(FILE, &saved).expect("written");
        assert!(Consents::recover(&state).keeper_of(TREE, 0).is_none());
        std::fs::remove_dir_all(dir).expect("made above");
    }
}
