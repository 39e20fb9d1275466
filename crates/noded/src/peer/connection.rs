//! One connection to another daemon, on which questions are asked in turn.

use super::protocol::{CallError, PeerAnswer, PeerAsk, Replied, Reply};
use armento_client::{LineError, encode, read_line, version};
use armento_link::{Badge, Duplex, Identity, LinkError, Reader, Writer, dial};
use armento_model::NodeName;
use std::io::{BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One connection to another daemon; questions are asked on it one after the other.
pub struct Connection {
    socket: TcpStream,
    reader: BufReader<Reader>,
    writer: Writer,
}

impl Connection {
    pub fn new(duplex: Duplex) -> Result<Connection, LinkError> {
        let socket = duplex.socket().try_clone()?;
        let (reader, writer) = duplex.split()?;
        let reader = BufReader::new(reader);
        Ok(Connection {
            socket,
            reader,
            writer,
        })
    }

    /// No read or write waits longer than `timeout`.
    pub fn ask(&mut self, ask: &PeerAsk, timeout: Duration) -> Result<PeerAnswer, CallError> {
        set_timeouts(&self.socket, timeout)?;
        let v = version::spoken();
        let line = serde_json::json!({"v": v, "ask": ask});
        let line = encode(&line)?;
        self.writer.write_all(&line).map_err(LineError::from)?;
        self.writer.flush().map_err(LineError::from)?;
        let Replied { v, reply } = read_line(&mut self.reader)?;
        if let Some(no) = version::too_old("the other daemon", v) {
            return Err(CallError::Refused(no));
        }
        match reply {
            Reply::Ok(answer) => Ok(answer),
            Reply::Err(refusal) => Err(CallError::Refused(refusal)),
        }
    }

    /// For what comes after the questions.
    pub fn into_parts(self) -> Result<(BufReader<Reader>, Writer, TcpStream), LinkError> {
        self.socket.set_read_timeout(None)?;
        Ok((self.reader, self.writer, self.socket))
    }

    /// Its round trip, as the kernel measured it, microseconds.
    pub fn rtt_us(&self) -> Option<u64> {
        crate::sys::rtt_us(&self.socket).ok().filter(|us| *us > 0)
    }

    /// Nothing has come that was not asked for, such as its end.
    pub fn is_silent(&self) -> bool {
        let quiet = |socket: &TcpStream| -> std::io::Result<bool> {
            socket.set_nonblocking(true)?;
            let peeked = socket.peek(&mut [0]);
            socket.set_nonblocking(false)?;
            Ok(matches!(peeked, Err(e) if e.kind() == ErrorKind::WouldBlock))
        };
        quiet(&self.socket).unwrap_or(false)
    }
}

/// Asks `node` at `addr`, on a connection of its own. Blocks for at most about twice `timeout`.
pub fn call(
    me: &Identity,
    node: &NodeName,
    addr: SocketAddr,
    ask: &PeerAsk,
    timeout: Duration,
) -> Result<PeerAnswer, CallError> {
    talk(dialled(me, node, addr, timeout)?, ask, timeout)
}

pub fn dialled(
    me: &Identity,
    node: &NodeName,
    addr: SocketAddr,
    timeout: Duration,
) -> Result<Duplex, LinkError> {
    dial(&addr.to_string(), me, &Badge::daemon(node), timeout)
}

/// Asks on a connection that is made.
pub fn talk(duplex: Duplex, ask: &PeerAsk, timeout: Duration) -> Result<PeerAnswer, CallError> {
    Connection::new(duplex)?.ask(ask, timeout)
}

/// No read or write of `socket` waits longer.
pub fn set_timeouts(socket: &TcpStream, timeout: Duration) -> Result<(), LinkError> {
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    Ok(())
}
