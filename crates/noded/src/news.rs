//! What the farm says to all of its members: who was removed, and the secret that holds since.
//!
//! Only who holds the CA key can say it, and each piece supersedes all before. It is written down, asked for by who
//! was not there, and shown at every door: the list in it is part of what a handshake checks.
//! From: `remove.rs`. Next: `enforce.rs`.

use crate::FarmError;
use crate::core::Node;
use crate::error::refusal;
use crate::peer::{self, PeerAnswer, PeerAsk};
use crate::state::{Farm, StateDir};
use armento_client::api::{Body, Order, Refusal};
use armento_link::{NodeKeys, serial_of, signed_by};
use armento_model::NodeName;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

const FILE: &str = "news.json";
/// Certificates on the list: it travels with each identity and must fit a line of the control API.
pub const REMOVED_MAX: usize = 2048;
/// Another member's answer.
const ASKED: Duration = Duration::from_secs(3);

/// Said by the farm: who verifies the signature need not trust who passed it on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Said {
    pub text: String,
    /// Of the CA over `text`, hexadecimal.
    pub signature: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Word {
    /// Everybody goes where they belong: `node` will be removed. Holds in this epoch only.
    Drain {
        node: NodeName,
        epoch: u64,
    },
    News(News),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct News {
    /// Greater each time.
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

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = |i: usize| u8::from_str_radix(text.get(i..i + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

impl Said {
    /// What is said, if the farm of `ca_pem` said it.
    pub fn word(&self, ca_pem: &str) -> Option<Word> {
        let known = || serde_json::from_str(&self.text).ok();
        self.is_of(ca_pem).then(known).flatten()
    }

    fn is_of(&self, ca_pem: &str) -> bool {
        let signature = unhex(&self.signature);
        signature.is_some_and(|s| signed_by(ca_pem, self.text.as_bytes(), &s))
    }
}

impl News {
    /// As this node last heard them; before the first, what it joined with.
    pub fn read(
        state: &StateDir,
        farm: &Farm,
        keys: &NodeKeys,
    ) -> Result<(News, Option<Said>), FarmError> {
        let first = News {
            secret: farm.secret.clone(),
            ..News::default()
        };
        let Some(said) = state.read_json::<Said>(FILE)? else {
            return Ok((first, None));
        };
        match said.word(&keys.ca_pem) {
            Some(Word::News(news)) => Ok((news, Some(said))),
            _ => Err(FarmError::Config {
                path: FILE.into(),
                why: "the farm did not sign this; without the file it is asked for again".into(),
            }),
        }
    }

    pub fn write(said: &Said, state: &StateDir) -> Result<(), FarmError> {
        state.write_json(FILE, said)
    }

    /// Is that certificate on the list?
    pub fn names(&self, serial: &str) -> bool {
        let mut serials = self.removed.iter().flat_map(|r| &r.serials);
        serials.any(|s| s == serial)
    }
}

/// Takes what the farm says, from whoever passes it on. True: it was new, and holds here now.
pub(crate) fn take(node: &Arc<Node>, said: &Said) -> Result<bool, Refusal> {
    let forged = || {
        refusal(
            "not-trusted",
            "the farm did not sign this; nothing was changed",
            "only a member that holds the farm's key speaks for the farm",
        )
    };
    let ca_pem = &node.keys.ca_pem;
    if !said.is_of(ca_pem) {
        return Err(forged());
    }
    let unknown = || {
        refusal(
            "unknown-question",
            "the farm says what only a later version understands; nothing was changed",
            "update Armento on this node",
        )
    };
    match said.word(ca_pem).ok_or_else(unknown)? {
        Word::Drain { node: name, epoch } => {
            if epoch != node.news().epoch {
                return Err(refusal(
                    "late",
                    "this was said of another time; nothing was changed",
                    "say it again",
                ));
            }
            node.drain(&name);
            Ok(true)
        }
        Word::News(news) => hold(node, said, news),
    }
}

fn hold(node: &Arc<Node>, said: &Said, news: News) -> Result<bool, Refusal> {
    let failed = |e: String| {
        refusal(
            "failed",
            format!("{e}; nothing was changed"),
            "see the daemon's log",
        )
    };
    let _turn = node.hearing.lock().unwrap_or_else(PoisonError::into_inner);
    let before = node.news();
    if news.epoch <= before.epoch {
        return Ok(false);
    }
    News::write(said, &node.state).map_err(|e| failed(e.to_string()))?;
    let own = serial_of(&node.keys.cert_pem).map_err(|e| failed(e.to_string()))?;
    if news.names(&hex(&own)) {
        end_here(node);
        return Ok(true);
    }
    let fresh = |r: &&Removed| r.serials.iter().any(|s| !before.names(s));
    let gone: Vec<NodeName> = news
        .removed
        .iter()
        .filter(fresh)
        .map(|r| r.node.clone())
        .collect();
    *node.news.lock().unwrap_or_else(PoisonError::into_inner) =
        (Arc::new(news), Some(said.clone()));
    if let Err(e) = node.renew() {
        tracing::error!("our certificate could not be renewed: {e}");
    }
    for name in gone.iter().filter(|n| **n != node.farm.node) {
        tracing::info!("{name} was removed from the farm");
        cut(node, name);
    }
    if let Err(e) = node.save_roster() {
        tracing::warn!("{e}: a restart will know members that were removed");
    }
    Ok(true)
}

/// Nothing of `name`'s is here any more, nothing of ours there.
fn cut(node: &Node, name: &NodeName) {
    let guests = {
        let mut core = node.lock();
        core.left(name);
        core.draining.remove(name);
        for out in core
            .keepers
            .all()
            .map(|k| &k.out)
            .chain(core.hosts.outlets())
        {
            out.send(0, Body::Order(Order::Cut { node: name.clone() }));
        }
        core.hosts.of_home(name)
    };
    guests.iter().for_each(crate::hosts::end);
}

/// We are the one who was removed.
fn end_here(node: &Arc<Node>) {
    tracing::error!("this node was removed from its farm; join again with a new token");
    let guests = {
        let mut core = node.lock();
        core.leaving = true;
        for keeper in core.keepers.all() {
            let ticket = 0;
            keeper.out.send(0, Body::Order(Order::Recall { ticket }));
        }
        core.hosts.all()
    };
    guests.iter().for_each(crate::hosts::end);
    if let Err(e) = node.state.forget() {
        tracing::warn!("{e}");
    }
    node.stop.send_replace(true);
}

/// Asks one member in turn whether it knows more: who was not there when it was said has no other way to learn it.
pub(crate) fn ask_one(node: &Arc<Node>, turn: u64) {
    let chosen = {
        let core = node.lock();
        let up: Vec<_> = core.members.values().filter(|m| m.is_up()).collect();
        let all: Vec<_> = core.members.values().collect();
        // Who answers soon, and everybody else: those who are heard here may be those who were removed.
        let from = if up.is_empty() || turn % 2 == 1 {
            all
        } else {
            up
        };
        let at = (turn / 2).checked_rem(from.len() as u64).unwrap_or(0) as usize;
        from.get(at).map(|m| (m.known.name.clone(), m.known.addr))
    };
    let Some((name, addr)) = chosen else { return };
    let ask = PeerAsk::News {
        epoch: node.news().epoch,
    };
    match peer::call(&node.me(), &name, addr, &ask, ASKED) {
        Ok(PeerAnswer::News { said: Some(said) }) => {
            if let Err(no) = take(node, &said) {
                tracing::warn!("what {name} passed on: {}", no.message);
            }
        }
        Ok(_) => {}
        Err(e) => tracing::debug!("news of {name}: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_link::FarmKeys;

    #[test]
    fn only_the_farm_speaks_for_it() {
        let (farm, other) = (
            FarmKeys::create().expect("keys"),
            FarmKeys::create().expect("keys"),
        );
        let text = serde_json::to_string(&Word::News(News::default())).expect("text");
        let signature = hex(&farm.sign(text.as_bytes()).expect("sign"));
        let said = Said { text, signature };
        assert!(matches!(said.word(&farm.ca_pem), Some(Word::News(_))));
        let later = r#"{"type":"to-come"}"#;
        let later = Said {
            text: later.into(),
            signature: hex(&farm.sign(later.as_bytes()).expect("sign")),
        };
        assert!(later.is_of(&farm.ca_pem) && later.word(&farm.ca_pem).is_none());
        assert!(said.word(&other.ca_pem).is_none());
        for signature in ["", "0", "zz", "é0", "00"] {
            let signature = signature.into();
            let forged = Said {
                signature,
                ..said.clone()
            };
            assert!(forged.word(&farm.ca_pem).is_none());
        }
    }

    #[test]
    fn digits_come_back() {
        assert_eq!(unhex(&hex(&[0, 7, 255])), Some(vec![0, 7, 255]));
        assert_eq!(unhex("+1"), None);
    }
}
