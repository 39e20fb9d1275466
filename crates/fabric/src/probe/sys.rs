//! Raw sockets: the system calls that std does not wrap.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::time::Duration;

fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc)
    }
}

fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_int(fd: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let value: *const libc::c_int = &value;
    // SAFETY: `value` is an int that lives through the call; `len` is its size.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.cast(), len) }).map(drop)
}

/// KERNEL: include/uapi/linux/icmp.h
const ICMP_FILTER: i32 = 1;
/// Bytes: 256 paths with a packet of 9000 bytes each, and what the kernel adds to them.
const BUFFER: i32 = 8 << 20;

/// A raw socket of ICMP for IPv4: `send_to` takes a message, `recv_from` gives whole packets. Needs CAP_NET_RAW.
pub(super) fn icmp() -> io::Result<UdpSocket> {
    let socket = socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)?;
    // KERNEL: raw(7), ICMP_FILTER (1): a bit set is a type not wanted; 0 is the answer to an echo request.
    set_int(&socket, libc::SOL_RAW, ICMP_FILTER, !1)?;
    // Answers of many peers wait there while this process does not run. More than the user's limit needs root.
    set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)
        .or_else(|_| set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER))?;
    // `UdpSocket` only because it has the calls; ports mean nothing here.
    Ok(UdpSocket::from(socket))
}

/// Never fragment, and take no notice of what the kernel knows of the path. KERNEL: ip(7), IP_PMTUDISC_PROBE.
pub(super) fn never_fragment(socket: &UdpSocket) -> io::Result<()> {
    set_int(
        socket,
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::IP_PMTUDISC_PROBE,
    )
}

/// Frames of a socket leave and come by this link only. KERNEL: socket(7), SO_BINDTODEVICE.
pub(super) fn bind_to_link(socket: &UdpSocket, link: &str) -> io::Result<()> {
    let len = link.len() as libc::socklen_t;
    // SAFETY: the name lives through the call; `len` is its length.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            link.as_ptr().cast(),
            len,
        )
    };
    check(rc).map(drop)
}

/// A UDP socket on a port that others use, too.
pub(super) fn udp_shared(port: u16) -> io::Result<UdpSocket> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    set_int(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    // SAFETY: all zero is a valid address of any family.
    let mut at: libc::sockaddr_in = unsafe { zeroed() };
    at.sin_family = libc::AF_INET as libc::sa_family_t;
    at.sin_port = port.to_be();
    let place: *const libc::sockaddr_in = &at;
    // SAFETY: `place` is a whole address that lives through the call.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            place.cast(),
            size_of::<libc::sockaddr_in>() as libc::socklen_t,
        )
    })?;
    Ok(UdpSocket::from(socket))
}

/// A socket for frames of one Ethernet type, on all links. Payloads are without the header.
pub(super) struct Frames {
    socket: OwnedFd,
    kind: u16,
}

/// All stations. IEEE 802.3.
const BROADCAST: [u8; 6] = [0xff; 6];

impl Frames {
    /// Needs CAP_NET_RAW. Receiving ends after `patience` without a frame.
    pub(super) fn open(kind: u16, patience: Duration) -> io::Result<Frames> {
        let socket = socket(libc::AF_PACKET, libc::SOCK_DGRAM, i32::from(kind.to_be()))?;
        let time = libc::timeval {
            tv_sec: patience.as_secs() as libc::time_t,
            tv_usec: patience.subsec_micros() as libc::suseconds_t,
        };
        let place: *const libc::timeval = &time;
        let len = size_of::<libc::timeval>() as libc::socklen_t;
        // SAFETY: `place` is a timeval that lives through the call; `len` is its size.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                place.cast(),
                len,
            )
        })?;
        Ok(Frames { socket, kind })
    }

    /// To all stations behind the link with this index.
    pub(super) fn send(&self, index: u32, payload: &[u8]) -> io::Result<()> {
        // SAFETY: all zero is a valid address of any family.
        let mut to: libc::sockaddr_ll = unsafe { zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = self.kind.to_be();
        to.sll_ifindex = index as i32;
        to.sll_halen = 6;
        to.sll_addr[..6].copy_from_slice(&BROADCAST);
        let place: *const libc::sockaddr_ll = &to;
        // SAFETY: payload and address live through the call, with their lengths.
        let rc = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                payload.as_ptr().cast(),
                payload.len(),
                0,
                place.cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if rc < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// The next frame of others: its length in `into`, and the index of the link. `None`: none came in time.
    pub(super) fn receive(&self, into: &mut [u8]) -> io::Result<Option<(usize, u32)>> {
        // SAFETY: all zero is a valid address of any family.
        let mut from: libc::sockaddr_ll = unsafe { zeroed() };
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let place: *mut libc::sockaddr_ll = &mut from;
        // SAFETY: buffer and address are writable for the lengths given.
        let rc = unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                into.as_mut_ptr().cast(),
                into.len(),
                0,
                place.cast(),
                &mut len,
            )
        };
        if rc < 0 {
            let e = io::Error::last_os_error();
            return match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(e),
            };
        }
        let own = from.sll_pkttype == libc::PACKET_OUTGOING;
        Ok((!own).then_some((rc as usize, from.sll_ifindex as u32)))
    }
}
