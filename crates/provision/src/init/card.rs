//! The card that the machine booted from: found by its address, named as the inventory does, and given its address. Other
//! cards are left to the root's own network, since a card that is up cannot be renamed (Linux 6.1).

use super::order::Order;
use super::sys;
use armento_fabric::addr::Mac;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const CARDS: &str = "/sys/class/net";
/// A card appears when its driver has found it; slow ones load firmware.
const APPEARS: Duration = Duration::from_secs(20);
/// A switch's port may learn for 30 s (IEEE 802.1D: twice the forward delay of 15 s).
const CARRIER: Duration = Duration::from_secs(45);
const AGAIN: Duration = Duration::from_millis(50);

/// Sets up the card. Errors: in words, with the cards that there are.
pub fn set_up(order: &Order) -> Result<(), String> {
    let at = |what: &str, e: std::io::Error| format!("{}: {what}: {e}", order.link);
    sys::up("lo").map_err(|e| format!("lo: {e}"))?;
    let found = find(order.mac)?;
    if found != order.link {
        sys::rename(&found, &order.link).map_err(|e| at(&format!("renaming {found}"), e))?;
    }
    sys::up(&order.link).map_err(|e| at("switching it on", e))?;
    let until = Instant::now() + CARRIER;
    let carrier = Path::new(CARDS).join(&order.link).join("carrier");
    while !fs::read_to_string(&carrier).is_ok_and(|c| c.trim() == "1") {
        if Instant::now() > until {
            return Err(format!(
                "{} has no carrier after {} s",
                order.link,
                CARRIER.as_secs()
            ));
        }
        sleep(AGAIN);
    }
    let (address, netmask) = (order.address.addr(), order.address.netmask());
    sys::set_address(&order.link, address, netmask).map_err(|e| at("its address", e))?;
    if let Some(gateway) = order.gateway {
        sys::default_route(gateway).map_err(|e| at("the gateway", e))?;
    }
    Ok(())
}

fn find(mac: Mac) -> Result<String, String> {
    let until = Instant::now() + APPEARS;
    loop {
        let all = cards();
        if let Some((name, _)) = all.iter().find(|(_, m)| *m == mac) {
            return Ok(name.clone());
        }
        if Instant::now() > until {
            let all: Vec<String> = all.iter().map(|(n, m)| format!("{n} {m}")).collect();
            let all = match all.is_empty() {
                true => "there is none: the kernel has no driver for it".into(),
                false => format!("cards: {}", all.join(", ")),
            };
            return Err(format!("no card has the address {mac}; {all}"));
        }
        sleep(AGAIN);
    }
}

fn cards() -> Vec<(String, Mac)> {
    let entries = fs::read_dir(CARDS).into_iter().flatten().flatten();
    let card = |entry: fs::DirEntry| {
        let mac = fs::read_to_string(entry.path().join("address")).ok()?;
        Some((
            entry.file_name().to_string_lossy().into_owned(),
            mac.trim().parse().ok()?,
        ))
    };
    entries.filter_map(card).collect()
}
