//! Mistakes in an inventory are named with their line and a remedy.

mod common;

use common::read;
use std::fmt::Write as _;

/// A text, the line of the mistake, and words of its message.
const MISTAKES: &[(&str, usize, &str)] = &[
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"a\", mac = { lan0 = \"02:00:00:00:00:01\" } }\nnode.y = { id = 2, lan0 = \"a\", mac = { lan0 = \"02:00:00:00:00:01\" } }\n",
        3,
        "is the address of x lan0 and of y lan0",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"a\" }\nnode.y = { id = 2, lan0 = \"a\", address = { a = \"10.0.0.1\" } }\n",
        3,
        "y has address 10.0.0.1, as x of line 2",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"a\" }\nnode.y = { id = 1, lan0 = \"a\", address = { a = \"10.0.0.9\" } }\n",
        3,
        "y has number 1, as x of line 2",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x1 = { id = 1, lan0 = \"a\" }\nnode.\"x[1-2]\" = { first_id = 2, lan0 = \"a\" }\n",
        3,
        "the name x1 is also on line 2",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, bond0 = { of = [\"lan1\"], net = \"a\" } }\n",
        2,
        "bond of one card, lan1",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, bond0 = { of = [], net = \"a\" } }\n",
        2,
        "bond of nothing",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, bond0 = { of = [\"lan1\", \"lan1\"], net = \"a\" } }\n",
        2,
        "names lan1 twice",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, bond0 = { of = [\"lan1\", \"lan2\"], miimon_ms = 0, net = \"a\" } }\n",
        2,
        "never looks",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\", mtu = 9000 }\nnode.x = { id = 1, lan1 = { mtu = 1500 }, bond0 = { of = [\"lan1\", \"lan2\"], net = \"a\" } }\n",
        2,
        "above 1500 of its member lan1",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\", mtu = 9200 }\nnode.x = { id = 1, lan0 = { net = \"a\", mtu_max = 7200 } }\n",
        2,
        "its card can do 7200 at most",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\", mtu = 9000 }\nnode.x = { id = 1, lan0 = { net = \"a\", mtu = 1500 } }\n",
        2,
        "lan0 has MTU 1500",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\", topology = \"p2p\", servers = [\"s\"] }\nnode.s = { id = 1, lan0 = \"a\" }\nnode.\"n[2-3]\" = { first_id = 2, lan0 = \"a\" }\n",
        1,
        "s has no port in the P2P net a for n3",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\", topology = \"p2p\", cables = [[\"s.lan0\", \"n2.lan0\"]] }\nnode.s = { id = 1, lan0 = \"a\" }\nnode.\"n[2-3]\" = { first_id = 2, lan0 = \"a\" }\n",
        3,
        "n3 is in the P2P net a and no cable leads to it",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\", topology = \"p2p\", cables = [[\"s.lan0\", \"n2.lan0\"], [\"s.lan0\", \"n3.lan0\"]] }\nnode.s = { id = 1, lan0 = \"a\" }\nnode.\"n[2-3]\" = { first_id = 2, lan0 = \"a\" }\n",
        1,
        "two cables of net a end at s.lan0",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"b\" }\n",
        2,
        "there is no net `b`",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, profile = \"p\" }\n",
        2,
        "there is no profile `p`",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"a\", lan1 = \"a\" }\n",
        2,
        "lan0 and lan1 in the net a",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/29\" }\nnode.\"n[1-7]\" = { first_id = 1, lan0 = \"a\" }\n",
        2,
        "has no address for node number 7",
    ),
    (
        "net.a = { cidr = \"10.0.0.5/24\" }\nnode.x = { id = 1, lan0 = \"a\" }\n",
        1,
        "an address, not a network",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\", vlam = 4 }\nnode.x = { id = 1, lan0 = \"a\" }\n",
        1,
        "`vlam` is not known in net.a",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { lan0 = \"a\" }\n",
        2,
        "x has no number",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.\"n[1-2]\" = { id = 1, lan0 = \"a\" }\n",
        2,
        "would be the same for 2 nodes",
    ),
    (
        "farm = { boot_servers = [\"z\"] }\nnet.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"a\" }\n",
        1,
        "there is no node `z`",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, root = \"live\", lan0 = \"a\" }\n",
        2,
        "no net is for booting",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"a\", mac = { lan9 = \"02:00:00:00:00:01\" } }\n",
        2,
        "x has no link `lan9`",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"a\", macs = \"none.csv\" }\n",
        2,
        "cannot read none.csv",
    ),
    (
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.x = { id = 1, lan0 = \"a\" }\nnode.y = { id = 2, la",
        3,
        "",
    ),
    ("", 0, "the farm has no node"),
];

#[test]
fn mistakes_are_named_with_line_and_remedy() {
    for (text, line, words) in MISTAKES {
        let problems = read(text).expect_err(words).0;
        let there = problems
            .iter()
            .any(|p| p.line == *line && p.what.contains(words) && !p.remedy.is_empty());
        assert!(
            there,
            "{text}\nwanted line {line}: {words}\nfound {problems:#?}"
        );
    }
}

#[test]
fn one_mistake_in_a_range_is_named_once() {
    let text =
        "net.a = { cidr = \"10.0.0.0/16\" }\nnode.\"n[1-100]\" = { first_id = 1, lan0 = \"b\" }\n";
    assert_eq!(read(text).expect_err("no net b").0.len(), 1);
}

#[test]
fn inventories_cut_anywhere_are_refused_or_whole() {
    let text = std::fs::read_to_string(common::dir("farms").join("hpl.toml")).expect("farm");
    for end in (0..text.len()).filter(|i| text.is_char_boundary(*i)) {
        // Must not panic; what it says is checked above.
        let _ = read(&text[..end]);
    }
}

#[test]
fn ten_thousand_nodes_are_read_and_planned() {
    let mut text = String::from(
        "net.a = { cidr = \"10.0.0.0/16\" }\nnet.b = { cidr = \"10.1.0.0/16\", vlan = 4, mtu = 9000 }\n",
    );
    for i in 1..=10_000 {
        let (high, low) = (i / 256, i % 256);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "node.n{i} = {{ id = {i}, lan0 = \"a\", bond0 = {{ of = [\"lan1\", \"lan2\"], net = \"b\" }}, mac = {{ lan0 = \"02:00:00:00:{high:02x}:{low:02x}\" }} }}"
        );
    }
    let farm = read(&text).expect("farm");
    assert_eq!(farm.nodes.len(), 10_000);
    let last = farm.nodes.last().expect("node");
    assert_eq!(
        last.address("b").map(|a| a.to_string()).as_deref(),
        Some("10.1.39.16")
    );
    assert_eq!(armento_fabric::render::hosts(&farm).lines().count(), 20_001);
}

#[test]
fn a_node_is_added_by_one_line() {
    use armento_fabric::inventory::{NewNode, add_node};
    let csv = "n02,lan0,00:1b:21:00:02:00\n";
    let open = |_: &str| Ok(csv.to_owned());
    let text = "farm = { name = \"f\", boot_servers = [\"srv\"] }\n\
                net.mgmt = { cidr = \"10.0.0.0/24\", boot = true }\n\
                profile.diskless = { root = \"live\", lan0 = \"mgmt\" }\n\
                node.srv = { id = 1, lan0 = \"mgmt\" }\n\
                node.\"n[02-04]\" = { first_id = 2, profile = \"diskless\", macs = \"macs.csv\" }\n";
    let farm = read_with(text, &open);
    let add = |name: &str, mac: &str| {
        let new = NewNode {
            name,
            mac: mac.parse().expect("mac"),
            profile: None,
            id: None,
        };
        add_node(&farm, text, &new, &open)
    };
    let new = add("n05", "00:1b:21:00:05:00").expect("new");
    assert_eq!(
        new.line,
        "node.n05 = { id = 5, profile = \"diskless\", mac = { lan0 = \"00:1b:21:00:05:00\" } }"
    );
    assert_eq!(new.text, format!("{text}{}\n", new.line));
    let farm5 = read_with(&new.text, &open);
    assert_eq!(farm5.node("n05").map(|n| n.number), Some(5));
    // In a range: its file of cards.
    let known = add("n03", "00:1b:21:00:03:00").expect("known");
    assert_eq!(known.file.as_deref(), Some("macs.csv"));
    assert_eq!(known.text, format!("{csv}n03,lan0,00:1b:21:00:03:00\n"));
    let taken = add("n06", "00:1b:21:00:02:00").expect_err("taken");
    assert!(taken.0.contains("n02 has it"), "{taken:?}");
    let other = add("n02", "00:1b:21:00:06:00").expect_err("other card");
    assert!(other.0.contains("00:1b:21:00:02:00"), "{other:?}");
}

fn read_with(
    text: &str,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> armento_fabric::inventory::Farm {
    armento_fabric::inventory::parse("farm.toml", text, open).unwrap_or_else(|e| panic!("{e}"))
}
