//! The farm's network on Debian's kernels, which have bonds and VLANs: the files for all systems have one effect.

use armento_machines::farm::{Farm, SOON, armento};
use armento_machines::{Kernel, Kind, Machine, Suite};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;

/// Every kind of link that an inventory has: a card with addresses of both families and a gateway, a bond by LACP with a
/// VLAN on it and jumbo frames, other modes of bonds, direct cables with a bond between their servers.
const INVENTORY: &str = r#"
farm = { name = "outputs" }
net.mgmt = { cidr = "10.20.0.0/24", gateway = "10.20.0.254" }
net.six = { cidr = "fd20::/64", vlan = 6 }
net.app = { cidr = "10.21.0.0/24", vlan = 4, mtu = 9000 }
net.store = { cidr = "10.22.0.0/24", mtu = 9000 }
net.spare = { cidr = "10.24.0.0/16" }
net.cables = { cidr = "10.23.0.0/24", topology = "p2p", servers = ["x", "y"], joint = "bond1", forward = true }
node.x = { id = 1, lan0 = ["mgmt", "six"], lan1 = "cables", bond0 = { of = ["lan2", "lan3"], net = ["store", "app"] }, bond1 = { of = ["lan4", "lan5"], mode = "balance-rr", net = "cables" }, bond2 = { of = ["lan6", "lan7"], mode = "active-backup", net = "spare", miimon_ms = 250 }, mac = { lan0 = "52:54:00:20:00:00", lan1 = "52:54:00:20:00:01", lan2 = "52:54:00:20:00:02", lan3 = "52:54:00:20:00:03", lan4 = "52:54:00:20:00:04", lan5 = "52:54:00:20:00:05", lan6 = "52:54:00:20:00:06", lan7 = "52:54:00:20:00:07" } }
node.y = { id = 2, lan0 = ["mgmt", "six"], lan1 = "cables", bond1 = { of = ["lan4", "lan5"], mode = "balance-rr", net = "cables" } }
node."n[3-4]" = { first_id = 3, lan0 = "cables" }
"#;
const CARDS: u32 = 8;
const LINKS: [&str; 13] = [
    "lan0", "lan1", "lan2", "lan3", "lan4", "lan5", "lan6", "lan7", "bond0", "bond1", "bond2",
    "bond0.4", "lan0.6",
];

/// What says how a link came to be, and not how it is: the order in which cards were found; other names that udev gave them; what LACP
/// and the carrier's watch have counted; which of two members of the same rank began (no switch speaks LACP here).
const HISTORY: [&str; 12] = [
    "state",
    "active_slave", // KERNEL: iproute2's word
    "altnames",
    "ifindex",
    "link_index",
    "ad_info",
    "ad_aggregator_id",
    "ad_actor_oper_port_state",
    "ad_actor_oper_port_state_str",
    "ad_partner_oper_port_state",
    "ad_partner_oper_port_state_str",
    "link_failure_count",
];

/// Settings that networkd has for its own way of working, with equal effect: it hears announcements of routers itself, keeps other
/// addresses of a lease, and gives no link-local address to a bond's member, which gets none in any case. Secrets are chance.
const SERVICE: [&str; 4] = [
    "accept_ra",
    "promote_secondaries",
    "addr_gen_mode",
    "stable_secret",
];

/// One after the other on one machine.
const SYSTEMS: [&str; 4] = ["ip", "ifupdown", "networkd", "netplan"];

/// A machine with Debian's network tools and so many further cards. `None`: what is missing was printed.
fn machine(cards: u32) -> Option<Farm> {
    let mut farm = Farm::off_long(&[(Suite::Bookworm, Kind::Network, Kernel::V6_12)])?;
    let m = &mut farm.machines[0];
    for at in 0..cards {
        m.add_card(&format!("52:54:00:20:00:{at:02x}"))
            .expect("a card");
    }
    m.boot().expect("up");
    m.put(&armento(), "/usr/bin/armento").expect("the program");
    Some(farm)
}

fn write(m: &Machine, path: &str, text: &str) {
    m.sh("root", &format!("cat > {path} <<'EOF'\n{text}\nEOF"));
}

/// Objects and lists as lines of path and value.
fn flat(at: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(k, _)| !HISTORY.contains(&&***k)) {
                flat(&format!("{at} {key}"), value, into);
            }
        }
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let mut words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            words.sort_unstable();
            into.insert(at.to_owned(), words.join(","));
        }
        Value::Array(items) => {
            for item in items {
                let name = item["local"].as_str().unwrap_or_default();
                flat(&format!("{at} {name}"), item, into);
            }
        }
        other => {
            into.insert(at.to_owned(), other.to_string());
        }
    }
}

fn json(m: &Machine, command: &str) -> Vec<Value> {
    let text = m.sh("root", command);
    match text.trim() {
        "" => Vec::new(),
        text => serde_json::from_str(text).unwrap_or_else(|e| panic!("{command}: {e}: {text}")),
    }
}

/// Everything that the kernel tells of the planned links: settings, addresses, routes of all tables, rules, kernel settings.
fn state(m: &Machine) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for link in json(m, "ip -d -j address show") {
        let name = link["ifname"].as_str().expect("a name").to_owned();
        if LINKS.contains(&&*name) {
            flat(&name, &link, &mut all);
        }
    }
    for family in ["-4", "-6"] {
        for route in json(m, &format!("ip -d -j {family} route show table all")) {
            let on = route["dev"].as_str().unwrap_or_default();
            if !LINKS.contains(&on) {
                continue;
            }
            let text = |key: &str| route[key].as_str().unwrap_or("-").to_owned();
            let key = format!(
                "route {family} {} {} {on} via {} {}",
                text("type"),
                text("dst"),
                text("gateway"),
                text("table")
            );
            let mut route = route.clone();
            // The name of the program that made it.
            if matches!(route["protocol"].as_str(), Some("boot" | "static")) {
                route["protocol"] = "program".into();
            }
            flat(&key, &route, &mut all);
        }
        for rule in json(m, &format!("ip -j {family} rule")) {
            flat(
                &format!("rule {family} {}", rule["priority"]),
                &rule,
                &mut all,
            );
        }
    }
    let settings = format!(
        "cd /proc/sys/net; for l in {}; do grep -s . ipv4/conf/$l/* ipv6/conf/$l/*; done; grep . ipv4/ip_forward ipv6/conf/all/forwarding",
        LINKS.join(" ")
    );
    for line in m.run("root", &settings).out.lines() {
        let (key, value) = line.split_once(':').expect("a setting");
        let of = key.rsplit('/').next().unwrap_or_default();
        if !SERVICE.contains(&of) {
            all.insert(key.to_owned(), value.to_owned());
        }
    }
    all
}

/// Waits until the kernel is as planned and addresses are no longer tried.
fn settled(m: &Machine, what: &str) {
    let script = "armento fabric check --node x --farm /root/farm.toml && ! ip -6 address | grep -q tentative";
    m.until(what, "root", script, SOON);
}

#[test]
fn files_for_four_systems_bring_a_kernel_with_bonds_and_vlans_to_one_state() {
    let Some(farm) = machine(CARDS) else {
        return;
    };
    let m = farm.n(1);
    write(m, "/root/farm.toml", INVENTORY);
    let apply = |system: &str| {
        m.sh(
            "root",
            &format!("armento fabric apply --node x --farm /root/farm.toml --for {system} --confirm 900 && armento fabric confirm"),
        )
    };
    println!("{}", apply(SYSTEMS[0]));
    settled(m, "the change itself");
    let changed = state(m);
    for system in SYSTEMS {
        if system != SYSTEMS[0] {
            m.sh(
                "root",
                "systemctl disable -q --no-reload armento-fabric || true",
            );
            apply(system);
        }
        if system == "ip" {
            m.sh("root", "systemctl enable -q armento-fabric");
        }
        m.reboot().expect("up again");
        settled(m, &format!("{system}, after a start"));
        let failed = m.sh("root", "systemctl list-units --failed --no-legend");
        assert_eq!(failed, "", "{system}");
        let now = state(m);
        let differs = |(key, value): &(&String, &String)| changed.get(*key) != Some(value);
        let more: Vec<_> = now.iter().filter(differs).collect();
        let lost: Vec<_> = changed
            .iter()
            .filter(|(k, _)| !now.contains_key(*k))
            .collect();
        println!("{system}: {} settings", now.len());
        assert!(
            more.is_empty() && lost.is_empty(),
            "{system}: other than what `apply` made: {more:#?}\nnot there: {lost:#?}"
        );
    }
}

/// Four nodes of one machine, and the switch between them.
const SWITCHED: &str = include_str!("switched.sh");

const BONDS: &str = r#"
farm = { name = "bonds", boot_servers = ["n1"] }
net.mgmt = { cidr = "10.30.0.0/24", boot = true }
net.app = { cidr = "10.31.0.0/24", vlan = 4, mtu = 9000 }
node."n[1-4]" = { first_id = 1, lan0 = "mgmt", bond0 = { of = ["lan1", "lan2"], net = "app" } }
"#;

/// A script with the functions of [`SWITCHED`].
fn wires(script: &str) -> String {
    format!(". /root/switched.sh; {script}")
}

/// The doctor's findings: code, node, link; and how long it took.
fn doctor(m: &Machine) -> Vec<[String; 3]> {
    let begun = Instant::now();
    let reply = m.run(
        "root",
        "armento fabric doctor --json --rsh at --farm /root/farm.toml",
    );
    let answer: Value =
        serde_json::from_str(&reply.out).unwrap_or_else(|e| panic!("{e}: {reply:?}"));
    let nodes = answer["nodes"].as_array().map(Vec::len);
    assert_eq!(nodes, Some(4), "{reply:?}");
    let gaps = &answer["not_looked_at"];
    assert_eq!(*gaps, Value::Array(Vec::new()), "{reply:?}");
    let all = answer["findings"].as_array().expect("findings");
    println!(
        "  {} findings in {} s",
        all.len(),
        begun.elapsed().as_secs()
    );
    let text = |f: &Value, key: &str| f[key].as_str().unwrap_or_default().to_owned();
    for f in all {
        let [code, node, link, peer, what] =
            ["code", "node", "link", "peer", "what"].map(|key| text(f, key));
        println!("    {code} {node} {link} {peer}: {what}");
    }
    let place = |f: &Value| ["code", "node", "link"].map(|key| text(f, key));
    all.iter().map(place).collect()
}

/// A fault: what the doctor calls it, where it is (no node: it is on the wire, and any may notice it), how it is made, what is so
/// when it is there, and how it is mended.
struct Fault {
    code: &'static str,
    at: (&'static str, &'static str),
    make: &'static str,
    there: &'static str,
    mend: &'static str,
}

const FAULTS: &[Fault] = &[
    Fault {
        code: "dhcp-second",
        at: ("", "lan0"),
        make: "stranger 10 10.30.0.77/24; at other dnsmasq --port=0 --dhcp-range=10.30.0.100,10.30.0.120 --interface=e0 --pid-file=/run/other.pid --leasefile-ro",
        there: "test -s /run/other.pid",
        mend: "kill $(cat /run/other.pid); ip netns del other",
    },
    Fault {
        code: "route-wrong",
        at: ("n1", "bond0.4"),
        make: "ip -n n1 route add 10.31.0.3/32 via 10.30.0.3",
        there: "true",
        mend: "ip -n n1 route del 10.31.0.3/32",
    },
    Fault {
        code: "lacp-partner",
        at: ("n2", "bond0"),
        make: "ip -n sw link del p2; trunk s21; trunk s22",
        there: "lacp n2 | grep -q 00:00:00:00:00:00",
        mend: "free s21 s22; group p2 s21 s22",
    },
    Fault {
        code: "lacp-split",
        at: ("n3", "bond0"),
        make: "free s32; group q3 s32",
        there: "lacp n3 | grep -q '^1 '",
        mend: "ip -n sw link del q3; free s32; group p3 s32",
    },
    Fault {
        code: "bond-miimon",
        at: ("n2", "bond0"),
        make: "ip -n n2 link set bond0 type bond miimon 0",
        there: "true",
        mend: "ip -n n2 link set bond0 type bond miimon 100",
    },
    Fault {
        code: "no-carrier",
        at: ("n4", "lan2"),
        make: "ip -n sw link set s42 down",
        there: "ip -n n4 link show lan2 | grep -q NO-CARRIER",
        mend: "ip -n sw link set s42 up",
    },
    Fault {
        code: "bond-member",
        at: ("n2", "lan2"),
        make: "ip -n n2 link set lan2 nomaster; ip -n n2 link set lan2 up",
        there: "true",
        mend: "ip -n n2 link set lan2 down; ip -n n2 link set lan2 master bond0; ip -n n2 link set lan2 up",
    },
    Fault {
        code: "mtu-path",
        at: ("n3", "bond0.4"),
        make: "ip -n sw link set p3 mtu 1500",
        there: "true",
        mend: "ip -n sw link set p3 mtu 9000",
    },
    Fault {
        code: "mtu-setting",
        at: ("n2", "bond0"),
        make: "ip -n n2 link set bond0 mtu 1500",
        there: "true",
        mend: "ip -n n2 link set bond0 mtu 9000; ip -n n2 link set bond0.4 mtu 9000",
    },
    Fault {
        code: "vlan-leak",
        at: ("n3", "lan0"),
        make: "bridge -n sw vlan add dev s30 vid 4 untagged",
        there: "true",
        mend: "bridge -n sw vlan del dev s30 vid 4",
    },
    Fault {
        code: "duplex",
        at: ("n4", "lan0"),
        make: "at n4 ethtool -s lan0 speed 100 duplex half autoneg off",
        there: "true",
        mend: "at n4 ethtool -s lan0 speed 10000 duplex full autoneg off",
    },
    Fault {
        code: "speed",
        at: ("n4", "lan0"),
        make: "at n4 ethtool -s lan0 speed 100 duplex full autoneg off",
        there: "true",
        mend: "at n4 ethtool -s lan0 speed 10000 duplex full autoneg off",
    },
    Fault {
        code: "loss",
        at: ("n3", "lan0"),
        make: "tc -n sw qdisc add dev s30 root netem loss 40%",
        there: "true",
        mend: "tc -n sw qdisc del dev s30 root",
    },
    Fault {
        code: "carrier-flaps",
        at: ("n3", "lan0"),
        make: "(while true; do ip -n sw link set s30 down; sleep 0.3; ip -n sw link set s30 up; sleep 2; done > /dev/null 2>&1 & echo $! > /run/flaps)",
        there: "true",
        mend: "kill $(cat /run/flaps); ip -n sw link set s30 up",
    },
    Fault {
        code: "duplicate-address",
        at: ("n3", "bond0.4"),
        make: "stranger 4 10.31.0.3/24",
        there: "true",
        // Its hardware address is in the nodes' tables for some time.
        mend: "ip netns del other; for n in 1 2 4; do ip -n n$n neigh flush all; done",
    },
];

#[test]
fn doctor_names_faults_of_bonds_vlans_and_cards_first() {
    let Some(farm) = machine(2) else {
        return;
    };
    let m = farm.n(1);
    write(m, "/root/farm.toml", BONDS);
    write(m, "/root/switched.sh", SWITCHED);
    m.sh("root", &wires("set -e; raise; apply /root/farm.toml"));
    let whole = || m.until("all bonds are whole", "root", &wires("whole"), SOON);
    whole();
    assert_eq!(doctor(m), NONE, "a healthy farm");
    for fault in FAULTS {
        println!("{}", fault.code);
        m.sh("root", &wires(fault.make));
        m.until(fault.code, "root", &wires(fault.there), SOON);
        let found = doctor(m);
        let Some([code, node, link]) = found.first() else {
            panic!("{}: nothing was found", fault.code);
        };
        let node = if fault.at.0.is_empty() { "" } else { node };
        assert_eq!(
            (&**code, (node, &**link)),
            (fault.code, fault.at),
            "{found:?}"
        );
        m.sh("root", &wires(fault.mend));
        whole();
    }
    assert_eq!(doctor(m), NONE, "a healthy farm again");
}

const NONE: [[&str; 3]; 0] = [];
