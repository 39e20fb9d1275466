//! Revocation: a statement that the farm signs for all of its members, with the removed nodes and the new secret.
//!
//! Only a holder of the CA key can sign one, and each supersedes all before. Members store it, ask each other for it,
//! and pass its list to every handshake. `membership/revoke.rs` applies it.

use crate::error::FarmError;
use crate::state_dir::{Farm, StateDir};
use armento_client::api::DrainChange;
use armento_client::hex::{hex, unhex};
use armento_link::{NodeKeys, signed_by};
use armento_model::NodeName;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const FILE: &str = "news.json";
/// Certificates on the list: it travels with each identity and must fit a line of the control API.
pub const REMOVED_MAX: usize = 2048;

/// A statement with the farm's signature: a receiver verifies it and need not trust the sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Signed {
    pub text: String,
    /// Of the CA over `text`, hexadecimal.
    pub signature: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Statement {
    /// `node` will be removed: its guests go home, and processes there come home. Holds in this epoch only.
    Drain { node: NodeName, epoch: u64 },
    /// `node` itself is to be drained, or is not any more. Carried out once, and not after one that is later ([`Stated`]); a
    /// state does not expire.
    Maintain {
        node: NodeName,
        at_ms: u64,
        change: DrainChange,
    },
    /// The program of `node` is to be replaced by the one with this hash, which its signer sends next; `None`: by the one of
    /// before. In the same order as `Maintain`, and within a day.
    Upgrade {
        node: NodeName,
        at_ms: u64,
        sha256: Option<String>,
        size: u64,
    },
    #[serde(rename = "news")]
    Revoke(Revocation),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Revocation {
    /// Greater in each statement.
    pub epoch: u64,
    pub removed: Vec<Removed>,
    /// Keys the datagrams between members from now on.
    pub secret: String,
    pub crl_pem: Option<String>,
}

/// Certificates of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub node: NodeName,
    /// Hexadecimal.
    pub serials: Vec<String>,
}

impl Signed {
    /// The statement, if the farm of `ca_pem` signed it.
    pub fn statement(&self, ca_pem: &str) -> Option<Statement> {
        let known = || serde_json::from_str(&self.text).ok();
        self.is_of(ca_pem).then(known).flatten()
    }

    pub fn is_of(&self, ca_pem: &str) -> bool {
        let signature = unhex(&self.signature);
        signature.is_some_and(|s| signed_by(ca_pem, self.text.as_bytes(), &s))
    }
}

/// Where a statement stands in the order of all that the farm says of one node: by its time, and of two with the same time by
/// its content, so that all agree which of them holds, whichever they hear first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Stated {
    /// When it was signed, Unix time in milliseconds.
    pub at_ms: u64,
    /// SHA-256 of its text, hexadecimal; not of the signature, which differs each time.
    pub sha256: String,
}

impl Stated {
    pub fn of(signed: &Signed, at_ms: u64) -> Stated {
        let sha256 = hex(digest(&SHA256, signed.text.as_bytes()).as_ref());
        Stated { at_ms, sha256 }
    }

    /// Whether its time is less than `limit` away from `now_ms`: a recorded one is not carried out later, by a node that has lost
    /// its state, and one of a clock that is far ahead is not good for as long.
    pub fn is_fresh(&self, now_ms: u64, limit: Duration) -> bool {
        u128::from(self.at_ms.abs_diff(now_ms)) < limit.as_millis()
    }
}

impl Revocation {
    /// As this node last received it; before the first, what it joined with.
    pub fn read(
        state: &StateDir,
        farm: &Farm,
        keys: &NodeKeys,
    ) -> Result<(Revocation, Option<Signed>), FarmError> {
        let first = Revocation {
            secret: farm.secret.clone(),
            ..Revocation::default()
        };
        let Some(signed) = state.read_json::<Signed>(FILE)? else {
            return Ok((first, None));
        };
        match signed.statement(&keys.ca_pem) {
            Some(Statement::Revoke(revocation)) => Ok((revocation, Some(signed))),
            _ => Err(FarmError::Config {
                path: FILE.into(),
                why: "the farm did not sign this; without the file it is asked for again".into(),
            }),
        }
    }

    pub fn write(signed: &Signed, state: &StateDir) -> Result<(), FarmError> {
        state.write_json(FILE, signed)
    }

    /// Whether that certificate is on the list.
    pub fn names(&self, serial: &str) -> bool {
        let mut serials = self.removed.iter().flat_map(|r| &r.serials);
        serials.any(|s| s == serial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_link::FarmKeys;

    #[test]
    fn only_the_farms_signature_is_accepted() {
        let (farm, other) = (
            FarmKeys::create().expect("keys"),
            FarmKeys::create().expect("keys"),
        );
        let text = serde_json::to_string(&Statement::Revoke(Revocation::default())).expect("text");
        let signature = hex(&farm.sign(text.as_bytes()).expect("sign"));
        let signed = Signed { text, signature };
        assert!(matches!(
            signed.statement(&farm.ca_pem),
            Some(Statement::Revoke(_))
        ));
        let later = r#"{"type":"to-come"}"#;
        let later = Signed {
            text: later.into(),
            signature: hex(&farm.sign(later.as_bytes()).expect("sign")),
        };
        assert!(later.is_of(&farm.ca_pem) && later.statement(&farm.ca_pem).is_none());
        assert!(signed.statement(&other.ca_pem).is_none());
        for signature in ["", "0", "zz", "é0", "00"] {
            let signature = signature.into();
            let forged = Signed {
                signature,
                ..signed.clone()
            };
            assert!(forged.statement(&farm.ca_pem).is_none());
        }
    }

    #[test]
    fn statements_of_one_time_are_ordered_by_their_content() {
        let ca = FarmKeys::create().expect("keys");
        let stated = |at_ms: u64, why: &str| {
            let change = DrainChange {
                why: why.into(),
                ..DrainChange::default()
            };
            let node = "n2".parse().expect("name");
            let text = Statement::Maintain {
                node,
                at_ms,
                change,
            };
            let text = serde_json::to_string(&text).expect("text");
            let signature = hex(&ca.sign(text.as_bytes()).expect("sign"));
            Stated::of(&Signed { text, signature }, at_ms)
        };
        assert_eq!(stated(5, "a"), stated(5, "a"), "signed twice");
        assert_ne!(stated(5, "a"), stated(5, "b"));
        assert!(stated(5, "a") < stated(6, "b") && stated(5, "b") < stated(6, "a"));
    }

    #[test]
    fn a_statement_of_another_day_is_not_fresh() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let now = 1_000_000_000_000;
        let at = |at_ms: u64| {
            let stated = Stated {
                at_ms,
                ..Stated::default()
            };
            stated.is_fresh(now, DAY)
        };
        let day = 24 * 3600 * 1000;
        assert!(at(now) && at(now - day + 1) && at(now + day - 1));
        assert!(!at(now - day) && !at(now + day) && !at(0) && !at(u64::MAX));
    }
}
