//! Files are what the tools themselves accept: netplan, ifupdown, dnsmasq.

mod common;

use armento_fabric::plan::plan;
use armento_fabric::render::{self, Backend, Dhcp, node_files};
use common::{farm, service};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const NODES: &[(&str, &str)] = &[
    ("p2p", "server"),
    ("met", "nodo3"),
    ("joined", "a"),
    ("joined", "n5"),
    ("hpl", "srv"),
    ("hpl", "n02"),
];

fn there(tool: &str) -> bool {
    let found = ["/usr/sbin", "/usr/bin", "/sbin"]
        .iter()
        .any(|d| Path::new(d).join(tool).exists());
    if !found {
        println!("skipped: {tool} is not installed");
    }
    found
}

/// A directory of this test's own, removed in the end.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Root {
        let dir =
            std::env::temp_dir().join(format!("armento-fabric-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("directory");
        Root(dir)
    }

    fn write(&self, farm: &str, node: &str, backend: Backend) -> PathBuf {
        let root = self.0.join(format!("{farm}-{node}"));
        let farm = common::farm(farm);
        for file in node_files(&plan(&farm, farm.node(node).expect(node)), backend) {
            let path = root.join(file.path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            fs::write(&path, file.text).expect("file");
            fs::set_permissions(&path, fs::Permissions::from_mode(file.mode)).expect("mode");
        }
        root
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("run");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// Sections of a systemd file with their lines; `[Route]` by route.
fn sections(text: &str) -> BTreeSet<(String, BTreeSet<String>)> {
    let mut all: Vec<(String, BTreeSet<String>)> = Vec::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        match line.strip_prefix('[') {
            Some(head) => all.push((head.trim_end_matches(']').to_owned(), BTreeSet::new())),
            None => {
                // Other words for the same.
                let line = line.replace("GatewayOnLink=true", "GatewayOnLink=yes");
                let noise = [
                    "LinkLocalAddressing=ipv6",
                    "DHCP=no",
                    "PermanentMACAddress=",
                    "WakeOnLan=",
                    "Destination=0.0.0.0/0",
                ];
                if !noise.iter().any(|n| line.starts_with(n)) {
                    all.last_mut().expect("section").1.insert(line);
                }
            }
        }
    }
    all.into_iter().collect()
}

#[test]
fn netplan_makes_the_same_networkd_files_as_ours() {
    if !there("netplan") {
        return;
    }
    let root = Root::new("netplan");
    for (farm, node) in NODES {
        let dir = root.write(farm, node, Backend::Netplan);
        let said = run(Command::new("netplan")
            .args(["generate", "--root-dir"])
            .arg(&dir));
        assert!(
            !said.to_lowercase().contains("error"),
            "{farm} {node}: {said}"
        );
        let mut theirs = BTreeMap::new();
        for entry in fs::read_dir(dir.join("run/systemd/network")).expect("generated") {
            let path = entry.expect("entry").path();
            let name = path
                .file_name()
                .expect("name")
                .to_string_lossy()
                .replace("10-netplan-", "10-armento-");
            theirs.insert(name, fs::read_to_string(&path).expect("text"));
        }
        let farm_read = common::farm(farm);
        let plan = plan(&farm_read, farm_read.node(node).expect(node));
        let mut compared = 0;
        for file in node_files(&plan, Backend::Networkd) {
            let name = file.path.rsplit('/').next().expect("name");
            if name.ends_with(".network") || name.ends_with(".netdev") {
                let other = theirs
                    .get(name)
                    .unwrap_or_else(|| panic!("{farm} {node}: netplan makes no {name}"));
                assert_eq!(
                    sections(&file.text),
                    sections(other),
                    "{farm} {node} {name}"
                );
                compared += 1;
            }
        }
        assert!(compared >= plan.links.len());
    }
}

#[test]
fn ifupdown_reads_the_files_and_would_run_every_command() {
    if !there("ifup") {
        return;
    }
    let root = Root::new("ifupdown");
    for (farm, node) in NODES {
        let dir = root.write(farm, node, Backend::Ifupdown);
        let state = dir.join("state");
        fs::create_dir_all(&state).expect("state");
        let said = run(Command::new("ifup")
            .args(["--no-act", "-a", "-i"])
            .arg(dir.join("etc/network/interfaces.d/armento"))
            .arg("--state-dir")
            .arg(&state));
        let farm_read = common::farm(farm);
        let plan = plan(&farm_read, farm_read.node(node).expect(node));
        for link in &plan.links {
            assert!(
                said.contains(&format!("dev {}", link.name)),
                "{farm} {node}: nothing for {}\n{said}",
                link.name
            );
            // Made once, by us or by ifupdown.
            let made = said
                .lines()
                .filter(|l| {
                    l.trim_start().starts_with("ip link add")
                        && l.contains(&format!("name {} ", link.name))
                })
                .count();
            assert!(
                made <= 1,
                "{farm} {node}: {} is made {made} times\n{said}",
                link.name
            );
        }
        for route in &plan.routes {
            assert!(
                said.contains(&render::route_words(route)),
                "{farm} {node}: {route:?}\n{said}"
            );
        }
    }
}

#[test]
fn dnsmasq_accepts_both_configurations() {
    if !there("dnsmasq") {
        return;
    }
    let root = Root::new("dnsmasq");
    let farm = farm("hpl");
    for (name, dhcp) in [("own", Dhcp::Own), ("proxy", Dhcp::Proxy)] {
        let file = root.0.join(name);
        let text = render::dnsmasq(&farm, farm.node("srv").expect("srv"), &service(dhcp))
            .expect("boot net");
        fs::write(&file, text).expect("file");
        let said = run(Command::new("dnsmasq").arg("--test").arg("-C").arg(&file));
        assert!(said.contains("OK"), "{name}: {said}");
    }
}
