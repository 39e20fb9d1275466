//! Plain TCP, until the TLS half arrives beside it.
use super::{Badge, Identity};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("link: {0}")]
    Io(#[from] io::Error),
    #[error("peer was not let in: {0}")]
    Refused(String),
}

/// Both directions of one authenticated stream.
pub struct Duplex(TcpStream);
pub struct Reader(TcpStream);
pub struct Writer(TcpStream);

/// Connects to `addr` (`ip:port`), proves `me`, checks the peer against `expect`.
pub fn dial(addr: &str, _me: &Identity, _expect: &Badge, timeout: Duration) -> Result<Duplex, LinkError> {
    let addr = addr.parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{addr}: {e}")))?;
    let s = TcpStream::connect_timeout(&addr, timeout)?;
    s.set_nodelay(true)?;
    Ok(Duplex(s))
}

pub struct Listener(TcpListener);

impl Listener {
    /// `listen` is `ip:port`, port 0 for any.
    pub fn bind(listen: &str, _me: &Identity) -> Result<Listener, LinkError> {
        Ok(Listener(TcpListener::bind(listen)?))
    }
    pub fn port(&self) -> u16 {
        self.0.local_addr().map_or(0, |a| a.port())
    }
    /// Waits for a peer whose badge is one of `expect`. A peer that fails is `Err(Refused)`; go on accepting.
    pub fn accept(&self, expect: &[Badge]) -> Result<(Duplex, Badge), LinkError> {
        let (s, _) = self.0.accept()?;
        s.set_nodelay(true)?;
        let who = expect.first().cloned().ok_or_else(|| LinkError::Refused("nobody is expected".into()))?;
        Ok((Duplex(s), who))
    }
}

impl Duplex {
    pub fn split(self) -> Result<(Reader, Writer), LinkError> {
        Ok((Reader(self.0.try_clone()?), Writer(self.0)))
    }
    /// The socket, for options and shutdown from another thread.
    pub fn socket(&self) -> &TcpStream {
        &self.0
    }
}
impl Read for Reader {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        self.0.read(b)
    }
}
impl Write for Writer {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        self.0.write(b)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
impl Reader {
    /// A second handle that can shut the stream down from another thread.
    pub fn closer(&self) -> io::Result<TcpStream> {
        self.0.try_clone()
    }
}
