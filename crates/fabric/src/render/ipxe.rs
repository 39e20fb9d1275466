//! The iPXE script: one for all nodes, which name themselves by their hardware address.

use crate::inventory::{Farm, Node};

/// The script that every boot server gives out. The next one is tried if the first does not answer.
pub fn ipxe(farm: &Farm, port: u16) -> String {
    let net = farm.nets.values().find(|n| n.boot);
    let address = |n: &Node| net.and_then(|net| n.address(&net.name));
    let servers = farm
        .boot_servers
        .iter()
        .filter_map(|s| farm.node(s))
        .filter_map(address);
    let mut text = String::from("#!ipxe\n");
    for server in servers {
        let base = format!("http://{server}:{port}");
        text += &format!(
            "imgfree\nkernel {base}/vmlinuz initrd=initrd armento.mac=${{net0/mac}} armento.server={server} || goto after_{label}\n\
             initrd {base}/initrd || goto after_{label}\nboot || goto after_{label}\n:after_{label}\n",
            label = server.to_string().replace(['.', ':'], "_"),
        );
    }
    text + "echo no boot server answers; trying again in 10 s\nsleep 10\nchain --autofree ${cwuri} || reboot\n"
}
