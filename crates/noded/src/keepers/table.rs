//! Keepers in session: what they hold, and the orders they were given.

use super::decisions::{About, Decided, Decisions};
use super::keeper::{Keeper, seen};
use crate::error::refusal;
use crate::line_sender::LineSender;
use armento_balance::{Ledger, Seen};
use armento_client::api::{Answer, Body, KeeperHello, Order, Outcome, ProcInfo, Refusal};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid, TreeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::sync::oneshot;

/// Orders without an end; the oldest is forgotten.
const TICKETS_MAX: usize = 4096;

pub type Waiter = oneshot::Sender<Result<Answer, Refusal>>;

struct Ticket {
    tree: TreeId,
    pid: Pid,
    waiter: Option<Waiter>,
}

#[derive(Default)]
pub struct KeeperTable {
    pub(super) by_tree: BTreeMap<TreeId, Keeper>,
    /// The tree of each process that was reported, and of each root.
    pub(super) holders: HashMap<Pid, TreeId>,
    tickets: BTreeMap<u64, Ticket>,
    pub decisions: Decisions,
    /// Reports came that the ledger has not seen.
    pub(super) dirty: bool,
}

impl KeeperTable {
    /// A keeper says hello; one of the same tree that was there before has lost its session.
    pub fn said_hello(&mut self, session: u64, hello: KeeperHello, out: LineSender) {
        let before = self.by_tree.remove(&hello.tree);
        let procs = before.map(|k| k.procs).unwrap_or_default();
        let keeper = Keeper::new(session, out, hello, procs);
        self.holders.insert(keeper.hello.root, keeper.hello.tree);
        self.by_tree.insert(keeper.hello.tree, keeper);
        self.dirty = true;
    }

    /// The session ended, and with it, as far as we know, its processes: these.
    pub fn session_ended(&mut self, session: u64) -> Vec<Pid> {
        let Some(tree) = self.of_session(session).map(|k| k.hello.tree) else {
            return Vec::new();
        };
        let keeper = self.by_tree.remove(&tree);
        self.holders.retain(|_, holder| *holder != tree);
        let ended = keeper.map_or_else(Vec::new, |k| {
            let procs = k.procs.iter().map(|p| p.pid);
            procs.chain([k.hello.root]).collect()
        });
        self.dirty = true;
        let lost = |t: &Ticket| {
            refusal(
                "gone",
                format!(
                    "process {} ended, or its keeper did, before the move did",
                    t.pid
                ),
                "armento ps shows what lives",
            )
        };
        let decisions = &mut self.decisions;
        self.tickets.retain(|number, t| {
            if t.tree != tree {
                return true;
            }
            decisions.ended(*number, Outcome::Gone);
            if let Some(waiter) = t.waiter.take() {
                // A waiter that is gone needs no answer.
                let _ = waiter.send(Err(lost(t)));
            }
            false
        });
        ended
    }

    pub fn of_session(&self, session: u64) -> Option<&Keeper> {
        self.by_tree.values().find(|k| k.session == session)
    }

    /// A program of this session is given a place: how many others have said hello and will ask for one.
    pub fn begins(&mut self, session: u64) -> u64 {
        let mut others = 0;
        for k in self.by_tree.values_mut() {
            k.placed |= k.session == session;
            others += u64::from(k.begins());
        }
        others
    }

    /// For what is noted of them.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Keeper> {
        self.by_tree.values_mut()
    }

    pub fn all(&self) -> impl Iterator<Item = &Keeper> {
        self.by_tree.values()
    }

    pub fn procs(&self) -> impl Iterator<Item = &ProcInfo> {
        self.by_tree.values().flat_map(|k| &k.procs)
    }

    /// The keeper that holds `pid`, if any does.
    pub fn holder(&self, pid: Pid) -> Option<&Keeper> {
        let reported = |k: &&Keeper| k.holds(pid).is_some();
        let begun = |k: &&Keeper| k.hello.root == pid && k.procs.is_empty();
        self.all().find(reported).or_else(|| self.all().find(begun))
    }

    /// The process of `hello`, or one that it descends from, which another keeper of this user holds already: of two
    /// keepers each would take the other for a debugger.
    pub fn held_above(&self, hello: &KeeperHello) -> Option<Pid> {
        let held = |pid: &&Pid| self.of_another(hello, **pid) == Some(hello.uid);
        hello.above.iter().find(held).copied()
    }

    /// Whether no other keeper holds `pid`.
    pub fn is_free_for(&self, own: &KeeperHello, pid: Pid) -> bool {
        self.of_another(own, pid).is_none()
    }

    /// The user of the keeper that holds `pid`, if it is another than `own`.
    pub(super) fn of_another(&self, own: &KeeperHello, pid: Pid) -> Option<u32> {
        let tree = self.holders.get(&pid).filter(|tree| **tree != own.tree)?;
        Some(self.by_tree.get(tree)?.hello.uid)
    }

    /// Tells each keeper which nodes are closed to its user's processes, where that has changed.
    pub fn close(&mut self, closed: impl Fn(u32) -> Vec<NodeName>) {
        for keeper in self.by_tree.values_mut() {
            let nodes = closed(keeper.hello.uid);
            let order = || Order::Closed {
                nodes: nodes.clone(),
            };
            let known = keeper.closed.as_ref() == Some(&nodes);
            if !known && keeper.out.send(0, Body::Order(order())) {
                keeper.closed = Some(nodes);
            }
        }
    }

    /// Logs that `pid`, a process of this home, is to go to `to`; a dry run only if it differs from the last one.
    pub fn log_decision(&mut self, pid: Pid, me: &NodeName, to: &NodeName, decided: Decided) {
        let held = self.holder(pid).and_then(|k| k.holds(pid));
        let from = held.map_or(me, |p| &p.place).clone();
        self.log_decision_from(pid, from, to, decided);
    }

    /// A fresh program of this session's keeper, which has not reported it yet, was given a place.
    pub fn log_placement(
        &mut self,
        session: u64,
        pid: Pid,
        command: &str,
        me: &NodeName,
        to: &NodeName,
        decided: Decided,
    ) {
        let Some(uid) = self.of_session(session).map(|k| k.hello.uid) else {
            return;
        };
        let about = About {
            pid,
            uid,
            command,
            from: me,
            to,
        };
        if decided.outcome != Outcome::DryRun || !self.decisions.has_said(&about) {
            self.decisions.note(&about, decided);
        }
    }

    pub(super) fn log_decision_from(
        &mut self,
        pid: Pid,
        from: NodeName,
        to: &NodeName,
        decided: Decided,
    ) {
        let Some(keeper) = self.holder(pid) else {
            return;
        };
        let uid = keeper.hello.uid;
        let command = keeper
            .holds(pid)
            .map_or(&keeper.hello.command, |p| &p.command);
        let command = command.clone();
        let about = About {
            pid,
            uid,
            command: &command,
            from: &from,
            to,
        };
        if decided.outcome != Outcome::DryRun || !self.decisions.has_said(&about) {
            self.decisions.note(&about, decided);
        }
    }

    /// Sends an order that ends with `Moved` or `Stayed`. False when the keeper cannot be told.
    pub fn order(
        &mut self,
        tree: TreeId,
        pid: Pid,
        ticket: u64,
        order: Order,
        waiter: Option<Waiter>,
    ) -> bool {
        let sent = self
            .by_tree
            .get(&tree)
            .is_some_and(|k| k.out.send(0, Body::Order(order)));
        if sent {
            if self.tickets.len() >= TICKETS_MAX {
                self.tickets.pop_first();
            }
            self.tickets.insert(ticket, Ticket { tree, pid, waiter });
        }
        sent
    }

    /// That order has ended: its waiter gets `result`.
    pub(super) fn end(&mut self, ticket: u64, result: Result<Answer, Refusal>) {
        let ticket = self.tickets.remove(&ticket);
        if let Some(waiter) = ticket.and_then(|t| t.waiter) {
            let _ = waiter.send(result);
        }
    }

    /// Tells the ledger what is new.
    pub fn update_ledger(&mut self, ledger: &mut Ledger, now: Tick) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let of = |k: &Keeper| {
            let parents: BTreeSet<Pid> = k.procs.iter().map(|p| p.ppid).collect();
            k.procs
                .iter()
                .map(|p| seen(p, parents.contains(&p.pid), &k.hello))
                .collect::<Vec<_>>()
        };
        let seen: Vec<Seen> = self.all().flat_map(of).collect();
        ledger.observe(&seen, now);
    }
}
