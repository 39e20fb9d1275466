//! dnsmasq.conf for the boot net: static leases by hardware address, network boot for BIOS and UEFI.

use super::file::MARK;
use crate::inventory::{Farm, Kind, Link, Node, Root};
use std::fmt::Write as _;

/// Who gives out addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dhcp {
    /// This server alone.
    Own,
    /// Another one; this server adds what is needed to boot.
    Proxy,
}

/// The configuration of the boot server `server`; none without a boot net that it is in. `port`: of the HTTP server with
/// the script and the images.
pub fn dnsmasq(farm: &Farm, server: &Node, dhcp: Dhcp, port: u16) -> Option<String> {
    let net = farm.nets.values().find(|n| n.boot)?;
    let in_net = |n: &&Link| n.nets.iter().any(|a| a.net == net.name);
    let link = server.links.iter().find(in_net)?;
    let own = server.address(&net.name)?;
    let url = format!("http://{own}:{port}/boot.ipxe");
    let mut text = format!(
        "{MARK}\nport=0\ninterface={}\nbind-dynamic\nenable-tftp\n",
        link.name
    );
    let mut line = |l: std::fmt::Arguments| _ = writeln!(text, "{l}");
    line(format_args!("tftp-root=/var/lib/armento/boot/tftp"));
    // iPXE sends option 175. It waits 16 s for a router of IPv6 if none answers.
    line(format_args!("dhcp-match=set:ipxe,175"));
    line(format_args!("dhcp-match=set:efi64,option:client-arch,7"));
    line(format_args!("dhcp-match=set:efi64,option:client-arch,9"));
    line(format_args!("enable-ra"));
    line(format_args!(
        "dhcp-range=::,constructor:{},ra-only",
        link.name
    ));
    match dhcp {
        Dhcp::Own => {
            line(format_args!(
                "dhcp-range={},static,{}",
                net.cidr.network(),
                net.cidr.netmask()
            ));
            line(format_args!("dhcp-boot=tag:!ipxe,tag:!efi64,undionly.kpxe"));
            line(format_args!("dhcp-boot=tag:!ipxe,tag:efi64,snponly.efi"));
            line(format_args!("dhcp-boot=tag:ipxe,{url}"));
            if net.gateway.is_none() {
                line(format_args!("dhcp-option=option:router"));
            }
            if let Some(gateway) = net.gateway {
                line(format_args!("dhcp-option=option:router,{gateway}"));
            }
            for node in farm.nodes.iter().filter(|n| n.root != Root::Disk) {
                if let Some(lease) = lease(node, &net.name) {
                    line(format_args!("{lease}"));
                }
            }
        }
        Dhcp::Proxy => {
            line(format_args!(
                "dhcp-range={},proxy,{}",
                net.cidr.network(),
                net.cidr.netmask()
            ));
            line(format_args!("dhcp-option=vendor:PXEClient,6,2b"));
            line(format_args!(
                "pxe-service=tag:!ipxe,x86PC,\"armento\",undionly.kpxe"
            ));
            line(format_args!(
                "pxe-service=tag:!ipxe,x86-64_EFI,\"armento\",snponly.efi"
            ));
            line(format_args!("pxe-service=tag:ipxe,x86PC,\"armento\",{url}"));
            line(format_args!(
                "pxe-service=tag:ipxe,x86-64_EFI,\"armento\",{url}"
            ));
        }
    }
    Some(text)
}

fn lease(node: &Node, net: &str) -> Option<String> {
    let link = node
        .links
        .iter()
        .find(|l| l.nets.iter().any(|a| a.net == net))?;
    let macs: Vec<String> = match &link.kind {
        Kind::Nic { mac } => mac.iter().map(ToString::to_string).collect(),
        // The firmware boots from any member.
        Kind::Bond(bond) => {
            let members = bond.of.iter().filter_map(|m| node.link(m));
            let macs = members.filter_map(|l| match l.kind {
                Kind::Nic { mac } => mac.map(|m| m.to_string()),
                Kind::Bond(_) => None,
            });
            macs.collect()
        }
    };
    let address = node.address(net)?;
    (!macs.is_empty()).then(|| {
        format!(
            "dhcp-host={},{address},{},infinite",
            macs.join(","),
            node.name
        )
    })
}
