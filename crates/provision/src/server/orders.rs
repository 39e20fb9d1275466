//! What a machine is to boot. Pure: inventory, card and image in, a script out.

use crate::init::{Order, RootKind, ServerAddress, command_line};
use crate::layout::Settings;
use armento_fabric::addr::Mac;
use armento_fabric::inventory::{Farm, Kind, Node, Root};
use ipnet::{IpNet, Ipv4Net};
use std::net::{IpAddr, SocketAddrV4};

/// Seconds until a machine that cannot boot asks again.
const AGAIN_S: u32 = 10;

/// What a card's machine is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Boot(Box<Order>),
    /// It has a disk: the firmware goes on to it.
    Disk,
    /// It waits, and asks again.
    Wait(String),
}

/// The order for a node. `sha256`: of the image's file for a root in memory; none if the image has no such file.
///
/// Errors: why it cannot boot, for its screen and for `armento boot why`.
pub fn order(
    farm: &Farm,
    node: &Node,
    mac: Mac,
    settings: &Settings,
    image: (&str, u32),
    sha256: Option<&str>,
) -> Result<Answer, String> {
    let kind = match node.root {
        Root::Disk => return Ok(Answer::Disk),
        Root::Live => RootKind::Live,
        Root::Ram => RootKind::Ram,
    };
    let net = farm
        .boot_net()
        .ok_or("no net of the inventory is for booting (boot = true)")?;
    let name = &node.name;
    let link = node
        .link_in(&net.name)
        .ok_or_else(|| format!("{name} is not in the net {}", net.name))?;
    match link.kind {
        Kind::Nic { mac: Some(m) } if m == mac => {}
        Kind::Nic { .. } => {
            return Err(format!(
                "{name} boots by {mac}, which is not its card {} in the net {}",
                link.name, net.name
            ));
        }
        Kind::Bond(_) => {
            return Err(format!(
                "{name} is in the net {} by the bond {}: the initramfs sets up cards only; give it a card of its own for booting",
                net.name, link.name
            ));
        }
    }
    let v4 = |address: Option<IpAddr>| match address {
        Some(IpAddr::V4(a)) => Ok(a),
        _ => Err(format!("the net {} has no IPv4 addresses", net.name)),
    };
    let IpNet::V4(cidr) = net.cidr else {
        return Err(format!("the net {} is IPv6: booting needs IPv4", net.name));
    };
    let address = v4(node.address(&net.name))?;
    let address = Ipv4Net::new(address, cidr.prefix_len()).map_err(|e| e.to_string())?;
    // This server first, the others after it.
    let mut names: Vec<&String> = farm.boot_servers.iter().collect();
    names.sort_by_key(|n| **n != settings.server);
    let mut servers = Vec::new();
    for name in names {
        let address = farm.node(name).and_then(|n| n.address(&net.name));
        if let Ok(address) = v4(address) {
            servers.push(ServerAddress {
                http: SocketAddrV4::new(address, settings.http),
                nfs: settings.nfs,
            });
        }
    }
    if servers.is_empty() {
        return Err("no boot server is in the boot net (boot_servers)".into());
    }
    let sha256 = match (kind, sha256) {
        (RootKind::Live, _) => None,
        (RootKind::Ram, Some(sum)) => Some(sum.to_owned()),
        (RootKind::Ram, None) => {
            return Err(format!(
                "{} has no image for memory: install erofs-utils and build or import it again",
                image.0
            ));
        }
    };
    Ok(Answer::Boot(Box::new(Order {
        node: name.clone(),
        mac,
        link: link.name.clone(),
        address,
        gateway: v4(net.gateway).ok(),
        servers,
        root: kind,
        image: image.0.to_owned(),
        generation: image.1,
        sha256,
        persist: node.persist.clone(),
    })))
}

/// The iPXE script of an answer. `base`: this server, as `http://10.0.0.1:8117`; `append`: more words for the kernel.
pub fn script(answer: &Answer, mac: Mac, base: &str, append: &str) -> String {
    let wait = |why: &str| {
        // A line of a script, whatever the reason contains.
        let why: String = why
            .chars()
            .map(|c| {
                if c.is_ascii_graphic() || c == ' ' {
                    c
                } else {
                    ' '
                }
            })
            .filter(|c| !"${}|&".contains(*c))
            .collect();
        format!(
            "#!ipxe\necho armento: {why}\nsleep {AGAIN_S}\nchain --autofree --replace {base}/node.ipxe?mac={mac} || exit 1\n"
        )
    };
    match answer {
        Answer::Wait(why) => wait(why),
        Answer::Disk => "#!ipxe\necho armento: this node has a disk\nexit 0\n".into(),
        Answer::Boot(order) => {
            let Some(words) = command_line(order) else {
                return wait(
                    "the persistent directories of this node do not fit into a kernel's command line",
                );
            };
            let files = format!("{base}/image/{}/{}", order.image, order.generation);
            // panic=: a kernel that stops does not wait for somebody to press a button.
            format!(
                "#!ipxe\nimgfree\n\
                 kernel {files}/vmlinuz?mac={mac} initrd=initrd panic=30 {words} {append} || exit 1\n\
                 initrd --name initrd {files}/initrd?mac={mac} || exit 1\n\
                 boot || exit 1\n"
            )
        }
    }
}
