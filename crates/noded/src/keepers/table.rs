//! Keepers in session: what they hold, and the orders they were given.

use super::decisions::{About, Decided, Decisions, stayed};
use crate::error::{refusal, stays};
use crate::line_sender::LineSender;
use armento_balance::{Ledger, Seen};
use armento_client::api::{
    Answer, Body, CpuSet, KeeperHello, Order, Outcome, ProcInfo, Refusal, Report,
};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid, TreeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Processes of one tree that are shown and balanced.
const PROCS_MAX: usize = 4096;
/// Who has not asked for a place so long after its hello has a program that gets none.
const BEGINS_MAX: Duration = Duration::from_secs(5);
/// Orders without an end; the oldest is forgotten.
const TICKETS_MAX: usize = 4096;

pub type Waiter = oneshot::Sender<Result<Answer, Refusal>>;

pub struct Keeper {
    pub session: u64,
    pub hello: KeeperHello,
    pub out: LineSender,
    pub procs: Vec<ProcInfo>,
    /// Since when, and that its first program has been given a place.
    since: Instant,
    placed: bool,
    /// Where it was told that nothing of its goes; by an earlier daemon it may have been told something else.
    closed: Option<Vec<NodeName>>,
}

struct Ticket {
    tree: TreeId,
    pid: Pid,
    waiter: Option<Waiter>,
}

#[derive(Default)]
pub struct KeeperTable {
    by_tree: BTreeMap<TreeId, Keeper>,
    /// Whose each process is, as far as it was reported, and whose each root.
    holders: HashMap<Pid, TreeId>,
    tickets: BTreeMap<u64, Ticket>,
    pub decisions: Decisions,
    /// Reports came that the ledger has not seen.
    dirty: bool,
}

impl Keeper {
    /// Nobody but its user moves it.
    fn locked(&self) -> bool {
        self.hello.stay || self.hello.storm || self.hello.pinned.is_some()
    }

    /// What `pid` needs of a processor if not all of home's. Of who has just started no report says it yet: then as it
    /// was started; the host asks again.
    pub fn needs(&self, pid: Pid) -> Option<CpuSet> {
        needs(&self.hello, self.holds(pid).is_none_or(|p| p.portable))
    }

    pub fn holds(&self, pid: Pid) -> Option<&ProcInfo> {
        self.procs.iter().find(|p| p.pid == pid)
    }
}

impl KeeperTable {
    /// A keeper says hello; one of the same tree that was there before has lost its session.
    pub fn enter(&mut self, session: u64, hello: KeeperHello, out: LineSender) {
        let before = self.by_tree.remove(&hello.tree);
        let keeper = Keeper {
            session,
            out,
            procs: before.map(|k| k.procs).unwrap_or_default(),
            since: Instant::now(),
            placed: hello.was_there(),
            closed: (!hello.was_there()).then(Vec::new),
            hello,
        };
        self.holders.insert(keeper.hello.root, keeper.hello.tree);
        self.by_tree.insert(keeper.hello.tree, keeper);
        self.dirty = true;
    }

    /// The session ended, and with it, as far as we know, its processes: these.
    pub fn gone(&mut self, session: u64) -> Vec<Pid> {
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
                // Who does not wait any more needs no answer.
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
            let soon = !k.placed && !k.locked() && k.since.elapsed() < BEGINS_MAX;
            others += u64::from(soon);
        }
        others
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

    /// Whom another keeper of this user holds already, of the process for which `hello` is said and of those that it
    /// descends from: of two keepers each would take the other for a debugger.
    pub fn held_above(&self, hello: &KeeperHello) -> Option<Pid> {
        let held = |pid: &&Pid| self.of_another(hello, **pid) == Some(hello.uid);
        hello.above.iter().find(held).copied()
    }

    /// The user of the keeper that holds `pid`, if it is another than `own`.
    fn of_another(&self, own: &KeeperHello, pid: Pid) -> Option<u32> {
        let tree = self.holders.get(&pid).filter(|tree| **tree != own.tree)?;
        Some(self.by_tree.get(tree)?.hello.uid)
    }

    /// Tells each keeper of which it has changed where nothing of its user's goes.
    pub fn close(&mut self, closed: impl Fn(u32) -> Vec<NodeName>) {
        for keeper in self.by_tree.values_mut() {
            let nodes = closed(keeper.hello.uid);
            let order = || Order::Closed {
                nodes: nodes.clone(),
            };
            let told = keeper.closed.as_ref() == Some(&nodes);
            if !told && keeper.out.send(0, Body::Order(order())) {
                keeper.closed = Some(nodes);
            }
        }
    }

    /// Writes down that `pid`, one of ours, is to go to `to`; a dry run only if it is news.
    pub fn note(&mut self, pid: Pid, me: &NodeName, to: &NodeName, decided: Decided) {
        let held = self.holder(pid).and_then(|k| k.holds(pid));
        let from = held.map_or(me, |p| &p.place).clone();
        self.note_from(pid, from, to, decided);
    }

    fn note_from(&mut self, pid: Pid, from: NodeName, to: &NodeName, decided: Decided) {
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
        let told = self
            .by_tree
            .get(&tree)
            .is_some_and(|k| k.out.send(0, Body::Order(order)));
        if told {
            if self.tickets.len() >= TICKETS_MAX {
                self.tickets.pop_first();
            }
            self.tickets.insert(ticket, Ticket { tree, pid, waiter });
        }
        told
    }

    /// What a keeper reports, made safe: a keeper speaks for its own user, tree and home only. True: one of
    /// its processes is no more.
    pub fn report(
        &mut self,
        session: u64,
        report: Report,
        me: &NodeName,
        ledger: &mut Ledger,
        now: Tick,
    ) -> bool {
        match report {
            Report::Procs { procs } => return self.procs_of(session, procs, me),
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
            } => {
                ledger.stayed(pid, stay, now);
                self.decisions.ended(ticket, stayed(stay, &detail));
                let subject = format!("process {pid}");
                self.end(ticket, Err(stays(&subject, stay, &detail)));
            }
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
                self.note_from(pid, from, me, decided);
            }
            // Of another's.
            Report::CameHome { .. } => {}
            Report::Placed { pid } => self.decisions.began(pid),
            Report::Guests { .. } | Report::ToCome => {}
        }
        false
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

    /// Of what a keeper reports, what others hold: one that was adopted meets the trees that its process started
    /// before among its children.
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

    fn end(&mut self, ticket: u64, result: Result<Answer, Refusal>) {
        let ticket = self.tickets.remove(&ticket);
        if let Some(waiter) = ticket.and_then(|t| t.waiter) {
            let _ = waiter.send(result);
        }
    }

    /// Tells the ledger what is new.
    pub fn settle(&mut self, ledger: &mut Ledger, now: Tick) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let of = |k: &Keeper| {
            k.procs
                .iter()
                .map(|p| seen(p, &k.hello))
                .collect::<Vec<_>>()
        };
        let seen: Vec<Seen> = self.all().flat_map(of).collect();
        ledger.observe(&seen, now);
    }
}

/// What a process of this keeper needs of a processor if not all of home's.
pub fn needs(hello: &KeeperHello, portable: bool) -> Option<CpuSet> {
    hello.common.clone().filter(|_| portable)
}

fn seen(p: &ProcInfo, hello: &KeeperHello) -> Seen {
    Seen {
        pid: p.pid,
        uid: p.uid,
        place: p.place.clone(),
        cpu_ms: p.cpu_ms,
        rss_kib: p.rss_kib,
        threads: p.threads,
        busy_percent: p.busy_percent,
        forwarded: p.forwarded,
        age_ms: p.age_ms,
        locked: p.locked,
        needs: needs(hello, p.portable),
        hint: hello.hint,
    }
}
