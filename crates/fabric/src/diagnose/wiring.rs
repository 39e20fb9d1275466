//! Cables as they are: what each observer heard of the others, against the inventory; clocks from the same frames.

use super::code::Code;
use super::finding::{Add, At};
use super::observation::{Heard, Observation};
use crate::inventory::{Farm, Port, Wiring};
use std::collections::{BTreeMap, BTreeSet};

/// Microseconds between clocks that are wrong: the farm's own limit for timestamps is a second.
const SKEW_US: i64 = 500_000;

pub(super) fn check(farm: &Farm, seen: &[Observation], add: Add) {
    for one in seen {
        for heard in &one.heard {
            leaks_and_cables(farm, one, heard, add);
        }
    }
    clocks(seen, add);
}

/// The nets whose untagged or own frames a device carries: of `bond0.4` the tagged one, of `bond0` the untagged one.
fn nets<'a>(farm: &'a Farm, node: &str, device: &str) -> Vec<&'a str> {
    let (base, id) = match device.split_once('.') {
        Some((base, id)) => (base, id.parse::<u16>().ok()),
        None => (device, None),
    };
    let link = farm.node(node).and_then(|n| n.link(base));
    let fits = |a: &&crate::inventory::Attached| match id {
        Some(id) => a.tagged && farm.nets[&a.net].vlan == Some(id),
        None => !a.tagged,
    };
    link.into_iter()
        .flat_map(|l| &l.nets)
        .filter(fits)
        .map(|a| a.net.as_str())
        .collect()
}

fn leaks_and_cables(farm: &Farm, one: &Observation, heard: &Heard, add: Add) {
    let (mine, theirs) = (
        nets(farm, &one.node, &heard.link),
        nets(farm, &heard.node, &heard.from),
    );
    let (Some(own), Some(their)) = (mine.first(), theirs.first()) else {
        return;
    };
    let at = At {
        node: &one.node,
        link: &heard.link,
        peer: Some(&heard.node),
    };
    let evidence = format!("tcpdump -eni {} ether proto 0x88b5", heard.link);
    let direct = |net: &str| matches!(farm.nets[net].wiring, Wiring::Direct(_));
    if direct(own) || direct(their) {
        let port = |node: &str, link: &str| Port {
            node: node.to_owned(),
            link: link.to_owned(),
        };
        let (a, b) = (port(&one.node, &heard.link), port(&heard.node, &heard.from));
        let is = |net: &str| match &farm.nets[net].wiring {
            Wiring::Direct(d) => d
                .cables
                .iter()
                .any(|c| c.ends.contains(&a) && c.ends.contains(&b)),
            _ => false,
        };
        if !is(own) {
            add(
                Code::Cable,
                at,
                format!("{b} is at the other end of {a}"),
                evidence,
            );
        }
    } else if own != their {
        // Untagged nets on different wires: somebody's cable is in the wrong port.
        let tagged = farm.nets[*own].vlan.is_some() || farm.nets[*their].vlan.is_some();
        let what = format!(
            "frames of {} {} (net {their}) are heard on {} (net {own})",
            heard.node, heard.from, heard.link
        );
        add(
            if tagged { Code::VlanLeak } else { Code::Cable },
            at,
            what,
            evidence,
        );
    }
}

/// A frame there and one back: half the difference of their lags is the difference of the clocks, whatever the wire
/// takes, if it takes the same both ways.
fn clocks(seen: &[Observation], add: Add) {
    let mut lags: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for one in seen {
        for heard in one.heard.iter().filter(|h| h.node != one.node) {
            let lag = lags.entry((&heard.node, &one.node)).or_insert(heard.lag_us);
            *lag = (*lag).min(heard.lag_us);
        }
    }
    let mut votes: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    let mut apart = Vec::new();
    for ((a, b), there) in &lags {
        let Some(back) = lags.get(&(*b, *a)).filter(|_| a < b) else {
            continue;
        };
        // Positive: b's clock is ahead of a's.
        let ahead = (there - back) / 2;
        if ahead.abs() > SKEW_US {
            apart.push((*a, *b, ahead));
            for node in [*a, *b] {
                votes.entry(node).or_default().1 += 1;
            }
        }
    }
    for (a, b, ahead) in apart {
        // Who differs from most is the one that is wrong.
        let count = |n: &str| votes.get(n).map_or(0, |v| v.1);
        let (node, peer, ahead) = if count(a) > count(b) {
            (a, b, -ahead)
        } else {
            (b, a, ahead)
        };
        let word = if ahead > 0 { "ahead of" } else { "behind" };
        let what = format!(
            "{}.{:03} s {word} {peer}",
            ahead.abs() / 1_000_000,
            ahead.abs() / 1000 % 1000
        );
        add(
            Code::Clock,
            At {
                node,
                link: "",
                peer: Some(peer),
            },
            what,
            "date +%s.%N; chronyc tracking".into(),
        );
    }
}

/// The wiring as found: one line a link, with who was heard there.
pub fn drawing(seen: &[Observation]) -> String {
    let mut text = String::new();
    for one in seen {
        let mut by_link: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for heard in &one.heard {
            by_link
                .entry(&heard.link)
                .or_default()
                .insert(format!("{}.{}", heard.node, heard.from));
        }
        for (link, others) in by_link {
            let others: Vec<&str> = others.iter().map(String::as_str).collect();
            text += &format!("{}.{link} ══ {}\n", one.node, others.join(", "));
        }
    }
    text
}
