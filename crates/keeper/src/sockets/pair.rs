//! Whether a connection may go directly: what it is, and which processes have its two ends.
//!
//! From: `offer.rs`. Next: `connection.rs`.

use super::sys;
use crate::deputy::HostLink;
use crate::state::{Keep, SocketEnd};
use armento_checkpoint::home::unix_peer;
use armento_model::Pid;
use armento_tracee::sys as tsys;
use armento_tracee::{status, text};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// A direction of a connection never has more bytes that are not read than fit into home's socket.
const WINDOW_MAX: usize = armento_wire::sockets::SOCKET_WINDOW_MAX as usize;
/// KERNEL: SO_SNDBUF counts what the kernel needs beside the bytes, as much again at most (socket(7)).
const SHARE: usize = 2;
/// A connection with a smaller buffer is not worth it.
const WINDOW_MIN: usize = 1024;

/// The engine version from which hosts know of this.
const SINCE: u32 = 28;

/// Why a connection goes over home, for the keeper's log.
pub type Not = &'static str;

/// One end of a connection.
pub struct EndAt {
    pub pid: Pid,
    pub fd: i32,
    pub ino: u64,
    /// The host of its process.
    pub link: Arc<HostLink>,
    /// A copy of home's descriptor.
    pub socket: OwnedFd,
    pub nonblocking: bool,
}

impl EndAt {
    pub fn end(&self) -> SocketEnd {
        SocketEnd {
            pid: self.pid,
            fd: self.fd,
            ino: self.ino,
        }
    }
}

/// The inode of the socket that a descriptor leads to.
pub fn socket_inode(pid: Pid, fd: i32) -> Option<u64> {
    inode_of(&fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?)
}

/// The inode of `socket:[N]`.
fn inode_of(link: &Path) -> Option<u64> {
    let name = link.to_str()?.strip_prefix("socket:[")?;
    name.strip_suffix(']')?.parse().ok()
}

/// Both ends of the connection of a descriptor.
pub fn find(keep: &Keep, SocketEnd { pid, fd, ino }: SocketEnd) -> Result<[EndAt; 2], Not> {
    let one = end_at(keep, pid, fd, ino)?;
    let family = sys::option(&one.socket, libc::SOL_SOCKET, libc::SO_DOMAIN);
    let peer = match family {
        Ok(libc::AF_UNIX) => unix_peer(ino).ok().flatten(),
        Ok(libc::AF_INET) => tcp_peer("/proc/net/tcp", ino),
        Ok(libc::AF_INET6) => tcp_peer("/proc/net/tcp6", ino),
        _ => None,
    };
    let peer = peer
        .filter(|p| *p != ino)
        .ok_or("its other end is not at this home")?;
    let (here, there) = holders(keep, ino, peer).ok_or(UNSEEN)?;
    if here != [(pid, fd)] {
        return Err("another descriptor has it, too");
    }
    let [(other, other_fd)] = there[..] else {
        return Err("its other end is not one process's alone");
    };
    let two = end_at(keep, other, other_fd, peer)?;
    let engines = [&one, &two].map(|end| end.link.pass.common_engine());
    if engines[0] != engines[1] || engines[0] < SINCE {
        return Err("its hosts have different engines, or an early one");
    }
    Ok([one, two])
}

/// Whether its two ends are still those, and no other descriptor has them.
pub fn still(keep: &Keep, ends: &[EndAt; 2]) -> bool {
    let [a, b] = ends;
    let alone = (vec![(a.pid, a.fd)], vec![(b.pid, b.fd)]);
    holders(keep, a.ino, b.ino) == Some(alone)
}

fn end_at(keep: &Keep, pid: Pid, fd: i32, ino: u64) -> Result<EndAt, Not> {
    let deputy = keep
        .deputy(pid)
        .ok_or("an end is at home, or of another `armento run`")?;
    let common = &deputy.common;
    if common.record.is_some()
        || common
            .shares_files
            .load(std::sync::atomic::Ordering::Acquire)
    {
        return Err("its process is safe, or shares its descriptors");
    }
    let socket = tsys::steal_fd(pid, fd).map_err(|_| "it was closed")?;
    fits(&socket)?;
    if watched(keep, ino) {
        return Err("an epoll has it");
    }
    let flags = tsys::status_flags(socket.as_raw_fd()).map_err(|_| "it was closed")?;
    if flags & libc::O_ASYNC != 0 {
        return Err("it sends signals (O_ASYNC)");
    }
    Ok(EndAt {
        pid,
        fd,
        ino,
        link: deputy.link(),
        socket,
        nonblocking: flags & libc::O_NONBLOCK != 0,
    })
}

/// A connected stream whose reads and writes are nothing but its bytes. KERNEL: socket(7), tcp(7), unix(7).
fn fits(socket: &OwnedFd) -> Result<(), Not> {
    let option = |name| sys::option(socket, libc::SOL_SOCKET, name);
    let is = |name, value| option(name).is_ok_and(|v| v == value);
    if !is(libc::SO_TYPE, libc::SOCK_STREAM) || !is(libc::SO_ACCEPTCONN, 0) {
        return Err("it is no connected stream");
    }
    let unix = is(libc::SO_DOMAIN, libc::AF_UNIX);
    if !unix && !is(libc::SO_PROTOCOL, libc::IPPROTO_TCP) {
        return Err("it is another protocol");
    }
    let plain = is(libc::SO_RCVLOWAT, 1)
        && (!unix || is(libc::SO_PASSCRED, 0) && is(libc::SO_PEEK_OFF, -1))
        && is(libc::SO_TIMESTAMP, 0)
        && is(libc::SO_TIMESTAMPNS, 0)
        && is(libc::SO_TIMESTAMPING, 0)
        && !sys::has_time_limit(socket, libc::SO_RCVTIMEO)
        && !sys::has_time_limit(socket, libc::SO_SNDTIMEO);
    if !plain {
        return Err("it has options that its calls depend on");
    }
    let tcp = |name| sys::option(socket, libc::IPPROTO_TCP, name).is_ok_and(|v| v != 0);
    if !unix && (tcp(libc::TCP_REPAIR) || tcp(libc::TCP_CORK) || sys::has_upper_protocol(socket)) {
        return Err("it has options that its calls depend on");
    }
    let ended = libc::POLLERR | libc::POLLHUP | libc::POLLRDHUP | libc::POLLPRI;
    match sys::events(socket, libc::POLLRDHUP | libc::POLLPRI, 0) {
        Ok(e) if e & ended == 0 => Ok(()),
        _ => Err("an end was shut down, or has an error"),
    }
}

/// So many bytes of each direction fit into home's sockets.
pub fn window(ends: &[EndAt; 2]) -> Result<usize, Not> {
    let sizes = ends.iter().map(|e| {
        let size = sys::option(&e.socket, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
        usize::try_from(size).unwrap_or(0) / SHARE
    });
    let least = sizes.min().unwrap_or(0).min(WINDOW_MAX);
    if least < WINDOW_MIN {
        return Err("its buffers are small");
    }
    Ok(least)
}

type Descriptors = Vec<(Pid, i32)>;

const UNSEEN: Not = "a process of another user is in the tree, and may have it, too";

/// Descriptors of all processes that we may look into that lead to one of two sockets. `None`: the tree has a process that we may not
/// look into (a set-user-ID program), which may have inherited them. Descriptors that were sent to processes of other users outside the tree are
/// not seen.
fn holders(keep: &Keep, one: u64, two: u64) -> Option<(Descriptors, Descriptors)> {
    let me = std::process::id() as Pid;
    let denied = |pid: &Pid| {
        let e = fs::read_dir(format!("/proc/{pid}/fd")).err();
        e.is_some_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
    };
    if keep.pids().iter().any(denied) {
        return None;
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for pid in status::processes().filter(|p| *p != me) {
        for (fd, link) in descriptors(pid) {
            match inode_of(&link) {
                Some(ino) if ino == one => a.push((pid, fd)),
                Some(ino) if ino == two => b.push((pid, fd)),
                _ => {}
            }
        }
    }
    Some((a, b))
}

fn descriptors(pid: Pid) -> impl Iterator<Item = (i32, std::path::PathBuf)> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    all.flatten().flatten().filter_map(|e| {
        let fd = e.file_name().to_str()?.parse().ok()?;
        Some((fd, fs::read_link(e.path()).ok()?))
    })
}

/// Whether an epoll instance of the tree has it. KERNEL: ep_show_fdinfo: `tfd: 5 events: 19 data: 5 pos:0 ino:61cf sdev:8`, inode
/// hexadecimal.
fn watched(keep: &Keep, ino: u64) -> bool {
    let has = |info: &str| {
        info.lines().filter(|l| l.starts_with("tfd:")).any(|l| {
            let word = l
                .split_ascii_whitespace()
                .find_map(|w| w.strip_prefix("ino:"));
            word.is_some_and(|w| u64::from_str_radix(w, 16) == Ok(ino))
        })
    };
    keep.pids().into_iter().any(|pid| {
        descriptors(pid)
            .filter(|(_, link)| link.as_os_str() == "anon_inode:[eventpoll]")
            .any(|(fd, _)| {
                let info = text::read(format!("/proc/{pid}/fdinfo/{fd}"));
                info.is_ok_and(|info| has(&info))
            })
    })
}

/// The inode of the other end of a TCP connection whose both ends are in this network.
fn tcp_peer(table: &str, ino: u64) -> Option<u64> {
    peer_in(&fs::read_to_string(table).ok()?, ino)
}

/// KERNEL: proc_pid_net(5), tcp: the second and third words of a line are the addresses, the fourth the state (01: established), the tenth the
/// inode.
fn peer_in(table: &str, ino: u64) -> Option<u64> {
    const ESTABLISHED: &str = "01";
    let lines = || {
        table.lines().skip(1).filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
            let inode: u64 = words.get(9)?.parse().ok()?;
            (words[3] == ESTABLISHED).then_some((words[1], words[2], inode))
        })
    };
    let (here, there, _) = lines().find(|l| l.2 == ino)?;
    let mut others = lines().filter(|l| (l.0, l.1) == (there, here));
    others.next().map(|l| l.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_is_found_by_its_addresses() {
        let line = |local: &str, remote: &str, state: &str, ino: u32| {
            format!(
                "   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000  0  0 {ino} 1 0 20 4 30 10 -1\n"
            )
        };
        let (a, b, c) = ("0100007F:1F90", "0100007F:C350", "0100007F:C351");
        let table = format!(
            "  sl  local_address rem_address   st\n{}{}{}{}",
            line(a, "00000000:0000", "0A", 1),
            line(a, b, "01", 2),
            line(b, a, "01", 3),
            line(a, c, "01", 4),
        );
        assert_eq!(peer_in(&table, 2), Some(3));
        assert_eq!(peer_in(&table, 3), Some(2));
        assert_eq!(peer_in(&table, 4), None, "its other end is elsewhere");
        assert_eq!(peer_in(&table, 1), None, "it listens");
        assert_eq!(inode_of(Path::new("socket:[77]")), Some(77));
        assert_eq!(inode_of(Path::new("pipe:[77]")), None);
    }
}
