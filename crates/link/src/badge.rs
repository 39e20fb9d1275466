//! Encodes a badge as the only DNS name of a certificate, and decodes it.
//!
//! ```text
//! r-daemon.n1.armento
//! r-host.t-00000000000000ab.u-1000.n1.armento
//! ```

use crate::{Badge, Role};
use armento_model::{NodeName, TreeId};

/// The last label of every name, so that our names are never names of the Internet.
const ROOT: &str = "armento";

impl Role {
    fn label(self) -> &'static str {
        match self {
            Role::Daemon => "r-daemon",
            Role::Keeper => "r-keeper",
            Role::Host => "r-host",
            Role::Files => "r-files",
            Role::Boot => "r-boot",
        }
    }

    fn from_label(label: &str) -> Option<Role> {
        [
            Role::Daemon,
            Role::Keeper,
            Role::Host,
            Role::Files,
            Role::Boot,
        ]
        .into_iter()
        .find(|r| r.label() == label)
    }
}

impl Badge {
    /// The badge of `node`'s daemon.
    pub fn daemon(node: &NodeName) -> Badge {
        Badge {
            node: node.clone(),
            tree: None,
            role: Role::Daemon,
        }
    }

    /// The badge of `node`'s boot server.
    pub fn boot(node: &NodeName) -> Badge {
        Badge {
            role: Role::Boot,
            ..Badge::daemon(node)
        }
    }

    /// The badge of either end of a stream of files of user `uid`.
    pub fn files(node: &NodeName, uid: u32) -> Badge {
        Badge {
            node: node.clone(),
            tree: Some((TreeId(0), uid)),
            role: Role::Files,
        }
    }

    /// The name in the certificate.
    pub fn dns_name(&self) -> String {
        let role = self.role.label();
        match self.tree {
            None => format!("{role}.{}.{ROOT}", self.node),
            Some((tree, uid)) => format!("{role}.t-{tree}.u-{uid}.{}.{ROOT}", self.node),
        }
    }

    /// Decodes a name; only the exact spelling of [`Badge::dns_name`] is accepted.
    pub fn from_dns_name(name: &str) -> Option<Badge> {
        let labels: Vec<&str> = name.split('.').collect();
        let badge = match labels[..] {
            [role, node, ROOT] => Badge {
                node: node.parse().ok()?,
                tree: None,
                role: Role::from_label(role)?,
            },
            [role, tree, uid, node, ROOT] => Badge {
                node: node.parse().ok()?,
                tree: Some((
                    tree.strip_prefix("t-")?.parse::<TreeId>().ok()?,
                    uid.strip_prefix("u-")?.parse().ok()?,
                )),
                role: Role::from_label(role)?,
            },
            _ => return None,
        };
        (badge.dns_name() == name).then_some(badge)
    }
}

/// The subtree of names that `node` may sign.
pub(crate) fn subtree(node: &NodeName) -> String {
    format!("{node}.{ROOT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_and_round_trip() {
        let check = |b: Badge, name: &str| {
            assert_eq!(b.dns_name(), name);
            assert_eq!(Badge::from_dns_name(name), Some(b));
        };
        let node: NodeName = "n1".parse().expect("name");
        check(Badge::daemon(&node), "r-daemon.n1.armento");
        check(
            Badge {
                node: node.clone(),
                tree: Some((TreeId(0xab), 1000)),
                role: Role::Host,
            },
            "r-host.t-00000000000000ab.u-1000.n1.armento",
        );
        check(Badge::boot(&node), "r-boot.n1.armento");
        check(
            Badge::files(&node, 1000),
            "r-files.t-0000000000000000.u-1000.n1.armento",
        );
    }

    #[test]
    fn other_spellings_are_rejected() {
        for name in [
            "",
            "armento",
            "n1.armento",
            "r-king.n1.armento",
            "r-host.t-ab.u-1000.n1.armento",
            "r-host.t-00000000000000ab.u-01000.n1.armento",
            "r-host.t-00000000000000ab.u-1000.n1.armento.example",
            "R-daemon.n1.armento",
        ] {
            assert_eq!(Badge::from_dns_name(name), None, "{name}");
        }
    }
}
