//! Names of nodes, trees, moves and processes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A process by its number at home (`pid_t`).
pub type Pid = i32;
/// A thread by its number at home (`pid_t`).
pub type Tid = i32;

/// A node's name: 1 to 63 of `a-z 0-9 -`, first and last not `-` (RFC 1123, one label), because it is also used in
/// certificates. Copies share the text: a farm's names are in many tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no node name: use 1 to 63 of a-z, 0-9 and -, not beginning or ending with -")]
pub struct BadName(pub String);

impl NodeName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = BadName;
    fn from_str(s: &str) -> Result<Self, BadName> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = (1..=63).contains(&s.len()) && s.chars().all(plain);
        if fits && !s.starts_with('-') && !s.ends_with('-') {
            Ok(NodeName(s.into()))
        } else {
            Err(BadName(s.to_owned()))
        }
    }
}

impl TryFrom<String> for NodeName {
    type Error = BadName;
    fn try_from(s: String) -> Result<Self, BadName> {
        s.parse()
    }
}

impl From<NodeName> for String {
    fn from(n: NodeName) -> String {
        n.0.as_ref().into()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One `armento run` (or `migrate` of a foreign process) and everything it forks.
/// Random, unique in the farm; 16 hex digits when printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u64);

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for TreeId {
    type Err = std::num::ParseIntError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(s, 16).map(TreeId)
    }
}

impl Serialize for TreeId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TreeId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// One attempt to move one process; counted by its keeper, never reused within a tree.
pub type MoveId = u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_fit_in_certificates() {
        let check = |s: &str, good: bool| assert_eq!(s.parse::<NodeName>().is_ok(), good, "{s:?}");
        check("n1", true);
        check("fast-7", true);
        check("", false);
        check("-a", false);
        check("a-", false);
        check("A", false);
        check("a.b", false);
        check(&"x".repeat(63), true);
        check(&"x".repeat(64), false);
    }

    #[test]
    fn tree_ids_round_trip_as_hex() {
        let t = TreeId(0x00ab);
        assert_eq!(t.to_string(), "00000000000000ab");
        assert_eq!(t.to_string().parse::<TreeId>(), Ok(t));
    }
}
