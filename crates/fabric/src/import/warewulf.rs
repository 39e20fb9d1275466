//! Warewulf 4: nodes.conf, profiles merged into nodes as its manual says: the node's own values win.

use super::draft::{Device, Draft, with_mask};
use super::given::{Given, ImportError};
use serde_json::{Map, Value};
use std::net::IpAddr;

/// Keys of a node that an inventory has, or that say nothing.
const KNOWN: [&str; 3] = ["profiles", "network devices", "discoverable"];
/// … and of a device.
const KNOWN_DEVICE: [&str; 10] = [
    "type", "onboot", "device", "hwaddr", "ipaddr", "netmask", "gateway", "mtu", "tags", "primary",
];
/// Profiles of profiles; deeper ones are circles.
const DEPTH_MAX: usize = 8;

pub(super) fn read(files: &[Given]) -> Result<Draft, ImportError> {
    let mut draft = Draft::default();
    for file in files {
        let fail = |line, what: String| ImportError::Line {
            file: file.name.clone(),
            line,
            what,
        };
        let all: Value = serde_saphyr::from_str(&file.text).map_err(|e| {
            let line = e.location().map_or(0, |l| l.line() as usize);
            fail(
                line,
                e.to_string().lines().next().unwrap_or("no YAML").to_owned(),
            )
        })?;
        let profiles = object(&all, "nodeprofiles");
        for (name, node) in &object(&all, "nodes") {
            let merged = merge(node, &profiles, 0);
            machine(name, &merged, &mut draft, &fail)?;
        }
    }
    Ok(draft)
}

fn object(value: &Value, key: &str) -> Map<String, Value> {
    value
        .get(key)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// A node with its profiles below it.
fn merge(node: &Value, profiles: &Map<String, Value>, depth: usize) -> Value {
    let mut all = Value::Object(Map::new());
    let listed = node.get("profiles").and_then(Value::as_array);
    for name in listed.into_iter().flatten().filter_map(Value::as_str) {
        if let Some(profile) = profiles.get(name).filter(|_| depth < DEPTH_MAX) {
            lay(&mut all, merge(profile, profiles, depth + 1));
        }
    }
    lay(&mut all, node.clone());
    all
}

/// Lays `top` over `all`.
fn lay(all: &mut Value, top: Value) {
    match (all, top) {
        (Value::Object(all), Value::Object(top)) => {
            for (key, value) in top {
                lay(all.entry(key).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (all, top) => *all = top,
    }
}

fn machine(
    name: &str,
    node: &Value,
    draft: &mut Draft,
    fail: &dyn Fn(usize, String) -> ImportError,
) -> Result<(), ImportError> {
    for (key, _) in node.as_object().into_iter().flatten() {
        if !KNOWN.contains(&key.as_str()) {
            draft.lose(format!("`{key}` of nodes"));
        }
    }
    draft.machine(name);
    for (network, value) in object(node, "network devices") {
        let text = |key: &str| -> String {
            match value.get(key) {
                Some(Value::String(s)) => s.trim().to_owned(),
                Some(Value::Number(n)) => n.to_string(),
                _ => String::new(),
            }
        };
        let tag = |key: &str| -> Option<String> {
            match value.get("tags")?.get(key)? {
                Value::String(s) => Some(s.clone()),
                Value::Number(n) => Some(n.to_string()),
                _ => None,
            }
        };
        for (key, _) in value.as_object().into_iter().flatten() {
            if !KNOWN_DEVICE.contains(&key.as_str()) {
                draft.lose(format!("`{key}` of network devices"));
            }
        }
        let tags = value.get("tags").and_then(Value::as_object);
        for key in tags
            .into_iter()
            .flat_map(Map::keys)
            .filter(|k| !["master", "parent_device", "vlan_id"].contains(&k.as_str()))
        {
            draft.lose(format!("the tag `{key}` of network devices"));
        }
        let device = match text("device") {
            empty if empty.is_empty() => network.clone(),
            device => device,
        };
        let mut new = Device {
            bond: tag("master"),
            ..Device::default()
        };
        new.mac = match text("hwaddr") {
            none if none.is_empty() => None,
            mac => Some(
                mac.parse()
                    .map_err(|e| fail(0, format!("{name} {network}: {e}")))?,
            ),
        };
        new.mtu = text("mtu").parse().ok();
        let id = tag("vlan_id").and_then(|id| id.parse().ok());
        new.vlan = match (tag("parent_device"), id) {
            (Some(below), Some(id)) => Some((below, id)),
            _ => super::draft::vlan_of(&device),
        };
        let address = text("ipaddr");
        if !address.is_empty() {
            let (ip, length) = address.split_once('/').unwrap_or((&address, ""));
            let ip: IpAddr = ip
                .parse()
                .map_err(|_| fail(0, format!("{name} {network}: `{ip}` is no address")))?;
            let mask = if length.is_empty() {
                text("netmask")
            } else {
                length.to_owned()
            };
            new.address = Some(
                with_mask(ip, &mask)
                    .ok_or_else(|| fail(0, format!("{name} {network}: `{mask}` is no mask")))?,
            );
        }
        new.gateway = text("gateway").parse().ok();
        draft.machine(name).devices.insert(device, new);
    }
    Ok(())
}
