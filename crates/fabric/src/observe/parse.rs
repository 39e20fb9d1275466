//! The output of `ip -d -j address` and `ip -j route` as values. Source of the form: iproute2 6.1, ip/ipaddress.c,
//! ip/iplink_bond.c, ip/iproute.c.

use crate::addr::Mac;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The network of a machine as its kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    pub links: Vec<Seen>,
    /// Of the main table.
    pub routes: Vec<RouteSeen>,
    /// Below /proc/sys, with slashes; those that were asked for and exist.
    pub sysctls: BTreeMap<String, String>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub index: u32,
    pub name: String,
    /// `bond`, `vlan`, `veth`, …; empty for a card.
    pub kind: String,
    /// Its address now; a member of a bond has the bond's.
    pub mac: Option<Mac>,
    /// Its card's own address, where the kernel tells one.
    pub permanent: Option<Mac>,
    /// Bytes.
    pub mtu: u32,
    /// Switched on by us.
    pub up: bool,
    /// Something at the other end.
    pub carrier: bool,
    pub addresses: Vec<IpNet>,
    /// Broadcast addresses of those that have one.
    #[serde(default)]
    pub broadcasts: Vec<(IpNet, IpAddr)>,
    /// The bond that it is in.
    pub bond: Option<String>,
    /// The link below and the number.
    pub vlan: Option<(String, u16)>,
    pub bonding: Option<BondSeen>,
    pub member: Option<MemberSeen>,
    pub counters: Counters,
}

impl Seen {
    /// The address by which the inventory knows it.
    pub fn card(&self) -> Option<Mac> {
        self.permanent.or(self.mac)
    }
}

/// Settings and state of a bond.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BondSeen {
    pub mode: String,
    pub miimon_ms: u32,
    pub lacp_fast: bool,
    pub hash: String,
    /// The switch's address as LACP tells it; all zero: no partner.
    pub partner: String,
    /// Members in the active aggregator.
    pub ports: u32,
}

/// State of a bond's member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSeen {
    pub aggregator: u32,
    /// The LACP state of the own port, a bit mask (IEEE 802.1AX); 0x3f: all is well.
    pub port_state: u32,
    pub failures: u32,
}

/// What sysfs counts for a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub carrier_changes: u64,
    /// Mbit/s, if the driver tells.
    pub speed_mbit: Option<u32>,
    /// `full`, `half`, or empty.
    pub duplex: String,
    pub tx_bytes: u64,
    pub rx_bytes: u64,
    pub rx_crc_errors: u64,
    pub collisions: u64,
    pub tx_window_errors: u64,
    pub rx_dropped: u64,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSeen {
    pub to: Option<IpNet>,
    pub via: Option<IpAddr>,
    pub link: String,
    pub from: Option<IpAddr>,
    /// Who made it: `kernel`, `static`, `boot`, `dhcp`, `ra`, …
    pub protocol: String,
    pub metric: u32,
}

/// Reads the outputs of `ip -d -j address`, `ip -j route` and `ip -6 -j route`. What it does not know is passed over.
///
/// Errors: text that is no JSON list.
pub fn parse(addresses: &str, routes: &[&str]) -> Result<Observed, serde_json::Error> {
    let links: Vec<Value> = list(addresses)?;
    let mut observed = Observed {
        links: links.iter().map(link).collect(),
        ..Observed::default()
    };
    for text in routes {
        let routes: Vec<Value> = list(text)?;
        observed.routes.extend(routes.iter().filter_map(route));
    }
    Ok(observed)
}

/// `ip` prints nothing at all when there is nothing.
fn list(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    match text.trim() {
        "" => Ok(Vec::new()),
        text => serde_json::from_str(text),
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value, key: &str) -> u32 {
    let n = value[key].as_u64().and_then(|n| n.try_into().ok());
    // Some versions print hexadecimal or numbers as text.
    n.or_else(|| value[key].as_str().and_then(|t| t.parse().ok()))
        .unwrap_or(0)
}

fn link(v: &Value) -> Seen {
    let flags: Vec<&str> = v["flags"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let info = &v["linkinfo"];
    let kind = text(info, "info_kind");
    let data = &info["info_data"];
    let member = &info["info_slave_data"]; // KERNEL: iproute2's word
    let in_bond = text(info, "info_slave_kind") == "bond"; // KERNEL: iproute2's word
    let infos = || v["addr_info"].as_array().into_iter().flatten();
    let address = |a: &Value| {
        let local: IpAddr = a["local"].as_str()?.parse().ok()?;
        IpNet::new(local, a["prefixlen"].as_u64()?.try_into().ok()?).ok()
    };
    let broadcast = |a: &Value| Some((address(a)?, a["broadcast"].as_str()?.parse().ok()?));
    let permanent = v["permaddr"]
        .as_str()
        .or_else(|| member["perm_hwaddr"].as_str());
    let vlan = (kind == "vlan").then(|| {
        let id = u16::try_from(number(data, "id")).unwrap_or(0);
        (text(v, "link"), id)
    });
    Seen {
        index: number(v, "ifindex"),
        name: text(v, "ifname"),
        mac: v["address"].as_str().and_then(|m| m.parse().ok()),
        permanent: permanent.and_then(|m| m.parse().ok()),
        mtu: number(v, "mtu"),
        up: flags.contains(&"UP"),
        carrier: flags.contains(&"LOWER_UP"),
        addresses: infos().filter_map(address).collect(),
        broadcasts: infos().filter_map(broadcast).collect(),
        bond: in_bond.then(|| text(v, "master")), // KERNEL: iproute2's word
        vlan,
        bonding: (kind == "bond").then(|| bond(data)),
        member: in_bond.then(|| MemberSeen {
            aggregator: number(member, "ad_aggregator_id"),
            port_state: number(member, "ad_actor_oper_port_state"),
            failures: number(member, "link_failure_count"),
        }),
        kind,
        counters: Counters::default(),
    }
}

fn bond(data: &Value) -> BondSeen {
    BondSeen {
        mode: text(data, "mode"),
        miimon_ms: number(data, "miimon"),
        lacp_fast: text(data, "ad_lacp_rate") == "fast",
        hash: text(data, "xmit_hash_policy"),
        partner: text(&data["ad_info"], "partner_mac"),
        ports: number(&data["ad_info"], "num_ports"),
    }
}

fn route(v: &Value) -> Option<RouteSeen> {
    let to = match v["dst"].as_str()? {
        // KERNEL: iproute2's word
        "default" => None,
        one => Some(
            one.parse()
                .or_else(|_| one.parse::<IpAddr>().map(IpNet::from))
                .ok()?,
        ),
    };
    Some(RouteSeen {
        to,
        via: v["gateway"].as_str().and_then(|a| a.parse().ok()),
        link: text(v, "dev"),
        from: v["prefsrc"].as_str().and_then(|a| a.parse().ok()),
        protocol: text(v, "protocol"),
        metric: number(v, "metric"),
    })
}
