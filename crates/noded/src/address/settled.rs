//! Where this node is: settled at each start of its daemon, and looked at while that runs.

use super::found::{Follow, follow};
use super::interfaces::has;
use super::resolve::{advertised_address, listen_at};
use crate::config::Config;
use crate::error::FarmError;
use crate::state_dir::Farm;
use std::net::SocketAddr;

/// Brings what was written down when the node joined up to the configuration, the names and the interfaces of today.
pub fn settle(farm: &mut Farm, config: &Config) -> Result<(), FarmError> {
    let name = farm.listen_name.clone();
    if let Some(text) = config.listen.as_ref().or(name.as_ref()) {
        match listen_at(text) {
            Ok(listen) => farm.listen = listen,
            // A slip in the file is told; a name server that is not up yet is not waited for.
            Err(e @ FarmError::Written { .. }) => return Err(e),
            Err(e) => tracing::warn!("{e}; it listens at {} as before", farm.listen),
        }
        if !farm.listen.ip().is_unspecified() {
            (farm.addr, farm.found) = (farm.listen, false);
        }
        farm.addr.set_port(farm.listen.port());
    }
    if let Some(text) = &config.address {
        match advertised_address(text, farm.listen.port()) {
            Ok(addr) => (farm.addr, farm.found) = (addr, false),
            Err(e @ FarmError::Written { .. }) => return Err(e),
            Err(e) => tracing::warn!("{e}; others are told {} as before", farm.addr),
        }
    }
    if farm.found
        && let Follow::Moved(ip) = follow(farm.addr.ip(), farm.listen.is_ipv6())
    {
        tracing::info!("this node was at {}, and is at {ip} now", farm.addr.ip());
        farm.addr.set_ip(ip);
    }
    Ok(())
}

/// What the last look found, for the log and for those who were told an address of before.
#[derive(Debug, Default)]
pub struct Watch {
    /// Looks in a row that found the told address gone: DHCP may take it away for a moment.
    gone: u32,
    /// It was said that there is none.
    said: bool,
}

/// Looks after which a node believes that its address has changed: seconds, unless loads are told more often. Others
/// declare it down after six.
const GONE: u32 = 3;

impl Watch {
    /// `told` is the address that the others know. `Some`: they must be told this one from now on.
    pub fn look(&mut self, farm: &Farm, advertised: SocketAddr) -> Option<SocketAddr> {
        if !farm.found {
            self.given(farm);
            return None;
        }
        match follow(advertised.ip(), farm.listen.is_ipv6()) {
            Follow::Kept => {
                if std::mem::take(&mut self.said) {
                    tracing::info!("{} is back", advertised.ip());
                }
                self.gone = 0;
                None
            }
            Follow::Moved(ip) => {
                self.gone += 1;
                if self.gone < GONE {
                    return None;
                }
                (self.gone, self.said) = (0, false);
                tracing::warn!(
                    "this machine is no more at {}, but at {ip}: the others are told",
                    advertised.ip()
                );
                Some(SocketAddr::new(ip, advertised.port()))
            }
            Follow::Lost => {
                self.gone += 1;
                if self.gone >= GONE && !std::mem::replace(&mut self.said, true) {
                    tracing::warn!(
                        "{} is on no interface, and there is no other address: no node reaches this one until there is",
                        advertised.ip()
                    );
                }
                None
            }
        }
    }

    /// An address at which it is told to listen, and which may come late.
    fn given(&mut self, farm: &Farm) {
        let ip = farm.listen.ip();
        match (has(ip), self.said) {
            (true, true) => {
                tracing::info!("{ip} has come");
                self.said = false;
            }
            (false, false) => {
                tracing::warn!(
                    "{ip}, where this node is to listen, is on no interface yet: no node reaches this one until it comes"
                );
                self.said = true;
            }
            _ => {}
        }
    }
}
