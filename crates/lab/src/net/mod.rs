//! The lab's network as text for `ip -batch` and `tc -batch`: the text is the dry run.
//!
//! Bridges and their ports live in the namespace of the lab's switch process, `eth0` … in the namespace of each node.
//! Start at [`build_switch`] and [`build_node`]; `wires.rs` says what there is to build, `shape.rs` how rates and losses are
//! imitated.

mod shape;
mod wires;

use crate::spec::{Link, MTU, Plan};
use crate::sys;
use anyhow::{Context, Result, bail};
use shape::{FRAMEWISE_MAX, Shape};
use std::io::Write;
use std::process::{Command, Stdio};
use wires::{End, Nic, Wire};

/// `link set` for a device that is not of the usual MTU.
fn mtu_text(device: &str, mtu: u32) -> String {
    match mtu {
        MTU => String::new(),
        _ => format!("link set {device} mtu {mtu}\n"),
    }
}

/// Bridges, media of hubs, and all cables.
fn switch_text(plan: &Plan, wires: &[Wire], first_pids: &[i32]) -> String {
    let mut t = String::from("link set lo up\n");
    let hub = matches!(plan.link, Link::Hub { .. });
    for b in 0..wires::bridges(plan) {
        // A hub sends each frame to all ports: its bridge forgets at once where a node is.
        let forget = if hub { " ageing_time 0" } else { "" };
        t += &format!("link add br{b} type bridge{forget}\n");
        t += &mtu_text(&format!("br{b}"), plan.mtu);
        t += &format!("link set br{b} up\n");
        if hub {
            t += &format!("link add ifb{b} type ifb\n");
            t += &mtu_text(&format!("ifb{b}"), plan.mtu);
            t += &format!("link set ifb{b} up\n");
        }
    }
    let device = |end: &End| match end {
        End::Port { name, .. } => format!("name {name}"),
        End::Nic { node, nic } => {
            format!("name {} netns {}", wires::nic_name(*nic), first_pids[*node])
        }
    };
    for Wire { ends, .. } in wires {
        let [near, far] = [&ends[0], &ends[1]].map(device);
        t += &format!("link add {near} type veth peer {far}\n");
        if let End::Port { bridge, name } = &ends[0] {
            t += &mtu_text(name, plan.mtu);
            t += &format!("link set {name} master br{bridge}\nlink set {name} up\n");
        }
    }
    t
}

/// Rates and losses of the switch's side.
fn switch_tc(plan: &Plan, wires: &[Wire]) -> String {
    let mut t = String::new();
    if let Link::Hub { bits } = plan.link {
        for b in 0..wires::bridges(plan) {
            t += &Shape::of(bits, plan.mtu).tc(&format!("ifb{b}"));
        }
    }
    for Wire { ends, bits } in wires {
        let (End::Port { name, bridge }, End::Nic { node, .. }) = (&ends[0], &ends[1]) else {
            continue; // both ends are nodes'
        };
        if matches!(plan.link, Link::Hub { .. }) {
            t += &shape::redirect(name, &format!("ifb{bridge}"));
        }
        t += &bits.map_or(String::new(), |b| Shape::of(b, plan.mtu).tc(name));
        let loss = wires::loss(plan, &[Some(*node)]);
        if loss > 0.0 {
            t += &shape::lossy(name, loss);
        }
    }
    t
}

/// In larger labs neighbour entries are static. The kernel keeps 1024 learned neighbours of all network namespaces
/// together, and then refuses new ones. KERNEL: networking/ip-sysctl.rst, `neigh/default/gc_thresh3`.
const LEARN_MAX: usize = 32;

/// `nodes`: of the whole lab.
fn node_text(nics: &[Nic], nodes: usize, mtu: u32) -> String {
    let mut t = String::from("link set lo up\n");
    for nic in nics {
        let Nic {
            name,
            hardware,
            addr,
            prefix,
            ..
        } = nic;
        t += &format!("link set {name} address {hardware}\n");
        t += &mtu_text(name, mtu);
        t += &format!("addr add {addr}/{prefix} dev {name}\nlink set {name} up\n");
        for (other, theirs) in &nic.peers {
            if nic.direct {
                t += &format!("route add {other}/32 dev {name} src {addr}\n");
            }
            if nodes > LEARN_MAX {
                t += &format!("neigh add {other} lladdr {theirs} dev {name} nud permanent\n");
            }
        }
    }
    t
}

/// Whether the ends of a cable of this rate work frame by frame.
fn framewise(link: Link, bits: Option<u64>, mtu: u32) -> bool {
    let bits = match link {
        Link::Hub { bits } => Some(bits),
        _ => bits,
    };
    bits.is_some_and(|bits| !Shape::of(bits, mtu).offload)
}

/// Builds the bridges and all cables. Before: this is the switch's network namespace; each pid has its own.
pub fn build_switch(plan: &Plan, first_pids: &[i32]) -> Result<()> {
    quiet_ipv6();
    let wires = wires::wires(plan);
    run("ip", &switch_text(plan, &wires, first_pids))
        .map_err(|e| hint(e, matches!(plan.link, Link::Hub { .. }), HUB_HINT))?;
    for wire in &wires {
        if let End::Port { name, .. } = &wire.ends[0]
            && framewise(plan.link, wire.bits, plan.mtu)
        {
            offloads_off(name)?;
        }
    }
    if let Link::Hub { bits } = plan.link
        && !Shape::of(bits, plan.mtu).offload
    {
        (0..wires::bridges(plan)).try_for_each(|b| offloads_off(&format!("ifb{b}")))?;
    }
    let tc = switch_tc(plan, &wires);
    run("tc", &tc).map_err(|e| hint(e, !plan.faults.is_empty(), FAULT_HINT))
}

const HUB_HINT: &str = "a hub needs the kernel's ifb (CONFIG_IFB), sch_ingress, cls_u32 and act_mirred; --link switch10 does without";
const FAULT_HINT: &str = "a fault needs the kernel's cls_bpf (CONFIG_NET_CLS_BPF) and sch_ingress";

fn hint(error: anyhow::Error, applies: bool, text: &str) -> anyhow::Error {
    match applies {
        true => anyhow::anyhow!("{error:#}\nhint: {text}"),
        false => error,
    }
}

/// Before: this is the network namespace of node `me`, counted from 0, and the switch is built.
pub fn build_node(plan: &Plan, me: usize) -> Result<()> {
    let nics = wires::nics(plan, me);
    if plan.link.direct() {
        // A server is no router: the others have no way to each other. Absent without IPv4 in the kernel only.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "0")
            .context("cannot switch forwarding off")?;
    }
    run("ip", &node_text(&nics, plan.nodes.len(), plan.mtu))?;
    let mut tc = String::new();
    for nic in &nics {
        if framewise(plan.link, nic.bits, plan.mtu) {
            offloads_off(&nic.name)?;
        }
        tc += &nic
            .bits
            .map_or(String::new(), |b| Shape::of(b, plan.mtu).tc(&nic.name));
        if nic.loss > 0.0 {
            tc += &shape::lossy(&nic.name, nic.loss);
        }
    }
    run("tc", &tc).map_err(|e| hint(e, !plan.faults.is_empty(), FAULT_HINT))
}

/// Disables IPv6 on eth0: nodes use IPv4, and neighbour discovery would disturb measurements. ::1 on lo stays. Before:
/// the interfaces do not exist yet. Without IPv6 in the kernel there is nothing to do.
pub fn quiet_ipv6() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
}

fn offloads_off(interface: &str) -> Result<()> {
    // linux/ethtool.h: ETHTOOL_STXCSUM, STSO, SGSO, SGRO.
    for command in [0x17, 0x1f, 0x24, 0x2c] {
        sys::ethtool(interface, command, false)
            .with_context(|| format!("cannot switch off the offloads of {interface}"))?;
    }
    Ok(())
}

fn run(tool: &str, batch: &str) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut child = Command::new(tool)
        .args(["-batch", "-"])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{tool}`\nhint: apt-get install iproute2"))?;
    // The batch is far below a pipe's 64 KiB, so writing all of it first cannot block.
    child
        .stdin
        .take()
        .context("no pipe")?
        .write_all(batch.as_bytes())?;
    let out = child.wait_with_output()?;
    if !out.status.success() {
        bail!(
            "`{tool}` refused the lab's network: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(())
}

/// Tries every kind of object that the network of an ordinary lab consists of. Before: this is a network namespace made
/// for the trial.
pub fn rehearse() -> Result<()> {
    run(
        "ip",
        "link add br0 type bridge\nlink add p1 type veth peer name e1\nlink set p1 master br0\n",
    )?;
    offloads_off("p1")?;
    run("tc", &Shape::of(FRAMEWISE_MAX, MTU).tc("p1"))
}

/// The tools required by a lab that this machine lacks.
pub fn missing_tools() -> Vec<&'static str> {
    let dirs = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let here = |t: &str| {
        dirs.iter()
            .any(|d| std::path::Path::new(d).join(t).exists())
    };
    ["ip", "tc"].into_iter().filter(|t| !here(t)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{NODES_MAX, Spec};

    fn plan(link: &str, nodes: usize) -> Plan {
        let spec = Spec {
            link: link.parse().unwrap(),
            nodes,
            ..Spec::default()
        };
        spec.plan(3, &[0], "/armento".into())
    }

    #[test]
    fn every_node_gets_a_port() {
        let p = plan("none", 2);
        let t = switch_text(&p, &wires::wires(&p), &[70, 80]);
        assert!(
            t.contains("link add name p2 type veth peer name eth0 netns 80\n"),
            "{t}"
        );
        assert_eq!(t.lines().count(), 3 + 2 * 3);
        assert_eq!(switch_tc(&p, &wires::wires(&p)), "");
    }

    #[test]
    fn all_frames_of_a_hub_pass_one_queue() {
        let p = plan("hub10", 2);
        let tc = switch_tc(&p, &wires::wires(&p));
        assert_eq!(tc.matches("tbf").count(), 1, "{tc}");
        assert_eq!(tc.matches("redirect dev ifb0").count(), 2, "{tc}");
        let ip = switch_text(&p, &wires::wires(&p), &[70, 80]);
        assert!(
            ip.contains("link add br0 type bridge ageing_time 0\n"),
            "{ip}"
        );
    }

    #[test]
    fn large_labs_have_static_neighbours() {
        let text = |nodes: usize| node_text(&wires::nics(&plan("none", nodes), 1), nodes, MTU);
        let few = text(32);
        assert!(few.contains("link set eth0 address 02:41:0a:4d:03:02\n"));
        assert!(!few.contains("neigh"));
        let many = text(64);
        let one = "neigh add 10.77.3.64 lladdr 02:41:0a:4d:03:40 dev eth0 nud permanent\n";
        assert!(many.contains(one) && many.matches("neigh").count() == 63);
    }

    /// `run` writes all of it before it reads.
    #[test]
    fn largest_batches_fit_a_pipe() {
        for link in ["switch100", "hub10", "p2p", "two-p2p"] {
            let mut p = plan(link, NODES_MAX);
            p.mtu = 9000;
            p.faults = vec!["duplex:n1".parse().unwrap()];
            let wires = wires::wires(&p);
            let pids = [1_000_000; NODES_MAX];
            let node = |me| node_text(&wires::nics(&p, me), NODES_MAX, p.mtu).len();
            let longest = (0..NODES_MAX).map(node).max().unwrap();
            let all = [
                switch_text(&p, &wires, &pids).len(),
                switch_tc(&p, &wires).len(),
                longest,
            ];
            assert!(all.iter().all(|len| *len < 60_000), "{link}: {all:?}");
        }
    }

    #[test]
    fn mtus_are_set_at_both_ends() {
        let mut p = plan("switch100", 2);
        p.mtu = 9000;
        let t = switch_text(&p, &wires::wires(&p), &[70, 80]);
        assert!(t.contains("link set p2 mtu 9000\n") && t.contains("link set br0 mtu 9000\n"));
        assert!(node_text(&wires::nics(&p, 0), 2, 9000).contains("link set eth0 mtu 9000\n"));
    }
}
