//! Replies, and how they are written: results from memory, and the content of a file straight from it.

use nfs3_types::rpc::{
    RPC_VERSION_2, accept_stat_data, accepted_reply, auth_stat, fragment_header, msg_body,
    opaque_auth, rejected_reply, reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A complete reply.
#[derive(Debug)]
pub struct Reply {
    /// The record's mark, filled in when it is sent; the reply's head; results.
    bytes: Vec<u8>,
    body: Option<Body>,
}

/// The end of a reply: a piece of a file.
#[derive(Debug)]
pub struct Body {
    pub file: Arc<OwnedFd>,
    pub offset: u64,
    pub count: u32,
}

/// How a program answers.
#[derive(Debug)]
pub enum Accept {
    /// Results, and a piece of a file behind them.
    Done(Vec<u8>, Option<Body>),
    NoProgram,
    NoVersion {
        low: u32,
        high: u32,
    },
    NoProcedure,
    Garbage,
}

fn head(xid: u32, body: reply_body) -> Vec<u8> {
    let message = rpc_msg {
        xid,
        body: msg_body::REPLY(body),
    };
    let mut bytes = vec![0; 4];
    // A vector takes everything.
    let _ = message.pack(&mut bytes);
    bytes
}

/// The caller may not.
pub fn denied(xid: u32, why: auth_stat) -> Reply {
    rejected(xid, rejected_reply::AUTH_ERROR(why))
}

/// The call is of another version of RPC.
pub fn mismatch(xid: u32) -> Reply {
    rejected(
        xid,
        rejected_reply::rpc_mismatch(RPC_VERSION_2, RPC_VERSION_2),
    )
}

fn rejected(xid: u32, why: rejected_reply) -> Reply {
    Reply {
        bytes: head(xid, reply_body::MSG_DENIED(why)),
        body: None,
    }
}

impl Reply {
    pub fn new(xid: u32, how: Accept) -> Reply {
        let (data, results, body) = match how {
            Accept::Done(results, body) => (accept_stat_data::SUCCESS, results, body),
            Accept::NoProgram => (accept_stat_data::PROG_UNAVAIL, Vec::new(), None),
            Accept::NoVersion { low, high } => (
                accept_stat_data::PROG_MISMATCH { low, high },
                Vec::new(),
                None,
            ),
            Accept::NoProcedure => (accept_stat_data::PROC_UNAVAIL, Vec::new(), None),
            Accept::Garbage => (accept_stat_data::GARBAGE_ARGS, Vec::new(), None),
        };
        let accepted = accepted_reply {
            verf: opaque_auth {
                body: Opaque::borrowed(&[]),
                ..opaque_auth::default()
            },
            reply_data: data,
        };
        let mut bytes = head(xid, reply_body::MSG_ACCEPTED(accepted));
        bytes.extend_from_slice(&results);
        Reply { bytes, body }
    }

    /// Bytes of file content in it.
    pub fn content(&self) -> u64 {
        self.body.as_ref().map_or(0, |b| u64::from(b.count))
    }

    /// All but its mark and the content of a file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[4..]
    }

    /// The same reply once more. Before: it had no content of a file.
    pub fn from_bytes(bytes: &[u8]) -> Reply {
        Reply {
            bytes: [&[0; 4], bytes].concat(),
            body: None,
        }
    }

    /// Sends it. After an error the stream cannot be used any more.
    pub fn send(mut self, mut to: &TcpStream) -> io::Result<()> {
        let content = self.body.as_ref().map_or(0, |b| b.count);
        let filling = content.next_multiple_of(4) - content;
        let len = u32::try_from(self.bytes.len() - 4).map_err(|_| io::ErrorKind::InvalidData)?;
        let mark = fragment_header::new(len + content + filling, true);
        self.bytes[..4].copy_from_slice(&mark.into_xdr_buf());
        let Some(body) = self.body else {
            return to.write_all(&self.bytes);
        };
        // One packet with what follows.
        let mut rest = &self.bytes[..];
        while !rest.is_empty() {
            match rustix::net::send(to, rest, SendFlags::MORE | SendFlags::NOSIGNAL) {
                Ok(n) => rest = &rest[n..],
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        send_file(&body, to)?;
        to.write_all(&[0; 3][..filling as usize])
    }
}

/// Exactly as many bytes as were announced; zeros where the file has become shorter meanwhile.
fn send_file(body: &Body, to: &TcpStream) -> io::Result<()> {
    let mut offset = body.offset;
    let end = body.offset + u64::from(body.count);
    while offset < end {
        let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
        match rustix::fs::sendfile(to, body.file.as_fd(), Some(&mut offset), left) {
            Ok(0) => return send_zeros(end - offset, to),
            Ok(_) | Err(Errno::INTR) => {}
            // Some file systems cannot.
            Err(Errno::INVAL | Errno::NOSYS) => return send_copy(body, offset, end, to),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn send_copy(body: &Body, mut offset: u64, end: u64, mut to: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    while offset < end {
        let left = buffer
            .len()
            .min(usize::try_from(end - offset).unwrap_or(usize::MAX));
        match rustix::io::pread(body.file.as_fd(), &mut buffer[..left], offset) {
            Ok(0) => return send_zeros(end - offset, to),
            Ok(n) => {
                to.write_all(&buffer[..n])?;
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn send_zeros(count: u64, to: &TcpStream) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), count), &mut { to }).map(drop)
}
