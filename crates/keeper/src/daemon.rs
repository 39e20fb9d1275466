//! The session with this node's daemon: orders in, reports and questions out.
//!
//! From: `keeper/src/launch/keeper.rs`. Next: `keeper/src/moves/run.rs` (orders), `keeper/src/events/report.rs`.
//! A session that breaks is taken up again; while there is none, nothing moves and everything runs.

use crate::events::report_processes;
use crate::handover::{become_program, keep_safe};
use crate::hosts::cut_off;
use crate::lifecycle::scan_children;
use crate::saved::write_file;
use crate::state::{Inbox, Item, Keep, Task, Why};
use armento_client::api::{Answer, Ask, Dest, KeeperHello, Order, Refusal, Report, socket_path};
use armento_client::{Again, AskError, LineError, News, Session, version};
use armento_model::NodeName;
use armento_tracee::{spawn, status, sys};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// How often processes are reported when something changed lately …
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// … and when nothing has for so long.
const REPORT_CALM: Duration = Duration::from_secs(1);
const CALM_AFTER: Duration = Duration::from_secs(5);

/// How long no session is begun when the keeper is about to become another program.
const PAUSE: Duration = Duration::from_secs(2);

/// Questions that wait for their answers; more are refused.
const ASKED_MAX: usize = 64;

/// A session with the daemon, and what the keeper needs to know of this node.
pub struct Introduced {
    pub session: Session,
    pub node: NodeName,
    /// The node's setting for new trees.
    pub direct_sockets: bool,
}

/// Opens a session and introduces this keeper.
pub fn introduce(hello: &KeeperHello) -> Result<Introduced, AskError> {
    let mut s = Session::connect()?;
    let (node, direct_sockets) = match s.ask(Ask::Status, Duration::from_secs(5))? {
        Answer::Status {
            node,
            direct_sockets,
            ..
        } => (node, direct_sockets),
        _ => return Err(AskError::Late),
    };
    s.ask(Ask::Keep(hello.clone()), Duration::from_secs(5))?;
    if version::is_to_come() {
        s.report(Report::ToCome)?;
        match s.ask(Ask::ToCome, Duration::from_secs(5)) {
            Err(AskError::Refused(_)) => {}
            other => other.map(drop)?,
        }
    }
    Ok(Introduced {
        session: s,
        node,
        direct_sockets,
    })
}

/// When processes are reported next.
struct Pace {
    next: Instant,
    /// How many were reported last, and when that changed, or a process moved.
    reported: usize,
    changed: Instant,
}

impl Pace {
    fn new() -> Pace {
        let now = Instant::now();
        Pace {
            next: now,
            reported: 0,
            changed: now,
        }
    }

    /// A process has moved: that is reported at once.
    fn moved(&mut self) {
        self.next = Instant::now();
        self.changed = self.next;
    }

    /// `n` processes were reported.
    fn reported(&mut self, n: usize) {
        let now = Instant::now();
        if std::mem::replace(&mut self.reported, n) != n {
            self.changed = now;
        }
        let calm = now.duration_since(self.changed) >= CALM_AFTER;
        self.next = now + if calm { REPORT_CALM } else { REPORT_EVERY };
    }
}

/// A session, and the questions that wait for their answers: one of them may take seconds, and the others and the reports
/// must not wait for it.
struct Control {
    session: Session,
    asked: HashMap<u64, Asked>,
}

struct Asked {
    until: Instant,
    answer: SyncSender<Result<Answer, AskError>>,
}

impl Control {
    fn new(session: Session) -> Control {
        Control {
            session,
            asked: HashMap::new(),
        }
    }

    /// Sends a question. False: the session is over.
    fn ask(
        &mut self,
        ask: Ask,
        limit: Duration,
        answer: SyncSender<Result<Answer, AskError>>,
    ) -> bool {
        let now = Instant::now();
        if self.asked.len() >= ASKED_MAX {
            self.asked.retain(|_, a| a.until > now);
        }
        if self.asked.len() >= ASKED_MAX {
            let _ = answer.send(Err(AskError::Late));
            return true;
        }
        match self.session.begin(ask) {
            Ok(id) => {
                let until = now + limit;
                self.asked.insert(id, Asked { until, answer });
                true
            }
            Err(e) => {
                eprintln!("daemon: {e}");
                let _ = answer.send(Err(e));
                false
            }
        }
    }

    fn answered(&mut self, id: u64, answer: Result<Answer, Refusal>) {
        // The question of a late one is not there any more.
        if let Some(a) = self.asked.remove(&id) {
            let _ = a.answer.send(answer.map_err(AskError::Refused));
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        for (_, a) in self.asked.drain() {
            let _ = a.answer.send(Err(AskError::Line(LineError::Closed)));
        }
    }
}

/// Serves until closed; without a session one is looked for first.
pub fn run(keep: &Arc<Keep>, session: Option<Session>, mut inbox: Inbox) {
    let mut session = session.map(Control::new);
    let mut pace = Pace::new();
    let mut search = Search::default();
    let mut program = None;
    loop {
        if session.is_none() && search.is_due() {
            session = search.look(keep);
            // A new daemon knows nothing of us yet.
            pace.next = Instant::now();
        }
        let ready = session.as_ref().is_some_and(|c| c.session.has_order());
        let due = search.due.filter(|_| session.is_none());
        let due = due.map_or(pace.next, |due| pace.next.min(due));
        let [order, end] = wait(keep, &session, &inbox, due, ready);
        if end {
            program = inbox.end.take();
            note_status(keep, program.as_ref());
            keep.tracer.post(scan_children);
        }
        while let Ok(item) = inbox.queue.try_recv() {
            if let Item::Close(tx) = item {
                note_status(keep, program.as_ref());
                last_report(keep, &session);
                let _ = tx.send(());
                return;
            }
            if let Item::Pause(tx) = item {
                session = None;
                search.rest();
                let _ = tx.send(());
                continue;
            }
            if let Item::Resume(tx) = item {
                if session.is_none() {
                    session = search.look(keep);
                }
                let _ = tx.send(());
                continue;
            }
            match &item {
                Item::Report(r) if matches!(**r, Report::Moved { .. }) => pace.moved(),
                Item::Begun => pace.next = Instant::now(),
                _ => {}
            }
            if !handle(&mut session, item) {
                session = None;
            }
        }
        if order && !news(keep, &mut session) {
            session = None;
        }
        if Instant::now() >= pace.next {
            let reported = report(keep, &session);
            pace.reported(reported.unwrap_or(1));
            if reported.is_none() {
                session = None;
            }
        }
    }
}

/// Waits for an order, an item of the queue, or `due`. Whether there is an order, and whether the program has ended.
fn wait(
    keep: &Keep,
    session: &Option<Control>,
    inbox: &Inbox,
    due: Instant,
    ready: bool,
) -> [bool; 2] {
    let fd = |fd: Option<&dyn AsRawFd>| fd.map_or(-1, AsRawFd::as_raw_fd);
    let wake = keep.daemon.wake.as_raw_fd();
    let fds = [
        fd(session.as_ref().map(|c| &c.session as &dyn AsRawFd)),
        wake,
        fd(inbox.end.as_ref().map(|e| e as &dyn AsRawFd)),
    ];
    // Rounded up: the last millisecond would be spent turning round.
    let left = due.saturating_duration_since(Instant::now());
    let ms = left.min(REPORT_CALM).as_micros().div_ceil(1000) as i32;
    let got = sys::poll_in(&fds, if ready { 0 } else { ms });
    if got[1] {
        sys::drain(wake);
    }
    [got[0] || ready, got[2]]
}

/// The search for a daemon that was lost.
#[derive(Default)]
struct Search {
    again: Again,
    /// When it is looked for next; at once if never.
    due: Option<Instant>,
}

impl Search {
    fn is_due(&self) -> bool {
        self.due.is_none_or(|due| Instant::now() >= due)
    }

    /// Not for a while.
    fn rest(&mut self) {
        self.due = Some(Instant::now() + PAUSE);
    }

    fn look(&mut self, keep: &Keep) -> Option<Control> {
        match introduce(&keep.settings.hello) {
            Ok(introduced) => {
                *self = Search::default();
                return Some(Control::new(introduced.session));
            }
            Err(AskError::Refused(no)) => {
                eprintln!("daemon: {}", no.message);
                self.again.refused();
            }
            Err(_) => {}
        }
        self.due = Some(Instant::now() + self.again.pause());
        None
    }
}

/// False: the session is over.
fn handle(session: &mut Option<Control>, item: Item) -> bool {
    match (session.as_mut(), item) {
        (Some(c), Item::Ask(ask, limit, tx)) => c.ask(*ask, limit, tx),
        (Some(c), Item::Report(r)) => c.session.report(*r).is_ok(),
        (None, Item::Ask(_, _, tx)) => {
            let _ = tx.send(Err(AskError::NoDaemon {
                path: socket_path().display().to_string(),
                cause: std::io::ErrorKind::NotConnected.into(),
            }));
            true
        }
        _ => true,
    }
}

/// Takes the orders and answers that have come. False: the session is over, and questions that wait have failed.
fn news(keep: &Arc<Keep>, session: &mut Option<Control>) -> bool {
    let Some(c) = session.as_mut() else {
        return true;
    };
    loop {
        match c.session.news() {
            Ok(Some(News::Order(o))) => take(keep, o),
            Ok(Some(News::Answer(id, answer))) => c.answered(id, *answer),
            Ok(None) => return true,
            Err(e) => {
                eprintln!("daemon: {e}");
                return false;
            }
        }
    }
}

fn take(keep: &Arc<Keep>, order: Order) {
    match order {
        Order::Move {
            pid,
            to,
            ticket,
            balances,
            together,
            by_hand,
        } => keep.move_queue.push(Task {
            pid,
            to,
            why: match (balances, by_hand) {
                (true, _) if together => Why::BalanceAll(ticket),
                (true, _) => Why::Balance(ticket),
                (false, true) => Why::User(ticket),
                (false, false) => Why::Order(ticket),
            },
        }),
        Order::Recall { ticket } => {
            for pid in keep.pids() {
                keep.move_queue.push(Task {
                    pid,
                    to: Dest::Home,
                    why: Why::Order(ticket),
                });
            }
        }
        Order::Checkpoint { ticket, order } => {
            let k = keep.clone();
            spawn::soon("checkpoint-file", move || write_file(&k, ticket, &order));
        }
        Order::BecomeProgram { path, dev, ino } => {
            let k = keep.clone();
            spawn::soon("handover", move || {
                become_program(&k, path.as_ref(), (dev, ino))
            });
        }
        Order::Safe {
            ticket,
            safe,
            by_user,
        } => {
            let k = keep.clone();
            spawn::soon("handover", move || keep_safe(&k, ticket, safe, by_user));
        }
        Order::Closed { nodes } => keep.hosts.close(nodes),
        Order::Cut { node } => cut_off(keep, &node),
        Order::Expel { .. } | Order::ToCome => {}
    }
}

/// Reports the processes of the tree, and returns how many. `None`: the session is over.
fn report(keep: &Arc<Keep>, session: &Option<Control>) -> Option<usize> {
    let reported = || Some((session.as_ref()?, keep.tracer.run(report_processes)?));
    let Some((control, (procs, used))) = reported() else {
        return Some(1);
    };
    let count = procs.len();
    let ran = keep.ran.take();
    control.session.report(Report::Procs { procs, ran }).ok()?;
    if let Some(used) = used {
        control.session.report(Report::Used(used)).ok()?;
    }
    Some(count)
}

/// How the program has ended: as its parent was told, or, before that, as it will be.
fn note_status(keep: &Keep, program: Option<&OwnedFd>) {
    let Some(program) = program else { return };
    let waited = sys::pidfd_exit(program);
    if let Some(wait) = waited.or_else(|| status::exit_status(keep.settings.root)) {
        keep.job.ends_with(status::shell_status(wait));
    }
}

/// What the last programs have used is of use to the next tree.
fn last_report(keep: &Keep, session: &Option<Control>) {
    let ran = keep.ran.take();
    let Some(control) = session else { return };
    // The session ends anyway.
    if !ran.is_empty() {
        let procs = Vec::new();
        let _ = control.session.report(Report::Procs { procs, ran });
    }
    if let Some(used) = keep.job.report(Vec::new(), &keep.settings.node, true) {
        let _ = control.session.report(Report::Used(used));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn reports_are_rarer_when_nothing_changes() {
        let mut pace = Pace::new();
        let next = |pace: &Pace| pace.next.saturating_duration_since(Instant::now());
        pace.reported(1);
        assert!(next(&pace) <= REPORT_EVERY);
        pace.changed -= CALM_AFTER;
        pace.reported(1);
        assert!(next(&pace) > REPORT_EVERY);
        pace.moved();
        assert_eq!(next(&pace), Duration::ZERO);
        pace.reported(1);
        assert!(next(&pace) <= REPORT_EVERY);
    }

    #[test]
    fn a_question_without_a_session_fails_with_no_daemon() {
        let (tx, rx) = mpsc::sync_channel(1);
        let ask = Item::Ask(Box::new(Ask::Status), Duration::ZERO, tx);
        assert!(handle(&mut None, ask));
        assert!(matches!(rx.recv(), Ok(Err(AskError::NoDaemon { .. }))));
    }
}
