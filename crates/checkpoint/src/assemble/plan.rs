//! In which order processes are forked, and whose sessions and groups they join. No I/O.

use crate::home::Home;
use armento_model::Pid;

/// Whose session or group a process is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// That of the process that restarts: of the user's shell.
    Caller,
    /// Of a process of the tree, by index.
    Process(usize),
}

pub struct Plan<'a> {
    home: &'a Home,
    same_pids: bool,
}

impl<'a> Plan<'a> {
    pub fn new(home: &'a Home, same_pids: bool) -> Plan<'a> {
        Plan { home, same_pids }
    }

    /// The root keeps the session and the group of the calling process unless it gets its own number back. A session or
    /// group whose leader has ended is led by the first process that is in it, unless the root is in it too: that one is
    /// the shell's.
    fn leader(&self, number: impl Fn(usize) -> Pid, index: usize) -> Of {
        let wanted = number(index);
        let leader = self.home.index(wanted).filter(|at| number(*at) == wanted);
        match leader {
            Some(0) if !self.same_pids => Of::Caller,
            Some(at) => Of::Process(at),
            None if wanted == number(0) => Of::Caller,
            None => {
                let first = (0..self.home.processes.len()).find(|at| number(*at) == wanted);
                first.map_or(Of::Caller, Of::Process)
            }
        }
    }

    pub fn session(&self, index: usize) -> Of {
        self.leader(|at| self.home.processes[at].sid, index)
    }

    pub fn group(&self, index: usize) -> Of {
        self.leader(|at| self.home.processes[at].pgid, index)
    }

    pub fn leads_session(&self, index: usize) -> bool {
        self.session(index) == Of::Process(index)
    }

    /// Children that a process forks, of those before (or behind) its setsid. A child that is in another session than its
    /// parent, and leads none, was forked before.
    pub fn children(&self, index: usize, before_session: bool) -> Vec<usize> {
        let own = self.session(index);
        let leads = self.leads_session(index);
        let is_child = |at: &usize| match self.home.processes[*at].parent {
            Some(parent) => parent as usize == index,
            // One whose parent had ended: forked by the root on a detour.
            None => index == 0 && *at != 0,
        };
        let early = |at: &usize| leads && self.session(*at) != own && !self.leads_session(*at);
        let all = (0..self.home.processes.len()).filter(is_child);
        all.filter(|at| early(at) == before_session).collect()
    }

    /// Processes that cannot be in the session that they were in.
    pub fn misplaced(&self) -> Vec<usize> {
        let count = self.home.processes.len();
        let mut found = Vec::new();
        // What each process's session was at its birth, and is.
        let mut sessions: Vec<(Of, Of)> = Vec::with_capacity(count);
        for index in 0..count {
            let parent = self.home.processes[index].parent;
            let inherited = match parent.and_then(|p| sessions.get(p as usize).copied()) {
                None => Of::Caller,
                Some((birth, now)) => {
                    let early = self.children(parent.unwrap_or(0) as usize, true);
                    if early.contains(&index) { birth } else { now }
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Process;

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
