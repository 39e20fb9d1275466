//! `--storm-call`: the hardest storm. A process moves at every forwarded call, before it is made, and again
//! inside it, once, when it blocks.
//!
//! From: `serve.rs` (a call came). Next: `mover.rs`; `signals.rs` turns back what is held here.
//!
//! ```text
//! call ──held──► move begins: turned back ──► issued again on the other node: made ──blocks──► move inside
//! ```
//! At home nobody sees a process call: a program starts on another node (`mover.rs`, placement at exec), goes out
//! again as soon as it is home, and the timer of `storm.rs` sends out what came home for a call.

use crate::calls::dispatch::make;
use crate::deputy::thread::{AGAIN, Deputy};
use crate::moves::run::{Task, Why};
use crate::moves::storm::{Dice, destination, nodes};
use crate::signals::route;
use crate::state::keeper::{Keep, lock};
use armento_client::api::Dest;
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
const LOOKS_MAX: usize = 10_000;

/// A call that was made, and when to look whether it still lasts.
struct Look {
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
    looks: VecDeque<Look>,
}

pub struct CallStorm {
    st: Mutex<State>,
    more: Condvar,
}

impl CallStorm {
    pub fn new(seed: u64) -> CallStorm {
        CallStorm {
            st: Mutex::new(State {
                dice: Dice(seed),
                nodes: Vec::new(),
                held: Vec::new(),
                passes: HashSet::new(),
                queued: HashSet::new(),
                looks: VecDeque::new(),
            }),
            more: Condvar::new(),
        }
    }

    pub fn know(&self, nodes: &[NodeName]) {
        lock(&self.st).nodes = nodes.to_vec();
    }

    /// Where a program starts: any node but home. `None`: there is no other.
    pub fn start(&self, keep: &Keep) -> Option<NodeName> {
        let mut st = lock(&self.st);
        if st.nodes.is_empty() {
            st.nodes = nodes(keep);
        }
        let others: Vec<_> = st
            .nodes
            .iter()
            .filter(|n| **n != keep.settings.node)
            .cloned()
            .collect();
        (!others.is_empty()).then(|| others[st.dice.roll(others.len())].clone())
    }

    /// A process has come home by this storm: it goes on to another node.
    pub fn out_again(&self, keep: &Keep, pid: Pid) {
        if let Some(node) = self.start(keep) {
            keep.tasks.push(Task {
                pid,
                to: Dest::Node(node),
                why: Why::Storm,
            });
        }
    }

    /// A call of a body came: made at once, or held until its process moves.
    pub fn call(&self, keep: &Keep, d: Arc<Deputy>, c: Box<Call>) {
        let mut st = lock(&self.st);
        if d.common.breaking.load(Ordering::Acquire) {
            // The move has turned back what it found.
            return d.link().reply(d.tid, c.seq, AGAIN, &[]);
        }
        let held_before = st.passes.remove(&d.tid);
        if !held_before && c.flags & call::AGAIN != 0 {
            // Moved inside it already. Again and again, a wait whose time begins anew would never end.
            return make(keep, d, c);
        }
        if held_before {
            let (at, seq) = (Instant::now() + BLOCKS, c.seq);
            make(keep, d.clone(), c);
            if st.looks.len() < LOOKS_MAX {
                st.looks.push_back(Look { at, deputy: d, seq });
                self.more.notify_one();
            }
            return;
        }
        queue(keep, &mut st, &d);
        st.held.push((d, c));
    }

    /// A move has begun: calls that were held were not made.
    pub fn turn_back(&self, pid: Pid) {
        let mut st = lock(&self.st);
        for (d, c) in take(&mut st.held, pid) {
            st.passes.insert(d.tid);
            d.link()
                .reply(d.tid, c.seq, route::unmade_result(c.packed.nr), &[]);
        }
    }

    /// A move of the process is over, or there was none: what is held yet is made now.
    pub fn moved(&self, keep: &Keep, pid: Pid) {
        let mut st = lock(&self.st);
        st.queued.remove(&pid);
        for (d, c) in take(&mut st.held, pid) {
            make(keep, d, c);
        }
    }

    /// Moves who is still in a call that was made a while ago.
    pub fn look(&self, keep: &Keep) {
        let mut st = lock(&self.st);
        loop {
            let now = Instant::now();
            let due = st.looks.iter().position(|l| l.at <= now);
            if let Some(l) = due.and_then(|at| st.looks.remove(at)) {
                if l.deputy.at_call(l.seq) {
                    queue(keep, &mut st, &l.deputy);
                }
                continue;
            }
            let wait = st.looks.iter().map(|l| l.at - now).min();
            let wait = wait.unwrap_or(Duration::from_secs(1));
            st = match self.more.wait_timeout(st, wait) {
                Ok((st, _)) => st,
                Err(e) => e.into_inner().0,
            };
        }
    }
}

/// Queues a move to another node, if none is queued.
fn queue(keep: &Keep, st: &mut State, d: &Deputy) {
    let here = d.link().node.clone();
    let home = &keep.settings.node;
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
        keep.tasks.push_urgent(Task {
            pid: d.pid,
            to: destination(keep, node),
            why: Why::Storm,
        });
    }
}

fn take<T>(all: &mut Vec<(Arc<Deputy>, T)>, pid: Pid) -> Vec<(Arc<Deputy>, T)> {
    let (mine, rest) = std::mem::take(all)
        .into_iter()
        .partition(|(d, _)| d.pid == pid);
    *all = rest;
    mine
}
