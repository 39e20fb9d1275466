//! Whether the member reaches the joiner, TCP and UDP, before it admits it.
//!
//! ```text
//! joiner                                   member
//!   listens at its port, TCP and UDP
//!   join, with a key          ── TLS ──►
//!                             ◄── TCP ──   challenge, proof that it has the key, its own told address
//!   dials that address        ── TCP ──►   proof, and whether the address answered
//!                             ◄── UDP ──   challenge, proof
//!   proof                     ── UDP ──►
//!                             ◄── TLS ──   joined
//! ```
//! The key travels over the checked link only, so that nothing else at that address can answer, and only the
//! member is answered.

use super::dial_member::cause;
use crate::hex::hex;
use armento_link::{Token, dial_unknown, random_hex, sockets};
use ring::hmac;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A connection over a slow link, and the kernel's second try.
const CONNECT: Duration = Duration::from_secs(4);
/// The joiner may have to wait for a connection of its own, [`BACK`].
const ANSWER: Duration = Duration::from_secs(8);
const BACK: Duration = Duration::from_secs(4);
/// Datagrams get lost: of four one comes through where every third does.
const DATAGRAMS: u32 = 4;
const DATAGRAM: Duration = Duration::from_millis(600);
/// Between two looks whether the join is over.
const LOOK: Duration = Duration::from_millis(20);
/// No line or datagram of a join is longer.
const LINE_MAX: u64 = 1024;
const MARK: &str = "armento-join-1";

/// What the member sends, over TCP and UDP.
#[derive(Debug, Serialize, Deserialize)]
struct Challenge {
    mark: String,
    challenge: String,
    proof: String,
    /// Where the member says that it is reached; none in datagrams.
    #[serde(default)]
    told: Option<SocketAddr>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    proof: String,
    /// Why the member's told address does not answer.
    #[serde(default)]
    lost: Option<String>,
}

fn proof(key: &str, of: &str, challenge: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let tag = hmac::sign(&key, format!("{MARK} {of} {challenge}").as_bytes());
    hex(tag.as_ref())
}

/// A key is a secret of one join: comparing in constant time would hide nothing, for it is used once.
fn proves(key: &str, of: &str, challenge: &str, given: &str) -> bool {
    proof(key, of, challenge) == given
}

/// The joiner's side, while it joins.
pub struct JoinListener {
    pub key: String,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl JoinListener {
    /// Listens at `listen`. A port that is in use, or an address that this machine has not, is told by the error.
    /// `dialled` is the member's address that has answered already.
    pub fn open(
        listen: SocketAddr,
        token: &Token,
        dialled: SocketAddr,
    ) -> io::Result<JoinListener> {
        let tcp = sockets::listen_tcp(listen, false)?;
        let udp = sockets::bind_udp(listen, false)?;
        tcp.set_nonblocking(true)?;
        udp.set_read_timeout(Some(LOOK))?;
        let key = random_hex(16);
        let stop = Arc::new(AtomicBool::new(false));
        let mut listener = JoinListener {
            key: key.clone(),
            stop: stop.clone(),
            threads: Vec::new(),
        };
        let (k, s, token) = (key.clone(), stop.clone(), token.clone());
        listener.start("join-tcp", move || streams(&tcp, &k, &s, &token, dialled))?;
        listener.start("join-udp", move || datagrams(&udp, &key, &stop))?;
        Ok(listener)
    }

    fn start(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads
            .push(thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(())
    }
}

/// After: the port is free for the daemon.
impl Drop for JoinListener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic was printed where it happened.
            let _ = thread.join();
        }
    }
}

fn streams(
    listener: &TcpListener,
    key: &str,
    stop: &AtomicBool,
    token: &Token,
    dialled: SocketAddr,
) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A stranger is not answered, and costs a second.
            Ok((stream, _)) => drop(answer(stream, key, token, dialled)),
            Err(_) => thread::sleep(LOOK),
        }
    }
}

fn answer(stream: TcpStream, key: &str, token: &Token, dialled: SocketAddr) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut line = String::new();
    BufReader::new((&stream).take(LINE_MAX)).read_line(&mut line)?;
    let Some(asked) = read(line.as_bytes(), key) else {
        return Ok(());
    };
    let told = asked.told.filter(|told| *told != dialled);
    let answer = Answer {
        proof: proof(key, "joiner", &asked.challenge),
        lost: told.and_then(
            |told| match told.ip().is_loopback() && !dialled.ip().is_loopback() {
                true => Some("that is each machine's own loopback".into()),
                false => lost(told, token),
            },
        ),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    (&stream).write_all(&line)
}

/// Why `told` is not the farm's daemon for us.
fn lost(told: SocketAddr, token: &Token) -> Option<String> {
    match dial_unknown(&told.to_string(), token.ca_sha256, BACK) {
        Ok(_) => None,
        Err(armento_link::LinkError::Io(e)) => Some(cause(&e)),
        Err(e) => Some(e.to_string()),
    }
}

/// A challenge from the holder of the key.
fn read(bytes: &[u8], key: &str) -> Option<Challenge> {
    let asked: Challenge = serde_json::from_slice(bytes).ok()?;
    let good = asked.mark == MARK && proves(key, "member", &asked.challenge, &asked.proof);
    good.then_some(asked)
}

fn datagrams(listener: &UdpSocket, key: &str, stop: &AtomicBool) {
    let mut buf = [0; LINE_MAX as usize];
    while !stop.load(Ordering::Relaxed) {
        let Ok((n, from)) = listener.recv_from(&mut buf) else {
            continue;
        };
        if let Some(asked) = read(&buf[..n], key) {
            let word = proof(key, "joiner", &asked.challenge);
            // Lost like any datagram: the member asks again.
            let _ = listener.send_to(word.as_bytes(), from);
        }
    }
}

/// Why the member does not reach the joiner, or the joiner the member.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreached {
    Tcp(String),
    Udp(String),
    /// The joiner does not reach the address that the member tells to others.
    Told(String),
}

/// The member's side: tries to reach `addr`, where a joiner with `key` listens. `told` is the member's own address.
pub fn probe(addr: SocketAddr, key: &str, told: SocketAddr) -> Result<(), Unreached> {
    let challenge = random_hex(16);
    let asked = |told| Challenge {
        mark: MARK.into(),
        proof: proof(key, "member", &challenge),
        challenge: challenge.clone(),
        told,
    };
    let stream = ask_stream(addr, &asked(Some(told))).map_err(|e| Unreached::Tcp(cause(&e)))?;
    let answer: Answer = serde_json::from_slice(&stream)
        .map_err(|_| Unreached::Tcp("something else than this node answers there".into()))?;
    if !proves(key, "joiner", &challenge, &answer.proof) {
        let what = "another node than this one answers there";
        return Err(Unreached::Tcp(what.into()));
    }
    if let Some(why) = answer.lost {
        return Err(Unreached::Told(why));
    }
    let want = proof(key, "joiner", &challenge);
    match ask_datagram(addr, &asked(None), want.as_bytes()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Unreached::Udp("no answer".into())),
        Err(e) => Err(Unreached::Udp(cause(&e))),
    }
}

fn ask_stream(addr: SocketAddr, asked: &Challenge) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&addr, CONNECT)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    let mut line = serde_json::to_vec(asked)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(LINE_MAX)).read_until(b'\n', &mut answer)?;
    Ok(answer)
}

/// False when nothing answered.
fn ask_datagram(addr: SocketAddr, asked: &Challenge, want: &[u8]) -> io::Result<bool> {
    let any: SocketAddr = match addr {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(addr)?;
    let datagram = serde_json::to_vec(asked)?;
    let mut buf = [0; LINE_MAX as usize];
    let mut refused = None;
    for _ in 0..DATAGRAMS {
        let until = Instant::now() + DATAGRAM;
        match socket.send(&datagram) {
            // KERNEL: udp(7): the error of the datagram before.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => refused = Some(e),
            sent => drop(sent?),
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left))?;
            match socket.recv(&mut buf) {
                Ok(n) if buf[..n] == *want => return Ok(true),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                    refused = Some(e);
                    thread::sleep(left.min(DATAGRAM / 4));
                    break;
                }
                Err(e) => return Err(e),
            }
        }
    }
    refused.map_or(Ok(false), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> SocketAddr {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("bind");
        tcp.local_addr().expect("address")
    }

    fn token() -> Token {
        Token::fresh([7; 32])
    }

    #[test]
    fn only_the_joiner_with_the_key_is_reached() {
        let (at, member) = (free(), free());
        let listener = JoinListener::open(at, &token(), member).expect("open");
        // The member's address is the one that was dialled: it is not tried again.
        assert_eq!(probe(at, &listener.key, member), Ok(()));
        // Another one is, and no process listens there.
        let lost = probe(at, &listener.key, free());
        assert_eq!(lost, Err(Unreached::Told("connection refused".into())));
        // A member without the key learns nothing.
        assert!(matches!(probe(at, "other", member), Err(Unreached::Tcp(_))));
        let busy = JoinListener::open(at, &token(), member)
            .err()
            .expect("in use");
        assert_eq!(busy.kind(), io::ErrorKind::AddrInUse);
        let key = listener.key.clone();
        drop(listener);
        let gone = probe(at, &key, member);
        assert_eq!(gone, Err(Unreached::Tcp("connection refused".into())));
        // The port is free again.
        drop(JoinListener::open(at, &token(), member).expect("open"));
    }

    #[test]
    fn tcp_without_udp_is_refused() {
        let (at, member) = (free(), free());
        let tcp = TcpListener::bind(at).expect("bind");
        let key = "k".to_owned();
        let (k, t) = (key.clone(), token());
        let answers = thread::spawn(move || {
            let (stream, _) = tcp.accept().expect("accept");
            answer(stream, &k, &t, member).expect("answer");
        });
        assert!(matches!(probe(at, &key, member), Err(Unreached::Udp(_))));
        answers.join().expect("no panic");
    }
}
