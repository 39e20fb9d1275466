//! Carries the node's NFS connections to any boot server that is there. The kernel's client knows one address for ever; this
//! one is on the node itself, so that a root outlives its server: the connection ends, the kernel makes another one and
//! repeats what was not answered, and that one goes to the next server. File handles are the same on all of them.
//!
//! The process outlives the change to the real root: its program, its memory and its open files are of the initramfs, and
//! its name begins with `@`, by which systemd knows not to end it at shutdown (systemd.io, "Storage Daemons").

use super::sys;
use rustix::io::Errno;
use rustix::net::{self, sockopt};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The verb by which process 1 starts it.
pub const RELAY: &str = "boot-relay";
/// How long a server may take to accept: a round trip, and one lost packet.
const CONNECT: Duration = Duration::from_secs(3);
/// How long a server may leave an answer open while requests wait for it.
const SILENT: Duration = Duration::from_secs(7);
/// Connections at once: the kernel makes one for each mount and server.
const CONNECTIONS_MAX: usize = 64;
/// Ports that only root may have. KERNEL: ip(7), PROT_SOCK. Boot servers accept user ids only of clients that
/// use one of them; so does the relay, which would otherwise lend its own to any user of the node.
const ROOTS: std::ops::Range<u16> = 512..1024;
const BUFFER: usize = 1 << 18;
const STACK: usize = 256 << 10;

/// The relay, given `PORT SERVER:PORT …`; it never returns but for wrong words.
pub fn relay_main(words: &[String]) -> i32 {
    let mut words = words.iter();
    let port = words.next().and_then(|p| p.parse::<u16>().ok());
    let servers: Option<Vec<SocketAddrV4>> = words.map(|w| w.parse().ok()).collect();
    let (Some(port), Some(servers)) = (port, servers.filter(|s| !s.is_empty())) else {
        return 2;
    };
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(listener) => listener,
        Err(e) => {
            eprintln!("armento: NFS relay: {e}");
            return 1;
        }
    };
    sys::lock_memory();
    relay(&listener, servers, |port| port < ROOTS.end)
}

fn relay(listener: &TcpListener, servers: Vec<SocketAddrV4>, may: fn(u16) -> bool) -> ! {
    let servers = Arc::new(servers);
    // The server that answered last is asked first.
    let first = Arc::new(AtomicUsize::new(0));
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((near, peer)) = listener.accept() else {
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if !may(peer.port()) {
            continue;
        }
        if open.load(Ordering::SeqCst) >= CONNECTIONS_MAX {
            continue;
        }
        open.fetch_add(1, Ordering::SeqCst);
        let (servers, first, open) = (servers.clone(), first.clone(), open.clone());
        let carried = thread::Builder::new().stack_size(STACK).spawn({
            let open = open.clone();
            move || {
                // The kernel sees the end of its connection and tries again.
                let _ = carry(near, &servers, &first);
                open.fetch_sub(1, Ordering::SeqCst);
            }
        });
        if carried.is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn carry(near: TcpStream, servers: &[SocketAddrV4], first: &AtomicUsize) -> io::Result<()> {
    let (far, at) = connect(servers, first)?;
    // Once for this connection, and before the client can see its end: its next connection goes to the next server. One that
    // another connection has chosen meanwhile stays chosen.
    let next_server = || {
        let next = (at + 1) % servers.len();
        let _ = first.compare_exchange(at, next, Ordering::SeqCst, Ordering::SeqCst);
    };
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let waiting = Arc::new(Waiting::default());
    // The kernel ends a connection that it does not need for five minutes: that is no fault of the server.
    let idle = Arc::new(AtomicBool::new(false));
    let (mut from, mut to) = (near.try_clone()?, far.try_clone()?);
    let asks = thread::Builder::new().stack_size(STACK).spawn({
        let (waiting, idle) = (waiting.clone(), idle.clone());
        move || {
            if pass(&mut from, &mut to, &|| waiting.asked()).is_ok() {
                idle.store(true, Ordering::SeqCst);
            }
            // The other thread ends the connection to the client when it has seen the end of this one.
            let _ = to.shutdown(Shutdown::Both);
        }
    })?;
    far.set_read_timeout(Some(SILENT))?;
    let (mut from, mut to) = (far, near);
    // A server that lost its power says nothing: what was asked and not answered for so long ends the connection.
    let ended = answers(&mut from, &mut to, &waiting);
    if ended.is_err() && !idle.load(Ordering::SeqCst) {
        next_server();
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
    let _ = asks.join();
    ended
}

/// Whether anything was asked since the last answer.
#[derive(Default)]
struct Waiting(std::sync::atomic::AtomicBool);

impl Waiting {
    fn asked(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn answered(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

fn answers(from: &mut TcpStream, to: &mut TcpStream, waiting: &Waiting) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            // A server that stops ends its connections in order; the next one is asked all the same.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                waiting.answered();
                to.write_all(&buffer[..n])?;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                if waiting.0.load(Ordering::SeqCst) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(e) => return Err(e),
        }
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, passed: &dyn Fn()) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                to.write_all(&buffer[..n])?;
                passed();
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// A connection to the first server that accepts one, and its place in the list.
fn connect(servers: &[SocketAddrV4], first: &AtomicUsize) -> io::Result<(TcpStream, usize)> {
    let start = first.load(Ordering::SeqCst);
    let mut why = io::ErrorKind::NotConnected.into();
    for i in 0..servers.len() {
        let at = (start + i) % servers.len();
        match dial(servers[at]) {
            Ok(stream) => {
                first.store(at, Ordering::SeqCst);
                return Ok((stream, at));
            }
            Err(e) => why = e,
        }
    }
    Err(why)
}

/// A connection from one of root's ports, where this process may have one.
fn dial(server: SocketAddrV4) -> io::Result<TcpStream> {
    let socket = net::socket_with(
        net::AddressFamily::INET,
        net::SocketType::STREAM,
        net::SocketFlags::CLOEXEC,
        None,
    )?;
    for port in ROOTS.rev() {
        match net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)) {
            Err(Errno::ADDRINUSE) => {}
            Ok(()) | Err(Errno::ACCESS) => break,
            Err(e) => return Err(e.into()),
        }
    }
    // KERNEL: socket(7): SO_SNDTIMEO also limits connect(2).
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(CONNECT))?;
    net::connect(&socket, &server)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    Ok(TcpStream::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// A server that answers each byte with its letter, and the address of it.
    fn server(letter: u8) -> (SocketAddrV4, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listener");
        let Ok(SocketAddr::V4(address)) = listener.local_addr() else {
            panic!("address")
        };
        let accepts = listener.try_clone().expect("listener");
        thread::spawn(move || {
            while let Ok((mut stream, _)) = accepts.accept() {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() && byte[0] != b'!' {
                    let _ = stream.write_all(&[letter]);
                }
            }
        });
        (address, listener)
    }

    #[test]
    fn the_next_server_is_asked_when_one_ends() {
        let (a, _a) = server(b'a');
        let (b, _b) = server(b'b');
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listener");
        let near = listener.local_addr().expect("address");
        thread::spawn(move || -> () { relay(&listener, vec![a, b], |_| true) });
        let ask = |stream: &mut TcpStream, byte: u8| {
            stream.write_all(&[byte]).expect("asked");
            let mut answer = [0];
            stream.read_exact(&mut answer).map(|()| answer[0])
        };
        let mut stream = TcpStream::connect(near).expect("relay");
        assert_eq!(ask(&mut stream, b'?').expect("answer"), b'a');
        // The server ends this connection; the next goes to the other one.
        assert!(ask(&mut stream, b'!').is_err());
        let mut stream = TcpStream::connect(near).expect("relay");
        assert_eq!(ask(&mut stream, b'?').expect("answer"), b'b');
    }
}
