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
            // panic=: a kernel that stops restarts by itself.
            format!(
                "#!ipxe\nimgfree\n\
                 kernel {files}/vmlinuz?mac={mac} initrd=initrd panic=30 {words} {append} || exit 1\n\
                 initrd --name initrd {files}/initrd?mac={mac} || exit 1\n\
                 boot || exit 1\n"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_fabric::inventory::parse;

    const FARM: &str = "farm = { name = \"t\", boot_servers = [\"srv\", \"b\"] }\n\
        net.mgmt = { cidr = \"10.0.0.0/24\", boot = true, gateway = \"10.0.0.254\" }\n\
        node.srv = { id = 1, lan0 = \"mgmt\" }\n\
        node.b = { id = 9, lan0 = \"mgmt\" }\n\
        node.disk = { id = 2, lan0 = \"mgmt\", mac = { lan0 = \"52:54:00:00:00:02\" } }\n\
        node.live = { id = 3, root = \"live\", lan0 = \"mgmt\", mac = { lan0 = \"52:54:00:00:00:03\", lan1 = \"52:54:00:00:00:13\" }, lan1 = [] }\n\
        node.ram = { id = 4, root = \"ram\", lan0 = \"mgmt\", mac = { lan0 = \"52:54:00:00:00:04\" } }\n";

    fn answer(node: &str, mac: &str, sha256: Option<&str>) -> Result<Answer, String> {
        let farm =
            parse("farm.toml", FARM, &|_| Err(String::new())).unwrap_or_else(|e| panic!("{e}"));
        let settings = Settings {
            inventory: "farm.toml".into(),
            server: "b".into(),
            proxy: false,
            http: 8117,
            nfs: 9117,
            copies: 10117,
            tftp: "/tftp".into(),
            append: String::new(),
        };
        let node = farm.node(node).expect("node");
        let mac = mac.parse().expect("mac");
        order(&farm, node, mac, &settings, ("base", 3), sha256)
    }

    #[test]
    fn nodes_boot_from_the_server_that_they_asked_then_from_the_others() {
        let Ok(Answer::Boot(order)) = answer("live", "52:54:00:00:00:03", None) else {
            panic!("no order")
        };
        let servers: Vec<String> = order.servers.iter().map(|s| s.http.to_string()).collect();
        assert_eq!(servers, ["10.0.0.9:8117", "10.0.0.1:8117"]);
        assert_eq!(order.address.to_string(), "10.0.0.3/24");
        let mac = order.mac;
        let text = script(&Answer::Boot(order), mac, "http://10.0.0.9:8117", "quiet");
        assert!(text.starts_with("#!ipxe\n"), "{text}");
        assert!(text.contains("initrd --name initrd http://10.0.0.9:8117/image/base/3/initrd"));
        assert!(text.contains(" armento.gateway=10.0.0.254 "), "{text}");
    }

    #[test]
    fn what_cannot_boot_is_told_why() {
        assert_eq!(answer("disk", "52:54:00:00:00:02", None), Ok(Answer::Disk));
        let e = answer("live", "52:54:00:00:00:13", None).expect_err("another card");
        assert!(e.contains("which is not its card lan0"), "{e}");
        let e = answer("ram", "52:54:00:00:00:04", None).expect_err("no image for memory");
        assert!(e.contains("erofs-utils"), "{e}");
        assert!(answer("ram", "52:54:00:00:00:04", Some("00")).is_ok());
        // Nothing of a reason becomes a command.
        let mac = "52:54:00:00:00:09".parse().expect("mac");
        let text = script(
            &Answer::Wait("a\nreboot || ${x}".into()),
            mac,
            "http://s",
            "",
        );
        assert_eq!(text.lines().nth(1), Some("echo armento: a reboot  x"));
    }
}
