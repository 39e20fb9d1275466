//! The listening side.
//!
//! Handshakes proceed in parallel in the accepting thread, so that a peer that is silent, slow or hostile delays no
//! other.

use crate::conn::Conn;
use crate::handshake::{Handshake, Progress};
use crate::{Badge, Duplex, Identity, LinkError, config, sockets, sys};
use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for a whole handshake: a hundred times that of a slow link, short enough to try again.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Limit of handshakes in progress; the oldest is dropped, because it is the most likely to be silent.
const PENDING_MAX: usize = 64;

pub struct Listener {
    sock: TcpListener,
    /// `None`: plain.
    config: Mutex<Option<Arc<ServerConfig>>>,
    open: bool,
    pending: Mutex<Vec<Pending>>,
    closed: UnixStream,
    closer: UnixStream,
}

/// Ends a listener's waiting from another thread.
pub struct Closer(UnixStream);

struct Pending {
    sock: TcpStream,
    hs: Handshake,
    until: Instant,
    /// The event it waits for: true to send.
    write: bool,
}

/// A peer that has completed its handshake.
type Met = (TcpStream, Option<Handshake>);

impl Closer {
    pub fn close(&self) {
        // Fails only if it is closed already.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves nothing half-done under these locks.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    /// `listen` is `ip:port`, port 0 for any.
    pub fn bind(listen: &str, me: &Identity) -> Result<Listener, LinkError> {
        Listener::new(listen, me, false)
    }

    /// As [`bind`](Listener::bind), and peers without a certificate are accepted too: a daemon's listener, where nodes
    /// ask to join. Use [`accept_any`](Listener::accept_any).
    pub fn bind_open(listen: &str, me: &Identity) -> Result<Listener, LinkError> {
        Listener::new(listen, me, true)
    }

    fn new(listen: &str, me: &Identity, open: bool) -> Result<Listener, LinkError> {
        let config = config::server(me, open)?;
        let addr = listen
            .parse()
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{listen}: {e}")))?;
        let sock = sockets::listen_tcp(addr, true)?;
        sock.set_nonblocking(true)?;
        let (closed, closer) = UnixStream::pair()?;
        Ok(Listener {
            sock,
            config: Mutex::new(config),
            open,
            pending: Mutex::new(Vec::new()),
            closed,
            closer,
        })
    }

    pub fn port(&self) -> u16 {
        self.sock.local_addr().map_or(0, |a| a.port())
    }

    /// A handle that ends [`accept`](Listener::accept) with [`LinkError::Closed`].
    pub fn closer(&self) -> io::Result<Closer> {
        Ok(Closer(self.closer.try_clone()?))
    }

    /// Replaces our own certificate for later connections: short-lived certificates expire.
    pub fn renew(&self, me: &Identity) -> Result<(), LinkError> {
        *lock(&self.config) = config::server(me, self.open)?;
        Ok(())
    }

    /// Waits for a peer with one of the badges `expect`. A peer that fails is `Err(Refused)`; go on accepting. On a
    /// plain link there is no authentication: the first of `expect` is assumed.
    pub fn accept(&self, expect: &[Badge]) -> Result<(Duplex, Badge), LinkError> {
        self.accept_if(expect.first(), |badge| expect.contains(badge))
    }

    /// As [`accept`](Listener::accept), for peers that `admits` accepts. On a plain link `assumed` is returned.
    pub fn accept_if(
        &self,
        assumed: Option<&Badge>,
        admits: impl Fn(&Badge) -> bool,
    ) -> Result<(Duplex, Badge), LinkError> {
        let (sock, hs) = self.meet()?;
        let none_expected = || LinkError::Refused("no peer is expected".into());
        let Some(mut hs) = hs else {
            let badge = assumed.cloned().ok_or_else(none_expected)?;
            return Ok((Duplex::plain(sock), badge));
        };
        let badge = check_badge(&hs, admits);
        let said = badge.as_ref().err().map_or("", String::as_str);
        hs.verdict(&sock, said).map_err(peer_failure)?;
        let badge = badge.map_err(LinkError::Refused)?;
        sock.set_nonblocking(false)?;
        Ok((Duplex::tls(sock, hs), badge))
    }

    /// Waits for any peer with a certificate of the farm, or with none (`None`).
    pub fn accept_any(&self) -> Result<(Duplex, Option<Badge>), LinkError> {
        let (sock, hs) = self.meet()?;
        let Some(mut hs) = hs else {
            return Ok((Duplex::plain(sock), None));
        };
        let badge = hs.conn.peer()?;
        hs.verdict(&sock, "").map_err(peer_failure)?;
        sock.set_nonblocking(false)?;
        Ok((Duplex::tls(sock, hs), badge))
    }

    /// The next peer with a finished handshake, successful or not.
    fn meet(&self) -> Result<Met, LinkError> {
        let mut pending = lock(&self.pending);
        loop {
            if let Some(met) = advance_all(&mut pending)? {
                return Ok(met);
            }
            match self.sock.accept() {
                Ok((sock, _)) => {
                    if let Some(met) = self.begin(&mut pending, sock)? {
                        return Ok(met);
                    }
                    continue;
                }
                Err(e) if is_transient(&e) => {}
                Err(e) => return Err(e.into()),
            }
            self.wait(&pending)?;
        }
    }

    fn begin(&self, pending: &mut Vec<Pending>, sock: TcpStream) -> Result<Option<Met>, LinkError> {
        sys::set_options(&sock)?;
        let Some(config) = lock(&self.config).clone() else {
            sock.set_nonblocking(false)?;
            return Ok(Some((sock, None)));
        };
        sock.set_nonblocking(true)?;
        if pending.len() >= PENDING_MAX {
            pending.remove(0);
        }
        pending.push(Pending {
            sock,
            hs: Handshake::new(Conn::Server(UnbufferedServerConnection::new(config)?)),
            until: Instant::now() + HANDSHAKE,
            write: false,
        });
        Ok(None)
    }

    fn wait(&self, pending: &[Pending]) -> Result<(), LinkError> {
        let mut fds = vec![
            sys::pollfd(self.closed.as_raw_fd(), true, false),
            sys::pollfd(self.sock.as_raw_fd(), true, false),
        ];
        let peer = |p: &Pending| sys::pollfd(p.sock.as_raw_fd(), !p.write, p.write);
        fds.extend(pending.iter().map(peer));
        let until = pending.iter().map(|p| p.until).min();
        sys::poll(&mut fds, until)?;
        if fds[0].revents != 0 {
            return Err(LinkError::Closed);
        }
        Ok(())
    }
}

/// Advances every handshake; returns the first that ended and leaves the others for the next call.
fn advance_all(pending: &mut Vec<Pending>) -> Result<Option<Met>, LinkError> {
    for i in 0..pending.len() {
        let p = &mut pending[i];
        match p.hs.advance(&p.sock) {
            Ok(Progress::Done) => {
                let p = pending.remove(i);
                return Ok(Some((p.sock, Some(p.hs))));
            }
            Ok(_) if Instant::now() >= p.until => {
                pending.remove(i);
                return Err(LinkError::Refused("it did not answer in time".into()));
            }
            Ok(Progress::Read) => p.write = false,
            Ok(Progress::Write) => p.write = true,
            Err(e) => {
                pending.remove(i);
                return Err(peer_failure(e));
            }
        }
    }
    Ok(None)
}

/// A broken connection is a failure of the peer, not of the listener.
fn peer_failure(e: LinkError) -> LinkError {
    match e {
        LinkError::Io(e) => LinkError::Refused(e.to_string()),
        other => other,
    }
}

fn check_badge(hs: &Handshake, admits: impl Fn(&Badge) -> bool) -> Result<Badge, String> {
    let badge = hs
        .conn
        .peer()
        .map_err(|e| e.to_string())?
        .ok_or("it showed no certificate")?;
    if admits(&badge) {
        Ok(badge)
    } else {
        Err(format!("{} is not expected here", badge.dns_name()))
    }
}

/// KERNEL: accept(2): errors of the new connection, to be treated like EAGAIN.
fn is_transient(e: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        e.kind(),
        K::WouldBlock | K::Interrupted | K::ConnectionAborted
    ) || matches!(
        e.raw_os_error(),
        Some(libc::EPROTO | libc::ENETDOWN | libc::EHOSTUNREACH | libc::ENETUNREACH)
    )
}
