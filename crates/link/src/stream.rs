//! The two halves of a stream.
//!
//! Lock: `Shared::state`, held while a record is encrypted or decrypted, never across a system call. Only the writer
//! sends; answers of the reading side (key updates) wait in `queued` and are sent before the writer's next bytes.

use crate::LinkError;
use crate::conn::{Conn, RECORD, Step, torn};
use crate::handshake::Handshake;
use crate::sys;
use armento_wire::session::Outlet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes read from the socket at once: sixteen full records.
const READ_MAX: usize = 16 * RECORD;
/// Bytes encrypted and sent at once.
const WRITE_MAX: usize = 16 * RECORD;
/// Largest ciphertext record: RFC 8446 §5.2, payload + 256, and its header.
const RECORD_MAX: usize = RECORD + 256 + 5;

/// Both directions of one authenticated stream.
pub struct Duplex {
    sock: TcpStream,
    tls: Option<Handshake>,
}

/// The half that receives. An end without the peer's close_notify is `UnexpectedEof` on TLS.
pub struct Reader {
    sock: TcpStream,
    tls: Option<TlsIn>,
}

/// The half that sends. On a non-blocking socket unsent bytes wait for the next call.
pub struct Writer {
    sock: TcpStream,
    tls: Option<TlsOut>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    conn: Conn,
    queued: Vec<u8>,
    /// The stream cannot be used any more: see [`torn`].
    broken: bool,
}

impl State {
    fn usable(&mut self) -> Result<&mut State, rustls::Error> {
        if self.broken {
            return Err(rustls::Error::General("the stream is broken".into()));
        }
        Ok(self)
    }
}

struct TlsIn {
    shared: Arc<Shared>,
    /// Ciphertext: `raw[start..end]` is not yet decrypted.
    raw: Box<[u8]>,
    start: usize,
    end: usize,
    /// Decrypted payload beyond what was requested, below one record.
    plain: Vec<u8>,
    plain_at: usize,
    closed: bool,
}

struct TlsOut {
    shared: Arc<Shared>,
    /// Ciphertext: `out[sent..]` is not yet sent.
    out: Vec<u8>,
    sent: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside rustls would leave the connection in an error state of its own.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn broken(e: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, e)
}

impl Duplex {
    pub(crate) fn plain(sock: TcpStream) -> Duplex {
        Duplex { sock, tls: None }
    }

    pub(crate) fn tls(sock: TcpStream, hs: Handshake) -> Duplex {
        Duplex {
            sock,
            tls: Some(hs),
        }
    }

    pub fn split(self) -> Result<(Reader, Writer), LinkError> {
        let other = self.sock.try_clone()?;
        let (tls_in, tls_out) = match self.tls {
            None => (None, None),
            Some(hs) => {
                let (i, o) = halves(hs);
                (Some(i), Some(o))
            }
        };
        let reader = Reader {
            sock: other,
            tls: tls_in,
        };
        let writer = Writer {
            sock: self.sock,
            tls: tls_out,
        };
        Ok((reader, writer))
    }

    /// The socket, for options and shutdown from another thread. Its bytes belong to the duplex.
    pub fn socket(&self) -> &TcpStream {
        &self.sock
    }

    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

fn halves(hs: Handshake) -> (TlsIn, TlsOut) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            conn: hs.conn,
            queued: Vec::new(),
            broken: false,
        }),
    });
    // Records that came with the last handshake message are the stream's first.
    let mut raw = vec![0; READ_MAX.max(hs.input.len())].into_boxed_slice();
    raw[..hs.input.len()].copy_from_slice(&hs.input);
    let tls_in = TlsIn {
        shared: shared.clone(),
        raw,
        start: 0,
        end: hs.input.len(),
        plain: hs.payload,
        plain_at: 0,
        closed: false,
    };
    let tls_out = TlsOut {
        shared,
        out: Vec::new(),
        sent: 0,
    };
    (tls_in, tls_out)
}

impl Read for Reader {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.sock.read(b),
            Some(tls) => tls.read(&mut self.sock, b),
        }
    }
}

impl Reader {
    /// A second handle that can shut the stream down from another thread.
    pub fn closer(&self) -> io::Result<TcpStream> {
        self.sock.try_clone()
    }

    /// True if the next read can return data without the socket, of which poll(2) shows nothing.
    pub fn has_buffered(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|t| t.plain_at < t.plain.len() || t.start < t.end)
    }
}

impl TlsIn {
    fn read(&mut self, sock: &mut TcpStream, b: &mut [u8]) -> io::Result<usize> {
        if b.is_empty() {
            return Ok(0);
        }
        loop {
            let n = self.take_plain(b);
            if n > 0 {
                return Ok(n);
            }
            if self.closed {
                return Ok(0);
            }
            let n = self.decrypt(b).map_err(broken)?;
            if n > 0 {
                return Ok(n);
            }
            if !self.closed && self.receive(sock)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn take_plain(&mut self, b: &mut [u8]) -> usize {
        let rest = &self.plain[self.plain_at..];
        let n = rest.len().min(b.len());
        b[..n].copy_from_slice(&rest[..n]);
        self.plain_at += n;
        if self.plain_at == self.plain.len() {
            self.plain.clear();
            self.plain_at = 0;
        }
        n
    }

    /// Decrypts into `b` until it is full or no whole record is left; the rest of the last record goes to `plain`.
    fn decrypt(&mut self, b: &mut [u8]) -> Result<usize, rustls::Error> {
        let mut state = self.shared.lock();
        let State {
            conn,
            queued,
            broken,
        } = state.usable()?;
        let mut filled = 0;
        while self.start < self.end && filled < b.len() {
            let plain = &mut self.plain;
            let mut sink = |p: &[u8]| {
                let n = p.len().min(b.len() - filled);
                b[filled..filled + n].copy_from_slice(&p[..n]);
                filled += n;
                plain.extend_from_slice(&p[n..]);
            };
            let (used, step) = conn.step(&mut self.raw[self.start..self.end], queued, &mut sink);
            self.start += used;
            match step.inspect_err(|_| *broken = true)? {
                Step::Again => {}
                Step::NeedInput | Step::Ready => {
                    *broken = torn(&self.raw[self.start..self.end]);
                    break;
                }
                Step::PeerClosed => {
                    self.closed = true;
                    break;
                }
            }
        }
        Ok(filled)
    }

    fn receive(&mut self, sock: &mut TcpStream) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.raw.len() - self.start < RECORD_MAX || self.end == self.raw.len() {
            self.raw.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let n = sock.read(&mut self.raw[self.end..])?;
        self.end += n;
        Ok(n)
    }
}

impl Write for Writer {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.sock.write(b),
            Some(tls) => tls.write(&mut self.sock, b),
        }
    }

    /// After `Ok` every byte written has been passed to the kernel.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => tls.flush(&mut self.sock),
        }
    }
}

impl Writer {
    /// Sends close_notify: the peer's reader sees the end. The other direction goes on.
    pub fn close(mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.flush(&mut self.sock)?;
            let mut state = tls.shared.lock();
            let State { conn, .. } = state.usable().map_err(broken)?;
            conn.close(&mut tls.out).map_err(broken)?;
            drop(state);
            tls.drain(&mut self.sock)?;
        }
        self.sock.shutdown(Shutdown::Write)
    }

    /// True if a non-blocking socket has not accepted all ciphertext: call `flush` when it is writable.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|t| t.sent < t.out.len())
    }
}

impl Outlet for Writer {
    /// KERNEL: a TCP socket is writable while a third of its buffer is free (sk_stream_is_writeable).
    fn takes_more(&self) -> bool {
        let mut fds = [sys::pollfd(self.sock.as_raw_fd(), false, true)];
        sys::poll(&mut fds, Some(Instant::now())).is_ok_and(|ready| ready)
    }
}

impl TlsOut {
    /// Encrypts and sends up to [`WRITE_MAX`] bytes. Bytes counted in the result are never lost
    /// nor sent twice, even if the socket would block.
    fn write(&mut self, sock: &mut TcpStream, b: &[u8]) -> io::Result<usize> {
        self.drain(sock)?;
        let chunk = &b[..b.len().min(WRITE_MAX)];
        if chunk.is_empty() {
            return Ok(0);
        }
        let mut state = self.shared.lock();
        let State { conn, queued, .. } = state.usable().map_err(broken)?;
        self.out.append(queued);
        conn.encrypt(chunk, &mut self.out).map_err(broken)?;
        drop(state);
        match self.drain(sock) {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(chunk.len()),
        }
    }

    fn flush(&mut self, sock: &mut TcpStream) -> io::Result<()> {
        self.drain(sock)?;
        self.out.append(&mut self.shared.lock().queued);
        self.drain(sock)
    }

    fn drain(&mut self, sock: &mut TcpStream) -> io::Result<()> {
        while self.sent < self.out.len() {
            match sock.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }
}
