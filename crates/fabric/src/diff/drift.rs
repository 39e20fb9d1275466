//! What differs between a plan and a kernel.

use crate::observe::{Observed, RouteSeen, Seen};
use crate::plan::{Device, NodePlan, Planned, Route};
use ipnet::IpNet;
use serde::Serialize;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// Stable: `missing`, `name`, `kind`, `mtu`, `down`, `address`, `route`, `bond`, `member`, `vlan`, `sysctl`.
    pub code: &'static str,
    /// The link, or the kernel setting.
    pub link: String,
    pub wanted: String,
    pub found: String,
}

/// Everything in which the kernel differs from the plan; links that the plan does not name are nobody's business.
pub fn diff(plan: &NodePlan, seen: &Observed) -> Vec<Drift> {
    let mut all = Vec::new();
    for link in &plan.links {
        match find(link, seen) {
            Some(found) => compare(plan, link, found, &mut all),
            None => all.push(drift("missing", &link.name, describe(link), "no such link")),
        }
    }
    routes(plan, seen, &mut all);
    for (key, wanted) in &plan.sysctls {
        let found = seen.sysctls.get(key).map_or("not there", String::as_str);
        if found != wanted {
            all.push(drift("sysctl", key, wanted.clone(), found));
        }
    }
    all
}

fn drift(
    code: &'static str,
    link: &str,
    wanted: impl Into<String>,
    found: impl Into<String>,
) -> Drift {
    Drift {
        code,
        link: link.to_owned(),
        wanted: wanted.into(),
        found: found.into(),
    }
}

/// The kernel's link for a planned one: cards by their address, others by name.
pub(super) fn find<'a>(link: &Planned, seen: &'a Observed) -> Option<&'a Seen> {
    let by_name = || seen.links.iter().find(|s| s.name == link.name);
    match &link.device {
        Device::Nic { mac: Some(mac), .. } => {
            let cards = || {
                seen.links
                    .iter()
                    .filter(|s| !matches!(s.kind.as_str(), "bond" | "vlan" | "bridge"))
            };
            let own = cards().find(|s| s.permanent == Some(*mac));
            own.or_else(|| cards().find(|s| s.permanent.is_none() && s.mac == Some(*mac)))
        }
        _ => by_name(),
    }
}

fn describe(link: &Planned) -> String {
    match &link.device {
        Device::Nic { mac: Some(mac), .. } => format!("a card with address {mac}"),
        Device::Nic { mac: None, .. } => "a card of this name".to_owned(),
        Device::Bond { of, mode, .. } => format!("a bond {mode} of {}", of.join(" and ")),
        Device::Vlan { below, id } => format!("VLAN {id} on {below}"),
    }
}

fn compare(plan: &NodePlan, link: &Planned, found: &Seen, all: &mut Vec<Drift>) {
    let name = &link.name;
    if found.name != *name {
        all.push(drift("name", name, name.clone(), found.name.clone()));
    }
    match &link.device {
        Device::Nic { bond, .. } if *bond != found.bond => {
            let word = |b: &Option<String>| {
                b.clone()
                    .map_or("in no bond".to_owned(), |b| format!("in {b}"))
            };
            all.push(drift("member", name, word(bond), word(&found.bond)));
        }
        Device::Nic { .. } => {}
        Device::Bond {
            mode,
            miimon_ms,
            lacp_fast,
            hash,
            ..
        } => match &found.bonding {
            None => all.push(drift(
                "kind",
                name,
                describe(link),
                format!("a {}", or_card(&found.kind)),
            )),
            Some(bond) => {
                let lacp = *mode == "802.3ad";
                let mut check = |what: &str, wanted: String, found: String| {
                    if wanted != found {
                        all.push(drift(
                            "bond",
                            name,
                            format!("{what} {wanted}"),
                            format!("{what} {found}"),
                        ));
                    }
                };
                check("mode", (*mode).to_owned(), bond.mode.clone());
                check("miimon", miimon_ms.to_string(), bond.miimon_ms.to_string());
                if lacp {
                    let word = |fast: bool| if fast { "fast" } else { "slow" }.to_owned();
                    check("lacp_rate", word(*lacp_fast), word(bond.lacp_fast));
                }
                if matches!(*mode, "balance-xor" | "802.3ad" | "balance-tlb") {
                    check("xmit_hash_policy", hash.clone(), bond.hash.clone());
                }
            }
        },
        Device::Vlan { below, id } => match &found.vlan {
            Some((b, i)) if b == below && i == id => {}
            Some((b, i)) => all.push(drift(
                "vlan",
                name,
                format!("{id} on {below}"),
                format!("{i} on {b}"),
            )),
            None => all.push(drift(
                "kind",
                name,
                describe(link),
                format!("a {}", or_card(&found.kind)),
            )),
        },
    }
    if found.mtu != link.mtu {
        all.push(drift(
            "mtu",
            name,
            link.mtu.to_string(),
            found.mtu.to_string(),
        ));
    }
    if !found.up {
        all.push(drift("down", name, "up", "down"));
    }
    for address in link
        .addresses
        .iter()
        .filter(|a| !found.addresses.contains(a))
    {
        all.push(drift("address", name, address.to_string(), "not there"));
    }
    for address in extra_addresses(link, found) {
        // An address of another link of the plan was moved here.
        let elsewhere = plan.links.iter().find(|l| l.addresses.contains(address));
        let wanted = elsewhere.map_or("no such address".to_owned(), |l| format!("on {}", l.name));
        all.push(drift("address", name, wanted, address.to_string()));
    }
}

fn or_card(kind: &str) -> &str {
    if kind.is_empty() { "card" } else { kind }
}

/// Addresses beyond the plan; link-local ones of IPv6 are the kernel's.
pub(super) fn extra_addresses<'a>(
    link: &'a Planned,
    found: &'a Seen,
) -> impl Iterator<Item = &'a IpNet> {
    let own = |a: &&IpNet| matches!(a, IpNet::V6(a) if a.addr().is_unicast_link_local());
    found
        .addresses
        .iter()
        .filter(move |a| !link.addresses.contains(a) && !own(a))
}

fn routes(plan: &NodePlan, seen: &Observed, all: &mut Vec<Drift>) {
    for route in plan
        .routes
        .iter()
        .filter(|r| !seen.routes.iter().any(|s| same(r, s)))
    {
        let there = seen.routes.iter().find(|s| same_target(route, s));
        let found = there.map_or("not there".to_owned(), |s| {
            format!("dev {}{}", s.link, via(s))
        });
        all.push(drift(
            "route",
            &route.link,
            crate::render::route_words(route),
            found,
        ));
    }
    for route in extra_routes(plan, seen) {
        let to = route.to.map_or("default".to_owned(), |t| t.to_string());
        all.push(drift(
            "route",
            &route.link,
            "no such route",
            format!("{to}{}", via(route)),
        ));
    }
}

fn via(route: &RouteSeen) -> String {
    route.via.map_or(String::new(), |v| format!(" via {v}"))
}

fn same_target(wanted: &Route, seen: &RouteSeen) -> bool {
    match seen.to {
        Some(to) => to == wanted.to,
        None => {
            wanted.to.prefix_len() == 0
                && seen
                    .via
                    .is_none_or(|v| v.is_ipv4() == wanted.to.addr().is_ipv4())
        }
    }
}

/// Whether the kernel's route is the planned one.
pub(super) fn same(wanted: &Route, seen: &RouteSeen) -> bool {
    same_target(wanted, seen)
        && wanted.link == seen.link
        && wanted.via == seen.via
        && wanted.from.is_none_or(|f| seen.from == Some(f))
}

/// Routes on planned links that neither the plan nor the kernel nor a router made.
pub(super) fn extra_routes<'a>(
    plan: &'a NodePlan,
    seen: &'a Observed,
) -> impl Iterator<Item = &'a RouteSeen> {
    let planned = |r: &&RouteSeen| plan.links.iter().any(|l| l.name == r.link);
    let foreign = |r: &&RouteSeen| !matches!(r.protocol.as_str(), "kernel" | "ra");
    let extra = seen.routes.iter().filter(planned).filter(foreign);
    extra.filter(|s| !plan.routes.iter().any(|r| same(r, s)))
}
