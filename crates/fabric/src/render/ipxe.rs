//! The iPXE script that every machine fetches first. The boot server's answer to its hardware address is the second.

use crate::inventory::{Farm, Node};

/// Seconds between two attempts, when no boot server answers.
const AGAIN_S: u32 = 10;

/// The script of the boot server `own`, which asks itself first and then the others: any of them boots any node.
pub fn ipxe(farm: &Farm, own: Option<&str>, port: u16) -> String {
    let net = farm.boot_net();
    let address = |n: &Node| net.and_then(|net| n.address(&net.name));
    let mut servers: Vec<&str> = farm.boot_servers.iter().map(String::as_str).collect();
    servers.sort_by_key(|s| Some(*s) != own);
    let servers = servers.iter().filter_map(|s| farm.node(s));
    let mut text = String::from("#!ipxe\n");
    for server in servers.filter_map(address) {
        // netX is the card that was opened last: the one from which this script came.
        text += &format!(
            "imgfree\nchain --autofree http://{server}:{port}/node.ipxe?mac=${{netX/mac}} || echo {server} does not answer\n"
        );
    }
    text + &format!(
        "echo no boot server answers; trying again in {AGAIN_S} s\nsleep {AGAIN_S}\nchain --autofree --replace ${{cwuri}} || reboot\n"
    )
}
