//! hosts(5) and lists of hardware addresses among the given files.

use super::given::Given;
use crate::addr::Mac;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Names and addresses that the files tell.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    addresses: BTreeMap<String, IpAddr>,
    names: BTreeMap<IpAddr, String>,
    /// Hardware addresses with what stands beside them, in the order of the files.
    pub(super) cards: Vec<(Mac, String)>,
}

impl Hosts {
    pub(super) fn of(files: &[Given]) -> Hosts {
        let mut hosts = Hosts::default();
        for line in files.iter().flat_map(|f| f.text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[first, second, ..] = words.as_slice() else {
                continue;
            };
            if let (Ok(addr), false) = (first.parse::<IpAddr>(), words.contains(&"ALIAS")) {
                hosts.names.entry(addr).or_insert_with(|| second.to_owned());
                for name in &words[1..] {
                    hosts.addresses.entry((*name).to_owned()).or_insert(addr);
                }
            } else if let Ok(mac) = first.parse() {
                hosts.cards.push((mac, second.to_owned()));
            } else if let Ok(mac) = second.parse() {
                hosts.cards.push((mac, first.to_owned()));
            }
        }
        hosts
    }

    pub(super) fn address(&self, name: &str) -> Option<IpAddr> {
        name.parse()
            .ok()
            .or_else(|| self.addresses.get(name).copied())
    }

    pub(super) fn name(&self, addr: IpAddr) -> Option<&str> {
        self.names.get(&addr).map(String::as_str)
    }
}
