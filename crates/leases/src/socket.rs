//! The socket of a lease holder.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chmodat, chownat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen as listens,
    socket_with,
};
use std::io;
use std::path::Path;

/// Clients that wait to be accepted.
const BACKLOG: i32 = 16;

fn new() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Listens at `path` for one user, and for root. What lies there is replaced.
pub fn listen(path: &Path, uid: u32) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let socket = new()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    // The mode first: no other user may reach it in between. KERNEL: unix(7): to connect needs the right to write.
    chmodat(CWD, path, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    let owner = Uid::from_raw(uid);
    chownat(
        CWD,
        path,
        Some(owner),
        None::<Gid>,
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    listens(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to what listens at `path`.
pub fn reach(path: &Path) -> io::Result<OwnedFd> {
    let socket = new()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
