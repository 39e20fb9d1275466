//! What the outputs do to a kernel is what the plan says: in network namespaces, read back by `ip -d -j`.
//!
//! This machine's kernel may lack bonds and VLANs; farms without them are enough for addresses, sizes, routes and P2P.

mod common;

use armento_fabric::diff::{commands, diff, restore};
use armento_fabric::inventory::Farm;
use armento_fabric::observe::{Observed, parse};
use armento_fabric::plan::{NodePlan, plan};
use armento_fabric::render::{Backend, batch, node_files};
use std::fs;
use std::process::{Command, Stdio};

/// A network namespace with the cards of a plan; it ends with its process.
struct Space {
    holder: std::process::Child,
}

impl Space {
    /// Cards are ends of veth pairs with the addresses that the inventory gives; `None` without root.
    fn new(plan: &NodePlan) -> Option<Space> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        if !root {
            println!("skipped: network namespaces need root");
            return None;
        }
        // It says that it is ready, and ends with its input.
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut line = [0; 6];
        std::io::Read::read_exact(holder.stdout.as_mut().expect("output"), &mut line)
            .expect("ready");
        let space = Space { holder };
        for (i, link) in plan.links.iter().enumerate() {
            let mac = match &link.device {
                armento_fabric::plan::Device::Nic { mac: Some(mac), .. } => {
                    format!("address {mac}")
                }
                _ => String::new(),
            };
            space.ip(&format!(
                "link add dev eth{i} {mac} type veth peer name far{i}"
            ));
            space.ip(&format!("link set dev far{i} up"));
        }
        space.ip("link set dev lo up");
        Some(space)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut c = Command::new("nsenter");
        c.arg(format!("--net=/proc/{}/ns/net", self.holder.id()))
            .args(words);
        c
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("run");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn ip(&self, words: &str) {
        self.run(&[&["ip"], &*words.split_whitespace().collect::<Vec<_>>()].concat());
    }

    fn batch(&self, lines: &str) {
        use std::io::Write as _;
        let mut child = self
            .command(&["ip", "-batch", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ip");
        child
            .stdin
            .take()
            .expect("input")
            .write_all(lines.as_bytes())
            .expect("written");
        let output = child.wait_with_output().expect("ip");
        assert!(
            output.status.success(),
            "{lines}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn observe(&self, plan: &NodePlan) -> Observed {
        let addresses = self.run(&["ip", "-d", "-j", "address"]);
        let v4 = self.run(&["ip", "-j", "route", "show", "table", "main"]);
        let v6 = self.run(&["ip", "-6", "-j", "route", "show", "table", "main"]);
        let mut seen = parse(&addresses, &[&v4, &v6]).expect("JSON");
        // Kernel settings are not what these tests are about: /proc/sys shows those of the reader's namespace.
        seen.sysctls = plan.sysctls.clone();
        seen
    }

    /// Cards get the names that the `.link` files would give them.
    fn name_cards(&self, plan: &NodePlan) {
        for (i, link) in plan.links.iter().enumerate() {
            self.ip(&format!("link set dev eth{i} name {}", link.name));
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Sizes that differ, a gateway, a second net: no bond, no VLAN.
const PLAIN: &str = "\
net.a = { cidr = \"10.0.0.0/24\", gateway = \"10.0.0.254\", mtu = 9000 }
net.b = { cidr = \"10.1.0.0/16\" }
node.x = { id = 5, lan0 = \"a\", lan1 = \"b\", mac = { lan0 = \"02:00:00:00:00:01\", lan1 = \"02:00:00:00:00:02\" } }
";

fn farms() -> Vec<(Farm, &'static str)> {
    let plain = common::read(PLAIN).expect("farm");
    vec![
        (plain, "x"),
        (common::farm("p2p"), "server"),
        (common::farm("met"), "nodo3"),
        (common::farm("met"), "server"),
    ]
}

#[test]
fn batches_bring_the_kernel_to_the_plan() {
    for (farm, node) in farms() {
        let plan = plan(&farm, farm.node(node).expect(node));
        let Some(space) = Space::new(&plan) else {
            return;
        };
        space.name_cards(&plan);
        space.batch(&batch(&plan));
        let seen = space.observe(&plan);
        assert_eq!(diff(&plan, &seen), [], "{node}");
        assert_eq!(
            commands(&plan, &seen),
            [""; 0],
            "{node}: nothing is left to do"
        );
    }
}

#[test]
fn ifupdown_has_the_effect_of_the_batch() {
    if !std::path::Path::new("/usr/sbin/ifup").exists() {
        println!("skipped: ifupdown is not installed");
        return;
    }
    for (i, (farm, node)) in farms().into_iter().enumerate() {
        let plan = plan(&farm, farm.node(node).expect(node));
        let (Some(space), Some(other)) = (Space::new(&plan), Space::new(&plan)) else {
            return;
        };
        let dir =
            std::env::temp_dir().join(format!("armento-fabric-ifup-{}-{i}", std::process::id()));
        fs::create_dir_all(&dir).expect("directory");
        let file = node_files(&plan, Backend::Ifupdown).remove(0);
        let path = dir.join("interfaces");
        fs::write(&path, file.text).expect("file");
        space.name_cards(&plan);
        let (path, state) = (path.to_str().expect("path"), dir.to_str().expect("path"));
        space.run(&["ifup", "-a", "-i", path, "--state-dir", state]);
        let seen = space.observe(&plan);
        assert_eq!(diff(&plan, &seen), [], "{node}");
        // Not only the plan: everything that can be seen is the same.
        other.name_cards(&plan);
        other.batch(&batch(&plan));
        let mut batch = other.observe(&plan);
        let bare = |seen: &Observed| {
            let mut seen = seen.clone();
            for link in &mut seen.links {
                // Chance: the far ends' own addresses, and when each had its link-local one.
                (link.mac, link.index) = (None, 0);
                link.addresses.retain(|a| a.addr().is_ipv4());
            }
            for route in &mut seen.routes {
                route.protocol.clear();
            }
            seen.routes
                .retain(|r| r.to.is_none_or(|t| t.addr().is_ipv4()));
            seen.links.sort_by(|a, b| a.name.cmp(&b.name));
            seen.routes
                .sort_by(|a, b| (a.to, &a.link).cmp(&(b.to, &b.link)));
            seen
        };
        batch = bare(&batch);
        assert_eq!(bare(&seen), batch, "{node}");
        let _ = fs::remove_dir_all(&dir);
    }
}

#[test]
fn any_state_is_brought_to_the_plan_and_back() {
    for (farm, node) in farms() {
        let plan = plan(&farm, farm.node(node).expect(node));
        let Some(space) = Space::new(&plan) else {
            return;
        };
        if !plan.links.iter().any(|l| {
            matches!(
                &l.device,
                armento_fabric::plan::Device::Nic { mac: Some(_), .. }
            )
        }) {
            space.name_cards(&plan);
        }
        // Something else was there: other addresses, sizes, a route.
        let first = space
            .observe(&plan)
            .links
            .iter()
            .find(|l| l.name == "eth0" || l.name == "lan0")
            .expect("card")
            .name
            .clone();
        space.ip(&format!("link set dev {first} mtu 1400 up"));
        space.ip(&format!("address add 172.16.0.1/24 dev {first}"));
        space.ip(&format!(
            "route add 172.20.0.0/16 via 172.16.0.9 dev {first}"
        ));
        let before = space.observe(&plan);
        space.batch(&(commands(&plan, &before).join("\n") + "\n"));
        let there = space.observe(&plan);
        assert_eq!(diff(&plan, &there), [], "{node}");
        let back = restore(&before, &there);
        space.batch(&(back.join("\n") + "\n"));
        space.ip(&format!(
            "route replace 172.20.0.0/16 via 172.16.0.9 dev {first}"
        ));
        let after = space.observe(&plan);
        let bare = |seen: &Observed| {
            let mut seen = seen.clone();
            for link in &mut seen.links {
                link.addresses.retain(|a| a.addr().is_ipv4());
            }
            seen.links.sort_by_key(|l| l.index);
            seen.routes
                .retain(|r| r.to.is_some_and(|t| t.addr().is_ipv4()));
            seen
        };
        assert_eq!(bare(&after), bare(&before), "{node}");
    }
}
