//! The protocol of sd_notify(3): one datagram a message, to the socket that NOTIFY_SOCKET names.
//!
//! Without that variable nothing is sent. A message that cannot be sent is dropped: the service manager then shows an
//! older state, and the daemon goes on.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The variable that names the socket.
pub const SOCKET: &str = "NOTIFY_SOCKET";
/// How long a send may take when the service manager does not read.
const SEND_MAX: Duration = Duration::from_secs(1);

/// This program does what it was started for; `status` is shown by `systemctl status`.
pub fn ready(status: &str) {
    notify(&format!("READY=1\nSTATUS={status}"));
}

/// The configuration is being read again; [`ready`] ends it.
pub fn reloading() {
    let now_us = armento_tracee::sys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0) / 1000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
}

/// This program ends.
pub fn stopping(status: &str) {
    notify(&format!("STOPPING=1\nSTATUS={status}"));
}

fn notify(message: &str) {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return;
    };
    if let Err(e) = send(&socket, message) {
        tracing::debug!("the service manager was not told: {e}");
    }
}

/// A name that begins with `@` is an abstract one.
fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let ours = UnixDatagram::unbound()?;
    ours.set_write_timeout(Some(SEND_MAX))?;
    ours.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_named_and_abstract_sockets() {
        let name = format!("armento-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let check = |manager: UnixDatagram, socket: &str| {
            send(socket.as_ref(), "READY=1\nSTATUS=listens").expect("sent");
            let mut received = [0u8; 64];
            let n = manager.recv(&mut received).expect("a message");
            assert_eq!(&received[..n], b"READY=1\nSTATUS=listens");
        };
        let named = UnixDatagram::bind(&path).expect("a socket");
        check(named, path.to_str().expect("a path"));
        let _ = std::fs::remove_file(&path);
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let unnamed = UnixDatagram::bind_addr(&address).expect("a socket");
        check(unnamed, &format!("@{name}"));
        assert!(send("@armento-no-such-socket".as_ref(), "READY=1").is_err());
    }
}
