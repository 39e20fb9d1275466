//! The connecting side.

use crate::conn::Conn;
use crate::handshake::Handshake;
use crate::{Badge, Duplex, Identity, LinkError, Role, config, sys};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Tests set this to route streams to hosts through a proxy that breaks them (`lab/src/proxy.rs`). Peers authenticate
/// through it as without it, and a user who can set our environment controls our process anyway.
const VIA: &str = "ARMENTO_DIAL_VIA";

/// Connects to `addr` (`ip:port`), authenticates as `me`, checks the peer against `expect`. After `Ok` both sides have
/// accepted each other. The whole takes at most `timeout`.
pub fn dial(
    addr: &str,
    me: &Identity,
    expect: &Badge,
    timeout: Duration,
) -> Result<Duplex, LinkError> {
    let until = Instant::now() + timeout;
    let config = config::client(me)?;
    let sock = match std::env::var(VIA) {
        Ok(via) if expect.role == Role::Host => {
            let mut sock = connect(&via, timeout)?;
            sock.write_all(format!("{addr}\n").as_bytes())?;
            sock
        }
        _ => connect(addr, timeout)?,
    };
    let Some(config) = config else {
        return Ok(Duplex::plain(sock));
    };
    let name = ServerName::try_from(expect.dns_name())
        .map_err(|e| LinkError::Keys(format!("{}: {e}", expect.dns_name())))?;
    let conn = UnbufferedClientConnection::new(config, name)?;
    let hs = shake(&sock, Conn::Client(conn), until)?;
    Ok(Duplex::tls(sock, hs))
}

/// Connects to a daemon of which only the hash of its farm's CA is known, without a certificate of its own. Returns the
/// daemon's name and the CA's certificate (DER), which has been checked against the hash.
pub fn dial_unknown(
    addr: &str,
    ca_sha256: [u8; 32],
    timeout: Duration,
) -> Result<(Duplex, Badge, Vec<u8>), LinkError> {
    let until = Instant::now() + timeout;
    let sock = connect(addr, timeout)?;
    // No node has this name: the verifier reads the name from the certificate.
    let name =
        ServerName::try_from("unknown.armento").map_err(|e| LinkError::Keys(e.to_string()))?;
    let conn = UnbufferedClientConnection::new(config::joiner(ca_sha256)?, name)?;
    let hs = shake(&sock, Conn::Client(conn), until)?;
    let badge = hs
        .conn
        .peer()?
        .filter(|b| b.role == Role::Daemon)
        .ok_or_else(|| LinkError::Refused("it is no daemon".into()))?;
    let ca = hs
        .conn
        .peer_chain()
        .iter()
        .find(|c| crate::ca_hash(c) == ca_sha256)
        .map(|c| c.to_vec())
        .ok_or_else(|| LinkError::Refused("its certificate comes from another farm".into()))?;
    Ok((Duplex::tls(sock, hs), badge, ca))
}

fn connect(addr: &str, timeout: Duration) -> Result<TcpStream, LinkError> {
    let addr: SocketAddr = addr
        .parse()
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{addr}: {e}")))?;
    let sock = TcpStream::connect_timeout(&addr, timeout)?;
    sys::set_options(&sock)?;
    Ok(sock)
}

fn shake(sock: &TcpStream, conn: Conn, until: Instant) -> Result<Handshake, LinkError> {
    sock.set_nonblocking(true)?;
    let mut hs = Handshake::new(conn);
    hs.drive(sock, until)?;
    hs.await_verdict(sock, until)?;
    sock.set_nonblocking(false)?;
    Ok(hs)
}
