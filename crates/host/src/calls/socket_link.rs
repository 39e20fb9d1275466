//! The way from one end of a connection to the other: a stream between two hosts, or none if both are at this one.
//!
//! From: `sockets.rs`, `host/src/home/connections.rs`. Frames leave in the order in which they were put (`SocketLink::push`): one thread at
//! a time hands them over. The thread that hears of calls sends short ones itself, if the socket takes them at once; others wait for the
//! connection's own thread.

use crate::state::{Destination, Host, Pair, Progress, SocketEnd, SocketLink};
use crate::sync::lock;
use armento_link::{Badge, Reader, Writer, dial};
use armento_model::HomePid;
use armento_tracee::{spawn, sys};
use armento_wire::bulk::HELLO;
use armento_wire::session::Outlet;
use armento_wire::sockets::{EndId, Meeting, Recall, SOCKET_DATA, SOCKET_HEAD, SocketNews};
use armento_wire::talk::{self, Hello, Purpose, ToHome};
use armento_wire::{read_frame, write_frame};
use std::io::BufReader;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that the other host's kernel does not acknowledge for so long go over home. KERNEL: TCP_USER_TIMEOUT, tcp(7).
const GONE_MS: u32 = 5_000;
/// Takes a frame that came for an end.
pub type Deliver = fn(&Arc<Host>, &Arc<SocketEnd>, Progress, &[u8]);

/// How long the two hosts may take to connect.
const MEET_MAX: Duration = Duration::from_secs(5);
const ARRIVAL_LOOK: Duration = Duration::from_micros(200);
/// Bytes up to which a frame is sent by the thread that has it: what a socket takes at once that is writable
/// (`link/src/stream.rs`).
const SHORT: usize = 8 << 10;
/// Read at once; long frames do not pass through it.
const BUFFER: usize = 16 << 10;

/// Home orders the two hosts of a connection to meet.
pub fn meet(
    host: &Arc<Host>,
    id: EndId,
    (pid, fd): (HomePid, i32),
    meeting: Meeting,
    deliver: Deliver,
) {
    let said = |failed: Option<String>| ToHome::Socket(SocketNews::Met { end: id, failed });
    let Some(thread) = host.threads.of_home(pid.leader()) else {
        return host.home.send(&said(Some("it is not here".into())));
    };
    let end = SocketEnd::new(id, fd, thread.proc.clone());
    if !host.sockets.add(&end) {
        return host
            .home
            .send(&said(Some("its process has no room for it now".into())));
    }
    let arrival = match &meeting {
        Meeting::Await => host.sockets.wait_for(id.connection()),
        _ => None,
    };
    let host = host.clone();
    spawn::soon("meet", move || {
        let failed = match meeting {
            Meeting::Here => {
                here(&host, &end);
                None
            }
            Meeting::Dial { addr, expect } => dialled(&host, id.connection(), &addr, &expect)
                .and_then(|pair| linked(&host, &end, pair, deliver))
                .err(),
            Meeting::Await => arrival
                .ok_or_else(|| "too many connections are being made".to_owned())
                .and_then(|rx| {
                    let came = rx.recv_timeout(MEET_MAX);
                    host.sockets.take_arrival(id.connection());
                    came.map_err(|_| "the other host did not connect".to_owned())
                })
                .and_then(|pair| linked(&host, &end, pair, deliver))
                .err(),
        };
        host.home
            .send(&ToHome::Socket(SocketNews::Met { end: id, failed }));
    });
}

/// The second of two ends at this host joins them.
fn here(host: &Arc<Host>, end: &Arc<SocketEnd>) {
    let Some(other) = host.sockets.get(end.id.other()) else {
        return;
    };
    for (one, to) in [(end, &other), (&other, end)] {
        let mut st = lock(&one.state);
        if st.link.is_none() {
            st.link = Some(SocketLink::new(Destination::Here(Arc::downgrade(to))));
        }
    }
}

fn dialled(host: &Host, connection: u64, addr: &str, expect: &str) -> Result<Pair, String> {
    let expect: Badge = serde_json::from_str(expect).map_err(|e| e.to_string())?;
    let me = lock(&host.identity).clone();
    let link = dial(addr, &me, &expect, MEET_MAX).map_err(|e| format!("{addr}: {e}"))?;
    let hello = Hello {
        engine: host.home.engine,
        tree: host.start.tree,
        purpose: Purpose::Socket(connection),
        monotonic_ns: sys::clock_ns(libc::CLOCK_MONOTONIC).map_err(|e| e.to_string())?,
    };
    let (r, mut w) = link.split().map_err(|e| e.to_string())?;
    write_frame(&mut w, HELLO, &[&talk::encode(&hello)]).map_err(|e| e.to_string())?;
    Ok((r, w))
}

/// Another host has connected for a connection of this one, whose order may still be on its way.
pub fn socket_came(host: &Host, connection: u64, pair: Pair) {
    let until = Instant::now() + MEET_MAX;
    while Instant::now() < until {
        if let Some(tx) = host.sockets.take_arrival(connection) {
            // One that no longer waits closes it.
            let _ = tx.send(pair);
            return;
        }
        std::thread::sleep(ARRIVAL_LOOK);
    }
}

fn linked(
    host: &Arc<Host>,
    end: &Arc<SocketEnd>,
    (r, w): (Reader, Writer),
    deliver: Deliver,
) -> Result<(), String> {
    let closer = r.closer().map_err(|e| e.to_string())?;
    let theirs = closer
        .try_clone()
        .map_err(|e: std::io::Error| e.to_string())?;
    start(host, end, (r, w), closer, deliver).map_err(|e| {
        let _ = theirs.shutdown(std::net::Shutdown::Both);
        e.to_string()
    })
}

fn start(
    host: &Arc<Host>,
    end: &Arc<SocketEnd>,
    (r, w): (Reader, Writer),
    closer: TcpStream,
    deliver: Deliver,
) -> std::io::Result<()> {
    rustix::net::sockopt::set_tcp_user_timeout(&closer, GONE_MS)?;
    let link = SocketLink::new(Destination::Host(w.into(), closer));
    {
        let mut st = lock(&end.state);
        st.link = Some(link.clone());
    }
    if host.sockets.get(end.id).is_none() {
        // Home has given it up meanwhile.
        link.close();
        return Ok(());
    }
    let (h, e) = (host.clone(), end.clone());
    spawn::start("socket-in", move || {
        read_all(&h, &e, r, deliver);
        e.give_back(&h.home, Recall::Link);
    })?;
    spawn::start("socket-out", move || write_all(&link))
}

/// Reads what the other host sends, until the stream ends.
fn read_all(host: &Arc<Host>, end: &Arc<SocketEnd>, r: Reader, deliver: Deliver) {
    let mut r = BufReader::with_capacity(BUFFER, r);
    let mut buf = Vec::new();
    while let Ok(kind) = read_frame(&mut r, &mut buf) {
        let Some((head, bytes)) = buf.split_at_checked(SOCKET_HEAD) else {
            return;
        };
        if kind != SOCKET_DATA {
            return;
        }
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let told = Progress {
            received: word(0),
            consumed: word(8),
        };
        deliver(host, end, told, bytes);
    }
}

fn write_one(w: &mut Writer, (told, bytes): (Progress, Vec<u8>)) -> bool {
    let mut head = [0u8; SOCKET_HEAD];
    head[..8].copy_from_slice(&told.received.to_le_bytes());
    head[8..].copy_from_slice(&told.consumed.to_le_bytes());
    write_frame(w, SOCKET_DATA, &[&head, &bytes]).is_ok()
}

/// Sends what the thread that had it left, until the link is closed.
fn write_all(link: &SocketLink) {
    let Destination::Host(writer, _) = &link.to else {
        return;
    };
    loop {
        let out = lock(&link.out);
        let waits = |o: &mut crate::state::Outgoing| !o.closed && (o.busy || o.frames.is_empty());
        let waited = link.more.wait_while(out, waits);
        let mut out = waited.unwrap_or_else(|e| e.into_inner());
        if out.closed {
            return;
        }
        let Some(frame) = out.frames.pop_front() else {
            continue;
        };
        out.busy = true;
        drop(out);
        let sent = write_one(&mut lock(writer), frame);
        lock(&link.out).busy = false;
        if !sent {
            return link.close();
        }
    }
}

/// Hands over what waits, or leaves it to the link's own thread.
pub fn pump(host: &Arc<Host>, link: &Arc<SocketLink>, deliver: Deliver) {
    loop {
        let mut out = lock(&link.out);
        if out.busy || out.closed {
            return;
        }
        let Some((_, bytes)) = out.frames.front() else {
            return;
        };
        if let Destination::Host(writer, _) = &link.to {
            let short = bytes.len() <= SHORT && out.frames.len() == 1;
            if !short || !lock(writer).takes_more() {
                link.more.notify_one();
                return;
            }
        }
        let Some(frame) = out.frames.pop_front() else {
            return;
        };
        out.busy = true;
        drop(out);
        let sent = match &link.to {
            Destination::Host(writer, _) => write_one(&mut lock(writer), frame),
            Destination::Here(other) => {
                if let Some(other) = other.upgrade() {
                    deliver(host, &other, frame.0, &frame.1);
                }
                true
            }
        };
        let mut out = lock(&link.out);
        out.busy = false;
        if !out.frames.is_empty() {
            link.more.notify_one();
        }
        drop(out);
        if !sent {
            return link.close();
        }
    }
}
