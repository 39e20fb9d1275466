//! Connections to the door of a host, each for one purpose: a move, a piece of shared memory.
//!
//! From: `connect.rs`, `reconnect.rs`, `keeper/src/moves/out.rs`. Next: `host/src/home/messages.rs`.

use crate::deputy::{Connection, Dialled, EarlyConnection, HostLink, link_lost};
use crate::state::Keep;
use crate::sync::lock;
use armento_client::api::{Answer, Ask, Pass, RENEW};
use armento_link::{Identity, dial};
use armento_migrate::{Local, Result};
use armento_model::NodeName;
use armento_tracee::{spawn, sys};
use armento_wire::bulk::HELLO;
use armento_wire::talk::{self, Hello, Purpose};
use armento_wire::write_frame;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long a host may take to be reached.
pub const DIAL_MAX: Duration = Duration::from_secs(5);
/// How long our daemon may take to sign: a millisecond's work.
const RENEWED_MAX: Duration = Duration::from_secs(2);

/// How long a host's thread waits for the purpose of a spare connection.
pub const SPARE_MAX: Duration = Duration::from_secs(5);

/// The spare connection to `node`, or the beginning of one, if there is a link to it: its pass opens the door.
pub fn early_connection(keep: &Arc<Keep>, node: &NodeName) -> Option<EarlyConnection> {
    let link = working(keep, node)?;
    let made = take_spare(&link).unwrap_or_else(|| dialled(keep, &link));
    Some(EarlyConnection { link, made })
}

fn take_spare(link: &HostLink) -> Option<Dialled> {
    let kept = lock(&link.spare).take();
    kept.filter(|(since, _)| since.elapsed() < SPARE_MAX)
        .map(|(_, made)| made)
}

/// A connection for a move over `link`: the one that was begun for it, the spare one, or a new one.
pub fn open_for_move(
    keep: &Keep,
    link: &Arc<HostLink>,
    early: Option<EarlyConnection>,
    purpose: Purpose,
) -> Result<Connection> {
    let early = early.filter(|e| Arc::ptr_eq(&e.link, link));
    match early.map(|e| e.made).or_else(|| take_spare(link)) {
        // A host that could not be reached then may be now.
        Some(made) => match made.recv() {
            Ok(Ok(made)) => greet(keep, &link.way(), made, purpose),
            _ => open_connection(keep, &link.way(), purpose),
        },
        None => open_connection(keep, &link.way(), purpose),
    }
}

/// A program was placed there: when another follows, it finds a connection.
pub fn dial_spare(keep: &Arc<Keep>, node: &NodeName) {
    let before = keep.placed_away.fetch_add(1, Ordering::Relaxed);
    if let Some(link) = working(keep, node).filter(|_| before > 0) {
        let made = dialled(keep, &link);
        *lock(&link.spare) = Some((Instant::now(), made));
    }
}

pub fn working(keep: &Keep, node: &NodeName) -> Option<Arc<HostLink>> {
    let known = keep.hosts.get(node);
    known.filter(|l| !l.broken.load(Ordering::Acquire))
}

fn dialled(keep: &Arc<Keep>, link: &Arc<HostLink>) -> Dialled {
    let (keep, to) = (keep.clone(), link.clone());
    let (tx, made) = mpsc::channel();
    spawn::soon("dial", move || {
        let _ = tx.send(dial_host(&keep, &to.way()));
    });
    made
}

/// A connection to a host's door.
pub fn open_connection(keep: &Keep, pass: &Pass, purpose: Purpose) -> Result<Connection> {
    greet(keep, pass, dial_host(keep, pass)?, purpose)
}

fn dial_host(keep: &Keep, pass: &Pass) -> Result<Connection> {
    let link = dial(
        &pass.addr,
        &own_identity(keep, pass),
        &pass.expect,
        DIAL_MAX,
    )
    .map_err(link_lost)?;
    link.split().map_err(link_lost)
}

fn greet(keep: &Keep, pass: &Pass, (r, mut w): Connection, purpose: Purpose) -> Result<Connection> {
    let hello = Hello {
        engine: pass.common_engine(),
        tree: keep.settings.tree,
        purpose,
        monotonic_ns: sys::clock_ns(libc::CLOCK_MONOTONIC).local("read the clock")?,
    };
    write_frame(&mut w, HELLO, &[&talk::encode(&hello)])?;
    Ok((r, w))
}

/// The identity that this keeper shows at doors. Identities live a day, trees longer: an old one is renewed first, if
/// our daemon is there.
pub fn own_identity(keep: &Keep, pass: &Pass) -> Identity {
    let mut held = lock(&keep.hosts.identity);
    if held.as_ref().is_none_or(|(_, at)| at.elapsed() > RENEW)
        && let Ok(Answer::Identity { identity }) = keep.daemon.ask(Ask::Identity, RENEWED_MAX)
    {
        *held = Some((identity, Instant::now()));
    }
    let held = held.as_ref().map(|(identity, _)| identity.clone());
    held.unwrap_or_else(|| pass.identity.clone())
}
