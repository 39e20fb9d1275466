//! The doctor on a farm of four: silent when all is well; each fault, put in alone, is named first, at its node and link.

use armento_fabric::inventory::parse;
use armento_lab::{Lab, Link, Share, Spec, imitate};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");

struct Farm {
    lab: Lab,
    name: String,
    dir: PathBuf,
}

impl Farm {
    fn up(what: &str, link: Link, mtu: u32, net: &str) -> Option<Farm> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        if !root {
            println!("skipped: {what} needs root (namespaces, mounts, control groups)");
            return None;
        }
        let name = format!("d{}-{what}", std::process::id());
        let dir = std::env::temp_dir().join(format!("armento-{name}"));
        fs::create_dir_all(&dir).expect("directory");
        let spec = Spec {
            name: name.clone(),
            nodes: 4,
            link,
            mtu,
            farm: false,
            shares: vec![Share {
                dir: dir.clone(),
                at: dir.clone(),
            }],
            exe: Some(ARMENTO.into()),
            ..Spec::default()
        };
        let lab = Lab::up(spec).expect("a lab");
        let first = &lab.node(1).addr;
        let cidr = first
            .rsplit_once('.')
            .map(|(head, _)| format!("{head}.0/24"))
            .expect("address");
        let farm = format!(
            "farm = {{ name = \"{name}\" }}\nnet.lan = {{ cidr = \"{cidr}\", mtu = {mtu}, {net} }}\n{NODES}"
        );
        let farm = match link.direct() {
            true => farm.replace("n[1-4]\" = { first_id = 1", "n[2-4]\" = { first_id = 2") + SERVER,
            false => farm,
        };
        fs::write(dir.join("farm.toml"), farm).expect("inventory");
        Some(Farm { lab, name, dir })
    }

    fn sh(&self, node: usize, script: &str) {
        let output = self
            .lab
            .node(node)
            .command("sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .output()
            .expect("sh");
        assert!(
            output.status.success(),
            "n{node}: {script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// The findings: code, node, link.
    fn doctor(&self) -> Vec<(String, String, String)> {
        let mut command = Command::new(ARMENTO);
        command
            .args(["fabric", "doctor", "--json", "--listen", "2", "--rsh"])
            .arg(format!("{ARMENTO} lab rsh --name {}", self.name));
        command.arg("--farm").arg(self.dir.join("farm.toml"));
        let output = command.output().expect("armento");
        let text = String::from_utf8_lossy(&output.stdout);
        let answer: Value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(answer["nodes"].as_array().map(Vec::len), Some(4), "{text}");
        assert_eq!(answer["not_looked_at"], Value::Array(Vec::new()));
        let word = |f: &Value, key: &str| f[key].as_str().unwrap_or_default().to_owned();
        let findings = answer["findings"].as_array().expect("findings");
        findings
            .iter()
            .map(|f| (word(f, "code"), word(f, "node"), word(f, "link")))
            .collect()
    }

    /// With the fault the doctor names it first; without it, nothing.
    fn finds(
        &self,
        code: &str,
        node: usize,
        link: &str,
        fault: &[(usize, &str)],
        remedy: &[(usize, &str)],
    ) {
        for (node, script) in fault {
            self.sh(*node, script);
        }
        let found = self.doctor();
        let expected = (code.to_owned(), format!("n{node}"), link.to_owned());
        assert_eq!(found.first(), Some(&expected), "{found:?}");
        for (node, script) in remedy {
            self.sh(*node, script);
        }
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

const NODES: &str = "node.\"n[1-4]\" = { first_id = 1, eth0 = \"lan\" }\n";
const SERVER: &str = "node.n1 = { id = 1, eth0 = \"lan\", eth1 = \"lan\", eth2 = \"lan\" }\n";

#[test]
fn doctor_names_each_fault_of_a_switched_farm_first() {
    let Some(farm) = Farm::up(
        "switched",
        Link::Switch {
            bits: 1_000_000_000,
        },
        9000,
        "topology = \"switch\"",
    ) else {
        return;
    };
    assert_eq!(farm.doctor(), []);
    let addr = |node: usize| farm.lab.node(node).addr.clone();
    farm.finds(
        "mtu-setting",
        2,
        "eth0",
        &[(2, "ip link set eth0 mtu 1500")],
        &[(2, "ip link set eth0 mtu 9000")],
    );
    farm.finds(
        "link-down",
        3,
        "eth0",
        &[(3, "ip link set eth0 down")],
        &[(3, "ip link set eth0 up")],
    );
    let other = format!("ip address add {}/32 dev eth0", addr(3));
    let away = format!("ip address del {}/32 dev eth0", addr(3));
    farm.finds(
        "duplicate-address",
        3,
        "eth0",
        &[(4, &other)],
        &[(4, &away)],
    );
    let wrong = format!(
        "ip link add v0 type veth peer name v1 && ip link set v0 up && ip route add {}/32 dev v0",
        addr(4)
    );
    farm.finds(
        "route-wrong",
        1,
        "eth0",
        &[(1, &wrong)],
        &[(1, "ip link del v0")],
    );
    assert_eq!(farm.doctor(), []);
}

#[test]
fn doctor_names_each_fault_of_a_p2p_farm_first() {
    let net = "topology = \"p2p\", cables = [[\"n1.eth0\", \"n2.eth0\"], [\"n1.eth1\", \"n3.eth0\"], [\"n1.eth2\", \"n4.eth0\"]]";
    let Some(farm) = Farm::up(
        "p2p",
        Link::P2p {
            bits: 100_000_000,
            server: 1,
        },
        1500,
        net,
    ) else {
        return;
    };
    // The lab has the papers' 24 bits; the inventory's plan is made of 32.
    for node in 1..=4 {
        let apply = format!(
            "{ARMENTO} fabric apply --node n{node} --farm {0}/farm.toml --state {0}/n{node} && {ARMENTO} fabric confirm --state {0}/n{node} --root {0}/root{node}",
            farm.dir.display()
        );
        farm.sh(node, &apply);
    }
    assert_eq!(farm.doctor(), []);
    let n3 = farm.lab.node(3).addr.clone();
    let lost = format!("ip route del {n3}/32");
    let again = format!(
        "ip route add {n3}/32 dev eth1 scope link src {}",
        farm.lab.node(1).addr
    ); // KERNEL: ip's word
    farm.finds("route-wrong", 1, "eth1", &[(1, &lost)], &[(1, &again)]);
    let swap = "ip link set eth0 down; ip link set eth1 down; ip link set dev eth0 name swap0; ip link set dev eth1 name eth0; ip link set dev swap0 name eth1; ip link set eth0 up; ip link set eth1 up";
    farm.sh(1, swap);
    farm.sh(
        1,
        &format!(
            "{ARMENTO} fabric apply --node n1 --farm {0}/farm.toml --state {0}/n1 --confirm 600",
            farm.dir.display()
        ),
    );
    let found = farm.doctor();
    assert!(
        found.first().is_some_and(|f| f.0 == "cable-swapped"),
        "{found:?}"
    );
}

#[test]
fn every_node_changes_its_network_in_turn() {
    let link = Link::Switch {
        bits: 1_000_000_000,
    };
    let Some(farm) = Farm::up("all", link, 9000, "topology = \"switch\"") else {
        return;
    };
    let has_mtu = |node: usize, mtu: u32| {
        farm.sh(
            node,
            &format!("ip -o link show eth0 | grep -q 'mtu {mtu} '"),
        );
    };
    for node in [2, 4] {
        farm.sh(node, "ip link set eth0 mtu 1400");
    }
    let inventory = farm.dir.join("farm.toml");
    let apply = |rsh: &str| {
        let mut command = Command::new(ARMENTO);
        command.args([
            "fabric",
            "apply",
            "--all",
            "--confirm",
            "120",
            "--for",
            "ip",
        ]);
        command.args(["--rsh", rsh]).arg("--farm").arg(&inventory);
        let out = command.stdin(Stdio::null()).output().expect("armento");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    // One node is not reached: those before it keep the change, the others are as they were.
    let lab_rsh = format!("{ARMENTO} lab rsh --name {}", farm.name);
    let broken = farm.dir.join("rsh");
    let script = format!(
        "test \"$1\" = n3 && {{ echo 'n3 is gone' >&2; exit 1; }}\nexec {lab_rsh} \"$@\"\n"
    );
    fs::write(&broken, script).expect("a script");
    let (code, said, why) = apply(&format!("sh {}", broken.display()));
    assert_eq!((code, said.as_str()), (Some(125), ""), "{why}");
    for words in [
        "stopped at n3: n3 is gone",
        "kept: n1, n2;",
        "not asked: n4",
    ] {
        assert!(why.contains(words), "{words}: {why}");
    }
    has_mtu(2, 9000);
    has_mtu(4, 1400);
    let (code, said, why) = apply(&lab_rsh);
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(said, "applied and kept: n1, n2, n3, n4\n");
    has_mtu(4, 9000);
    // Kept: files were written, and nothing waits to be undone.
    farm.sh(4, "test -e /etc/armento/fabric.batch");
    farm.sh(4, "! test -e /var/lib/armento/fabric/pending");
    assert_eq!(farm.doctor(), []);
}

const INVENTORY: &str = "farm = { name = \"lab\" }
net.lan = { cidr = \"192.168.3.0/25\", mtu = 4000, boot = true }
net.app = { cidr = \"192.168.4.0/24\", mtu = 4000 }
profile.p = { lan0 = \"lan\", bond0 = { of = [\"lan1\", \"lan2\"], net = \"app\" } }
node.srv = { id = 1, profile = \"p\" }
node.\"w[1-2]\" = { first_id = 2, profile = \"p\" }
";

#[test]
fn an_inventory_is_raised_as_a_lab_with_its_names_and_addresses() {
    let root = fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
    if !root {
        println!("skipped: labs need root (namespaces, mounts, control groups)");
        return;
    }
    let open = |_: &str| Err("no such file".to_owned());
    let farm = parse("farm.toml", INVENTORY, &open).expect("an inventory");
    let like = imitate(&farm, None).expect("a lab");
    assert!(
        like.losses
            .iter()
            .any(|l| l.contains("bonds are one card each")),
        "{:?}",
        like.losses
    );
    let spec = like.of(Spec {
        name: format!("d{}-from", std::process::id()),
        exe: Some(ARMENTO.into()),
        ..Spec::default()
    });
    let lab = Lab::up(spec).expect("a lab");
    let says = |node: usize, script: &str| {
        let mut command = lab.node(node).command("sh");
        let out = command.args(["-c", script]).stdin(Stdio::null()).output();
        String::from_utf8_lossy(&out.expect("sh").stdout).into_owned()
    };
    let nodes = says(3, "armento nodes");
    for (name, addr) in [
        ("srv", "192.168.3.1:"),
        ("w1", "192.168.3.2:"),
        ("w2*", "192.168.3.3:"),
    ] {
        let line = nodes.lines().find(|l| l.starts_with(name));
        assert!(line.is_some_and(|l| l.contains(addr)), "{nodes}");
    }
    assert!(says(2, "ip -o link show eth0").contains("mtu 4000"));
    assert!(says(2, "ip -o addr show eth0").contains("192.168.3.2/25"));
    assert!(says(2, "ip -o addr show eth1").contains("192.168.4.2/24"));
    assert_eq!(says(2, "hostname").trim(), "w1");
    assert!(says(2, "getent hosts srv").contains("192.168.3.1"));
}
