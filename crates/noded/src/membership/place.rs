//! Where a node that makes or joins a farm listens, and what address it gives to the others.

use crate::address::{self, Choice, Written};
use crate::config::Config;
use crate::error::FarmError;
use armento_link::{random_hex, sockets};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where a node listens, and where it says that it is.
pub struct Place {
    pub listen: SocketAddr,
    /// The name that was given for it.
    pub name: Option<String>,
    /// What was given for the address that others are told.
    address: Option<String>,
}

impl Place {
    /// `--listen`, `listen =`, or the default. Port 0 becomes a free one here and now, because others
    /// are told and a restart must find it again.
    pub fn choose(
        listen: Option<&str>,
        address: Option<&str>,
        config: &Config,
    ) -> Result<Place, FarmError> {
        let given = listen.or(config.listen.as_deref());
        let mut listen = match given {
            Some(text) => address::listen_at(text)?,
            None => default_listen(),
        };
        if listen.port() == 0 {
            let port = free_port(listen.ip()).ok_or_else(|| FarmError::Listen {
                addr: listen.to_string(),
                cause: "no port is free, or this machine has not that address".into(),
                hint: OTHER_LISTEN.into(),
            })?;
            listen.set_port(port);
        }
        let is_name = |text: &&str| text.parse::<Written>().is_ok_and(|w| w.is_name());
        Ok(Place {
            listen,
            name: given.filter(is_name).map(str::to_owned),
            address: address.or(config.address.as_deref()).map(str::to_owned),
        })
    }

    /// Refuses a port in use and an address that this machine has not.
    pub fn is_free(&self) -> Result<(), FarmError> {
        sockets::listen_tcp(self.listen, false)
            .and_then(|_| sockets::bind_udp(self.listen, false))
            .map(drop)
            .map_err(|e| self.refused(&e))
    }

    pub fn refused(&self, e: &std::io::Error) -> FarmError {
        listen_refused(self.listen, e)
    }

    /// The address others use: the given one, the one of listening, `seen` by a member, or the one that is found; and
    /// whether it was found.
    pub fn advertised(&self, seen: Option<IpAddr>) -> Result<(SocketAddr, bool), FarmError> {
        let port = self.listen.port();
        if let Some(text) = &self.address {
            return Ok((address::advertised_address(text, port)?, false));
        }
        if !self.listen.ip().is_unspecified() {
            return Ok((self.listen, false));
        }
        if let Some(seen) = seen {
            return Ok((SocketAddr::new(seen.to_canonical(), port), true));
        }
        match address::choose(self.listen.is_ipv6()) {
            Choice::One(ip) => Ok((SocketAddr::new(ip, port), true)),
            Choice::Several(all) => Err(FarmError::Choose(all)),
            Choice::None => Err(FarmError::NoAddress),
        }
    }
}

const OTHER_LISTEN: &str = "choose another address with --listen or `listen =`";

/// Why nothing listens at `listen`, and what to do.
pub fn listen_refused(listen: SocketAddr, e: &std::io::Error) -> FarmError {
    let port = listen.port();
    let (cause, hint) = match e.kind() {
        ErrorKind::AddrInUse => (
            "the port is in use".to_owned(),
            format!(
                "`ss -lntup sport = :{port}` shows by which program: end that, or give another port with --listen or `listen =`"
            ),
        ),
        ErrorKind::AddrNotAvailable => (
            "no interface of this machine has that address".to_owned(),
            format!(
                "give one that it has ({}) or none; behind NAT the address that others reach is --address",
                address::outer_list()
            ),
        ),
        _ => (e.to_string(), OTHER_LISTEN.into()),
    };
    FarmError::Listen {
        addr: listen.to_string(),
        cause,
        hint,
    }
}

/// Both families where this machine has them.
fn default_listen() -> SocketAddr {
    let ip = match sockets::has_ipv6() {
        true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, address::PORT)
}

/// A port free for TCP and UDP, below the kernel's own range for outgoing connections
/// (KERNEL: ip_local_port_range begins at 32768), so that none of those takes it later.
fn free_port(ip: IpAddr) -> Option<u16> {
    (0..100).find_map(|_| {
        let dice = u16::from_str_radix(&random_hex(2), 16).ok()?;
        let at = SocketAddr::new(ip, 10_240 + dice % 20_000);
        let both = sockets::listen_tcp(at, false).and_then(|_| sockets::bind_udp(at, false));
        both.ok().map(|_| at.port())
    })
}
