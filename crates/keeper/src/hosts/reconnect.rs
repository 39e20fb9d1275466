//! The connections under a link: the first, and those that replace it until the host is dead.
//!
//! From: `connect.rs`. Next: `keeper/src/calls/dispatch.rs`; what both ends keep meanwhile: `wire/src/session.rs`.

use super::door::own_identity;
use super::lost::dead;
use crate::deputy::{HostLink, link_lost};
use crate::state::Keep;
use crate::sync::lock;
use armento_client::api::{Answer, Ask};
use armento_link::{LinkError, Reader, dial};
use armento_migrate::Result;
use armento_tracee::{spawn, sys};
use armento_wire::bulk::HELLO;
use armento_wire::session::{self, Closer};
use armento_wire::talk::{self, Hello, Purpose, Resume, WELCOME};
use armento_wire::{WireError, read_frame, write_frame};
use std::io::{BufReader, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Read at once: many small frames. Long ones do not pass through it.
const INLET: usize = 16 << 10;
/// How long a host may take to take a link up again, doubling from try to try: what was lost on the way is said again at
/// once by the next try, where TCP would wait, and a loaded node needs longer than an idle one.
const AGAIN_MIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// From try to try, doubling.
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Refusals in a row that say that nothing listens there any more, if the node's daemon answers meanwhile.
const REFUSED_MAX: u32 = 3;
/// For a connection to that daemon.
const DAEMON: Duration = Duration::from_secs(1);

/// How long our daemon may take to look up where a node is.
const WHERE_MAX: Duration = Duration::from_secs(1);
/// How often the daemon is asked meanwhile where the node is.
const WHERE: Duration = Duration::from_secs(2);

/// Where the node of a host is that does not answer.
enum Whereabouts {
    /// Not where we tried; the next try goes there.
    Elsewhere,
    /// Where we tried; its daemon listens here.
    Here(SocketAddr),
    Unknown,
}

pub type CallsReader = BufReader<Reader>;
/// Serves what a host asks over one connection, until it breaks; why it did.
pub type Serve = fn(&Arc<Keep>, &Arc<HostLink>, &mut CallsReader) -> WireError;

/// The first connection.
pub fn begin(keep: &Keep, link: &Arc<HostLink>, limit: Duration) -> Result<CallsReader> {
    open(keep, link, 0, limit).map_err(link_lost)
}

/// Reads what the host says, over as many connections as it takes, until the host is dead.
pub fn run(keep: &Arc<Keep>, link: &Arc<HostLink>, first: CallsReader, serve: Serve) {
    session::never_wait();
    let mut epoch = 0;
    let mut inlet = first;
    loop {
        let e = serve(keep, link, &mut inlet);
        link.session.cut();
        eprintln!("{}: {e}", link.node);
        // What it says is no accident of the cable.
        if !matches!(e, WireError::Io(_)) {
            break;
        }
        let since = Instant::now();
        let Some(next) = mend(keep, link, &mut epoch) else {
            break;
        };
        inlet = next;
        let ms = since.elapsed().as_millis();
        eprintln!("{}: link taken up again after {ms} ms", link.node);
    }
    dead(keep, link);
}

fn mend(keep: &Keep, link: &Arc<HostLink>, epoch: &mut u32) -> Option<CallsReader> {
    let (mut refused, mut wait, mut limit) = (0, WAIT_MIN, AGAIN_MIN);
    let mut asked = Instant::now();
    while !link.broken.load(Ordering::Acquire) && !link.past() {
        *epoch += 1;
        match open(keep, link, *epoch, limit) {
            Ok(inlet) => return Some(inlet),
            Err(LinkError::Io(e)) if e.kind() == ErrorKind::ConnectionRefused => refused += 1,
            Err(_) => refused = 0,
        }
        // Its node may be elsewhere by now: then another machine refuses, or is silent.
        let gone = refused >= REFUSED_MAX;
        if gone || asked.elapsed() > WHERE {
            asked = Instant::now();
            match whereabouts(keep, link) {
                Whereabouts::Elsewhere => refused = 0,
                Whereabouts::Here(daemon) if gone && answers(daemon) => return None,
                // A firewall may refuse for a while: the host has as long as one that is silent.
                _ if gone => (refused, wait) = (0, WAIT_MAX),
                _ => {}
            }
        }
        sleep(wait);
        wait = (wait * 2).min(WAIT_MAX);
        limit = (limit * 2).min(AGAIN_MAX);
    }
    None
}

/// Asks our daemon where the node is.
fn whereabouts(keep: &Keep, link: &HostLink) -> Whereabouts {
    let node = link.node.clone();
    let Ok(Answer::Address { ip: Some(ip), port }) =
        keep.daemon.ask(Ask::Address { node }, WHERE_MAX)
    else {
        return Whereabouts::Unknown;
    };
    if link.now_at(ip) {
        return Whereabouts::Elsewhere;
    }
    port.map_or(Whereabouts::Unknown, |port| {
        Whereabouts::Here(SocketAddr::new(ip, port))
    })
}

fn answers(daemon: SocketAddr) -> bool {
    TcpStream::connect_timeout(&daemon, DAEMON).is_ok()
}

/// A connection to the host's door that carries the link on from where it stands. Before: the previous connection is
/// not read any more.
fn open(
    keep: &Keep,
    link: &Arc<HostLink>,
    epoch: u32,
    limit: Duration,
) -> std::result::Result<CallsReader, LinkError> {
    let pass = &link.way();
    let line = dial(&pass.addr, &own_identity(keep, pass), &pass.expect, limit)?;
    let socket = line.socket().try_clone()?;
    let (r, mut w) = line.split()?;
    let hello = Hello {
        engine: pass.common_engine(),
        tree: keep.settings.tree,
        purpose: Purpose::Calls(Resume {
            session: link.id,
            epoch,
            heard: link.session.heard(),
            freeze_ms: pass.freeze_ms,
            dead_ms: pass.dead_ms,
        }),
        monotonic_ns: sys::clock_ns(libc::CLOCK_MONOTONIC)?,
    };
    write_frame(&mut w, HELLO, &[&talk::encode(&hello)]).map_err(broken)?;
    let mut r = BufReader::with_capacity(INLET, r);
    let mut heard = Vec::new();
    socket.set_read_timeout(Some(limit))?;
    let kind = read_frame(&mut r, &mut heard).map_err(broken)?;
    socket.set_read_timeout(None)?;
    let (WELCOME, Ok(heard)) = (kind, heard.as_slice().try_into()) else {
        return Err(broken(WireError::Garbled("welcome")));
    };
    *lock(&link.last_heard) = Instant::now();
    let closer: Closer = Box::new(move || drop(socket.shutdown(Shutdown::Both)));
    let again = link.session.attach(w, closer, u64::from_le_bytes(heard));
    if let Some(again) = again.map_err(broken)? {
        let l = link.clone();
        if let Err(e) = spawn::start("again", move || again.run(&l.session)) {
            link.session.cut();
            return Err(e.into());
        }
    }
    Ok(r)
}

fn broken(e: WireError) -> LinkError {
    match e {
        WireError::Io(e) => LinkError::Io(e),
        other => LinkError::Refused(other.to_string()),
    }
}
