//! What all importers fill in.

use crate::addr::Mac;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A farm as far as a foreign file tells.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) nodes: Vec<Machine>,
    pub(super) losses: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) name: String,
    /// Its number there, if it has one.
    pub(super) number: Option<u16>,
    /// By the kernel's name of the device.
    pub(super) devices: BTreeMap<String, Device>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    pub(super) mac: Option<Mac>,
    pub(super) address: Option<IpNet>,
    pub(super) gateway: Option<IpAddr>,
    pub(super) mtu: Option<u32>,
    /// The bond that it is a member of.
    pub(super) bond: Option<String>,
    /// Settings of a bond, as the kernel's module takes them: mode, miimon, lacp_rate.
    pub(super) bonding: BTreeMap<String, String>,
    /// The device below and the number.
    pub(super) vlan: Option<(String, u16)>,
}

impl Draft {
    pub(super) fn lose(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.losses.contains(&what) {
            self.losses.push(what);
        }
    }

    /// The machine of this name, made if it is new. Names lose their domain.
    pub(super) fn machine(&mut self, name: &str) -> &mut Machine {
        let short = name.split('.').next().unwrap_or(name);
        if short != name {
            self.lose(format!("{name}: names have no domain; {short}"));
        }
        let at = self
            .nodes
            .iter()
            .position(|m| m.name == short)
            .unwrap_or_else(|| {
                self.nodes.push(Machine {
                    name: short.to_owned(),
                    ..Machine::default()
                });
                self.nodes.len() - 1
            });
        &mut self.nodes[at]
    }
}

/// A number at the end of a device's name after a dot: `eth0.4`.
pub(super) fn vlan_of(device: &str) -> Option<(String, u16)> {
    let (below, id) = device.rsplit_once('.')?;
    let id = id.parse().ok().filter(|id| (1..=4094).contains(id))?;
    Some((below.to_owned(), id))
}

/// An address with a mask: `255.255.255.0`, `24` or nothing, which is what the class of the address says (RFC 791).
pub(super) fn with_mask(address: IpAddr, mask: &str) -> Option<IpNet> {
    if let Ok(len) = mask.parse::<u8>() {
        return IpNet::new(address, len).ok();
    }
    match (address, mask) {
        (IpAddr::V4(a), "") => {
            let len = match a.octets()[0] {
                0..128 => 8,
                128..192 => 16,
                _ => 24,
            };
            IpNet::new(address, len).ok()
        }
        (_, "") => IpNet::new(address, 64).ok(),
        (_, mask) => IpNet::with_netmask(address, mask.parse().ok()?).ok(),
    }
}
