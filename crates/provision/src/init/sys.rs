//! System calls of the initramfs that no library offers: cards by ioctl, loop devices.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::{Path, PathBuf};

/// KERNEL: loop(4); linux/loop.h
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// KERNEL: linux/loop.h, struct loop_config, since Linux 5.8: 304 bytes; `fd`, `block_size`, then `struct loop_info64`,
/// whose `lo_flags` are at its byte 52.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info_before_flags: [u8; 52],
    flags: u32,
    info_after_flags: [u8; 176],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

fn ifreq(link: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is plain data; all zero is a valid value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if link.is_empty() || link.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(link.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: plain data; all zero is a valid value.
    let mut inner: libc::sockaddr_in = unsafe { zeroed() };
    inner.sin_family = libc::AF_INET as libc::sa_family_t;
    inner.sin_addr.s_addr = u32::from(address).to_be();
    // SAFETY: both are 16 bytes of plain data, and `sockaddr` is what the kernel takes for any family.
    unsafe { std::mem::transmute(inner) }
}

fn control<T>(number: libc::Ioctl, request: &mut T) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    // Without an address of its own a machine can still bind to none.
    let socket = socket?;
    call(
        socket.as_raw_fd(),
        number,
        std::ptr::from_mut(request) as usize,
    )
    .map(drop)
}

fn call(fd: RawFd, number: libc::Ioctl, argument: usize) -> io::Result<i32> {
    // SAFETY: callers pass numbers whose argument is a number, or a pointer to a value of the type that the number asks for,
    // alive until the call returns.
    let done = unsafe { libc::ioctl(fd, number, argument) };
    match done {
        -1 => Err(io::Error::last_os_error()),
        n => Ok(n),
    }
}

/// Gives a card, which must be down, another name. KERNEL: netdevice(7)
pub fn rename(link: &str, name: &str) -> io::Result<()> {
    let mut request = ifreq(link)?;
    let new = ifreq(name)?;
    request.ifr_ifru.ifru_newname = new.ifr_name;
    control(libc::SIOCSIFNAME as libc::Ioctl, &mut request)
}

/// Switches a card on.
pub fn up(link: &str) -> io::Result<()> {
    let mut request = ifreq(link)?;
    control(libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
    // SAFETY: the call above filled in `ifru_flags`.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    control(libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}

/// Gives a card its address and netmask.
pub fn set_address(link: &str, address: Ipv4Addr, netmask: Ipv4Addr) -> io::Result<()> {
    let mut request = ifreq(link)?;
    request.ifr_ifru.ifru_addr = sockaddr(address);
    control(libc::SIOCSIFADDR as libc::Ioctl, &mut request)?;
    request.ifr_ifru.ifru_netmask = sockaddr(netmask);
    control(libc::SIOCSIFNETMASK as libc::Ioctl, &mut request)
}

/// Sends what is for no known net to a gateway.
pub fn default_route(gateway: Ipv4Addr) -> io::Result<()> {
    // SAFETY: plain data; all zero is a valid value.
    let mut route: libc::rtentry = unsafe { zeroed() };
    route.rt_dst = sockaddr(Ipv4Addr::UNSPECIFIED); // KERNEL: its name in rtentry
    route.rt_genmask = sockaddr(Ipv4Addr::UNSPECIFIED);
    route.rt_gateway = sockaddr(gateway);
    route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
    control(libc::SIOCADDRT as libc::Ioctl, &mut route)
}

/// Makes a file a read-only block device, for as long as it is mounted. Returns the device and an open file of it: keep
/// it until the mount.
pub fn loop_device(file: &Path) -> io::Result<(PathBuf, File)> {
    let backing = File::open(file)?;
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    let number = call(control.as_raw_fd(), LOOP_CTL_GET_FREE, 0)?;
    let path = PathBuf::from(format!("/dev/loop{number}"));
    let device = fs::File::open(&path)?;
    // SAFETY: plain data; all zero is a valid value.
    let mut config: LoopConfig = unsafe { zeroed() };
    config.fd = backing.as_raw_fd() as u32;
    config.flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
    call(
        device.as_raw_fd(),
        LOOP_CONFIGURE,
        std::ptr::from_ref(&config) as usize,
    )?;
    Ok((path, device))
}

/// Keeps this process's memory where it is: its program's file system may not answer. KERNEL: mlockall(2)
pub fn lock_memory() {
    // SAFETY: takes two flags; it changes nothing but where pages are kept.
    let _ = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
}
