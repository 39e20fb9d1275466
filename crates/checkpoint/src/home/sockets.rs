//! Sockets: pairs inside the tree, and what others lead to, in words.

use super::found::Found;
use super::kinds::Kind;
use super::outside::Holders;
use super::sys;
use super::table::{Entry, Group};
use super::types::Pair;
use super::values::Bytes;
use rustix::fs::FileType;
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// KERNEL: include/uapi/linux/{sock_diag,unix_diag}.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_SHUTDOWN: u16 = 6;
/// Lengths of nlmsghdr, unix_diag_req, unix_diag_msg.
const HEADER: usize = 16;
const REQUEST: usize = 24;
const ANSWER: usize = 16;

/// Looks at a socket that changes.
const TRIES: usize = 8;

/// What a Unix socket is connected to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Peer {
    ino: Option<u64>,
    shut: u8,
}

/// All pairs of the tree, and what each group of descriptors is.
pub fn find(groups: &[Group], holders: &Holders) -> (Vec<Pair>, BTreeMap<usize, Found>) {
    let mut by_inode: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        if group.first().kind() == FileType::Socket {
            by_inode.insert(group.first().inode().1, at);
        }
    }
    let (mut pairs, mut found) = (Vec::new(), BTreeMap::new());
    for (ino, at) in &by_inode {
        if found.contains_key(at) {
            continue;
        }
        match one(groups, &by_inode, *ino, holders) {
            Ok((pair, ends)) => {
                for (end, at) in (0..).zip(ends) {
                    let pair = pairs.len() as u32;
                    found.insert(at, Found::Inside(Box::new(Kind::Socket { pair, end })));
                }
                pairs.push(pair);
            }
            Err(what) => drop(found.insert(*at, what)),
        }
    }
    (pairs, found)
}

fn one(
    groups: &[Group],
    by_inode: &BTreeMap<u64, usize>,
    ino: u64,
    holders: &Holders,
) -> Result<(Pair, [usize; 2]), Found> {
    let unreadable = |e: io::Error| Found::failed("a socket", e);
    let at = by_inode[&ino];
    let here = groups[at].first();
    let copy = here.copy().map_err(unreadable)?;
    let family = sys::socket_option(copy.as_fd(), libc::SO_DOMAIN).map_err(unreadable)?;
    let outside = || Found::Outside(describe(here, &copy, family, holders));
    if family != libc::AF_UNIX || !nameless(&copy) {
        return Err(outside());
    }
    let closed = || holders.changed(&[&groups[at]]);
    let peer = peer(ino).map_err(|e| match closed() {
        true => Found::Closed,
        false => unreadable(e),
    })?;
    let there = peer.ino.and_then(|ino| by_inode.get(&ino).copied());
    let there = there.filter(|other| *other != at);
    let new = |ino: u64| {
        let link = Bytes(format!("socket:[{ino}]").into_bytes());
        !holders.in_tree(&link).is_empty()
    };
    let there = there.ok_or_else(|| match closed() || peer.ino.is_some_and(new) {
        true => Found::Closed,
        false => outside(),
    })?;
    let other = groups[there].first();
    let other_copy = other.copy().map_err(unreadable)?;
    let held = [here, other].map(|e| holders.of_link(&e.link).is_some());
    if held.contains(&true) || !nameless(&other_copy) {
        return Err(outside());
    }
    if [&copy, &other_copy].into_iter().any(has_options) {
        return Err(Found::no(
            "a socket pair with options that are not carried (setsockopt)",
        ));
    }
    if peer.shut != 0 {
        return Err(Found::no("a socket pair of which an end was shut down"));
    }
    let sort = sys::socket_option(copy.as_fd(), libc::SO_TYPE).map_err(unreadable)?;
    let copies = [&copy, &other_copy];
    let mut pair = Pair {
        sort: sort as u32,
        waiting: Default::default(),
    };
    for (waiting, copy) in pair.waiting.iter_mut().zip(copies) {
        *waiting = Bytes(received(copy, sort).map_err(|what| Found::no(what.to_string()))?);
    }
    Ok((pair, [at, there]))
}

/// Whether an option is set that a new pair would not have: limits of time, credentials, where to peek. KERNEL: socket(7),
/// unix(7).
fn has_options(socket: &OwnedFd) -> bool {
    let timed = |which| matches!(socket_timeout(socket, which), Ok(Some(_)));
    let plain = [
        (libc::SO_PASSCRED, 0),
        (libc::SO_RCVLOWAT, 1),
        (libc::SO_PEEK_OFF, -1),
    ];
    let set = |(option, plain): (i32, i32)| {
        sys::socket_option(socket.as_fd(), option).is_ok_and(|value| value != plain)
    };
    timed(Timeout::Recv) || timed(Timeout::Send) || plain.into_iter().any(set)
}

/// Whether the socket has no address of its own, so that only its pair can reach it.
fn nameless(socket: &OwnedFd) -> bool {
    let copy = socket.try_clone().map(UnixStream::from);
    copy.and_then(|s| s.local_addr())
        .is_ok_and(|a| a.is_unnamed())
}

/// What an end has received and not read yet; it stays there. Of a stream all is shown at once, of messages only the first
/// (unix(7)).
fn received(socket: &OwnedFd, sort: i32) -> io::Result<Vec<u8>> {
    let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    if sort != libc::SOCK_STREAM {
        return match recv(socket, &mut [0u8; 1][..], peek) {
            Err(rustix::io::Errno::AGAIN) => Ok(Vec::new()),
            _ => Err(io::Error::other("a pair of sockets with messages in it")),
        };
    }
    for _ in 0..TRIES {
        let before = sys::waiting(socket.as_fd())?;
        let mut bytes = vec![0; before];
        if before > 0 {
            let (n, _) = recv(socket, &mut bytes[..], peek)?;
            bytes.truncate(n);
        }
        // Where processes run, the bytes of any moment will do.
        if bytes.len() == before || sys::waiting(socket.as_fd())? != before {
            return Ok(bytes);
        }
    }
    Err(io::Error::other("a pair of sockets with descriptors in it"))
}

/// The socket that a Unix stream's is connected to, by its inode. `None`: to none, or one of its directions is shut down.
pub fn unix_peer(ino: u64) -> io::Result<Option<u64>> {
    let peer = peer(ino)?;
    Ok(peer.ino.filter(|_| peer.shut == 0))
}

/// Asks for one Unix socket. KERNEL: sock_diag(7).
fn peer(ino: u64) -> io::Result<Peer> {
    let mut ask = Vec::with_capacity(HEADER + REQUEST);
    ask.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    ask.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    ask.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    ask.extend([0; 8]);
    ask.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    ask.extend(u32::MAX.to_ne_bytes());
    ask.extend((ino as u32).to_ne_bytes());
    ask.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    // No cookie: INET_DIAG_NOCOOKIE, twice.
    ask.extend([0xff; 8]);
    let mut socket: File = sys::diagnosis()?;
    socket.write_all(&ask)?;
    let mut answer = [0u8; 4096];
    let n = socket.read(&mut answer)?;
    read_peer(&answer[..n]).ok_or_else(|| io::Error::other("the kernel does not say (UNIX_DIAG)"))
}

fn read_peer(answer: &[u8]) -> Option<Peer> {
    let word = |at: usize| answer.get(at..at + 4).and_then(|b| b.try_into().ok());
    let half = |at: usize| answer.get(at..at + 2).and_then(|b| b.try_into().ok());
    (u16::from_ne_bytes(half(4)?) == SOCK_DIAG_BY_FAMILY).then_some(())?;
    let end = (u32::from_ne_bytes(word(0)?) as usize).min(answer.len());
    let mut peer = Peer::default();
    let mut at = HEADER + ANSWER;
    while at + 4 <= end {
        let (length, kind) = (
            u16::from_ne_bytes(half(at)?) as usize,
            u16::from_ne_bytes(half(at + 2)?),
        );
        match kind {
            UNIX_DIAG_PEER => peer.ino = Some(u32::from_ne_bytes(word(at + 4)?).into()),
            UNIX_DIAG_SHUTDOWN => peer.shut = *answer.get(at + 4)?,
            _ => {}
        }
        // Attributes begin at multiples of four.
        at += length.max(4).next_multiple_of(4);
    }
    Some(peer)
}

/// "a TCP connection to 10.0.0.2:80".
fn describe(entry: &Entry, socket: &OwnedFd, family: i32, holders: &Holders) -> String {
    let Ok(copy) = socket.try_clone() else {
        return "a socket".into();
    };
    let option = |o| sys::socket_option(copy.as_fd(), o).unwrap_or(0);
    let (sort, listens) = (option(libc::SO_TYPE), option(libc::SO_ACCEPTCONN) != 0);
    match family {
        libc::AF_UNIX => unix(entry, copy, listens, holders),
        libc::AF_INET | libc::AF_INET6 if sort == libc::SOCK_STREAM => {
            let socket = TcpStream::from(copy);
            match (socket.peer_addr(), socket.local_addr()) {
                (Ok(peer), _) => format!("a TCP connection to {peer}"),
                (_, Ok(own)) if listens => format!("a TCP socket that listens at {own}"),
                _ => "a TCP socket".into(),
            }
        }
        libc::AF_INET | libc::AF_INET6 if sort == libc::SOCK_DGRAM => {
            let socket = UdpSocket::from(copy);
            match (socket.peer_addr(), socket.local_addr()) {
                (Ok(peer), _) => format!("a UDP socket that sends to {peer}"),
                (_, Ok(own)) => format!("a UDP socket at {own}"),
                _ => "a UDP socket".into(),
            }
        }
        libc::AF_NETLINK => "a netlink socket".into(),
        other => format!("a socket of address family {other}"),
    }
}

fn unix(entry: &Entry, copy: OwnedFd, listens: bool, holders: &Holders) -> String {
    let socket = UnixStream::from(copy);
    let name = |a: io::Result<std::os::unix::net::SocketAddr>| {
        let path = a.ok()?.as_pathname().map(Bytes::from)?;
        Some(path.to_string())
    };
    match (name(socket.peer_addr()), name(socket.local_addr())) {
        (_, Some(own)) if listens => format!("a Unix socket that listens at {own}"),
        (Some(peer), _) => format!("a Unix socket connected to {peer}"),
        (_, Some(own)) => format!("a Unix socket at {own}"),
        _ => match holders.of_link(&entry.link) {
            Some(holder) => format!("a Unix socket that {holder} has too"),
            None => "a Unix socket".into(),
        },
    }
}
