//! One connection, from its first record to its end.

use super::recent::{Recent, key};
use crate::export::{Caller, Resolver};
use crate::programs::{Session, answer, is_done_once};
use crate::rpc::{Next, Opening, Records, Reply, open};
use armento_provision::view::Client;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A thread without calls looks up this often: it closes files, and asks again which node the caller is.
const TICK: Duration = Duration::from_secs(2);
/// A connection without calls is closed; clients connect again when they have one. KERNEL: xprtsock.c: Linux itself
/// closes after five minutes.
const IDLE: Duration = Duration::from_secs(600);
/// A client must take what was sent to it.
const SEND_TIME: Duration = Duration::from_secs(60);

/// Which client an address is; none if it is refused.
pub fn client(resolver: &dyn Resolver, address: IpAddr) -> Option<Client> {
    let address = address.to_canonical();
    let name = match resolver.caller(address) {
        Caller::Node(name) => Some(name),
        Caller::Stranger => None,
        Caller::Refused => return None,
    };
    Some(Client { name, address })
}

/// What a connection has of its server.
pub struct Place<'a> {
    pub resolver: &'a dyn Resolver,
    pub stops: &'a AtomicBool,
    pub recent: &'a Recent,
    pub peer: SocketAddr,
}

/// Answers calls until the client is done or breaks the protocol, or the server stops.
pub fn serve(place: &Place, stream: &TcpStream, session: &mut Session) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(SEND_TIME))?;
    let mut records = Records::new(stream);
    let mut last = Instant::now();
    let mut looked = Instant::now();
    loop {
        let next = records.next()?;
        if place.stops.load(Ordering::SeqCst) {
            return Ok(());
        }
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            session.files.forget_old();
            let Some(client) = client(place.resolver, session.client.address) else {
                return Ok(());
            };
            if client != session.client {
                session.counters.is_node(client.name.as_deref());
                session.client = client;
            }
        }
        match next {
            Next::Closed => return Ok(()),
            Next::Quiet if last.elapsed() >= IDLE => return Ok(()),
            Next::Quiet => {}
            Next::Record => {
                last = Instant::now();
                reply(place.recent, place.peer, session, &records.record)?.send(stream)?;
            }
        }
    }
}

fn reply(
    recent: &Recent,
    peer: SocketAddr,
    session: &mut Session,
    record: &[u8],
) -> io::Result<Reply> {
    let call = match open(record) {
        Opening::Call(call) => call,
        Opening::Refused(reply) => return Ok(reply),
        Opening::NoCall => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no call of RPC"));
        }
    };
    let once = is_done_once(&call).then(|| key(peer, record));
    if let Some(bytes) = once.and_then(|key| recent.get(key)) {
        return Ok(Reply::from_bytes(&bytes));
    }
    let (accept, procedure) = answer(session, &call);
    let reply = Reply::new(call.xid, accept);
    session
        .counters
        .called(procedure, reply.content(), session.written);
    if let Some(key) = once {
        recent.keep(key, reply.bytes().to_vec());
    }
    Ok(reply)
}

/// The replies to these bytes, without what they would send from files.
pub fn replies(session: &mut Session, bytes: &[u8]) -> Vec<Vec<u8>> {
    let (recent, peer) = (Recent::default(), (session.client.address, 0).into());
    let mut records = Records::new(bytes);
    let mut all = Vec::new();
    while let Ok(Next::Record) = records.next()
        && let Ok(reply) = reply(&recent, peer, session, &records.record)
    {
        all.push(reply.bytes().to_vec());
    }
    all
}
