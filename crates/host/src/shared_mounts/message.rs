//! What a host and its opener say, over a socket that keeps messages apart; a file comes as a descriptor.

use armento_model::FileIdentity;
use armento_wire::talk::{MountSeen, decode, encode};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A path, an identity, and the rest.
const MESSAGE_MAX: usize = 8 << 10;

#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Looks for home's proof of that name in a mount of the node's, and leaves one of its own.
    Prove { mount: usize, name: String },
    /// Removes that.
    Proved { mount: usize, name: String },
    /// Opens a file, if it is that one.
    Open {
        mount: usize,
        path: Vec<u8>,
        flags: i32,
        identity: FileIdentity,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    Seen(Box<MountSeen>),
    /// A descriptor comes with it; then [`Said::Done`], when the opener has closed its own.
    Opened,
    Done,
    No(String),
}

pub fn send<T: Serialize>(
    socket: impl AsFd,
    m: &T,
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = encode(m);
    let iov = [IoSlice::new(&bytes)];
    sendmsg(socket, &iov, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message. An error when the other end is gone, or has said nothing within the socket's limit.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<(T, Option<OwnedFd>)> {
    let mut bytes = vec![0u8; MESSAGE_MAX];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut iov = [IoSliceMut::new(&mut bytes)];
    let got = loop {
        match recvmsg(&socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            got => break got?,
        }
    };
    let mut file = None;
    for m in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = m {
            file = files.last();
        }
    }
    if got.bytes == 0 || got.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let garbled = |_| io::Error::from(io::ErrorKind::InvalidData);
    let m = decode(&bytes[..got.bytes], "opener").map_err(garbled)?;
    Ok((m, file))
}
