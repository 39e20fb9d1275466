//! Listening sockets: both address families on one where the address is `::`, and bound before the address exists.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

/// The value of the standard library.
const BACKLOG: i32 = 128;

/// Listens at `addr`. With `::` it accepts IPv4, too, whatever net.ipv6.bindv6only is. If `early` is set the address
/// may be assigned to an interface later (KERNEL: ip(7), IP_FREEBIND; it applies to IPv6 as well).
pub fn listen_tcp(addr: SocketAddr, early: bool) -> io::Result<TcpListener> {
    let socket = open(addr, Type::STREAM, Protocol::TCP, early)?;
    // A port with earlier connections that are still closing can be used.
    socket.set_reuse_address(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// As [`listen_tcp`], for datagrams.
pub fn bind_udp(addr: SocketAddr, early: bool) -> io::Result<UdpSocket> {
    let socket = open(addr, Type::DGRAM, Protocol::UDP, early)?;
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

fn open(addr: SocketAddr, kind: Type, protocol: Protocol, early: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), kind, Some(protocol))?;
    if addr.is_ipv6() {
        socket.set_only_v6(!addr.ip().is_unspecified())?;
    }
    if early && !addr.ip().is_unspecified() {
        // If the address is unusable, the caller gets the error on use.
        socket.set_freebind_v4(true)?;
    }
    Ok(socket)
}

/// Whether this machine supports IPv6 at all.
pub fn has_ipv6() -> bool {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    bind_udp(any, false).is_ok()
}

/// The address in its usual form: IPv4 within IPv6 (`::ffff:10.0.0.1`) becomes IPv4.
pub fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// The address in the form needed by a socket bound to `local`; `None` if the two have no family in common.
pub fn for_socket(to: SocketAddr, local: SocketAddr) -> Option<SocketAddr> {
    match (local.ip(), to.ip()) {
        (IpAddr::V4(_), IpAddr::V4(_)) => Some(to),
        (IpAddr::V6(_), IpAddr::V6(_)) => Some(to),
        (IpAddr::V6(any), IpAddr::V4(v4)) if any.is_unspecified() => {
            Some(SocketAddr::new(v4.to_ipv6_mapped().into(), to.port()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("address")
    }

    #[test]
    fn addresses_are_mapped_for_the_socket_and_back() {
        let check = |to: &str, local: &str, want: Option<&str>| {
            assert_eq!(for_socket(at(to), at(local)), want.map(at), "{to} {local}");
        };
        check("10.0.0.1:7", "0.0.0.0:1", Some("10.0.0.1:7"));
        check("10.0.0.1:7", "[::]:1", Some("[::ffff:10.0.0.1]:7"));
        check("10.0.0.1:7", "[fd00::1]:1", None);
        check("[fd00::2]:7", "[::]:1", Some("[fd00::2]:7"));
        check("[fd00::2]:7", "0.0.0.0:1", None);
        assert_eq!(canonical(at("[::ffff:10.0.0.1]:7")), at("10.0.0.1:7"));
        assert_eq!(canonical(at("[fd00::2]:7")), at("[fd00::2]:7"));
    }

    #[test]
    fn one_socket_accepts_both_families() {
        if !has_ipv6() {
            println!("skipped: this machine has no IPv6");
            return;
        }
        let door = listen_tcp(at("[::]:0"), true).expect("listen");
        let port = door.local_addr().expect("address").port();
        for ip in ["127.0.0.1", "::1"] {
            let ip: IpAddr = ip.parse().expect("address");
            let mut dial = TcpStream::connect((ip, port)).expect("connect");
            let (mut met, from) = door.accept().expect("accept");
            assert_eq!(canonical(from).ip(), ip);
            dial.write_all(b"x").expect("write");
            met.read_exact(&mut [0]).expect("read");
        }
        let ours = bind_udp(at("[::]:0"), true).expect("bind");
        let theirs = bind_udp(at("127.0.0.1:0"), false).expect("bind");
        let local = ours.local_addr().expect("address");
        let to = for_socket(theirs.local_addr().expect("address"), local).expect("mapped");
        ours.send_to(b"y", to).expect("send");
        let (_, from) = theirs.recv_from(&mut [0; 4]).expect("receive");
        assert_eq!(from.port(), local.port());
    }

    /// 192.0.2.0/24 and 2001:db8::/32 are reserved for documentation (RFC 5737, 3849). Nothing is sent.
    #[test]
    fn address_may_be_assigned_later() {
        let absent = [at("192.0.2.1:0"), at("[2001:db8::1]:0")];
        for addr in absent.into_iter().filter(|a| a.is_ipv4() || has_ipv6()) {
            assert!(listen_tcp(addr, true).is_ok() && bind_udp(addr, true).is_ok());
            let no = listen_tcp(addr, false).expect_err("absent");
            assert_eq!(no.kind(), io::ErrorKind::AddrNotAvailable);
        }
    }
}
