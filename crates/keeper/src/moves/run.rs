//! One move after the other: takes tasks from daemon, storm, execs and calls that must come home.
//!
//! From: `control.rs` (orders), `tree.rs` (exec stops), `serve.rs` (calls). Next: `depart.rs`, `arrive.rs`.

use crate::hosts::connect;
use crate::moves::eligibility::Kept;
use crate::moves::group;
use crate::moves::home;
use crate::moves::host_to_host;
use crate::moves::out;
use crate::moves::refusal;
use crate::sharing::named_shm;
use crate::sharing::sharers;
use crate::state::keeper::{Keep, lock};
use crate::state::tree::{Place, Tree};
use crate::traced::run_to_entry::{self, Loaded};
use crate::traced::user_hold;
use armento_client::AskError;
use armento_client::api::{Answer, Ask, Dest, Report};
use armento_migrate::{MigrateError, Result};
use armento_model::{CpuTime, NodeName, Pid, Stay};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A daemon that does not answer a placement in time leaves the program at home. Longer than a program waits
/// there for its turn (`noded/src/departures.rs`).
const PLACE_MAX: Duration = Duration::from_secs(11);
/// … and the programs that begin after it wait no longer than this, until one has an answer: a daemon that hangs must not hold
/// up each exec of a `make`.
const PLACE_LATE: Duration = Duration::from_millis(250);
/// How long the other node may take from the freeze to Ready. Bodies of a dead node are not waited for.
pub const READY_MAX: Duration = Duration::from_secs(20);
/// Most tasks that wait; the oldest storms are dropped first.
const TASKS_MAX: usize = 10_000;
/// How often a busy process is tried again when it must come home.
const TRY_AGAIN: u32 = 200;
/// … when somebody only looks at it, and waits.
const TRY_FOR_A_LOOK: u32 = 50;

#[derive(Clone, Debug)]
pub enum Why {
    /// The daemon's, with its ticket.
    Order(u64),
    /// … as a person asked.
    Hand(u64),
    /// … to even out the load.
    Balance(u64),
    Storm,
    Exec,
    /// A call that only home can serve.
    Call(Stay, String),
    /// This process of the tree opens a file of /proc about it.
    Look(Pid),
    /// It ends, and home's kernel is to dump its core. Tried again as often as its host asks.
    Dump,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub pid: Pid,
    pub to: Dest,
    pub why: Why,
}

#[derive(Default)]
pub struct Tasks {
    queue: Mutex<VecDeque<Task>>,
    more: Condvar,
}

impl Tasks {
    pub fn push(&self, t: Task) {
        let mut q = lock(&self.queue);
        if q.len() < TASKS_MAX {
            q.push_back(t);
        }
        self.more.notify_one();
    }

    pub fn push_urgent(&self, t: Task) {
        lock(&self.queue).push_front(t);
        self.more.notify_one();
    }

    /// Is `pid` to come home anyway?
    pub fn call_home(&self, pid: Pid) -> bool {
        let queue = lock(&self.queue);
        queue.iter().any(|t| t.pid == pid && t.to == Dest::Home)
    }

    pub fn len(&self) -> usize {
        lock(&self.queue).len()
    }

    fn pop(&self) -> Task {
        let mut q = lock(&self.queue);
        loop {
            if let Some(t) = q.pop_front() {
                return t;
            }
            q = self.more.wait(q).unwrap_or_else(|e| e.into_inner());
        }
    }
}

/// Longest wait for another move of the same process: it ends when it notices an exec.
const TURN_MAX: Duration = Duration::from_secs(30);

/// Who is being moved.
#[derive(Default)]
pub struct Turns {
    busy: Mutex<HashSet<Pid>>,
    less: Condvar,
}

/// A process that is moved by nobody else meanwhile.
struct Turn<'a>(&'a Turns, Pid);

impl Turns {
    fn take(&self, pid: Pid) -> Result<Turn<'_>> {
        let busy = lock(&self.busy);
        let wait = self
            .less
            .wait_timeout_while(busy, TURN_MAX, |b| b.contains(&pid));
        let (mut busy, late) = wait.unwrap_or_else(|e| e.into_inner());
        if late.timed_out() {
            let why = "another move of it does not end".into();
            return Err(MigrateError::Stays(Stay::Busy, why));
        }
        busy.insert(pid);
        Ok(Turn(self, pid))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.busy).remove(&self.1);
        self.0.less.notify_all();
    }
}

/// What a move cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub pause: Duration,
    pub total: Duration,
    pub bytes: u64,
}

/// Carries out what comes into `tasks`, for ever.
pub fn run(keep: &Arc<Keep>, tasks: &Tasks) {
    loop {
        let task = tasks.pop();
        match &task.why {
            Why::Exec => at_exec(keep, task.pid),
            Why::Call(stay, why) => {
                come_home(keep, task.pid, &Kept::new(*stay, why), TRY_AGAIN);
            }
            Why::Look(by) => look(keep, task.pid, *by),
            Why::Dump => {
                let kept = Kept::new(Stay::UnsupportedCall, "it dumps core");
                come_home(keep, task.pid, &kept, 1);
            }
            Why::Storm => storm(keep, &task),
            Why::Order(ticket) | Why::Hand(ticket) => {
                if task.to != Dest::Balance {
                    user_hold::untie(keep, task.pid);
                }
                order(keep, &task, *ticket);
            }
            Why::Balance(ticket) => balance(keep, &task, *ticket),
        }
        if tasks.len() == 0 {
            armento_tracee::sys::give_back();
        }
    }
}

fn storm(keep: &Arc<Keep>, task: &Task) {
    let gone = go(keep, task.pid, &task.to, true);
    if let Some(calls) = &keep.storm_call {
        calls.moved(keep, task.pid);
        if gone.is_ok() && task.to == Dest::Home {
            calls.out_again(keep, task.pid);
        }
    }
}

/// The balancer counts one process and would be given all that share memory with it.
fn balance(keep: &Arc<Keep>, task: &Task, ticket: u64) {
    let others = sharers::of(task.pid).len() - 1;
    if others == 0 {
        return order(keep, task, ticket);
    }
    let pid = task.pid;
    let (stay, detail) = (
        Stay::SharedMemory,
        format!("it shares memory with {others} others: they move together, and by hand only"),
    );
    let kept = Kept::new(stay, &detail).with(sharers::because_of(pid, stay));
    keep.hand.run(move |t| t.note(pid, Some(kept)));
    keep.control.report(Report::Stayed {
        ticket,
        pid,
        stay,
        detail,
    });
}

fn order(keep: &Arc<Keep>, task: &Task, ticket: u64) {
    let pid = task.pid;
    let r = match task.to {
        Dest::Hold => user_hold::tie(keep, pid, || go(keep, pid, &Dest::Hold, false)),
        _ => go(keep, pid, &task.to, false),
    };
    let placed = matches!(task.to, Dest::Node(_) | Dest::Home);
    if r.is_ok() && placed && matches!(task.why, Why::Hand(_)) {
        user_hold::put(keep, pid);
    }
    let report = match r {
        Ok((node, d)) => Report::Moved {
            ticket,
            pid,
            node,
            pause_us: d.pause.as_micros() as u64,
            total_us: d.total.as_micros() as u64,
            bytes: d.bytes,
        },
        Err(e) => Report::Stayed {
            ticket,
            pid,
            stay: e.stay(),
            detail: e.detail(),
        },
    };
    keep.control.report(report);
}

/// Where a process is now, as the hand knows it.
fn place(keep: &Keep, pid: Pid) -> Result<(Place, bool)> {
    keep.hand
        .run(move |t: &mut Tree| t.procs.get(&pid).map(|p| (p.place.clone(), p.held_back())))
        .flatten()
        .ok_or(MigrateError::Ended)
}

/// Moves one process when nobody else does.
fn go(keep: &Arc<Keep>, pid: Pid, to: &Dest, storm: bool) -> Result<(NodeName, Done)> {
    let _turn = keep.turns.take(pid)?;
    if keep.settings.spread && is_at_exec(keep, pid) {
        let why = "its program is just being placed".into();
        return Err(MigrateError::Stays(Stay::Busy, why));
    }
    move_it(keep, pid, to, storm)
}

/// Moves one process; remembers why when it stays.
fn move_it(keep: &Arc<Keep>, pid: Pid, to: &Dest, storm: bool) -> Result<(NodeName, Done)> {
    let begun = Instant::now();
    let (now, held) = place(keep, pid)?;
    if storm || matches!(to, Dest::Node(_)) {
        user_hold::refuses(keep, pid, storm)?;
    }
    if held && (storm || *to == Dest::Balance) {
        return Err(MigrateError::Stays(
            Stay::UnsupportedCall,
            "it came home for a call a moment ago".into(),
        ));
    }
    let group = sharers::of(pid);
    let joint = group.len() > 1 || named_shm::maps_one(keep, pid);
    let r = match (to, &now) {
        _ if joint && *to != Dest::Balance => together(keep, (pid, &group), to, storm),
        (Dest::Balance, _) => {
            keep.hand.run(move |t| t.unlock(pid));
            Ok(Done::default())
        }
        (Dest::Home | Dest::Hold, Place::Home) => Ok(Done::default()),
        (Dest::Home | Dest::Hold, Place::Away(l)) => home::bring(keep, pid, l),
        (Dest::Node(n), _) if *n == keep.settings.node => {
            return move_it(keep, pid, &Dest::Home, storm);
        }
        (Dest::Node(n), Place::Home) => out::out(keep, pid, n),
        (Dest::Node(n), Place::Away(l)) if l.node == *n => Ok(Done::default()),
        (Dest::Node(n), Place::Away(l)) => host_to_host::onward(keep, pid, l, n),
    };
    let here = match to {
        Dest::Node(n) => n.clone(),
        _ => keep.settings.node.clone(),
    };
    // Storms fail all the time, and nobody asks why.
    let kept = r.as_ref().err().map(|e| match storm {
        true => Kept::new(e.stay(), &e.detail()),
        false => Kept::new(e.stay(), &e.detail()).with(sharers::because_of(pid, e.stay())),
    });
    keep.hand.run(move |t| t.note(pid, kept));
    if let Err(e) = &r {
        eprintln!("process {pid} to {here}: {e}");
    }
    r.map(|mut d| {
        d.total = begun.elapsed();
        (here, d)
    })
}

/// Those who share memory move as one. Between two hosts their way is over home.
fn together(
    keep: &Arc<Keep>,
    (first, group): (Pid, &[Pid]),
    to: &Dest,
    storm: bool,
) -> Result<Done> {
    let node = match to {
        Dest::Node(n) if *n != keep.settings.node => Some(n),
        _ => None,
    };
    for pid in group {
        if storm && node.is_some() && place(keep, *pid).is_ok_and(|(_, held)| held) {
            let why = format!("process {pid}, which shares its memory, came home for a call");
            return Err(MigrateError::Stays(Stay::UnsupportedCall, why));
        }
    }
    let others = group.iter().filter(|p| **p != first);
    let _turns = others
        .map(|p| keep.turns.take(*p))
        .collect::<Result<Vec<_>>>()?;
    let mut done = Done::default();
    if let Place::Away(link) = group::place(keep, group)? {
        if node == Some(&link.node) {
            return Ok(done);
        }
        done = group::bring(keep, group, &link)?;
    }
    if let Some(node) = node {
        done = group::out(keep, group, node)?;
    }
    let others: Vec<Pid> = group.iter().copied().filter(|p| *p != first).collect();
    keep.hand
        .run(move |t| others.into_iter().for_each(|p| t.note(p, None)));
    Ok(done)
}

/// A body waits for a call that only home can serve: it must come, however busy it is. True: it did, or ended.
fn come_home(keep: &Arc<Keep>, pid: Pid, kept: &Kept, tries: u32) -> bool {
    let storm = crate::moves::storm::hold(keep);
    eprintln!("process {pid} comes home: {}", kept.detail);
    let from = place(keep, pid).ok().and_then(|(place, _)| match place {
        Place::Away(link) => Some(link.node.clone()),
        Place::Home => None,
    });
    for _ in 0..tries {
        match go(keep, pid, &Dest::Home, false) {
            Ok((_, done)) => {
                if let Some(from) = from {
                    keep.control.report(came_home(pid, from, kept.stay, &done));
                }
                let kept = kept.clone();
                keep.hand.run(move |t| t.hold_home(pid, kept, storm));
                return true;
            }
            Err(MigrateError::Ended) => return true,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    eprintln!("process {pid} cannot come home for {}", kept.detail);
    false
}

fn came_home(pid: Pid, from: NodeName, stay: Stay, done: &Done) -> Report {
    Report::CameHome {
        pid,
        from,
        stay,
        pause_us: done.pause.as_micros() as u64,
        total_us: done.total.as_micros() as u64,
        bytes: done.bytes,
    }
}

/// What others of its tree are to see of a process is its body's.
fn look(keep: &Arc<Keep>, pid: Pid, by: Pid) {
    let why = format!("process {by} looks at it in /proc");
    let kept = Kept::new(Stay::ProcSelfOpen, &why).with(Some(by));
    let home = come_home(keep, pid, &kept, TRY_FOR_A_LOOK);
    keep.looks.over(keep, pid, home);
}

/// A fresh image stands at its exec stop: where should it run?
fn at_exec(keep: &Arc<Keep>, pid: Pid) {
    // A move of what it was before notices soon that it is no more.
    let turn = keep.turns.take(pid);
    if !is_at_exec(keep, pid) {
        return;
    }
    let node = choose(keep, pid);
    if let Some(node) = node.filter(|n| turn.is_ok() && *n != keep.settings.node) {
        if let Some(e) = connect::early(keep, &node) {
            lock(&keep.early).insert(pid, e);
        }
        if run_to_entry::load(keep, pid) == Loaded::Gone {
            lock(&keep.early).remove(&pid);
            keep.control.report(Report::Placed { pid });
            return;
        }
        let to = Dest::Node(node.clone());
        let waits = move |t: &mut Tree| refusal::is_for_nowhere_else(t, pid);
        let gone = match keep.hand.run(waits) {
            Some(true) => refusal::while_links_break(|| move_it(keep, pid, &to, false)),
            _ => move_it(keep, pid, &to, false),
        };
        lock(&keep.early).remove(&pid);
        keep.control.report(Report::Placed { pid });
        match gone {
            Ok(_) => return connect::placed(keep, &node),
            Err(e) => {
                eprintln!("placement of {pid}: {e}");
                if keep.settings.pinned.is_some() {
                    keep.hand.run(move |t| refusal::after(t, pid, &node, &e));
                }
            }
        }
    }
    keep.hand.run(move |t| {
        if t.procs.get(&pid).is_some_and(|p| p.at_exec) {
            t.let_go(pid);
        }
    });
}

fn is_at_exec(keep: &Keep, pid: Pid) -> bool {
    let at_exec = move |t: &mut Tree| t.procs.get(&pid).is_some_and(|p| p.at_exec);
    keep.hand.run(at_exec) == Some(true)
}

fn choose(keep: &Keep, pid: Pid) -> Option<NodeName> {
    let s = &keep.settings;
    if let Some(calls) = keep.storm_call.as_ref().filter(|_| !s.stay) {
        return calls.start(keep);
    }
    if s.pinned.is_some() || s.stay || s.storm {
        return s.pinned.clone().filter(|_| !s.stay);
    }
    let ask = Ask::Place {
        tree: s.tree,
        pid,
        command: armento_tracee::status::command(pid),
        portable: keep.is_portable(pid),
    };
    let limit = match keep.late.load(Ordering::Relaxed) {
        true => PLACE_LATE,
        false => PLACE_MAX,
    };
    let answer = keep.control.ask(ask, limit);
    let late = matches!(answer, Err(AskError::Late));
    keep.late.store(late, Ordering::Relaxed);
    match answer {
        Ok(Answer::Placed { node }) => node,
        _ => None,
    }
}

/// Waits for one of two bits of news of a move: the bytes that came, and the CPU time used away before.
pub fn await_ready(
    news: &std::sync::mpsc::Receiver<connect::MoveEvent>,
    limit: Duration,
) -> Result<(u64, CpuTime)> {
    news.recv_timeout(limit)
        .map_or_else(|_| Err(unfinished()), ready)
}

pub fn unfinished() -> MigrateError {
    MigrateError::Stays(Stay::LinkLost, "the other node did not finish".into())
}

/// What the first news of a move says of it.
pub fn ready(news: connect::MoveEvent) -> Result<(u64, CpuTime)> {
    match news {
        connect::MoveEvent::Ready { bytes, away } => Ok((bytes, away)),
        connect::MoveEvent::Failed { stay, detail } => Err(MigrateError::Declined(stay, detail)),
        connect::MoveEvent::Thawed | connect::MoveEvent::Warmed => Err(MigrateError::Stays(
            Stay::TargetFailed,
            "thawed too early".into(),
        )),
    }
}

impl Tree {
    pub fn note(&mut self, pid: Pid, kept: Option<Kept>) {
        if let Some(p) = self.procs.get_mut(&pid) {
            p.moves += u64::from(kept.is_none());
            p.kept = kept;
        }
    }

    pub fn hold_home(&mut self, pid: Pid, why: Kept, storm: Option<Duration>) {
        if let Some(p) = self.procs.get_mut(&pid) {
            p.hold_home(why, storm);
        }
    }
}
