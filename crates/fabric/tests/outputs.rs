//! Plans and their files, against golden ones that were read line by line.

mod common;

use armento_fabric::plan::plan;
use armento_fabric::render::{self, Backend, Dhcp, Form, node_files};
use common::{farm, golden, service};

/// Farm and node.
const NODES: &[(&str, &str)] = &[
    ("p2p", "server"),
    ("p2p", "nodo3"),
    ("met", "server"),
    ("met", "nodo3"),
    ("joined", "a"),
    ("joined", "n5"),
    ("hpl", "n02"),
];

#[test]
fn files_of_nodes_are_the_golden_ones() {
    for (name, node) in NODES {
        let farm = farm(name);
        let plan = plan(&farm, farm.node(node).expect(node));
        for backend in Backend::ALL {
            let one = |f: render::File| format!("### {} {:o}\n{}", f.path, f.mode, f.text);
            let text: Vec<String> = node_files(&plan, backend).into_iter().map(one).collect();
            golden(
                &format!("{name}-{node}-{}.txt", backend.word()),
                &text.join("\n"),
            );
        }
    }
}

#[test]
fn files_of_farms_are_the_golden_ones() {
    for name in ["p2p", "hpl"] {
        let farm = farm(name);
        golden(&format!("{name}-hosts.txt"), &render::hosts(&farm));
        let (map, losses) = render::openmosix_map(&farm);
        assert_eq!(losses, [""; 0]);
        golden(&format!("{name}-openmosix-map.txt"), &map);
    }
    let farm = farm("hpl");
    golden("hpl-mpd-hosts.txt", &render::mpd_hosts(&farm));
    let forms = [
        ("mpich", Form::Mpich),
        ("openmpi", Form::OpenMpi),
        ("pvm", Form::Pvm),
        ("parallel", Form::Parallel),
    ];
    for (word, form) in forms {
        golden(
            &format!("hpl-hostfile-{word}.txt"),
            &render::hostfile(&farm, form),
        );
    }
    let server = farm.node("srv").expect("srv");
    for (word, dhcp) in [("own", Dhcp::Own), ("proxy", Dhcp::Proxy)] {
        golden(
            &format!("hpl-dnsmasq-{word}.txt"),
            &render::dnsmasq(&farm, server, &service(dhcp)).expect("boot net"),
        );
    }
    golden("hpl-ipxe.txt", &render::ipxe(&farm, None, 8117));
}
