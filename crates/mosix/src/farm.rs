//! The farm's nodes with the numbers that openMosix gave its nodes.
//!
//! ```text
//! n7, node7       7      the number that the name ends with, if no other node has it
//! alpha           2780   the low 16 bits of its address 192.168.10.220, as omdiscd chose them
//! beta            1      the lowest that is free, in the order of names: IPv6, and addresses with the same bits
//! ```

use crate::failed::Failed;
use armento_client::api::{Answer, Ask, NodeInfo, ProcInfo, SwitchChange, SwitchInfo};
use armento_client::{ANSWER, Session};
use armento_model::NodeName;
use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};

/// A node ID of openMosix: 1 to 65535.
pub type Id = u16;

/// A node with its ID.
#[derive(Clone, Debug)]
pub struct Member {
    pub id: Id,
    pub info: NodeInfo,
}

impl Member {
    /// Its address without the port.
    pub fn address(&self) -> &str {
        host_of(&self.info.addr)
    }

    pub fn is_up(&self) -> bool {
        self.info.here || self.info.state == "alive"
    }

    /// Load as openMosix counted it: 100 is one process for each standard processor.
    pub fn load(&self) -> u64 {
        (self.info.load * 100.0).round().max(0.0) as u64
    }

    pub fn mem_total_bytes(&self) -> u64 {
        self.info.mem_total_kib * 1024
    }

    pub fn mem_free_bytes(&self) -> u64 {
        self.info.mem_free_kib * 1024
    }
}

/// `10.0.0.1` of `10.0.0.1:7117`, `fd00::1` of `[fd00::1]:7117`.
fn host_of(addr: &str) -> &str {
    let (host, _) = addr.rsplit_once(':').unwrap_or((addr, ""));
    host.trim_matches(['[', ']'])
}

/// All nodes of the farm, by ID.
#[derive(Clone, Debug, Default)]
pub struct Farm {
    pub members: Vec<Member>,
}

impl Farm {
    pub fn of(nodes: Vec<NodeInfo>) -> Farm {
        let known: Vec<(&NodeName, Option<IpAddr>)> = nodes
            .iter()
            .map(|n| (&n.name, host_of(&n.addr).parse().ok()))
            .collect();
        let ids = ids(&known);
        let mut members: Vec<Member> = ids
            .into_iter()
            .zip(nodes)
            .map(|(id, info)| Member { id, info })
            .collect();
        members.sort_by_key(|m| m.id);
        Farm { members }
    }

    /// Asks this node's daemon.
    pub fn ask(session: &mut Session) -> Result<Farm, Failed> {
        match session.ask(Ask::Nodes, ANSWER)? {
            Answer::Nodes { nodes } => Ok(Farm::of(nodes)),
            _ => Err(Failed::unexpected()),
        }
    }

    pub fn here(&self) -> Option<&Member> {
        self.members.iter().find(|m| m.info.here)
    }

    pub fn by_name(&self, name: &NodeName) -> Option<&Member> {
        self.members.iter().find(|m| m.info.name == *name)
    }

    pub fn by_id(&self, id: Id) -> Option<&Member> {
        self.members.iter().find(|m| m.id == id)
    }

    /// The node that a user names by its ID, its name, its address, or a host name with that address.
    pub fn find(&self, word: &str) -> Result<&Member, Failed> {
        let named = |m: &&Member| m.info.name.as_str() == word;
        let found = self.members.iter().find(named).or_else(|| {
            let id = word.parse::<Id>().ok();
            id.and_then(|id| self.by_id(id))
        });
        let found = found.or_else(|| {
            let ip = word.parse::<IpAddr>().ok()?.to_string();
            self.members.iter().find(|m| m.address() == ip)
        });
        let found = found.or_else(|| {
            let plain = word.bytes().any(|b| b.is_ascii_alphabetic());
            let all = plain.then(|| (word, 0).to_socket_addrs().ok()).flatten()?;
            let ips: Vec<String> = all.take(16).map(|a| a.ip().to_string()).collect();
            let has = |m: &&Member| ips.iter().any(|ip| ip == m.address());
            self.members.iter().find(has)
        });
        found.ok_or_else(|| {
            Failed::new(
                format!(
                    "there is no node {} in this farm",
                    armento_model::clean(word)
                ),
                "`showmap` lists the nodes with their IDs, `armento nodes` with their names",
            )
        })
    }
}

/// The IDs of nodes, in their order.
pub fn ids(nodes: &[(&NodeName, Option<IpAddr>)]) -> Vec<Id> {
    let mut taken = BTreeSet::new();
    let mut found: Vec<Option<Id>> = vec![None; nodes.len()];
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|i| nodes[*i].0);
    let by_name: Vec<Option<Id>> = nodes.iter().map(|(n, _)| number(n)).collect();
    for &i in &order {
        let alone = |n: &Id| by_name.iter().filter(|o| **o == Some(*n)).count() == 1;
        found[i] = by_name[i].filter(alone).filter(|n| taken.insert(*n));
    }
    for &i in &order {
        let bits = match nodes[i].1 {
            Some(IpAddr::V4(ip)) => u16::from_be_bytes([ip.octets()[2], ip.octets()[3]]),
            _ => 0,
        };
        if found[i].is_none() && bits > 0 && taken.insert(bits) {
            found[i] = Some(bits);
        }
    }
    let mut free = 1..=Id::MAX;
    for i in order {
        if found[i].is_none() {
            // A farm with more nodes than IDs has none for the last of them: 0, which no user can name.
            found[i] = free.find(|id| taken.insert(*id));
        }
    }
    found.into_iter().map(|id| id.unwrap_or(0)).collect()
}

/// The number that a name ends with, if its digits are nowhere else: n7 and node7 are 7.
fn number(name: &NodeName) -> Option<Id> {
    let text = name.as_str();
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|n| plain && *n > 0)
}

/// Processes of this home that the asking user may see, by pid.
pub fn processes(session: &mut Session, all: bool) -> Result<Vec<ProcInfo>, Failed> {
    let Answer::Ps { mut procs } = session.ask(Ask::Ps { all }, ANSWER)? else {
        return Err(Failed::unexpected());
    };
    procs.sort_by(|a, b| (&a.home, a.pid).cmp(&(&b.home, b.pid)));
    Ok(procs)
}

/// The switches of this node, after a change.
pub fn switches(session: &mut Session, change: Option<SwitchChange>) -> Result<SwitchInfo, Failed> {
    match session.ask(Ask::Switch { change }, ANSWER)? {
        Answer::Switches(info) => Ok(info),
        _ => Err(Failed::unexpected()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A node of a farm whose first node is asked.
    pub fn node(name: &str, addr: &str) -> NodeInfo {
        NodeInfo {
            name: name.parse().expect("name"),
            addr: addr.into(),
            state: "alive".into(),
            here: name == "n1",
            load: 0.5,
            speed: 10_000,
            cores: 2,
            mem_total_kib: 1 << 20,
            mem_free_kib: 1 << 19,
            guests: 0,
            frozen: 0,
            shut: false,
            drained: false,
            age_ms: 100,
            wire: "tls".into(),
            version: "0.1.0".into(),
            clock_us: None,
            clock_apart: false,
        }
    }

    #[test]
    fn ids_come_from_names_then_addresses_then_the_order_of_names() {
        let check = |nodes: &[(&str, &str)], want: &[Id]| {
            let names: Vec<NodeName> = nodes
                .iter()
                .map(|(n, _)| n.parse().expect("name"))
                .collect();
            let all: Vec<_> = names
                .iter()
                .zip(nodes)
                .map(|(n, (_, ip))| (n, ip.parse().ok()))
                .collect();
            assert_eq!(ids(&all), want, "{nodes:?}");
        };
        check(
            &[("n7", "10.0.0.1"), ("node-65535", "10.0.0.2")],
            &[7, 65535],
        );
        check(&[("alpha", "192.168.10.220")], &[2780]);
        check(&[("b", "fd00::2"), ("a", "fd00::1")], &[2, 1]);
        check(&[("b", "10.1.0.5"), ("a", "10.0.0.5")], &[1, 5]);
        check(&[("a7", "10.0.0.1"), ("b7", "10.0.0.2")], &[1, 2]);
        check(&[("n5", ""), ("x", "10.0.0.5")], &[5, 1]);
        for none in ["n", "n07", "n0", "n65536", "n7a", "r2-n7x", "a1b2"] {
            assert_eq!(number(&none.parse().expect("name")), None, "{none}");
        }
    }

    #[test]
    fn nodes_are_found_by_id_name_and_address() {
        let farm = Farm::of(vec![
            node("n1", "10.0.0.1:7117"),
            node("alpha", "10.0.1.4:7117"),
            node("v6", "[fd00::6]:7117"),
        ]);
        let check = |word: &str, want: Option<&str>| {
            let found = farm.find(word).ok().map(|m| m.info.name.as_str());
            assert_eq!(found, want, "{word}");
        };
        check("1", Some("n1"));
        check("n1", Some("n1"));
        check("260", Some("alpha"));
        check("10.0.1.4", Some("alpha"));
        check("fd00::6", Some("v6"));
        check("6", Some("v6"));
        check("9", None);
        check("", None);
        check("\x1b[2J", None);
        let no = farm.find("\x1b[2J").expect_err("no such node");
        assert!(!no.message.contains('\x1b'), "{no}");
    }
}
