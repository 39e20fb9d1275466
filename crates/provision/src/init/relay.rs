//! Carries the node's NFS connections to any boot server that is there. The kernel's client knows one address for ever; this
//! one is on the node itself, so that a root outlives its server: the connection ends, the kernel makes another one and
//! repeats what was not answered, and that one goes to the next server. File handles are the same on all of them.
//!
//! The process outlives the change to the real root: its program, its memory and its open files are of the initramfs, and
//! its name begins with `@`, by which systemd knows not to end it at shutdown (systemd.io, "Storage Daemons").

use super::calls::Waiting;
use super::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, sockopt};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The verb by which process 1 starts it.
pub const RELAY: &str = "boot-relay";
/// How long a server may take to accept: a round trip, and one lost packet.
const CONNECT: Duration = Duration::from_secs(3);
/// How long a server may be silent while calls wait for it, counted from the first of them or the last sign of it.
const SILENT: Duration = Duration::from_secs(7);
/// Between two rounds over all servers, while none accepts.
const ROUND: Duration = Duration::from_secs(1);
/// How long a client's connection waits for a server. KERNEL: net/sunrpc/xprtsock.c: a client whose connections end at once waits
/// longer and longer before the next one, up to five minutes; it would not notice a server that is back.
const WAITS: Duration = Duration::from_secs(600);
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
    relay(&listener, servers, |port| port < ROOTS.end, SILENT)
}

fn relay(
    listener: &TcpListener,
    servers: Vec<SocketAddrV4>,
    may: fn(u16) -> bool,
    silent: Duration,
) -> ! {
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
                let _ = carry(near, &servers, &first, silent);
                open.fetch_sub(1, Ordering::SeqCst);
            }
        });
        if carried.is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn carry(
    near: TcpStream,
    servers: &[SocketAddrV4],
    first: &AtomicUsize,
    silent: Duration,
) -> io::Result<()> {
    let (far, at) = connect_some_time(&near, servers, first)?;
    // Once for this connection, and before the client can see its end: its next connection goes to the next server. One that
    // another connection has chosen meanwhile stays chosen.
    let next_server = || {
        let next = (at + 1) % servers.len();
        let _ = first.compare_exchange(at, next, Ordering::SeqCst, Ordering::SeqCst);
    };
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    // KERNEL: socket(7), SO_SNDTIMEO: a server that reads nothing fills the socket, and a write then waits for ever.
    far.set_write_timeout(Some(silent))?;
    let waiting = Arc::new(Mutex::new(Waiting::default()));
    // The kernel ends a connection that it does not need for five minutes: that is no fault of the server.
    let idle = Arc::new(AtomicBool::new(false));
    let (mut from, mut to) = (near.try_clone()?, far.try_clone()?);
    let asks = thread::Builder::new().stack_size(STACK).spawn({
        let (waiting, idle) = (waiting.clone(), idle.clone());
        move || {
            if calls(&mut from, &mut to, &waiting).is_ok() {
                idle.store(true, Ordering::SeqCst);
            }
            // The other thread ends the connection to the client when it has seen the end of this one.
            let _ = to.shutdown(Shutdown::Both);
        }
    })?;
    let (mut from, mut to) = (far, near);
    // A server that lost its power says nothing: what was asked and not answered for so long ends the connection.
    let ended = replies(&mut from, &mut to, &waiting, silent);
    if ended.is_err() && !idle.load(Ordering::SeqCst) {
        next_server();
    }
    let _ = to.shutdown(Shutdown::Both);
    // KERNEL: this also ends the other thread's write, which may wait for room.
    let _ = from.shutdown(Shutdown::Both);
    let _ = asks.join();
    ended
}

fn locked(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the server to the client, until the server ends the connection or is silent for too long.
fn replies(
    from: &mut TcpStream,
    to: &mut TcpStream,
    waiting: &Mutex<Waiting>,
    silent: Duration,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut limit = silent;
    from.set_read_timeout(Some(limit))?;
    loop {
        let next = match from.read(&mut buffer) {
            // A server that stops ends its connections in order; the next one is asked all the same.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                locked(waiting).answered(&buffer[..n], Instant::now());
                to.write_all(&buffer[..n])?;
                silent
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => limit,
            // What was asked during this read has some of its time left.
            Err(e) if is_timeout(&e) => match locked(waiting).left(silent, Instant::now()) {
                Some(Duration::ZERO) => return Err(io::ErrorKind::TimedOut.into()),
                Some(left) => left,
                None => silent,
            },
            Err(e) => return Err(e),
        };
        if next != limit {
            limit = next;
            from.set_read_timeout(Some(limit))?;
        }
    }
}

/// KERNEL: socket(7), SO_RCVTIMEO: EAGAIN.
fn is_timeout(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// From the client to the server, until the client ends the connection.
fn calls(from: &mut TcpStream, to: &mut TcpStream, waiting: &Mutex<Waiting>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                // Before the write, which may wait for a server that reads nothing.
                locked(waiting).asked(&buffer[..n], Instant::now());
                to.write_all(&buffer[..n])?;
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

/// The same, tried until a server accepts. Its calls wait in the client's connection; when the client has ended that, it asks for
/// them again in another one, and they must not be carried twice.
fn connect_some_time(
    near: &TcpStream,
    servers: &[SocketAddrV4],
    first: &AtomicUsize,
) -> io::Result<(TcpStream, usize)> {
    let until = Instant::now() + WAITS;
    loop {
        let tried = connect(servers, first);
        // Which may have taken some seconds.
        let ended = has_ended(near, Duration::ZERO)?;
        match tried {
            Ok(connected) if !ended => return Ok(connected),
            Err(e) if ended || Instant::now() > until => return Err(e),
            Ok(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Err(e) if has_ended(near, ROUND)? => return Err(e),
            Err(_) => {}
        }
    }
}

/// Whether the client ends the connection within this time.
fn has_ended(near: &TcpStream, within: Duration) -> io::Result<bool> {
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    // KERNEL: poll(2), POLLRDHUP: also with calls that nothing has read.
    let mut fds = [PollFd::new(near, PollFlags::RDHUP)];
    match poll(&mut fds, Some(&within)) {
        Ok(n) => Ok(n > 0),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
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

    /// How long servers of these tests may be silent.
    const SHORT: Duration = Duration::from_millis(300);

    fn listener() -> (SocketAddrV4, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listener");
        let Ok(SocketAddr::V4(address)) = listener.local_addr() else {
            panic!("address")
        };
        (address, listener)
    }

    /// RFC 5531, section 11: a record of one fragment.
    fn record(bytes: &[u8]) -> Vec<u8> {
        let len = u32::try_from(bytes.len()).expect("length") | 1 << 31;
        [&len.to_be_bytes(), bytes].concat()
    }

    /// A server that answers each call with its letter, and ends the connection after `!`.
    fn server(letter: u8) -> (SocketAddrV4, TcpListener) {
        let (address, listener) = listener();
        let accepts = listener.try_clone().expect("listener");
        thread::spawn(move || {
            while let Ok((mut stream, _)) = accepts.accept() {
                let mut call = [0; 5];
                while stream.read_exact(&mut call).is_ok() && call[4] != b'!' {
                    let _ = stream.write_all(&record(&[letter]));
                }
            }
        });
        (address, listener)
    }

    fn relay_to(servers: Vec<SocketAddrV4>) -> SocketAddrV4 {
        let (near, listener) = listener();
        thread::spawn(move || -> () { relay(&listener, servers, |_| true, SHORT) });
        near
    }

    fn ask(stream: &mut TcpStream, byte: u8) -> io::Result<u8> {
        stream.write_all(&record(&[byte]))?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).map(|()| reply[4])
    }

    #[test]
    fn the_next_server_is_asked_when_one_ends() {
        let ((a, _a), (b, _b)) = (server(b'a'), server(b'b'));
        let near = relay_to(vec![a, b]);
        let mut stream = TcpStream::connect(near).expect("relay");
        assert_eq!(ask(&mut stream, b'?').expect("answer"), b'a');
        // The server ends this connection; the next goes to the other one.
        assert!(ask(&mut stream, b'!').is_err());
        let mut stream = TcpStream::connect(near).expect("relay");
        assert_eq!(ask(&mut stream, b'?').expect("answer"), b'b');
    }

    #[test]
    fn a_server_that_reads_nothing_is_given_up() {
        // The kernel accepts for it, and takes what fits its buffers.
        let ((silent, _silent), (b, _b)) = (listener(), server(b'b'));
        let near = relay_to(vec![silent, b]);
        let mut stream = TcpStream::connect(near).expect("relay");
        let call = record(&vec![0; 1 << 16]);
        // More than all buffers between hold: this write waits until the relay ends the connection.
        while stream.write_all(&call).is_ok() {}
        let mut stream = TcpStream::connect(near).expect("relay");
        assert_eq!(ask(&mut stream, b'?').expect("answer"), b'b');
    }

    #[test]
    fn a_server_that_never_answers_is_given_up_while_calls_go_on() {
        let ((silent, reads), (b, _b)) = (listener(), server(b'b'));
        thread::spawn(move || {
            let (mut stream, _) = reads.accept().expect("the relay");
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let near = relay_to(vec![silent, b]);
        let mut stream = TcpStream::connect(near).expect("relay");
        while stream.write_all(&record(b"?")).is_ok() {
            thread::sleep(SHORT / 10);
        }
        let mut stream = TcpStream::connect(near).expect("relay");
        assert_eq!(ask(&mut stream, b'?').expect("answer"), b'b');
    }

    #[test]
    fn a_call_waits_while_no_server_is_there() {
        // A port that is free again: connections to it are refused.
        let (address, gone) = listener();
        drop(gone);
        let near = relay_to(vec![address]);
        let mut stream = TcpStream::connect(near).expect("relay");
        stream.write_all(&record(b"?")).expect("a call");
        thread::sleep(SHORT);
        let back = TcpListener::bind(address).expect("the same port");
        thread::spawn(move || {
            let (mut stream, _) = back.accept().expect("the relay");
            let mut call = [0; 5];
            stream.read_exact(&mut call).expect("the call");
            let _ = stream.write_all(&record(b"a"));
        });
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).expect("its reply");
        assert_eq!(reply[4], b'a');
    }

    #[test]
    fn a_server_that_is_asked_nothing_is_kept() {
        let ((a, _a), (b, _b)) = (server(b'a'), server(b'b'));
        let near = relay_to(vec![a, b]);
        let mut stream = TcpStream::connect(near).expect("relay");
        assert_eq!(ask(&mut stream, b'?').expect("answer"), b'a');
        thread::sleep(SHORT * 3);
        assert_eq!(ask(&mut stream, b'?').expect("answer"), b'a');
    }
}
