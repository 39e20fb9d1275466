//! `--storm-call`: the hardest storm. A process moves at every forwarded call, before it is made, and again
//! inside it, once, when it blocks.
//!
//! From: `keeper/src/calls/execute.rs` (a call came). Next: `keeper/src/moves/run.rs`;
//! `keeper/src/signals/interrupted_calls.rs` turns back calls that are held here.
//!
//! ```text
//! call ──held──► move begins: turned back ──► issued again on the other node: made ──blocks──► move inside
//! ```
//! At home calls are not seen: a program starts on another node (`keeper/src/moves/placement.rs`), goes out again as soon
//! as it is home, and the timer of `keeper/src/moves/storm.rs` sends out processes that came home for a call.

use super::move_queue::{MoveQueue, Task, Why};
use crate::deputy::{AGAIN, Deputy, unmade_result};
use crate::storm_targets::{Dice, destination};
use crate::sync::lock;
use armento_model::{NodeName, Pid, Tid};
use armento_wire::call::{self, Call};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A call that lasts longer than this blocks.
const BLOCKS: Duration = Duration::from_millis(3);
/// Of so many moves one is to home, where calls are not seen: until it is out again it makes what it likes.
const HOME_ONE_IN: usize = 6;
/// Calls under way: one a thread, and a tree has fewer threads. What is more is not looked at.
const CHECKS_MAX: usize = 10_000;

/// A call that was made, and when to look whether it still lasts.
struct Check {
    at: Instant,
    deputy: Arc<Deputy>,
    seq: u32,
}

struct State {
    dice: Dice,
    nodes: Vec<NodeName>,
    held: Vec<(Arc<Deputy>, Box<Call>)>,
    /// Threads whose next call was held before.
    passes: HashSet<Tid>,
    /// Processes for which a move is queued.
    queued: HashSet<Pid>,
    checks: VecDeque<Check>,
}

pub struct CallStorm {
    home: NodeName,
    st: Mutex<State>,
    more: Condvar,
}

impl CallStorm {
    pub fn new(home: NodeName, seed: u64) -> CallStorm {
        CallStorm {
            home,
            st: Mutex::new(State {
                dice: Dice(seed),
                nodes: Vec::new(),
                held: Vec::new(),
                passes: HashSet::new(),
                queued: HashSet::new(),
                checks: VecDeque::new(),
            }),
            more: Condvar::new(),
        }
    }

    pub fn know(&self, nodes: &[NodeName]) {
        lock(&self.st).nodes = nodes.to_vec();
    }

    /// Where a program starts: any node but home. `None`: there is no other. `nodes`: asks which there are.
    pub fn start(&self, nodes: impl FnOnce() -> Vec<NodeName>) -> Option<NodeName> {
        let mut st = lock(&self.st);
        if st.nodes.is_empty() {
            st.nodes = nodes();
        }
        let others: Vec<_> = st
            .nodes
            .iter()
            .filter(|n| **n != self.home)
            .cloned()
            .collect();
        (!others.is_empty()).then(|| others[st.dice.roll(others.len())].clone())
    }

    /// A call of a body came: made at once, or held until its process moves. `make` makes it.
    pub fn call(
        &self,
        moves: &MoveQueue,
        d: Arc<Deputy>,
        c: Box<Call>,
        make: impl Fn(Arc<Deputy>, Box<Call>),
    ) {
        let mut st = lock(&self.st);
        if d.common.breaking.load(Ordering::Acquire) {
            // The move has turned back what it found.
            return d.link().reply(d.tid, c.seq, AGAIN, &[]);
        }
        let held_before = st.passes.remove(&d.tid);
        if !held_before && c.flags & call::AGAIN != 0 {
            // Moved inside it already. Again and again, a wait whose time begins anew would never end.
            return make(d, c);
        }
        if held_before {
            let (at, seq) = (Instant::now() + BLOCKS, c.seq);
            make(d.clone(), c);
            if st.checks.len() < CHECKS_MAX {
                st.checks.push_back(Check { at, deputy: d, seq });
                self.more.notify_one();
            }
            return;
        }
        self.queue(moves, &mut st, &d);
        st.held.push((d, c));
    }

    /// A move has begun: calls that were held were not made.
    pub fn turn_back(&self, pid: Pid) {
        let mut st = lock(&self.st);
        for (d, c) in take(&mut st.held, pid) {
            st.passes.insert(d.tid);
            d.link()
                .reply(d.tid, c.seq, unmade_result(c.packed.nr), &[]);
        }
    }

    /// A move of the process is over, or there was none: what is held yet is made now.
    pub fn moved(&self, pid: Pid, make: impl Fn(Arc<Deputy>, Box<Call>)) {
        let mut st = lock(&self.st);
        st.queued.remove(&pid);
        for (d, c) in take(&mut st.held, pid) {
            make(d, c);
        }
    }

    /// Moves threads that are still in a call which was made a while ago. Does not return.
    pub fn move_blocked(&self, moves: &MoveQueue) {
        let mut st = lock(&self.st);
        loop {
            let now = Instant::now();
            let due = st.checks.iter().position(|l| l.at <= now);
            if let Some(l) = due.and_then(|at| st.checks.remove(at)) {
                if l.deputy.at_call(l.seq) {
                    self.queue(moves, &mut st, &l.deputy);
                }
                continue;
            }
            let wait = st.checks.iter().map(|l| l.at - now).min();
            let wait = wait.unwrap_or(Duration::from_secs(1));
            st = match self.more.wait_timeout(st, wait) {
                Ok((st, _)) => st,
                Err(e) => e.into_inner().0,
            };
        }
    }

    /// Queues a move to another node, if none is queued.
    fn queue(&self, moves: &MoveQueue, st: &mut State, d: &Deputy) {
        let here = d.link().node.clone();
        let home = &self.home;
        let hosts: Vec<_> = (st.nodes.iter())
            .filter(|n| **n != here && *n != home)
            .cloned()
            .collect();
        if !st.queued.contains(&d.pid) {
            let to_home = hosts.is_empty() || st.dice.roll(HOME_ONE_IN) == 0;
            let node = match to_home {
                true => home.clone(),
                false => hosts[st.dice.roll(hosts.len())].clone(),
            };
            st.queued.insert(d.pid);
            moves.push_urgent(Task {
                pid: d.pid,
                to: destination(home, node),
                why: Why::Storm,
            });
        }
    }
}

fn take<T>(all: &mut Vec<(Arc<Deputy>, T)>, pid: Pid) -> Vec<(Arc<Deputy>, T)> {
    let (mine, rest) = std::mem::take(all)
        .into_iter()
        .partition(|(d, _)| d.pid == pid);
    *all = rest;
    mine
}
