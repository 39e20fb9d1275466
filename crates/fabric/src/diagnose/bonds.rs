//! Bonds: partner, aggregators, members, how flows are spread.

use super::code::Code;
use super::finding::{Add, At};
use super::observation::Observation;
use crate::inventory::{BondMode, Farm, Kind};
use crate::observe::Seen;
use std::collections::BTreeSet;

/// Bytes sent below which no share is judged, and the share of one member that is too much, percent.
const SHARE_FROM: u64 = 100 << 20;
const SHARE_MAX: u64 = 95;
/// IEEE 802.1AX: synchronised, collecting and distributing.
const CARRIES: u32 = 0x38;

pub(super) fn check(farm: &Farm, one: &Observation, add: Add) {
    let Some(node) = farm.node(&one.node) else {
        return;
    };
    for link in &node.links {
        let Kind::Bond(bond) = &link.kind else {
            continue;
        };
        let Some(seen) = one.network.links.iter().find(|s| s.name == link.name) else {
            continue;
        };
        let Some(state) = &seen.bonding else {
            continue;
        };
        let at = At::link(&one.node, &link.name);
        let show = format!("cat /proc/net/bonding/{}", link.name);
        let members: Vec<&Seen> = one
            .network
            .links
            .iter()
            .filter(|s| s.bond.as_deref() == Some(&link.name))
            .collect();
        let alive: Vec<&&Seen> = members.iter().filter(|s| s.carrier).collect();
        let silent = matches!(state.partner.as_str(), "" | "00:00:00:00:00:00");
        if bond.mode == BondMode::Lacp && silent && !alive.is_empty() {
            add(
                Code::LacpPartner,
                at,
                "the partner's address is 00:00:00:00:00:00".into(),
                show.clone(),
            );
        } else if bond.mode == BondMode::Lacp && !alive.is_empty() {
            let states: Vec<_> = alive.iter().filter_map(|s| s.member.as_ref()).collect();
            let aggregators: BTreeSet<u32> = states.iter().map(|m| m.aggregator).collect();
            let idle = states.iter().any(|m| m.port_state & CARRIES != CARRIES);
            if aggregators.len() > 1 || idle {
                let what = format!(
                    "{} of {} members carry frames",
                    state.ports.max(1),
                    alive.len()
                );
                add(Code::LacpSplit, at, what, show.clone());
            }
        }
        spread(one, &link.name, &alive, &state.hash, add);
    }
}

fn spread(one: &Observation, bond: &str, alive: &[&&Seen], hash: &str, add: Add) {
    let sent: Vec<u64> = alive.iter().map(|s| s.counters.tx_bytes).collect();
    let (sum, most) = (
        sent.iter().sum::<u64>(),
        sent.iter().copied().max().unwrap_or(0),
    );
    if alive.len() > 1
        && sum >= SHARE_FROM
        && most / (sum / 100).max(1) >= SHARE_MAX
        && hash != "layer3+4"
    {
        let what = format!(
            "{} % of what was sent left by one of {} members; hash {hash}",
            most / (sum / 100),
            alive.len()
        );
        add(
            Code::OneFlow,
            At::link(&one.node, bond),
            what,
            "ip -s link".into(),
        );
    }
}
