//! Other systems' files become farms; what is lost is named.

mod common;

use armento_fabric::import::{Given, System, import};
use armento_fabric::inventory::{BondMode, Kind};
use common::read;

fn given(files: &[(&str, &str)]) -> Vec<Given> {
    files
        .iter()
        .map(|(name, text)| Given {
            name: (*name).into(),
            text: (*text).into(),
        })
        .collect()
}

/// PAPER(hpl-bonding, testbed.toml): n00004, bond of eth1 and eth2, MTU=9200 at the bond, names by hardware address.
const PERCEUS: &str = "\
# nodes of the cluster
* eth0:[default]/[default] eth1(MASTER=bond0&SLAVE=yes): eth2(MASTER=bond0&SLAVE=yes):
n00004 eth0(HWADDR=00:1b:21:00:04:00):192.168.3.14/255.255.255.0 eth1(HWADDR=00:1b:21:00:04:01&MASTER=bond0&SLAVE=yes): eth2(HWADDR=00:1b:21:00:04:02&MASTER=bond0&SLAVE=yes): bond0(MTU=9200&mode=802.3ad&miimon=100):192.168.4.14/255.255.255.0/192.168.4.1
io* eth0(OTHER=foo):192.168.3.[nodenum]/24
";

#[test]
fn perceus_lines_keep_bonds_sizes_and_hardware_addresses() {
    let nodes = "n00005 00:1b:21:00:05:00\nio7 00:1b:21:00:07:00\n";
    let hosts = "127.0.0.1 localhost\n192.168.3.15 n00005\n";
    let done = import(
        None,
        &given(&[("ipaddr", PERCEUS), ("nodes", nodes), ("hosts", hosts)]),
    )
    .expect("imported");
    let farm = read(&done.toml).unwrap_or_else(|e| panic!("{}\n{e}", done.toml));
    let node = farm.node("n00004").expect("n00004");
    let bond = node.link("bond0").expect("bond0");
    let Kind::Bond(settings) = &bond.kind else {
        panic!("{bond:?}");
    };
    assert_eq!(
        (settings.mode, settings.miimon_ms, bond.mtu),
        (BondMode::Lacp, 100, 9200)
    );
    assert_eq!(settings.of, ["lan1", "lan2"]);
    assert_eq!(bond.nets[0].address.to_string(), "192.168.4.14");
    let Kind::Nic { mac: Some(mac) } = node.link("lan2").expect("lan2").kind else {
        panic!("no hardware address");
    };
    assert_eq!(mac.to_string(), "00:1b:21:00:04:02");
    let address = |node: &str| {
        let node = farm.node(node).expect(node);
        node.links
            .iter()
            .find(|l| l.name == "lan0")
            .expect("lan0")
            .nets[0]
            .address
            .to_string()
    };
    assert_eq!(address("n00005"), "192.168.3.15");
    assert_eq!(address("io7"), "192.168.3.7");
    assert!(
        done.losses.iter().any(|l| l.contains("OTHER=foo")),
        "{:?}",
        done.losses
    );
    assert!(
        done.losses.iter().any(|l| l.contains("mask")),
        "{:?}",
        done.losses
    );
}

#[test]
fn exact_names_of_perceus_discard_patterns_and_end_the_scan() {
    let text = "* eth0:10.0.0.1/24 eth1:10.1.0.1/24\nn1 eth0:10.0.0.7/24\nn1 eth0:10.0.0.8/24\n";
    let done = import(Some(System::Perceus), &given(&[("ipaddr", text)])).expect("imported");
    let farm = read(&done.toml).expect("farm");
    let node = farm.node("n1").expect("n1");
    assert_eq!(node.links.len(), 1);
    assert_eq!(node.links[0].nets[0].address.to_string(), "10.0.0.7");
}

#[test]
fn openmosix_maps_come_back_as_they_were() {
    let map = "# farm\n1 192.168.1.1 3\n7 n7 1\n7 192.168.2.7 ALIAS\n";
    let hosts = "192.168.1.7 n7\n192.168.1.1 server.lan server\n";
    let done = import(None, &given(&[("openmosix.map", map), ("hosts", hosts)])).expect("imported");
    let farm = read(&done.toml).unwrap_or_else(|e| panic!("{}\n{e}", done.toml));
    let names: Vec<&str> = farm.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["server", "n2", "n3", "n7"]);
    let (again, losses) = armento_fabric::render::openmosix_map(&farm);
    assert_eq!(losses, [""; 0]);
    let lines: Vec<&str> = again.lines().skip(1).collect();
    assert_eq!(
        lines,
        ["1 192.168.1.1 3", "7 192.168.1.7 1", "7 192.168.2.7 ALIAS"]
    );
    for (bad, words) in [
        ("1 10.0.0.1 3\n2 10.0.0.9 1\n", "number 2 is also on line 1"),
        ("0 10.0.0.1 1\n", "no number from 1"),
        ("1 unknown 1\n", "has no address in the files"),
        ("1 10.0.0.1\n", "expected"),
        ("1 10.0.0.1 0\n", "no count"),
        ("65535 10.0.0.1 2\n", "beyond"),
        ("1 255.255.255.255 2\n", "beyond"),
    ] {
        let error = import(Some(System::OpenmosixMap), &given(&[("map", bad)]))
            .expect_err(bad)
            .to_string();
        assert!(error.contains(words), "{bad}: {error}");
    }
}

#[test]
fn ethers_need_a_hosts_file_for_addresses() {
    let ethers = "00:1b:21:00:00:01 n1\n0:1b:21:0:0:2 10.0.0.2\n";
    let done = import(
        None,
        &given(&[("ethers", ethers), ("hosts", "10.0.0.1 n1\n")]),
    )
    .expect("imported");
    let farm = read(&done.toml).unwrap_or_else(|e| panic!("{}\n{e}", done.toml));
    assert_eq!(farm.nodes.len(), 2);
    let Kind::Nic { mac: Some(mac) } = farm.nodes[1].links[0].kind else {
        panic!("no hardware address");
    };
    assert_eq!(
        (farm.nodes[1].name.as_str(), mac.to_string().as_str()),
        ("n2", "00:1b:21:00:00:02")
    );
}

const WAREWULF: &str = "\
nodeprofiles:
  default:
    image name: rocky
    network devices:
      default:
        device: eth0
        netmask: 255.255.255.0
        gateway: 10.0.2.254
nodes:
  n1:
    profiles: [default]
    network devices:
      default: { hwaddr: '00:1b:21:00:01:00', ipaddr: 10.0.2.1, mtu: '9000' }
  n2:
    profiles: [default]
    network devices:
      default:
        hwaddr: 00:1b:21:00:02:00
        ipaddr: 10.0.2.2
      fast:
        type: vlan
        device: eth0.7
        ipaddr: 10.7.0.2
        netmask: 255.255.0.0
        tags: { parent_device: eth0, vlan_id: '7', DNS1: 10.0.2.254 }
";

#[test]
fn warewulf_profiles_are_merged_into_nodes() {
    let done = import(None, &given(&[("nodes.conf", WAREWULF)])).expect("imported");
    let farm = read(&done.toml).unwrap_or_else(|e| panic!("{}\n{e}", done.toml));
    let n2 = farm.node("n2").expect("n2");
    let nets: Vec<(String, bool)> = n2.links[0]
        .nets
        .iter()
        .map(|a| (a.address.to_string(), a.tagged))
        .collect();
    assert_eq!(
        nets,
        [
            ("10.0.2.2".to_owned(), false),
            ("10.7.0.2".to_owned(), true)
        ]
    );
    assert_eq!(farm.node("n1").expect("n1").links[0].mtu, 9000);
    assert!(
        farm.nets
            .values()
            .any(|n| n.gateway.is_some_and(|g| g.to_string() == "10.0.2.254"))
    );
    for lost in ["image name", "DNS1"] {
        assert!(
            done.losses.iter().any(|l| l.contains(lost)),
            "{lost}: {:?}",
            done.losses
        );
    }
    let error = import(
        Some(System::Warewulf),
        &given(&[("nodes.conf", "nodes:\n  a: [\n")]),
    )
    .expect_err("cut");
    assert!(error.to_string().starts_with("nodes.conf:"), "{error}");
}

#[test]
fn files_of_nobody_are_refused() {
    for text in ["", "hello\n", "\u{0}\u{1}"] {
        assert!(import(None, &given(&[("x", text)])).is_err(), "{text:?}");
    }
}
