//! What processes of this node said of the symbolic names of MFS: the node they selected, and where they made files.
//!
//! As in openMosix, where it was a field of the process, children have it from their parents: a shell selects, and what it
//! starts uses it.

use crate::process::Process;
use armento_model::{NodeName, Pid};
use std::collections::HashMap;

/// Processes with a note; then dead ones are forgotten, and at last an arbitrary one.
const NOTES_MAX: usize = 4096;
/// Ancestors that are asked: deeper than trees of processes are.
const DEEP_MAX: usize = 64;

/// Which of the two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Selected,
    Magic,
}

#[derive(Clone, Debug, Default)]
struct Note {
    started: u64,
    selected: Option<NodeName>,
    magic: Option<NodeName>,
}

impl Note {
    fn said(&mut self, what: Said) -> &mut Option<NodeName> {
        match what {
            Said::Selected => &mut self.selected,
            Said::Magic => &mut self.magic,
        }
    }
}

#[derive(Debug, Default)]
pub struct Notes(HashMap<Pid, Note>);

impl Notes {
    pub fn put(&mut self, of: Process, what: Said, node: NodeName) {
        if self.0.len() >= NOTES_MAX && !self.0.contains_key(&of.pid) {
            self.forget_dead();
            let any = self.0.keys().next().copied();
            if let Some(pid) = any.filter(|_| self.0.len() >= NOTES_MAX) {
                self.0.remove(&pid);
            }
        }
        let note = self.0.entry(of.pid).or_default();
        if note.started != of.started {
            *note = Note {
                started: of.started,
                ..Note::default()
            };
        }
        *note.said(what) = Some(node);
    }

    /// What `pid` said, or the nearest of its ancestors that said something. `process` and `parent` look into /proc.
    pub fn get(
        &self,
        pid: Pid,
        what: Said,
        process: impl Fn(Pid) -> Option<Process>,
        parent: impl Fn(Pid) -> Option<Pid>,
    ) -> Option<NodeName> {
        if self.0.is_empty() {
            return None;
        }
        let mut at = Some(pid);
        for _ in 0..DEEP_MAX {
            let pid = at.filter(|pid| *pid > 0)?;
            if let Some(note) = self.0.get(&pid)
                && process(pid).is_some_and(|p| p.started == note.started)
                && let Some(node) = note.clone().said(what)
            {
                return Some(node.clone());
            }
            at = parent(pid);
        }
        None
    }

    pub fn forget_dead(&mut self) {
        self.0
            .retain(|pid, note| Process::of(*pid).is_some_and(|p| p.started == note.started));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_have_what_their_parents_said() {
        let node = |n: &str| n.parse::<NodeName>().expect("name");
        let begun = |pid: Pid, started| Process { pid, started };
        let mut notes = Notes::default();
        notes.put(begun(10, 5), Said::Selected, node("n2"));
        notes.put(begun(11, 6), Said::Magic, node("n3"));
        let get = |notes: &Notes, pid, what, started: u64| {
            notes.get(
                pid,
                what,
                |pid| Some(begun(pid, if pid == 10 { started } else { 6 })),
                |pid| (pid > 10).then_some(pid - 1),
            )
        };
        assert_eq!(get(&notes, 10, Said::Selected, 5), Some(node("n2")));
        assert_eq!(get(&notes, 12, Said::Selected, 5), Some(node("n2")));
        assert_eq!(get(&notes, 12, Said::Magic, 5), Some(node("n3")));
        assert_eq!(get(&notes, 10, Said::Magic, 5), None);
        // Another process has its number.
        assert_eq!(get(&notes, 12, Said::Selected, 7), None);
        notes.put(begun(10, 7), Said::Magic, node("n1"));
        assert_eq!(get(&notes, 10, Said::Selected, 7), None);
    }

    #[test]
    fn notes_are_bounded() {
        let mut notes = Notes::default();
        let node: NodeName = "n2".parse().expect("name");
        for pid in 0..NOTES_MAX as Pid + 10 {
            // No process has such numbers.
            let of = Process {
                pid: 10_000_000 + pid,
                started: 1,
            };
            notes.put(of, Said::Selected, node.clone());
        }
        assert!(notes.0.len() <= NOTES_MAX);
    }
}
