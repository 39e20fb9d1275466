//! The joiner's side of `reach.rs`: it listens and answers while it joins.

use super::dial::cause;
use super::proof::{Answer, Challenge, LINE_MAX, MARK, proof, proves};
use armento_link::{Token, dial_unknown, random_hex, sockets};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// For a connection to the address that the member tells to others.
const BACK: Duration = Duration::from_secs(4);
/// Between two looks whether the join is over.
const LOOK: Duration = Duration::from_millis(20);

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

pub fn answer(stream: TcpStream, key: &str, token: &Token, dialled: SocketAddr) -> io::Result<()> {
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
