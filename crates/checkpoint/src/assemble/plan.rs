//! In which order processes are forked, and whose sessions and groups they join. No I/O.

use crate::home::{Home, Process};
use armento_model::Pid;
use std::collections::HashMap;

/// Whose session or group a process is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// That of the process that restarts: of the user's shell.
    Caller,
    /// Of a process of the tree, by index.
    Process(usize),
}

pub struct Plan {
    sessions: Vec<Of>,
    groups: Vec<Of>,
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
}

impl Plan {
    pub fn new(home: &Home, same_pids: bool) -> Plan {
        let all = &home.processes;
        let parents = all.iter().map(|p| p.parent.map(|at| at as usize));
        let parents: Vec<Option<usize>> = parents.collect();
        let mut children = vec![Vec::new(); all.len()];
        for (at, parent) in parents.iter().enumerate().skip(1) {
            // One whose parent had ended is forked by the root on a detour.
            if let Some(own) = children.get_mut(parent.unwrap_or(0)) {
                own.push(at);
            }
        }
        Plan {
            sessions: leaders(all, same_pids, |p| p.sid),
            groups: leaders(all, same_pids, |p| p.pgid),
            parents,
            children,
        }
    }

    pub fn session(&self, index: usize) -> Of {
        self.sessions[index]
    }

    pub fn group(&self, index: usize) -> Of {
        self.groups[index]
    }

    pub fn leads_session(&self, index: usize) -> bool {
        self.session(index) == Of::Process(index)
    }

    /// Whether a process is forked before its parent's setsid: it is in another session, and leads none.
    fn early(&self, index: usize) -> bool {
        let parent = self.parents[index].unwrap_or(0);
        self.leads_session(parent)
            && self.session(index) != self.session(parent)
            && !self.leads_session(index)
    }

    /// Children that a process forks, of those before (or behind) its setsid.
    pub fn children(&self, index: usize, before_session: bool) -> Vec<usize> {
        let own = self.children[index].iter().copied();
        own.filter(|at| self.early(*at) == before_session).collect()
    }

    /// Processes that cannot be in the session that they were in.
    pub fn misplaced(&self) -> Vec<usize> {
        let mut found = Vec::new();
        // What each process's session was at its birth, and is.
        let mut sessions: Vec<(Of, Of)> = Vec::with_capacity(self.sessions.len());
        for index in 0..self.sessions.len() {
            let parent = self.parents[index].or((index > 0).then_some(0));
            let inherited = match parent.and_then(|p| sessions.get(p).copied()) {
                None => Of::Caller,
                Some((birth, _)) if self.early(index) => birth,
                Some((_, now)) => now,
            };
            let leads = self.leads_session(index);
            let now = if leads { Of::Process(index) } else { inherited };
            if now != self.session(index) {
                found.push(index);
            }
            sessions.push((inherited, now));
        }
        found
    }
}

/// The root keeps the session and the group of the calling process unless it gets its own number back. A session or group
/// whose leader has ended is led by the first process that is in it, unless the root is in it too: that one is the shell's.
fn leaders(all: &[Process], same_pids: bool, number: impl Fn(&Process) -> Pid) -> Vec<Of> {
    let mut leaders: HashMap<Pid, Of> = HashMap::new();
    for (at, p) in all.iter().enumerate() {
        let of = match at {
            0 if !(same_pids && number(p) == p.pid) => Of::Caller,
            _ => Of::Process(at),
        };
        leaders.entry(number(p)).or_insert(of);
    }
    // The leader itself, where it lives, and not the first in the list.
    for (at, p) in all.iter().enumerate().skip(1) {
        let led = leaders.entry(p.pid);
        if number(p) == p.pid {
            led.and_modify(|of| *of = Of::Process(at));
        }
    }
    let of = |p: &Process| leaders.get(&number(p)).copied().unwrap_or(Of::Caller);
    all.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(rows: &[(Pid, Option<u32>, Pid, Pid)]) -> Home {
        let one = |(pid, parent, pgid, sid): &(Pid, Option<u32>, Pid, Pid)| Process {
            pid: *pid,
            parent: *parent,
            pgid: *pgid,
            sid: *sid,
            ..Process::default()
        };
        Home {
            processes: rows.iter().map(one).collect(),
            ..Home::default()
        }
    }

    #[test]
    fn a_job_of_a_shell_stays_in_the_shells_session() {
        let home = home(&[
            (10, None, 10, 5),
            (11, Some(0), 10, 5),
            (12, Some(0), 12, 5),
        ]);
        let new = Plan::new(&home, false);
        assert_eq!(new.group(0), Of::Caller);
        assert_eq!(new.group(1), Of::Caller);
        assert_eq!(new.group(2), Of::Process(2));
        assert_eq!(new.session(2), Of::Caller);
        let same = Plan::new(&home, true);
        assert_eq!(same.group(1), Of::Process(0));
        assert_eq!(same.session(0), Of::Caller);
        assert_eq!((new.misplaced(), same.misplaced()), (vec![], vec![]));
    }

    #[test]
    fn children_of_before_a_setsid_are_forked_before_it() {
        // 11 made itself a session; 12 is its child of before, 13 of later; 14's parent is gone.
        let home = home(&[
            (10, None, 10, 5),
            (11, Some(0), 11, 11),
            (12, Some(1), 10, 5),
            (13, Some(1), 11, 11),
            (14, None, 9, 9),
            (15, Some(0), 15, 11),
        ]);
        let plan = Plan::new(&home, false);
        assert_eq!(plan.children(1, true), [2]);
        assert_eq!(plan.children(1, false), [3]);
        assert_eq!(plan.children(0, true), [0; 0]);
        assert_eq!(plan.children(0, false), [1, 4, 5]);
        assert!(plan.leads_session(4));
        assert_eq!(plan.misplaced(), [5]);
    }
}
