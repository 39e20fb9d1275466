//! systemd.netdev(5) and systemd.network(5). `.link` files are written for all back ends.

use super::file::{File, MARK};
use crate::plan::{Device, NodePlan, Planned, Route};
use std::fmt::Write as _;

pub(super) fn files(plan: &NodePlan) -> Vec<File> {
    let mut files = Vec::new();
    for link in &plan.links {
        let mut add = |kind: &str, text: String| {
            files.push(File {
                path: format!("/etc/systemd/network/10-armento-{}.{kind}", link.name),
                text: format!("{MARK}\n{text}"),
                mode: 0o644,
            });
        };
        if let Some(text) = netdev(link) {
            add("netdev", text);
        }
        add("network", network(plan, link));
    }
    files
}

fn netdev(link: &Planned) -> Option<String> {
    let head = |kind: &str| {
        format!(
            "[NetDev]\nName={}\nKind={kind}\nMTUBytes={}\n",
            link.name, link.mtu
        )
    };
    match &link.device {
        Device::Nic { .. } => None,
        Device::Vlan { id, .. } => Some(format!("{}\n[VLAN]\nId={id}\n", head("vlan"))),
        Device::Bond {
            mac,
            mode,
            miimon_ms,
            lacp_fast,
            hash,
            ..
        } => {
            let address = mac.map_or(String::new(), |mac| format!("MACAddress={mac}\n"));
            let mut text = format!(
                "{}{address}\n[Bond]\nMode={mode}\nMIIMonitorSec={miimon_ms}ms\n",
                head("bond")
            );
            if super::ip::has_hash(mode) {
                let _ = writeln!(text, "TransmitHashPolicy={hash}");
            }
            if *mode == "802.3ad" {
                let _ = writeln!(
                    text,
                    "LACPTransmitRate={}",
                    if *lacp_fast { "fast" } else { "slow" }
                );
            }
            Some(text)
        }
    }
}

fn network(plan: &NodePlan, link: &Planned) -> String {
    // Without a cable the addresses are set all the same, as `ip` does.
    let address = match &link.device {
        Device::Bond { mac: Some(mac), .. } => format!("MACAddress={mac}\n"),
        _ => String::new(),
    };
    let mut text = format!(
        "[Match]\nName={}\n\n[Link]\n{address}MTUBytes={}\n\n[Network]\nDHCP=no\nConfigureWithoutCarrier=yes\n",
        link.name, link.mtu
    );
    let mut line = |l: std::fmt::Arguments| _ = writeln!(text, "{l}");
    if let Device::Nic {
        bond: Some(bond), ..
    } = &link.device
    {
        line(format_args!("LinkLocalAddressing=no\nBond={bond}"));
    }
    for above in &plan.links {
        if matches!(&above.device, Device::Vlan { below, .. } if *below == link.name) {
            line(format_args!("VLAN={}", above.name));
        }
    }
    for address in &link.addresses {
        line(format_args!("Address={address}"));
    }
    for route in plan.routes.iter().filter(|r| r.link == link.name) {
        line(format_args!("\n{}", self::route(route)));
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn route(route: &Route) -> String {
    let mut text = "[Route]\n".to_owned();
    match (route.to.prefix_len(), route.via) {
        (0, Some(_)) => {}
        _ => _ = writeln!(text, "Destination={}", route.to),
    }
    if let Some(via) = route.via {
        let _ = writeln!(text, "Gateway={via}");
    }
    if route.via.is_none() && route.to.addr().is_ipv4() {
        text += "Scope=link\n";
    }
    if let Some(from) = route.from {
        let _ = writeln!(text, "PreferredSource={from}");
    }
    if route.via.is_some() && route.from.is_some() {
        text += "GatewayOnLink=yes\n";
    }
    text.truncate(text.trim_end().len());
    text
}
