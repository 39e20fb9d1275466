//! What a rolling restart has done, kept in the boot directory until it is complete: the same command goes on after it was
//! stopped.

use armento_client::api::DrainChange;
use armento_provision::layout::{BootDir, replace};
use armento_provision::problem::BootError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const FILE: &str = "rolling.json";
/// A restart that was stopped so long ago is begun anew: what was done then is not what is wanted now.
const KEPT_MS: u64 = 24 * 3600 * 1000;

/// A node that is to start again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    /// The image and generation that it will boot: `base@3`.
    pub image: String,
}

/// What was done, and to which nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Milliseconds since 1970.
    pub began_ms: u64,
    /// Each node with the image that it is to boot.
    pub wanted: Vec<(String, String)>,
    /// Nodes that have joined again.
    pub done: Vec<String>,
    /// Nodes that were told to start again; the time of their last step before it, ms since 1970.
    pub started: BTreeMap<String, u64>,
    /// Nodes that were drained already, which they are again afterwards.
    #[serde(default)]
    pub drained: BTreeMap<String, DrainChange>,
}

impl Record {
    fn new(wanted: &[Wanted], now_ms: u64) -> Record {
        let pair = |w: &Wanted| (w.name.clone(), w.image.clone());
        Record {
            began_ms: now_ms,
            wanted: wanted.iter().map(pair).collect(),
            ..Record::default()
        }
    }

    /// The record of the same command before, or a new one. A damaged file is none.
    pub fn open(boot: &BootDir, wanted: &[Wanted], now_ms: u64) -> Record {
        let text = fs::read(path(boot)).ok();
        let before = text.and_then(|t| serde_json::from_slice(&t).ok());
        Record::go_on(before, wanted, now_ms)
    }

    fn go_on(before: Option<Record>, wanted: &[Wanted], now_ms: u64) -> Record {
        let fresh = Record::new(wanted, now_ms);
        let same = |r: &Record| {
            r.wanted == fresh.wanted && now_ms.checked_sub(r.began_ms).is_some_and(|d| d < KEPT_MS)
        };
        before.filter(same).unwrap_or(fresh)
    }

    pub fn save(&self, boot: &BootDir) -> Result<(), BootError> {
        let to = path(boot);
        let bytes = serde_json::to_vec(self).map_err(|e| BootError::Damaged {
            path: to.clone(),
            what: e.to_string(),
        })?;
        replace(&to, &bytes)
    }

    /// It is complete.
    pub fn remove(boot: &BootDir) {
        let _ = fs::remove_file(path(boot));
    }
}

fn path(boot: &BootDir) -> PathBuf {
    boot.0.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(image: &str) -> Vec<Wanted> {
        let one = |name: &str| Wanted {
            name: name.into(),
            image: image.into(),
        };
        ["n2", "n3"].map(one).to_vec()
    }

    #[test]
    fn the_same_command_goes_on_and_another_one_begins_anew() {
        let mut before = Record::new(&wanted("base@3"), 1000);
        before.done.push("n2".into());
        let again = |image: &str, now: u64| {
            let again = Record::go_on(Some(before.clone()), &wanted(image), now);
            again.done.len()
        };
        assert_eq!(again("base@3", 2000), 1);
        assert_eq!(again("base@4", 2000), 0, "another image is in use");
        assert_eq!(again("base@3", 1000 + KEPT_MS), 0, "a day later");
        assert_eq!(again("base@3", 999), 0, "the clock was set back");
        let one = Record::go_on(Some(before), &wanted("base@3")[..1], 2000);
        assert!(one.done.is_empty(), "other nodes");
    }
}
