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

use super::dial::cause;
use super::proof::{Answer, Challenge, LINE_MAX, MARK, proof, proves};
use armento_link::random_hex;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// A connection over a slow link, and the kernel's second try.
const CONNECT: Duration = Duration::from_secs(4);
/// The joiner may have to wait for a connection of its own (`listener.rs`, 4 s).
const ANSWER: Duration = Duration::from_secs(8);
/// Datagrams get lost: of four one comes through where every third does.
const DATAGRAMS: u32 = 4;
const DATAGRAM: Duration = Duration::from_millis(600);

/// Why the member does not reach the joiner, or the joiner the member.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreached {
    Tcp(String),
    Udp(String),
    /// The joiner does not reach the address that the member tells to others.
    Told(String),
}

/// The member's side: tries to reach `addr`, where a joiner with `key` listens. `told` is the member's own address.
pub fn probe(addr: SocketAddr, key: &str, own_addr: SocketAddr) -> Result<(), Unreached> {
    let challenge = random_hex(16);
    let asked = |told| Challenge {
        mark: MARK.into(),
        proof: proof(key, "member", &challenge),
        challenge: challenge.clone(),
        told,
    };
    let stream = ask_stream(addr, &asked(Some(own_addr))).map_err(|e| Unreached::Tcp(cause(&e)))?;
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
    use super::super::listener::{JoinListener, answer};
    use super::*;
    use armento_link::Token;
    use std::net::TcpListener;

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
