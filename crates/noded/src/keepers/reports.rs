//! What keepers report, checked before it is believed.

use super::decisions::{Decided, stayed};
use super::keeper::KeeperProgram;
use super::table::KeeperTable;
use crate::error::{refusal, stays};
use armento_balance::Ledger;
use armento_client::api::{Answer, KeeperHello, Outcome, ProcInfo, Ran, Report};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid, clean};
use std::collections::BTreeSet;
use std::time::Instant;

/// Ends of programs that are taken from one message.
const RAN_MAX: usize = 256;
/// The reason of a move that the loss of a node has caused.
const RECOVERED: &str = "recovered";
/// Characters of a reason that are kept.
const WHY_MAX: usize = 512;
/// KERNEL: PATH_MAX.
const PATH_MAX: usize = 4096;

fn is_path(program: &str) -> bool {
    program.starts_with('/') && program.len() < PATH_MAX
}

/// Processes of one tree that are shown and balanced.
const PROCS_MAX: usize = 4096;

impl KeeperTable {
    /// Takes what a keeper reports of its own user, tree and home, and nothing else. True: one of its processes has
    /// ended.
    pub fn report(
        &mut self,
        session: u64,
        report: Report,
        me: &NodeName,
        ledger: &mut Ledger,
        now: Tick,
    ) -> bool {
        match report {
            Report::Procs { procs, ran } => {
                let ended = self.ran(session, &ran, ledger, now);
                return self.procs_of(session, procs, me) || ended;
            }
            Report::Moved {
                ticket,
                pid,
                node,
                pause_us,
                total_us,
                bytes,
            } => {
                ledger.moved(pid, &node, now);
                self.is_at(session, pid, &node);
                let moved = Outcome::Moved {
                    pause_us,
                    total_us,
                    bytes,
                };
                self.decisions.ended(ticket, moved);
                let answer = Answer::Moved {
                    pid,
                    node,
                    pause_us,
                    total_us,
                    bytes,
                };
                self.end(ticket, Ok(answer));
            }
            Report::Stayed {
                ticket,
                pid,
                stay,
                detail,
                group,
            } => {
                ledger.stayed(pid, stay, now);
                ledger.share_memory(&group, now);
                self.decisions.ended(ticket, stayed(stay, &detail));
                let subject = format!("process {pid}");
                self.end(ticket, Err(stays(&subject, stay, &detail)));
            }
            Report::Checkpointed { ticket, done } => {
                self.end(ticket, Ok(Answer::Checkpointed(done)));
            }
            Report::NotCheckpointed {
                ticket,
                code,
                message,
                hint,
            } => self.end(ticket, Err(refusal(&code, message, &hint))),
            Report::CameHome {
                pid,
                from,
                stay,
                pause_us,
                total_us,
                bytes,
            } if self.holder(pid).is_some_and(|k| k.session == session) => {
                ledger.moved(pid, me, now);
                self.is_at(session, pid, me);
                let moved = Outcome::Moved {
                    pause_us,
                    total_us,
                    bytes,
                };
                let decided = Decided {
                    outcome: moved,
                    ..Decided::ordered(stay.code(), 0)
                };
                self.log_decision_from(pid, from, me, decided);
            }
            Report::Recovered {
                pid,
                from,
                node,
                stopped_us,
            } if self.holder(pid).is_some_and(|k| k.session == session) => {
                ledger.moved(pid, &node, now);
                self.is_at(session, pid, &node);
                let decided = Decided {
                    outcome: Outcome::Moved {
                        pause_us: stopped_us,
                        total_us: stopped_us,
                        bytes: 0,
                    },
                    ..Decided::ordered(RECOVERED, 0)
                };
                self.log_decision_from(pid, from, &node, decided);
            }
            // Of another keeper's process.
            Report::CameHome { .. } | Report::Recovered { .. } => {}
            Report::Placed { pid } => self.decisions.began(pid),
            Report::Execed { pid, node } => {
                let keeper = self.by_tree.values_mut().find(|k| k.session == session);
                if let Some(keeper) = keeper {
                    keeper.execed(pid, node);
                }
            }
            Report::KeepsProgram {
                ticket: Some(ticket),
                why,
            } => {
                let what = format!("{}; nothing was changed", clean(&why));
                self.end(ticket, Err(refusal("busy", what, "try again later")));
            }
            Report::KeepsProgram { ticket: None, why } => {
                let keeper = self.by_tree.values_mut().find(|k| k.session == session);
                if let Some(keeper) = keeper {
                    let why: String = clean(&why).chars().take(WHY_MAX).collect();
                    tracing::warn!(
                        "the keeper of process {} stays the program that it was started from: {why}",
                        keeper.hello.root
                    );
                    keeper.program = KeeperProgram::Stays(Instant::now(), why);
                }
            }
            Report::Mounts { .. } | Report::Used(_) | Report::Guests { .. } | Report::ToCome => {}
        }
        false
    }

    /// Programs of a keeper's tree have ended. True: a process that was elsewhere, or that was reported.
    pub fn ran(&mut self, session: u64, ran: &[Ran], ledger: &mut Ledger, now: Tick) -> bool {
        let Some(own) = self.of_session(session).map(|k| k.hello.clone()) else {
            return false;
        };
        let mut freed = false;
        for r in ran.iter().take(RAN_MAX) {
            if let Some(cpu_ms) = r.cpu_ms.filter(|_| is_path(&r.program)) {
                ledger.ran(own.uid, &r.program, cpu_ms, now);
            }
            if r.ended && self.of_another(&own, r.pid).is_none() {
                freed |= ledger.ended(r.pid, now);
            }
        }
        // A list from before must not bring them back.
        let gone: BTreeSet<Pid> = ran.iter().filter(|r| r.ended).map(|r| r.pid).collect();
        if let Some(keeper) = self.by_tree.get_mut(&own.tree).filter(|_| !gone.is_empty()) {
            keeper.procs.retain(|p| !gone.contains(&p.pid));
            self.holders
                .retain(|pid, tree| *tree != own.tree || *pid == own.root || !gone.contains(pid));
        }
        freed
    }

    fn procs_of(&mut self, session: u64, mut procs: Vec<ProcInfo>, me: &NodeName) -> bool {
        let Some(own) = self.of_session(session).map(|k| k.hello.clone()) else {
            return false;
        };
        let theirs = self.of_others(&own, &procs);
        let Some(keeper) = self.by_tree.get_mut(&own.tree) else {
            return false;
        };
        let locked = keeper.locked();
        procs.truncate(PROCS_MAX);
        procs.retain(|p| !theirs.contains(&p.pid));
        for p in &mut procs {
            p.tree = keeper.hello.tree;
            p.uid = keeper.hello.uid;
            p.home = me.clone();
            p.locked |= locked;
        }
        let fewer = procs.len() < keeper.procs.len();
        let (root, tree) = (own.root, own.tree);
        let before = std::mem::replace(&mut keeper.procs, procs);
        keeper.know_execs();
        for pid in before.iter().map(|p| p.pid).chain([root]) {
            if self.holders.get(&pid) == Some(&tree) {
                self.holders.remove(&pid);
            }
        }
        // Its root may have ended, and another process have its number.
        let begun = keeper.procs.is_empty().then_some(root);
        let now = keeper.procs.iter().map(|p| p.pid).chain(begun);
        self.holders.extend(now.map(|pid| (pid, tree)));
        self.dirty = true;
        fewer
    }

    /// Shown as moved before its keeper reports again.
    fn is_at(&mut self, session: u64, pid: Pid, node: &NodeName) {
        let keeper = self.by_tree.values_mut().find(|k| k.session == session);
        let procs = keeper.into_iter().flat_map(|k| &mut k.procs);
        for p in procs.filter(|p| p.pid == pid && p.place != *node) {
            p.place = node.clone();
            p.moves += 1;
        }
    }

    /// Processes in a report that other keepers hold: a keeper that adopted a process finds the trees that this one
    /// started before among its children.
    fn of_others(&self, own: &KeeperHello, procs: &[ProcInfo]) -> BTreeSet<Pid> {
        let others = |pid: &Pid| {
            let uid = self.of_another(own, *pid);
            *pid != own.root && uid.is_some_and(|uid| uid == own.uid || uid == 0)
        };
        let mut theirs: BTreeSet<Pid> = procs.iter().map(|p| p.pid).filter(others).collect();
        // As often as there are generations.
        loop {
            let below = |p: &&ProcInfo| {
                p.pid != own.root && !theirs.contains(&p.pid) && theirs.contains(&p.ppid)
            };
            let more: Vec<Pid> = procs.iter().filter(below).map(|p| p.pid).collect();
            if more.is_empty() {
                return theirs;
            }
            theirs.extend(more);
        }
    }
}
