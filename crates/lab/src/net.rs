//! The lab's network as text for `ip -batch` and `tc -batch`: the text is the dry run.
//!
//! ```text
//!   n1 eth0 ══ p1 ┐
//!   n2 eth0 ══ p2 ┤ br0      the bridge and its ports live in the namespace of the lab's
//!   n3 eth0 ══ p3 ┘          switch process; eth0 in the namespace of each node
//! ```

use crate::spec::{Link, Plan};
use crate::sys;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::process::{Command, Stdio};

/// How a port is limited to a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    bits: u64,
    /// Bucket of tbf, bytes.
    burst: u64,
    /// Queue before frames are dropped, bytes.
    limit: u64,
    /// Segmentation offload: frames of up to 64 KiB cross the bridge whole.
    offload: bool,
}

/// Up to this rate a port is shaped frame by frame, as a real switch does: measured 94 % of the rate at 100 Mbit/s on a
/// quiet machine (ideal 94.15 %; 80 % when timers fire late because other work has the cores), but only 50 to 80 % at
/// 250 and 400. Above it, segmentation offload stays on: measured 95 % at 400 Mbit/s and 1 Gbit/s, 90 % at 4 and 70 %
/// at 10 Gbit/s, where a core is full.
const FRAMEWISE_MAX: u64 = 100_000_000;

impl Shape {
    fn of(link: Link) -> Option<Shape> {
        let Link::Switch { bits } = link else {
            return None;
        };
        if bits <= FRAMEWISE_MAX {
            // A bucket of two full frames and a queue of 40.
            return Some(Shape {
                bits,
                burst: 3200,
                limit: 60_000,
                offload: false,
            });
        }
        // A bucket of a millisecond (timers fire late on a busy machine), at least one offloaded frame; a queue of ten,
        // so that two frames of a sender in flight find room.
        let bytes_per_ms = bits / 8000;
        let burst = bytes_per_ms.max(70_000);
        Some(Shape {
            bits,
            burst,
            limit: (10 * bytes_per_ms).max(4 * burst),
            offload: true,
        })
    }

    /// `overhead 24`: checksum, preamble and gap of each frame on a real wire.
    fn tc(self, port: &str) -> String {
        let Shape {
            bits, burst, limit, ..
        } = self;
        format!(
            "qdisc add dev {port} root tbf rate {bits}bit burst {burst} limit {limit} overhead 24\n"
        )
    }
}

fn bridge_text(first_pids: &[i32]) -> String {
    let mut t = String::from("link set lo up\nlink add br0 type bridge\nlink set br0 up\n");
    for (i, pid) in (1..).zip(first_pids) {
        t += &format!(
            "link add p{i} type veth peer name eth0 netns {pid}\nlink set p{i} master br0\nlink set p{i} up\n"
        );
    }
    t
}

/// In larger labs neighbour entries are static. The kernel keeps 1024 learned neighbours of all network namespaces
/// together, and then refuses new ones. KERNEL: networking/ip-sysctl.rst, `neigh/default/gc_thresh3`.
const LEARN_MAX: usize = 32;

/// A locally administered, unique hardware address: IEEE 802, the second bit of the first octet.
fn hardware(addr: &str) -> String {
    let octets = addr.split('.').filter_map(|o| o.parse::<u8>().ok());
    octets.fold("02:41".into(), |all, o| format!("{all}:{o:02x}"))
}

/// `all`: the addresses of the lab.
fn node_text(addr: &str, all: &[&str]) -> String {
    let own = hardware(addr);
    let mut t = format!(
        "link set lo up\nlink set eth0 address {own}\naddr add {addr}/24 dev eth0\nlink set eth0 up\n"
    );
    let static_neighbours = all.iter().filter(|a| all.len() > LEARN_MAX && **a != addr);
    for other in static_neighbours {
        let theirs = hardware(other);
        t += &format!("neigh add {other} lladdr {theirs} dev eth0 nud permanent\n");
    }
    t
}

/// Builds the bridge and a veth pair to each node. Before: this is the switch's network namespace; each pid has its
/// own.
pub fn build_switch(plan: &Plan, first_pids: &[i32]) -> Result<()> {
    quiet_ipv6();
    run("ip", &bridge_text(first_pids))?;
    let Some(shape) = Shape::of(plan.link) else {
        return Ok(());
    };
    let ports: Vec<String> = (1..=first_pids.len()).map(|i| format!("p{i}")).collect();
    for port in ports.iter().filter(|_| !shape.offload) {
        offloads_off(port)?;
    }
    run("tc", &ports.iter().map(|p| shape.tc(p)).collect::<String>())
}

/// Before: this is the node's network namespace and the switch is built.
pub fn build_node(plan: &Plan, addr: &str) -> Result<()> {
    let all: Vec<&str> = plan.nodes.iter().map(|n| n.addr.as_str()).collect();
    run("ip", &node_text(addr, &all))?;
    let Some(shape) = Shape::of(plan.link) else {
        return Ok(());
    };
    if !shape.offload {
        offloads_off("eth0")?;
    }
    run("tc", &shape.tc("eth0"))
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

/// Tries every kind of object that a lab's network consists of. Before: this is a network namespace made for the trial.
pub fn rehearse() -> Result<()> {
    run(
        "ip",
        "link add br0 type bridge\nlink add p1 type veth peer name e1\nlink set p1 master br0\n",
    )?;
    offloads_off("p1")?;
    let slow = Link::Switch {
        bits: FRAMEWISE_MAX,
    };
    run(
        "tc",
        &Shape::of(slow).map(|s| s.tc("p1")).unwrap_or_default(),
    )
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

    #[test]
    fn slow_ports_are_shaped_by_frame_and_fast_ones_keep_offloads() {
        let s = Shape::of("switch100".parse().unwrap()).unwrap();
        assert_eq!(
            s.tc("p1"),
            "qdisc add dev p1 root tbf rate 100000000bit burst 3200 limit 60000 overhead 24\n"
        );
        assert!(!s.offload);
        assert!(
            Shape::of(Link::Switch {
                bits: 4_000_000_000
            })
            .unwrap()
            .offload
        );
        assert_eq!(Shape::of(Link::None), None);
    }

    #[test]
    fn every_node_gets_a_port() {
        let t = bridge_text(&[70, 80]);
        assert!(t.contains("link add p2 type veth peer name eth0 netns 80\n"));
        assert_eq!(t.lines().count(), 3 + 2 * 3);
        assert!(t.len() < 60_000);
    }

    #[test]
    fn large_labs_have_static_neighbours() {
        let addrs: Vec<String> = (1..=64).map(|n| format!("10.77.3.{n}")).collect();
        let all: Vec<&str> = addrs.iter().map(String::as_str).collect();
        let few = node_text("10.77.3.2", &all[..32]);
        assert!(few.contains("link set eth0 address 02:41:0a:4d:03:02\n"));
        assert!(!few.contains("neigh"));
        let many = node_text("10.77.3.2", &all);
        let one = "neigh add 10.77.3.64 lladdr 02:41:0a:4d:03:40 dev eth0 nud permanent\n";
        assert!(many.contains(one) && many.matches("neigh").count() == 63);
        assert!(many.len() < 60_000);
    }
}
