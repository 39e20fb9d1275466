//! A handshake in progress on a non-blocking socket, so that one thread can handle many.

use crate::conn::{Conn, Step, torn};
use crate::{LinkError, sys};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Instant;

/// More than any handshake of ours: two chains of three P-256 certificates are below 4 KiB.
const INPUT_MAX: usize = 32 << 10;
/// Longest text of a refusal, bytes: its length fits into one byte.
const REASON_MAX: usize = 250;

/// The event that a handshake waits for.
pub(crate) enum Progress {
    Done,
    Read,
    Write,
}

pub(crate) struct Handshake {
    pub conn: Conn,
    /// Bytes of the peer not yet consumed; the remaining ones belong to the stream.
    pub input: Vec<u8>,
    /// Payload that came with the last handshake message.
    pub payload: Vec<u8>,
    out: Vec<u8>,
    done: bool,
}

impl Handshake {
    pub fn new(conn: Conn) -> Handshake {
        Handshake {
            conn,
            input: Vec::new(),
            payload: Vec::new(),
            out: Vec::new(),
            done: false,
        }
    }

    /// Proceeds as far as possible without blocking. Before: `sock` is non-blocking.
    pub fn advance(&mut self, sock: &TcpStream) -> Result<Progress, LinkError> {
        loop {
            if let Err(e) = self.digest() {
                self.send_alert(sock);
                return Err(e);
            }
            if !self.send(sock)? {
                return Ok(Progress::Write);
            }
            if self.done {
                return Ok(Progress::Done);
            }
            if !self.receive(sock)? {
                return Ok(Progress::Read);
            }
        }
    }

    /// Blocks until `self.advance` succeeds, at most up to `until`.
    pub fn drive(&mut self, sock: &TcpStream, until: Instant) -> Result<(), LinkError> {
        loop {
            let (read, write) = match self.advance(sock)? {
                Progress::Done => return Ok(()),
                Progress::Read => (true, false),
                Progress::Write => (false, true),
            };
            wait(sock, read, write, until)?;
        }
    }

    fn digest(&mut self) -> Result<(), LinkError> {
        let mut used = 0;
        let ended = loop {
            let payload = &mut self.payload;
            let mut sink = |p: &[u8]| payload.extend_from_slice(p);
            let rest = &mut self.input[used..];
            let (n, step) = self.conn.step(rest, &mut self.out, &mut sink);
            used += n;
            match step {
                Ok(Step::Again) => {}
                Ok(Step::NeedInput) => break Ok(()),
                Ok(Step::Ready) => {
                    self.done = true;
                    break Ok(());
                }
                Ok(Step::PeerClosed) => {
                    break Err(LinkError::Refused("it closed the connection".into()));
                }
                Err(e) => break Err(e.into()),
            }
        };
        self.input.drain(..used);
        if ended.is_ok() && self.done && torn(&self.input) {
            return Err(LinkError::Refused("its messages are cut in pieces".into()));
        }
        ended
    }

    /// True when everything is sent.
    fn send(&mut self, mut sock: &TcpStream) -> Result<bool, LinkError> {
        while !self.out.is_empty() {
            match sock.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }

    /// False when nothing has arrived yet.
    fn receive(&mut self, mut sock: &TcpStream) -> Result<bool, LinkError> {
        let mut buf = [0; 4096];
        match sock.read(&mut buf) {
            Ok(0) => Err(LinkError::Refused("it closed the connection".into())),
            Ok(_) if self.input.len() > INPUT_MAX => {
                Err(LinkError::Refused("its handshake is too long".into()))
            }
            Ok(n) => {
                self.input.extend_from_slice(&buf[..n]);
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    /// After a failure: sends the peer an alert, as far as that does not block.
    fn send_alert(&mut self, sock: &TcpStream) {
        // An alert is processed before anything else, so one step is enough; more would make rustls process again what
        // it has just refused.
        let _ = self.conn.step(&mut self.input, &mut self.out, &mut |_| {});
        // The connection ends in any case, so errors do not matter.
        let _ = self.send(sock);
    }

    /// The listener's final message: accepted (empty reason) or refused. TLS 1.3 lets a client finish before its
    /// certificate was checked, so without this it would believe that it was accepted. After: the verdict is in the
    /// socket's buffer, which is empty at this point and large enough.
    pub fn verdict(&mut self, sock: &TcpStream, reason: &str) -> Result<(), LinkError> {
        let mut cut = reason.len().min(REASON_MAX);
        while !reason.is_char_boundary(cut) {
            cut -= 1;
        }
        let mut word = vec![cut as u8];
        word.extend_from_slice(&reason.as_bytes()[..cut]);
        self.conn.encrypt(&word, &mut self.out)?;
        if !reason.is_empty() {
            self.conn.close(&mut self.out)?;
        }
        self.send(sock)?;
        Ok(())
    }

    /// The client's side of [`verdict`](Handshake::verdict).
    pub fn await_verdict(&mut self, sock: &TcpStream, until: Instant) -> Result<(), LinkError> {
        let mut ended = Ok(());
        loop {
            if let Some(reason) = self.take_verdict() {
                return match reason.as_str() {
                    "" => ended,
                    _ => Err(LinkError::Refused(reason)),
                };
            }
            // The connection may be closed right after the verdict: the verdict counts.
            ended?;
            if !self.receive(sock)? {
                wait(sock, true, false, until)?;
            }
            ended = self.digest();
        }
    }

    fn take_verdict(&mut self) -> Option<String> {
        let end = 1 + usize::from(*self.payload.first()?);
        let reason = String::from_utf8_lossy(self.payload.get(1..end)?).into_owned();
        self.payload.drain(..end);
        Some(reason)
    }
}

fn wait(sock: &TcpStream, read: bool, write: bool, until: Instant) -> Result<(), LinkError> {
    let mut fds = [sys::pollfd(sock.as_raw_fd(), read, write)];
    if sys::poll(&mut fds, Some(until))? {
        return Ok(());
    }
    Err(LinkError::Refused("it did not answer in time".into()))
}
