//! Commands for `ip -batch` that bring a kernel to a plan, and back to what it was.

use super::drift::{extra_addresses, extra_routes, find, same};
use crate::observe::{Observed, RouteSeen, Seen};
use crate::plan::{Device, NodePlan};
use crate::render::{add_address, add_link, route_words};
use ipnet::IpNet;
use std::collections::BTreeSet;

/// What brings the kernel from `seen` to the plan; empty if nothing differs. Kernel settings are not `ip`'s: see
/// [`NodePlan::sysctls`].
pub fn commands(plan: &NodePlan, seen: &Observed) -> Vec<String> {
    let mut lines = Vec::new();
    renames(plan, seen, &mut lines);
    for link in &plan.links {
        let found = find(link, seen);
        let right = match (&link.device, found) {
            (Device::Nic { .. }, _) => true,
            (
                Device::Bond {
                    mode,
                    miimon_ms,
                    lacp_fast,
                    hash,
                    ..
                },
                Some(s),
            ) => s.bonding.as_ref().is_some_and(|b| {
                let lacp = *mode != "802.3ad" || b.lacp_fast == *lacp_fast;
                let hashed =
                    !matches!(*mode, "balance-xor" | "802.3ad" | "balance-tlb") || b.hash == *hash;
                b.mode == *mode && b.miimon_ms == *miimon_ms && lacp && hashed
            }),
            (Device::Vlan { below, id }, Some(s)) => s.vlan.as_ref() == Some(&(below.clone(), *id)),
            (_, None) => false,
        };
        if let Some(add) = add_link(link).filter(|_| !right) {
            if found.is_some() {
                // KERNEL: bonding.rst: most settings cannot change while there are members.
                lines.push(format!("link del dev {}", link.name));
            }
            lines.push(add);
        }
        if let Device::Bond { of, .. } = &link.device {
            for member in of {
                let seen_in = plan
                    .links
                    .iter()
                    .find(|l| l.name == *member)
                    .and_then(|l| find(l, seen));
                if !right || seen_in.is_none_or(|s| s.bond.as_ref() != Some(&link.name)) {
                    lines.push(format!("link set dev {member} down"));
                    lines.push(format!("link set dev {member} master {}", link.name)); // KERNEL: ip's word
                }
            }
        }
        if let (Device::Nic { bond: None, .. }, Some(Seen { bond: Some(_), .. })) =
            (&link.device, found)
        {
            lines.push(format!("link set dev {} nomaster", link.name)); // KERNEL: ip's word
        }
    }
    let made_new: BTreeSet<&str> = plan
        .links
        .iter()
        .filter(|l| add_link(l).is_some_and(|add| lines.contains(&add)))
        .map(|l| l.name.as_str())
        .collect();
    let found = |link: &'_ crate::plan::Planned| {
        find(link, seen)
            .filter(|_| !made_new.contains(link.name.as_str()))
            .cloned()
    };
    for link in &plan.links {
        if found(link).is_none_or(|s| s.mtu != link.mtu) {
            lines.push(format!("link set dev {} mtu {}", link.name, link.mtu));
        }
    }
    // An address that moves from one link to another is taken away before it is given.
    for link in &plan.links {
        for address in found(link).iter().flat_map(|s| extra_addresses(link, s)) {
            lines.push(format!("address del {address} dev {}", link.name));
        }
    }
    let mut touched = !lines.is_empty();
    for link in &plan.links {
        let found = found(link);
        for address in &link.addresses {
            if !found
                .as_ref()
                .is_some_and(|s| s.addresses.contains(address))
            {
                lines.push(add_address(address, &link.name));
                touched = true;
            }
        }
        if found.is_none_or(|s| !s.up || s.name != link.name)
            || lines.contains(&format!("link set dev {} down", link.name))
        {
            lines.push(format!("link set dev {} up", link.name));
            touched = true;
        }
    }
    for route in extra_routes(plan, seen) {
        // `flush`, not `del`: the kernel has removed it already if its link or its address went.
        lines.push(format!("route flush {}", seen_words(route)));
    }
    // KERNEL: a link that goes down, or an address that goes, takes its routes with it.
    for route in &plan.routes {
        if touched || !seen.routes.iter().any(|s| same(route, s)) {
            lines.push(format!("route replace {}", route_words(route)));
        }
    }
    lines
}

/// Cards get their names; one whose name is another's goes by way of a third name.
fn renames(plan: &NodePlan, seen: &Observed, lines: &mut Vec<String>) {
    let mut wrong = Vec::new();
    for link in &plan.links {
        if let Some(found) = find(link, seen).filter(|s| s.name != link.name) {
            wrong.push((found, link.name.as_str()));
        }
    }
    for (found, _) in &wrong {
        // KERNEL: before 6.2 a link that is up cannot be renamed.
        lines.push(format!("link set dev {} down", found.name));
        lines.push(format!(
            "link set dev {} name arm-{}",
            found.name, found.index
        ));
    }
    for (_, name) in seen.links.iter().filter_map(|s| {
        wrong
            .iter()
            .find(|(f, n)| *n == s.name && f.index != s.index)
    }) {
        // A card that the plan does not know has the name.
        let holder = seen.links.iter().find(|s| s.name == *name);
        if let Some(holder) = holder.filter(|h| !wrong.iter().any(|(f, _)| f.index == h.index)) {
            lines.push(format!("link set dev {} down", holder.name));
            lines.push(format!(
                "link set dev {} name arm-{}",
                holder.name, holder.index
            ));
        }
    }
    for (found, name) in &wrong {
        lines.push(format!("link set dev arm-{} name {name}", found.index));
    }
}

/// What brings the kernel back from `now` to `before`: links by their index, then addresses, then routes that were
/// added. Routes that were lost come back from `ip route save`. Link-local addresses of IPv6 are the kernel's own.
pub fn restore(before: &Observed, now: &Observed) -> Vec<String> {
    let mut lines = Vec::new();
    let was = |s: &Seen| before.links.iter().find(|b| is_same(b, s));
    let is = |b: &Seen| now.links.iter().find(|s| is_same(b, s));
    let made = |s: &&Seen| was(s).is_none() && is_made(s);
    for link in now.links.iter().filter(made) {
        lines.push(format!("link del dev {}", link.name));
    }
    let pairs = now.links.iter().filter_map(|s| Some((s, was(s)?)));
    let renamed: Vec<(&Seen, &Seen)> = pairs.filter(|(s, b)| s.name != b.name).collect();
    for (now, _) in &renamed {
        lines.push(format!("link set dev {} down", now.name));
        lines.push(format!("link set dev {} name arm-{}", now.name, now.index));
    }
    for (now, before) in &renamed {
        lines.push(format!(
            "link set dev arm-{} name {}",
            now.index, before.name
        ));
    }
    let gone: Vec<&Seen> = before.links.iter().filter(|b| is(b).is_none()).collect();
    lines.extend(gone.iter().filter_map(|b| make_again(b)));
    for old in &before.links {
        lines.extend(restore_link(old, is(old), &gone));
    }
    for route in now
        .routes
        .iter()
        .filter(|r| r.protocol != "kernel" && !before.routes.contains(r))
    {
        // By the name that its link has again.
        let renamed = renamed.iter().find(|(s, _)| s.name == route.link);
        let link = renamed.map_or(route.link.clone(), |(_, b)| b.name.clone());
        // With its link all its routes went.
        if before.links.iter().any(|b| b.name == link) {
            let route = RouteSeen {
                link,
                ..route.clone()
            };
            lines.push(format!("route flush {}", seen_words(&route)));
        }
    }
    lines
}

/// Links that commands make and remove.
fn is_made(link: &Seen) -> bool {
    matches!(link.kind.as_str(), "bond" | "vlan")
}

/// Cards keep their index; a bond or a VLAN that was made again is the same if all its settings are.
fn is_same(before: &Seen, now: &Seen) -> bool {
    let settings = |s: &Seen| {
        let bond = s.bonding.as_ref();
        bond.map(|b| (b.mode.clone(), b.miimon_ms, b.lacp_fast, b.hash.clone()))
    };
    match is_made(before) || is_made(now) {
        false => before.index == now.index,
        true => {
            before.name == now.name
                && before.kind == now.kind
                && before.vlan == now.vlan
                && settings(before) == settings(now)
        }
    }
}

fn restore_link(old: &Seen, new: Option<&Seen>, gone: &[&Seen]) -> Vec<String> {
    let mut lines = Vec::new();
    let name = &old.name;
    let own = |a: &&IpNet| !matches!(a, IpNet::V6(a) if a.addr().is_unicast_link_local());
    let bond = new.and_then(|s| s.bond.as_ref());
    let made_again = |bond: &String| gone.iter().any(|g| g.name == *bond);
    let mut disturbed = new.is_none_or(|s| s.name != *name || s.up != old.up);
    if old.bond.as_ref() != bond || old.bond.as_ref().is_some_and(made_again) {
        disturbed = true;
        lines.push(format!("link set dev {name} down"));
        match &old.bond {
            Some(bond) => lines.push(format!("link set dev {name} master {bond}")), // KERNEL: ip's word
            None => lines.push(format!("link set dev {name} nomaster")), // KERNEL: ip's word
        }
    }
    if new.is_none_or(|s| s.mtu != old.mtu) {
        lines.push(format!("link set dev {name} mtu {}", old.mtu));
    }
    let added = new.into_iter().flat_map(|s| &s.addresses);
    for address in added.filter(own).filter(|a| !old.addresses.contains(a)) {
        lines.push(format!("address del {address} dev {name}"));
    }
    let lost = |a: &&IpNet| new.is_none_or(|s| !s.addresses.contains(a));
    for address in old.addresses.iter().filter(own).filter(lost) {
        let broadcast = old.broadcasts.iter().find(|(a, _)| a == address);
        let broadcast = broadcast.map_or(String::new(), |(_, b)| format!(" broadcast {b}"));
        lines.push(format!("address replace {address}{broadcast} dev {name}"));
    }
    if disturbed {
        let word = if old.up { "up" } else { "down" };
        lines.push(format!("link set dev {name} {word}"));
    }
    lines
}

/// A bond or a VLAN that is gone.
fn make_again(old: &Seen) -> Option<String> {
    if let Some((below, id)) = &old.vlan {
        return Some(format!(
            "link add link {below} name {} type vlan id {id}",
            old.name
        ));
    }
    let bond = old.bonding.as_ref()?;
    let mut words = format!(
        "link add name {} type bond mode {} miimon {}",
        old.name, bond.mode, bond.miimon_ms
    );
    if bond.mode == "802.3ad" {
        words += if bond.lacp_fast {
            " lacp_rate fast"
        } else {
            " lacp_rate slow"
        };
    }
    if !bond.hash.is_empty() {
        words += &format!(" xmit_hash_policy {}", bond.hash);
    }
    Some(words)
}

fn seen_words(route: &RouteSeen) -> String {
    let mut words = route.to.map_or("default".to_owned(), |t| t.to_string());
    if let Some(via) = route.via {
        words += &format!(" via {via}");
    }
    words += &format!(" dev {}", route.link);
    if route.metric != 0 {
        words += &format!(" metric {}", route.metric);
    }
    words
}
