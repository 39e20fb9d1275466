//! ethers(5): hardware address, then name or address. A hosts file beside it tells the other one.

use super::draft::{Draft, with_mask};
use super::given::Given;
use super::hosts::Hosts;
use std::net::IpAddr;

/// Where nodes without any address are put (RFC 1918).
const NET: &str = "192.168.1.0/24";

pub(super) fn read(_files: &[Given], hosts: &Hosts) -> Draft {
    let mut draft = Draft::default();
    for (i, (mac, who)) in hosts.cards.iter().enumerate() {
        let address: Option<IpAddr> = hosts.address(who);
        let name = match who.parse::<IpAddr>() {
            Ok(addr) => hosts
                .name(addr)
                .map_or_else(|| format!("n{}", i + 1), str::to_owned),
            Err(_) => who.clone(),
        };
        if address.is_none() {
            draft.lose(format!(
                "{name}: no file has its address; it was given one of {NET} by its number"
            ));
        } else {
            draft.lose("masks: ethers(5) and hosts(5) have none; those of the addresses' classes were taken");
        }
        let machine = draft.machine(&name);
        let device = machine.devices.len();
        let device = machine.devices.entry(format!("eth{device}")).or_default();
        device.mac = Some(*mac);
        device.address = address.and_then(|a| with_mask(a, ""));
        // A second card of one name has the same address in hosts(5).
        if machine.devices.len() > 1 {
            let last = machine.devices.len() - 1;
            if let Some(second) = machine.devices.get_mut(&format!("eth{last}")) {
                second.address = None;
            }
        }
    }
    draft
}
