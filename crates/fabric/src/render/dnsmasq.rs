//! dnsmasq.conf for the boot net: static leases by hardware address, network boot for BIOS and UEFI.

use super::file::MARK;
use crate::addr::Mac;
use crate::inventory::{Farm, Node, Root};
use std::fmt::Write as _;

/// Who gives out addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dhcp {
    /// This server alone.
    Own,
    /// Another one; this server adds what is needed to boot.
    Proxy,
}

/// What a boot server's dnsmasq is told beside the inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootService {
    pub dhcp: Dhcp,
    /// Of the HTTP server with the script and the images.
    pub port: u16,
    /// The directory with iPXE.
    pub tftp: String,
}

/// The configuration of the boot server `server`; none without a boot net that it is in.
pub fn dnsmasq(farm: &Farm, server: &Node, service: &BootService) -> Option<String> {
    let net = farm.boot_net()?;
    let link = server.link_in(&net.name)?;
    let own = server.address(&net.name)?;
    let url = format!("http://{own}:{}/boot.ipxe", service.port);
    let mut text = format!(
        "{MARK}\nport=0\ninterface={}\nbind-dynamic\nenable-tftp\n",
        link.name
    );
    let mut line = |l: std::fmt::Arguments| _ = writeln!(text, "{l}");
    line(format_args!("tftp-root={}", service.tftp));
    // Progress of nodes is read from what it logs; it never forks away from its supervisor.
    line(format_args!(
        "keep-in-foreground\nlog-facility=-\npid-file="
    ));
    // Addresses follow from the inventory: there is nothing to remember, and any boot server gives the same ones.
    line(format_args!("leasefile-ro"));
    // iPXE sends option 175.
    line(format_args!("dhcp-match=set:ipxe,175"));
    line(format_args!("dhcp-match=set:efi64,option:client-arch,7"));
    line(format_args!("dhcp-match=set:efi64,option:client-arch,9"));
    // A machine that no dhcp-host line names gets no answer: it may be another farm's, or no node at all.
    line(format_args!("dhcp-ignore=tag:!known"));
    match service.dhcp {
        Dhcp::Own => {
            // iPXE waits 16 s for a router of IPv6 if none answers.
            line(format_args!("enable-ra"));
            // RFC 4861, 4.2: a router lifetime of 0: no machine of the net sends packets to others through this server.
            line(format_args!("ra-param={},0,0", link.name));
            line(format_args!(
                "dhcp-range=::,constructor:{},ra-only",
                link.name
            ));
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
            // iPXE takes the file of the menu's item at once (PXE 2.1, table 2-5: PXE_DISCOVERY_CONTROL).
            line(format_args!("dhcp-option=vendor:PXEClient,6,2b"));
            // Client architectures 0, 7 and 9 (RFC 4578, 2.1): dnsmasq compares them with the one that it was given.
            for (arch, loader) in [
                ("x86PC", "undionly.kpxe"),
                ("x86-64_EFI", "snponly.efi"),
                ("BC_EFI", "snponly.efi"),
            ] {
                line(format_args!(
                    "pxe-service=tag:!ipxe,{arch},\"armento\",{loader}"
                ));
                line(format_args!(
                    "pxe-service=tag:ipxe,{arch},\"armento\",{url}"
                ));
            }
            for node in farm.nodes.iter().filter(|n| n.root != Root::Disk) {
                let macs = macs(node, &net.name);
                if !macs.is_empty() {
                    line(format_args!("dhcp-host={macs}"));
                }
            }
        }
    }
    Some(text)
}

/// The cards by which a node may boot: its firmware boots from any member of a bond.
fn macs(node: &Node, net: &str) -> String {
    let macs: Vec<String> = node.boot_macs(net).iter().map(Mac::to_string).collect();
    macs.join(",")
}

fn lease(node: &Node, net: &str) -> Option<String> {
    let macs = macs(node, net);
    let address = node.address(net)?;
    (!macs.is_empty()).then(|| format!("dhcp-host={macs},{address},{},infinite", node.name))
}
