//! Links to hosts: one calls stream each, made when first needed.

use crate::hosts::reconnect;
use crate::state::keeper::{Keep, lock};
use armento_client::AskError;
use armento_client::api::{Answer, Ask, Pass, RENEW};
use armento_link::{Identity, Reader, Writer, dial, random_hex};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{CpuTime, ENGINE_VERSION, NodeName, Pid, Stay, Tid};
use armento_tracee::{aside, sys};
use armento_wire::bulk::HELLO;
use armento_wire::session::Session;
use armento_wire::talk::{self, Hello, Purpose, SessionId, TALK, ToHost};
use armento_wire::write_frame;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a host may take to be reached.
const DIAL_MAX: Duration = Duration::from_secs(5);
/// How long our daemon may take to agree with that node and start a host there: it gives up itself after 12 s.
const ROUTE_MAX: Duration = Duration::from_secs(15);
/// How long our daemon may take to sign: a millisecond's work.
const RENEWED_MAX: Duration = Duration::from_secs(2);
/// How long our daemon may take to look up where a node is.
const WHERE_MAX: Duration = Duration::from_secs(1);
/// How much later than the host's own end, which rests on what it knows that we heard, home declares it: how often both
/// look, and a loaded machine.
const GRACE: Duration = Duration::from_secs(1);
/// A host that says nothing for so long may be behind a cable that is out: two of its pulses are missing.
const SILENT: Duration = Duration::from_secs(2);
/// A host that said something more recently had its answer: its pulse, once a second, is acknowledged at once.
const ANSWERED: Duration = Duration::from_millis(1_200);
/// The same of a host where none of ours is: its pulse comes every three seconds.
const SILENT_EMPTY: Duration = Duration::from_secs(7);
const ANSWERED_EMPTY: Duration = Duration::from_millis(3_600);
/// A host that meets the next life of a tree's home ends, and another is started: a first connection that fails so soon
/// is tried once more after so long.
const SOON: Duration = Duration::from_secs(1);
const ONCE_MORE: Duration = Duration::from_millis(300);

/// News of a move, from its source or target.
#[derive(Debug)]
pub enum MoveEvent {
    Ready {
        bytes: u64,
        away: CpuTime,
    },
    Failed {
        stay: Stay,
        detail: String,
    },
    Thawed,
    /// The files that were asked for are there.
    Warmed,
}

pub struct HostLink {
    pub node: NodeName,
    pub pass: Pass,
    /// Over however many connections.
    pub session: Session<Writer>,
    pub id: SessionId,
    pub heard: Mutex<Instant>,
    /// When it last told of itself nobody was there.
    pub empty: AtomicBool,
    pub broken: AtomicBool,
    /// Where the node is now, if not where the pass says: its address has changed.
    moved: Mutex<Option<IpAddr>>,
    /// A connection for the next move, and since when it is made: whoever placed a program there will place another.
    spare: Mutex<Option<(Instant, Dialled)>>,
}

/// Where the node of a host is that does not answer.
pub enum Whereabouts {
    /// Not where we tried; the next try goes there.
    Elsewhere,
    /// Where we tried; its daemon listens here.
    Here(SocketAddr),
    Unknown,
}

impl HostLink {
    pub fn tell(&self, m: &ToHost) {
        // Of a dead host everybody is told who waits for it.
        let _ = self.session.send(TALK, &[&talk::encode(m)]);
    }

    /// The pass to where the host is now.
    pub fn way(&self) -> Pass {
        let mut pass = self.pass.clone();
        if let (Some(ip), Ok(addr)) = (*lock(&self.moved), pass.addr.parse::<SocketAddr>()) {
            pass.addr = SocketAddr::new(ip, addr.port()).to_string();
        }
        pass
    }

    /// Asks our daemon where the node is.
    pub fn whereabouts(&self, keep: &Keep) -> Whereabouts {
        let node = self.node.clone();
        let Ok(Answer::Address { ip: Some(ip), port }) =
            keep.control.ask(Ask::Address { node }, WHERE_MAX)
        else {
            return Whereabouts::Unknown;
        };
        let tried = self.way().addr.parse::<SocketAddr>();
        if tried.is_ok_and(|tried| tried.ip() != ip) {
            *lock(&self.moved) = Some(ip);
            return Whereabouts::Elsewhere;
        }
        port.map_or(Whereabouts::Unknown, |port| {
            Whereabouts::Here(SocketAddr::new(ip, port))
        })
    }

    /// Would it take a short message at once, from who may not wait?
    pub fn takes_more(&self) -> bool {
        self.session.takes_more()
    }

    /// Since when nothing was heard, if that is longer than it should be.
    pub fn lost(&self) -> Option<Duration> {
        let silent = lock(&self.heard).elapsed();
        (silent > self.limits().0 || !self.session.connected()).then_some(silent)
    }

    /// Silence that worries, and silence that asks for a sign of life of ours.
    fn limits(&self) -> (Duration, Duration) {
        match self.empty.load(Ordering::Relaxed) {
            true => (SILENT_EMPTY, ANSWERED_EMPTY),
            false => (SILENT, ANSWERED),
        }
    }

    /// Who has not heard us for so long holds its guests.
    pub fn freezes(&self, lost: Duration) -> bool {
        lost > Duration::from_millis(self.pass.freeze_ms)
    }

    /// It has not been heard for so long that it has ended.
    pub fn past(&self) -> bool {
        lock(&self.heard).elapsed() > Duration::from_millis(self.pass.dead_ms) + GRACE
    }

    /// Before a process is handed over, in the hand: what is lost with a link is counted there when it breaks,
    /// and only then. Over a link that is out just now nobody is sent: he might wait long, and here he runs.
    pub fn whole(&self) -> Result<()> {
        if self.broken.load(Ordering::Acquire) || !self.session.connected() {
            return Err(lost("the other node went away during the move"));
        }
        Ok(())
    }

    /// Copies what the deputy's kernel wrote at an address of the program.
    pub fn poke(&self, tid: Tid, (addr, len): (u64, usize)) {
        let mut bytes = vec![0u8; len];
        if matches!(sys::vm_read(tid, addr, &mut bytes), Ok(n) if n == len) {
            self.tell(&ToHost::Poke { tid, addr, bytes });
        }
    }
}

fn lost(e: impl std::fmt::Display) -> MigrateError {
    MigrateError::Stays(Stay::LinkLost, e.to_string())
}

/// The daemon's no, or its silence.
fn no_route(e: AskError) -> MigrateError {
    match e {
        AskError::Refused(no) => {
            let stay = Stay::from_code(&no.code).unwrap_or(Stay::NotTrusted);
            MigrateError::Stays(stay, no.detail().to_owned())
        }
        AskError::NoDaemon { .. } | AskError::Line(_) => {
            MigrateError::Stays(Stay::NoDaemon, e.to_string())
        }
        AskError::Late => lost(e),
    }
}

/// The link to `node`, made if there is none.
pub fn to(keep: &Arc<Keep>, node: &NodeName, pid: Pid, need_kib: u64) -> Result<Arc<HostLink>> {
    let _only = lock(&keep.linking);
    let known = working(keep, node);
    // Where nobody may go any more the daemon is asked again, and says why not.
    let closed = lock(&keep.closed).contains(node);
    if let Some(l) = known.clone().filter(|_| !closed) {
        return Ok(l);
    }
    let link = way(keep, node, pid, need_kib)?;
    if let Some(l) = known {
        return Ok(l);
    }
    let begun = Instant::now();
    let (link, r) = match reconnect::begin(keep, &link, DIAL_MAX) {
        Ok(r) => (link, r),
        Err(_) if begun.elapsed() < SOON => {
            std::thread::sleep(ONCE_MORE);
            let link = way(keep, node, pid, need_kib)?;
            let r = reconnect::begin(keep, &link, DIAL_MAX)?;
            (link, r)
        }
        Err(e) => return Err(e),
    };
    lock(&keep.links).insert(node.clone(), link.clone());
    let (k, l) = (keep.clone(), link.clone());
    if let Err(e) = aside::start("calls", move || reconnect::run(&k, &l, r)) {
        link.broken.store(true, Ordering::Release);
        lock(&keep.links).remove(node);
        link.session.end();
        return Err(e).local("start a thread");
    }
    Ok(link)
}

/// The way to a host that takes `pid`: nobody has gone it yet.
fn way(keep: &Keep, node: &NodeName, pid: Pid, need_kib: u64) -> Result<Arc<HostLink>> {
    let ask = Ask::Route {
        tree: keep.settings.tree,
        pid,
        node: node.clone(),
        need_kib,
        engine: ENGINE_VERSION,
        portable: keep.is_portable(pid),
    };
    let pass = match keep.control.ask(ask, ROUTE_MAX) {
        Ok(Answer::Route(p)) => p,
        Err(e) => return Err(no_route(e)),
        Ok(_) => return Err(lost(format!("this node's daemon knows no way to {node}"))),
    };
    *lock(&keep.identity) = Some((pass.identity.clone(), Instant::now()));
    Ok(Arc::new(HostLink {
        node: node.clone(),
        pass,
        session: Session::default(),
        id: SessionId(u128::from_str_radix(&random_hex(16), 16).unwrap_or_default()),
        heard: Mutex::new(Instant::now()),
        empty: AtomicBool::new(false),
        broken: AtomicBool::new(false),
        moved: Mutex::default(),
        spare: Mutex::default(),
    }))
}

type Connection = (Reader, Writer);
/// A connection that is being made: with its handshakes it takes longer than to prepare a move.
type Dialled = Receiver<Result<Connection>>;

/// How long a host's thread waits for what a spare connection is for.
const SPARE_MAX: Duration = Duration::from_secs(5);

/// A connection that was begun before its move.
pub struct Early {
    link: Arc<HostLink>,
    made: Dialled,
}

/// The spare connection to `node`, or the beginning of one, if there is a link to it: its pass opens the door.
pub fn early(keep: &Arc<Keep>, node: &NodeName) -> Option<Early> {
    let link = working(keep, node)?;
    let made = spare(&link).unwrap_or_else(|| dialled(keep, &link));
    Some(Early { link, made })
}

fn spare(link: &HostLink) -> Option<Dialled> {
    let kept = lock(&link.spare).take();
    kept.filter(|(since, _)| since.elapsed() < SPARE_MAX)
        .map(|(_, made)| made)
}

/// A connection for a move over `link`: the one that was begun for it, the spare one, or a new one.
pub fn opened(
    keep: &Keep,
    link: &Arc<HostLink>,
    early: Option<Early>,
    purpose: Purpose,
) -> Result<Connection> {
    let early = early.filter(|e| Arc::ptr_eq(&e.link, link));
    match early.map(|e| e.made).or_else(|| spare(link)) {
        // What could not be reached then may be now.
        Some(made) => match made.recv() {
            Ok(Ok(made)) => greet(keep, made, purpose),
            _ => open(keep, &link.way(), purpose),
        },
        None => open(keep, &link.way(), purpose),
    }
}

/// A program was placed there: where one follows the other, the next one finds a connection.
pub fn placed(keep: &Arc<Keep>, node: &NodeName) {
    let before = keep.placed.fetch_add(1, Ordering::Relaxed);
    if let Some(link) = working(keep, node).filter(|_| before > 0) {
        let made = dialled(keep, &link);
        *lock(&link.spare) = Some((Instant::now(), made));
    }
}

fn working(keep: &Keep, node: &NodeName) -> Option<Arc<HostLink>> {
    let known = lock(&keep.links).get(node).cloned();
    known.filter(|l| !l.broken.load(Ordering::Acquire))
}

fn dialled(keep: &Arc<Keep>, link: &Arc<HostLink>) -> Dialled {
    let (keep, to) = (keep.clone(), link.clone());
    let (tx, made) = mpsc::channel();
    aside::soon("dial", move || {
        let _ = tx.send(connect(&keep, &to.way()));
    });
    made
}

/// A connection to a host's door.
pub fn open(keep: &Keep, pass: &Pass, purpose: Purpose) -> Result<Connection> {
    greet(keep, connect(keep, pass)?, purpose)
}

fn connect(keep: &Keep, pass: &Pass) -> Result<Connection> {
    let link = dial(&pass.addr, &me(keep, pass), &pass.expect, DIAL_MAX).map_err(lost)?;
    link.split().map_err(lost)
}

fn greet(keep: &Keep, (r, mut w): Connection, purpose: Purpose) -> Result<Connection> {
    let hello = Hello {
        engine: ENGINE_VERSION,
        tree: keep.settings.tree,
        purpose,
        monotonic_ns: sys::clock_ns(libc::CLOCK_MONOTONIC).local("read the clock")?,
    };
    write_frame(&mut w, HELLO, &[&talk::encode(&hello)])?;
    Ok((r, w))
}

/// What we show at doors. Identities live a day, trees longer: an old one is renewed first, if our daemon is
/// there.
pub fn me(keep: &Keep, pass: &Pass) -> Identity {
    let mut held = lock(&keep.identity);
    if held.as_ref().is_none_or(|(_, at)| at.elapsed() > RENEW)
        && let Ok(Answer::Identity { identity }) = keep.control.ask(Ask::Identity, RENEWED_MAX)
    {
        *held = Some((identity, Instant::now()));
    }
    let held = held.as_ref().map(|(identity, _)| identity.clone());
    held.unwrap_or_else(|| pass.identity.clone())
}

/// A sign of life to every host that had none lately, and the end of one that gives none. From the hand, about once a second.
pub fn look(keep: &Arc<Keep>) {
    let all: Vec<Arc<HostLink>> = lock(&keep.links).values().cloned().collect();
    for link in all {
        if link.past() {
            dead(keep, &link);
            continue;
        }
        let silent = lock(&link.heard).elapsed();
        let (worries, answered) = link.limits();
        if silent > worries {
            // Its reader looks for a way round what keeps this connection from working.
            link.session.cut();
        } else if silent > answered && link.takes_more() {
            link.tell(&ToHost::Alive);
        }
        lock(&link.spare).take_if(|(since, _)| since.elapsed() > SPARE_MAX);
    }
    sys::give_back_rest();
}

/// The host is gone, and with it every body there: their deputies die truthfully.
pub fn dead(keep: &Arc<Keep>, link: &Arc<HostLink>) {
    if link.broken.swap(true, Ordering::AcqRel) {
        return;
    }
    link.session.end();
    lock(&keep.links).remove(&link.node);
    *lock(&link.spare) = None;
    let l = link.clone();
    keep.hand.post(move |t| t.host_lost(&l));
}

/// `node` is no member of the farm any more: nothing goes there or comes from there.
pub fn cut(keep: &Arc<Keep>, node: &NodeName) {
    // The next one knows that it was removed.
    *lock(&keep.identity) = None;
    let Some(link) = lock(&keep.links).get(node).cloned() else {
        return;
    };
    dead(keep, &link);
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_client::api::Refusal;
    use std::io::{Error, ErrorKind};

    #[test]
    fn who_is_silent_decides_the_reason() {
        let refused = |code: &str| {
            AskError::Refused(Refusal {
                code: code.into(),
                message: String::new(),
                hint: String::new(),
            })
        };
        let gone = || Error::from(ErrorKind::NotConnected);
        let (path, cause) = (String::new(), gone());
        for (e, want) in [
            (refused("no-room"), Stay::NoRoom),
            (refused("leaving"), Stay::NotTrusted),
            (AskError::NoDaemon { path, cause }, Stay::NoDaemon),
            (AskError::from(gone()), Stay::NoDaemon),
            (AskError::Late, Stay::LinkLost),
        ] {
            assert_eq!(no_route(e).stay(), want);
        }
    }
}
