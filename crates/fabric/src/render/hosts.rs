//! hosts(5): every node by name, in every net.

use super::file::MARK;
use crate::inventory::Farm;

/// The farm's lines for /etc/hosts. A node is known by its name in the main net, and as NAME-NET in each net.
pub fn hosts(farm: &Farm) -> String {
    let mut text = format!("{MARK}\n");
    let main = farm.main_net().map(|n| n.name.as_str());
    for node in &farm.nodes {
        let mut seen = Vec::new();
        for attached in node.links.iter().flat_map(|l| &l.nets) {
            // A P2P server has one address on all its cards.
            if seen.contains(&attached.net.as_str()) {
                continue;
            }
            seen.push(&attached.net);
            let name = &node.name;
            let net = &attached.net;
            let plain = if main == Some(net) {
                format!("{name} ")
            } else {
                String::new()
            };
            text += &format!("{}\t{plain}{name}-{net}\n", attached.address);
        }
    }
    text
}
