//! The mounts that this node declares, and what is known of them and one host.

use super::judge::{Own, judge, may_share, same};
use crate::names::mounts_changed;
use crate::sync::lock;
use armento_client::api::{MountVerdict, SharedMount};
use armento_dfsa::{Proof, Root, kernel, make_directory, read, remove};
use armento_model::NodeName;
use armento_wire::talk::{MountSeen, ProofFile};
use std::collections::HashMap;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// What a host answers.
pub type Asked = Result<Box<MountSeen>, String>;

/// Longest reason that is reported, characters.
const WHY_MAX: usize = 512;
/// Questions that wait for their answers.
const WAITING_MAX: usize = 64;

#[derive(Default)]
pub struct Mounts {
    declared: Vec<SharedMount>,
    st: Mutex<State>,
    /// Some mount is proved.
    some: AtomicBool,
    answers: Mutex<HashMap<u32, Sender<Asked>>>,
}

#[derive(Default)]
struct State {
    /// Tells when mounts have changed.
    mountinfo: Option<File>,
    /// A change was seen, and what was known is void.
    stale: bool,
    /// By the number of the declaration: those in which both nodes see the same.
    proved: HashMap<usize, Root>,
}

impl Mounts {
    pub fn new(declared: Vec<SharedMount>) -> Mounts {
        Mounts {
            declared,
            ..Mounts::default()
        }
    }

    pub fn declared(&self) -> &[SharedMount] {
        &self.declared
    }

    /// What is known is void. From now on changes of mounts are noticed.
    pub fn begin(&self) {
        let mut st = lock(&self.st);
        if st.mountinfo.is_none() {
            st.mountinfo = File::open("/proc/self/mountinfo").ok();
        }
        // What has changed before is seen by what is looked at now.
        st.mountinfo.as_ref().map(mounts_changed);
        st.stale = false;
        st.proved.clear();
        self.some.store(false, Ordering::Release);
    }

    /// Whether mounts have changed since they were looked at.
    pub fn is_stale(&self) -> bool {
        !self.declared.is_empty() && lock(&self.st).look()
    }

    /// A question with this number is about to be asked; its answer is received.
    pub fn expect(&self, seq: u32) -> Receiver<Asked> {
        let (tx, rx) = channel();
        let mut all = lock(&self.answers);
        if all.len() < WAITING_MAX {
            all.insert(seq, tx);
        }
        rx
    }

    pub fn answered(&self, seq: u32, seen: Asked) {
        let tx = lock(&self.answers).remove(&seq);
        // Who asked may have given up.
        if let Some(tx) = tx {
            let _ = tx.send(seen);
        }
    }

    pub fn forget_question(&self, seq: u32) {
        lock(&self.answers).remove(&seq);
    }

    /// Which proved mount a file was reached through, by its path; its number.
    pub(super) fn with_mount<T>(
        &self,
        path: &std::path::Path,
        f: impl FnOnce(&SharedMount, &Root) -> Option<T>,
    ) -> Option<T> {
        if !self.some.load(Ordering::Acquire) {
            return None;
        }
        let mut st = lock(&self.st);
        if st.look() {
            self.some.store(false, Ordering::Release);
            return None;
        }
        let below = |(n, _): &(usize, &SharedMount)| st.proved.contains_key(n);
        let all = self.declared.iter().enumerate().filter(below);
        let found = all.filter(|(_, m)| path.starts_with(&m.path));
        // Of mounts in mounts the inner one.
        let (n, m) = found.max_by_key(|(_, m)| m.path.components().count())?;
        f(m, st.proved.get(&n)?)
    }

    /// Looks at a mount and writes a proof into it. Else: why it is not shared.
    pub fn write(&self, m: &SharedMount) -> Result<(Root, Proof), String> {
        let root = Root::open(&m.path).map_err(|e| e.to_string())?;
        may_share(root.magic(), m.relaxed)?;
        let made = make_directory(&root);
        let proof = Proof::write(&root).map_err(|e| {
            let dir = m.path.join(armento_dfsa::DIRECTORY);
            let why = made.err().map_or_else(|| e.to_string(), |e| e.to_string());
            format!(
                "nothing can be written to {0}: {why}; as root: mkdir -p {0} && chmod 1777 {0}",
                dir.display()
            )
        })?;
        Ok((root, proof))
    }

    /// The host's answer: whether it is the same file system there. Both proofs are removed, as far as they are here.
    pub fn conclude(
        &self,
        n: usize,
        (root, proof): (Root, Proof),
        host: &NodeName,
        seen: &Asked,
    ) -> Result<(), String> {
        let result = self.compare(n, (&root, &proof), host, seen);
        remove(&root, &proof.name);
        if let Ok(seen) = seen {
            remove(&root, &seen.written.name);
        }
        result?;
        let mut st = lock(&self.st);
        if st.look() {
            return Err("mounts of this node have changed meanwhile".into());
        }
        st.proved.insert(n, root);
        self.some.store(true, Ordering::Release);
        Ok(())
    }

    fn compare(
        &self,
        n: usize,
        (root, proof): (&Root, &Proof),
        host: &NodeName,
        seen: &Asked,
    ) -> Result<(), String> {
        let seen = seen.as_ref().map_err(|why| format!("{host}: {why}"))?;
        let relaxed = self.declared.get(n).is_some_and(|m| m.relaxed);
        let own = Own {
            magic: root.magic(),
            relaxed,
            kernel: &kernel(),
            proof,
        };
        judge(&own, host, seen)?;
        let ProofFile {
            name,
            content,
            identity,
        } = &seen.written;
        // The name is the host's word.
        let found = read(root, name)
            .map_err(|e| format!("what {host} wrote there is not found here: {e}"))?;
        if found.0 != *content || !same(&found.1, identity) {
            return Err(format!(
                "what {host} wrote there has other bytes or another identity here"
            ));
        }
        Ok(())
    }

    /// For the daemon.
    pub fn verdict(m: &SharedMount, result: Result<(), String>) -> MountVerdict {
        MountVerdict {
            path: m.path.clone(),
            direct: result.is_ok(),
            // A host may have a part in it.
            why: result
                .err()
                .unwrap_or_default()
                .chars()
                .take(WHY_MAX)
                .collect(),
        }
    }
}

impl State {
    fn look(&mut self) -> bool {
        let changed = self.mountinfo.as_ref().is_none_or(mounts_changed);
        if changed {
            self.stale = true;
            self.proved.clear();
        }
        self.stale
    }
}
