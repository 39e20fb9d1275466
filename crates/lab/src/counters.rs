//! Bytes and packets of each interface of each node, as the kernel counts them.

use crate::state::Dir;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;

/// Counts since the node was made; `rx` is what it received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    pub name: String,
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_dropped: u64,
}

/// The interfaces of each node of a lab, in the order of its nodes, without `lo`. An error if there is no such lab, or a node
/// has ended.
pub fn of(lab: &str) -> Result<Vec<(String, Vec<Nic>)>> {
    let dir = Dir::of(lab)?;
    let plan = dir.plan()?;
    let pids = dir.pids().context("the lab is not up yet")?;
    let mut all = Vec::new();
    for (i, node) in plan.nodes.iter().enumerate() {
        let down = || {
            format!(
                "node {} of lab {lab} is not running\nhint: armento lab list",
                node.name
            )
        };
        let first = pids.nodes.get(i).filter(|p| p.alive()).with_context(down)?;
        let path = format!("/proc/{}/net/dev", first.pid);
        let text = fs::read_to_string(path).with_context(down)?;
        all.push((node.name.clone(), parse(&text)));
    }
    Ok(all)
}

/// KERNEL: proc_pid_net(5), /proc/net/dev: eight numbers of what was received, eight of what was sent; bytes, packets, errors and
/// drops are the first of each.
fn parse(text: &str) -> Vec<Nic> {
    let one = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let n: Vec<u64> = rest
            .split_whitespace()
            .map_while(|w| w.parse().ok())
            .collect();
        (n.len() >= 16 && name.trim() != "lo").then(|| Nic {
            name: name.trim().into(),
            rx_bytes: n[0],
            rx_packets: n[1],
            rx_dropped: n[3],
            tx_bytes: n[8],
            tx_packets: n[9],
            tx_dropped: n[11],
        })
    };
    let mut found: Vec<Nic> = text.lines().filter_map(one).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

pub fn json(lab: &str, all: &[(String, Vec<Nic>)]) -> Value {
    let nic = |n: &Nic| {
        json!({
            "name": n.name,
            "rx_bytes": n.rx_bytes, "rx_packets": n.rx_packets, "rx_dropped": n.rx_dropped,
            "tx_bytes": n.tx_bytes, "tx_packets": n.tx_packets, "tx_dropped": n.tx_dropped,
        })
    };
    let nodes: Vec<Value> = all
        .iter()
        .map(|(name, nics)| json!({ "name": name, "nics": nics.iter().map(nic).collect::<Vec<_>>() }))
        .collect();
    json!({ "schema": "armento.lab-counters/1", "v": 1, "name": lab, "nodes": nodes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_without_lo() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
             lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0\n  \
             eth1:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n  \
             eth0:1234567890    1000    0    3    0     0          0         0  7000      70    0    5    0     0       0          0\n";
        let got = parse(text);
        let names: Vec<&str> = got.iter().map(|n| &n.name[..]).collect();
        assert_eq!(names, ["eth0", "eth1"]);
        let want = Nic {
            name: "eth0".into(),
            rx_bytes: 1_234_567_890,
            rx_packets: 1000,
            rx_dropped: 3,
            tx_bytes: 7000,
            tx_packets: 70,
            tx_dropped: 5,
        };
        assert_eq!(got[0], want);
    }
}
