//! Names of nodes, trees, moves and processes.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A process by its number (`pid_t`) in the kernel of the node that this code runs on; in the control API, of the node
/// that the message is about.
pub type Pid = i32;
/// The same of a thread.
pub type Tid = i32;

/// Defines a number of home: it is no [`Pid`] and no [`Tid`], and becomes one by name only.
macro_rules! number_of_home {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(i32);

        impl $name {
            /// From the number in home's kernel. Before: this code runs at home, or has the number from there.
            pub const fn of_home(number: i32) -> $name {
                $name(number)
            }

            /// From a number that the program has: it sees home's numbers wherever it runs.
            pub const fn of_program(number: i32) -> $name {
                $name(number)
            }

            /// The number in the kernel that this code runs on. Before: this code runs at home.
            pub const fn at_home(self) -> i32 {
                self.0
            }

            /// The number for the program's memory, registers and namespaces: never for the kernel of a host.
            pub const fn in_program(self) -> i32 {
                self.0
            }

            pub const fn to_le_bytes(self) -> [u8; 4] {
                self.0.to_le_bytes()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_of_home! {
    /// A process by its number at home. A host's kernel has another number for its body, a [`Pid`].
    HomePid
}
number_of_home! {
    /// A thread by its number at home. A host's kernel has another number for it, a [`Tid`].
    HomeTid
}

impl HomePid {
    /// Its first thread, which has the same number.
    pub const fn leader(self) -> HomeTid {
        HomeTid(self.0)
    }
}

impl HomeTid {
    /// The process whose first thread it is. Before: it is one.
    pub const fn of_leader(self) -> HomePid {
        HomePid(self.0)
    }

    /// Whether it is the first thread of this process.
    pub const fn leads(self, pid: HomePid) -> bool {
        self.0 == pid.0
    }
}

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

impl JsonSchema for NodeName {
    fn schema_name() -> Cow<'static, str> {
        "NodeName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";
        json_schema!({ "type": "string", "description": "The name of a node.", "pattern": pattern })
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

impl JsonSchema for TreeId {
    fn schema_name() -> Cow<'static, str> {
        "TreeId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = "^[0-9a-f]{16}$";
        json_schema!({ "type": "string", "description": "The number of a tree of processes.", "pattern": pattern })
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
    fn numbers_of_home_are_sent_and_shown_as_plain_numbers() {
        let (pid, tid) = (HomePid::of_home(812), HomeTid::of_program(813));
        assert_eq!(
            serde_json::to_string(&(pid, tid)).ok().as_deref(),
            Some("[812,813]")
        );
        assert_eq!(serde_json::from_str("[812,813]").ok(), Some((pid, tid)));
        assert_eq!(format!("{pid} {tid:>5}"), "812   813");
        assert!(pid.leader().leads(pid) && !tid.leads(pid));
        assert_eq!(pid.leader().of_leader(), pid);
    }

    #[test]
    fn tree_ids_round_trip_as_hex() {
        let t = TreeId(0x00ab);
        assert_eq!(t.to_string(), "00000000000000ab");
        assert_eq!(t.to_string().parse::<TreeId>(), Ok(t));
    }
}
