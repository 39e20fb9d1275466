//! getifaddrs(3).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of an interface of this machine.
pub struct Row {
    pub interface: String,
    pub ip: IpAddr,
    pub up: bool,
    pub loopback: bool,
}

pub fn rows() -> io::Result<Vec<Row>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the list is written to `first`, and freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut rows = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: `at` is an element of the list, which does not change.
        let one = unsafe { &*at };
        if let Some(ip) = ip_of(one) {
            // SAFETY: the name is a string of C in the same list.
            let name = unsafe { CStr::from_ptr(one.ifa_name) };
            let has = |flag: libc::c_int| one.ifa_flags & flag.cast_unsigned() != 0;
            rows.push(Row {
                interface: name.to_string_lossy().into_owned(),
                ip,
                up: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
                loopback: has(libc::IFF_LOOPBACK),
            });
        }
        at = one.ifa_next;
    }
    // SAFETY: what getifaddrs gave, once; nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(rows)
}

/// `None` for packet sockets and interfaces without an address.
fn ip_of(one: &libc::ifaddrs) -> Option<IpAddr> {
    if one.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family.
    let family = i32::from(unsafe { (*one.ifa_addr).sa_family });
    match family {
        libc::AF_INET => {
            // SAFETY: its family says that it is a sockaddr_in.
            let v4 = unsafe { &*one.ifa_addr.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: its family says that it is a sockaddr_in6.
            let v6 = unsafe { &*one.ifa_addr.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}
