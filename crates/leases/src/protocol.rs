//! What a client and its lease holder say, over a Unix socket of type SOCK_SEQPACKET.
//!
//! ```text
//! holder ► client   VERSION: u8, with two descriptors: a page that starts with the count of breaks (u64), an eventfd
//! client ► holder   TAKE, id: u32, with the file's descriptor      ► errno: i32, 0 if the lease was taken
//!                   GIVE_BACK, id                                  no answer
//!                   SETTLE, 0                                      ► 0: all that was sent before has been done
//! ```
//! The count grows before a lease ends because of a writer; the eventfd becomes readable after. Numbers are this machine's.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

pub const VERSION: u8 = 1;
pub const TAKE: u8 = b't';
pub const GIVE_BACK: u8 = b'g';
pub const SETTLE: u8 = b's';

/// Descriptors with one message, at most.
const FDS_MAX: usize = 2;

/// A request: what, and the number of the lease.
pub fn request(what: u8, id: u32) -> [u8; 5] {
    let id = id.to_ne_bytes();
    [what, id[0], id[1], id[2], id[3]]
}

/// `None`: not one of ours.
pub fn parse(m: &[u8]) -> Option<(u8, u32)> {
    let (what, id) = m.split_first()?;
    Some((*what, u32::from_ne_bytes(id.try_into().ok()?)))
}

pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        // A peer that is gone is an error, no signal.
        let sent = sendmsg(
            &socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        );
        match sent {
            Err(rustix::io::Errno::INTR) => {}
            sent => return sent.map(drop).map_err(io::Error::from),
        }
    }
}

/// Receives a message into `bytes`: its length and descriptors. Zero: the peer is gone.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    loop {
        let got = recvmsg(
            &socket,
            &mut [IoSliceMut::new(bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        let len = match got {
            Err(rustix::io::Errno::INTR) => continue,
            got => got.map_err(io::Error::from)?.bytes,
        };
        let mut fds = Vec::new();
        for m in control.drain() {
            if let RecvAncillaryMessage::ScmRights(all) = m {
                fds.extend(all);
            }
        }
        return Ok((len, fds));
    }
}
