//! `/etc/openmosix.map`: which IDs belong to which addresses.
//!
//! ```text
//! # comment
//! first-ID  host-or-IP  count      IDs first-ID … with consecutive addresses
//! ID        alternate-IP  ALIAS    another address of a node
//! ```

use crate::failed::Failed;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Most lines with an entry, as setpe(1) had it.
const ENTRIES_MAX: usize = 256;
/// Longest map that is read, bytes.
pub const BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `count` nodes from this ID on, the first at this address or host.
    Nodes {
        first: u16,
        host: String,
        count: u16,
    },
    Alias {
        id: u16,
        host: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    pub entries: Vec<Entry>,
}

impl Map {
    /// Reads a map. The error names its line.
    pub fn parse(text: &str) -> Result<Map, Failed> {
        let mut entries = Vec::new();
        for (at, line) in (1..).zip(text.lines()) {
            let plain = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = plain.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let entry = entry(&words).map_err(|what| {
                Failed::new(
                    format!("line {at} of the map: {what}; nothing was done"),
                    "a line is `first-ID host count` or `ID address ALIAS`; `setpe -r` writes the farm as a map",
                )
            })?;
            entries.push(entry);
            if entries.len() > ENTRIES_MAX {
                return Err(Failed::new(
                    format!("the map has more than {ENTRIES_MAX} entries; nothing was done"),
                    "nodes with consecutive IDs and addresses share one: `1 10.0.0.1 20`",
                ));
            }
        }
        let map = Map { entries };
        map.check()?;
        Ok(map)
    }

    /// No ID twice, and no alias of an ID that the map does not have.
    fn check(&self) -> Result<(), Failed> {
        let inconsistent = |what: String| {
            Failed::new(
                format!("{what}; nothing was done"),
                "each ID stands once, from 1 to 65535",
            )
        };
        let mut taken = std::collections::BTreeSet::new();
        for e in &self.entries {
            let Entry::Nodes { first, count, .. } = e else {
                continue;
            };
            for id in *first..=first.saturating_add(count - 1) {
                if !taken.insert(id) {
                    return Err(inconsistent(format!("the map has the ID {id} twice")));
                }
            }
        }
        for e in &self.entries {
            match e {
                Entry::Alias { id, .. } if !taken.contains(id) => {
                    return Err(inconsistent(format!(
                        "ALIAS of {id}, which the map does not have"
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Hosts by ID: an address, or a name if only one node has that line.
    pub fn hosts(&self) -> BTreeMap<u16, String> {
        let mut all = BTreeMap::new();
        for e in &self.entries {
            let Entry::Nodes { first, host, count } = e else {
                continue;
            };
            for n in 0..*count {
                let host = match host.parse::<Ipv4Addr>() {
                    Ok(ip) => Ipv4Addr::from(u32::from(ip).wrapping_add(n.into())).to_string(),
                    Err(_) => host.clone(),
                };
                all.insert(first.saturating_add(n), host);
            }
        }
        all
    }

    /// The text of a map with these hosts; consecutive IDs with consecutive addresses share a line.
    pub fn write(hosts: &BTreeMap<u16, String>) -> String {
        let mut lines: Vec<(u16, String, u16)> = Vec::new();
        for (id, host) in hosts {
            if let Some((first, begin, count)) = lines.last_mut()
                && let (Ok(a), Ok(b)) = (begin.parse::<Ipv4Addr>(), host.parse::<Ipv4Addr>())
                && u32::from(b).checked_sub(u32::from(a)) == Some((*count).into())
                && id - *first == *count
            {
                *count += 1;
                continue;
            }
            lines.push((*id, host.clone(), 1));
        }
        let line = |(id, host, count): &(u16, String, u16)| format!("{id} {host} {count}\n");
        lines.iter().map(line).collect()
    }
}

fn entry(words: &[&str]) -> Result<Entry, String> {
    let &[id, host, last] = words else {
        return Err("it has not three fields".into());
    };
    let shown = armento_model::clean;
    let id: u16 = id
        .parse()
        .ok()
        .filter(|id| *id > 0)
        .ok_or_else(|| format!("{} is no ID", shown(id)))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() || host.len() > 253 || !host.chars().all(plain) {
        return Err(format!("{} is no host", shown(host)));
    }
    if last == "ALIAS" {
        return Ok(Entry::Alias {
            id,
            host: host.into(),
        });
    }
    let count = last.parse::<u16>().ok().filter(|c| *c > 0);
    let count = count.ok_or_else(|| format!("{} is no count", shown(last)))?;
    if id.checked_add(count - 1).is_none() {
        return Err(format!("{count} nodes from {id} on need IDs above 65535"));
    }
    if count > 1 && host.parse::<Ipv4Addr>().is_err() {
        return Err(format!("{count} nodes need an IPv4 address, not a name"));
    }
    Ok(Entry::Nodes {
        first: id,
        host: host.into(),
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_and_written() {
        let text = "# all\n1 10.0.0.1 3 # office\n\n7 server 1\n1 192.168.0.1 ALIAS\n";
        let map = Map::parse(text).expect("a map");
        let hosts = map.hosts();
        let shown: Vec<_> = hosts.iter().map(|(i, h)| format!("{i} {h}")).collect();
        assert_eq!(
            shown,
            ["1 10.0.0.1", "2 10.0.0.2", "3 10.0.0.3", "7 server"]
        );
        assert_eq!(Map::write(&hosts), "1 10.0.0.1 3\n7 server 1\n");
        assert_eq!(
            Map::parse(&Map::write(&hosts)).expect("again").hosts(),
            hosts
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, part) in [
            ("1 a", "line 1"),
            ("\n0 a 1", "line 2 of the map: 0 is no ID"),
            ("70000 a 1", "is no ID"),
            ("1 a;b 1", "is no host"),
            ("1 a 0", "is no count"),
            ("65535 10.0.0.1 2", "above 65535"),
            ("1 a 2", "need an IPv4 address"),
            ("1 10.0.0.1 2\n2 10.0.0.9 1", "has the ID 2 twice"),
            ("3 10.0.0.9 ALIAS", "ALIAS of 3"),
        ] {
            let no = Map::parse(text).expect_err(text);
            assert!(no.message.contains(part), "{text}: {no}");
        }
        let long: String = (1..=257).map(|i| format!("{i} h{i} 1\n")).collect();
        assert!(
            Map::parse(&long)
                .expect_err("too long")
                .message
                .contains("256")
        );
    }
}
