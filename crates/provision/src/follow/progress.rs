//! How far this server is with following the others.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Of each other boot server, by name.
#[derive(Debug, Default)]
pub struct Peers(Mutex<BTreeMap<String, Progress>>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Why it is not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What a person has to decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Progress {
    /// All that it has is here.
    pub fn reached() -> Progress {
        Progress::default()
    }

    pub fn doing(text: String) -> Progress {
        Progress {
            doing: Some(text),
            ..Progress::default()
        }
    }

    pub fn trouble(text: String) -> Progress {
        Progress {
            trouble: Some(text),
            ..Progress::default()
        }
    }
}

impl Peers {
    /// Replaces what is known of a server; true if that is something new.
    pub fn set(&self, peer: &str, progress: Progress) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(peer.to_owned(), progress.clone()) != Some(progress)
    }

    pub fn all(&self) -> BTreeMap<String, Progress> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Servers that the inventory does not name any more are forgotten.
    pub fn keep(&self, names: &[String]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|name, _| names.contains(name));
    }
}
