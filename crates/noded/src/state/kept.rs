//! Checkpoints of trees whose home is another node, with the leases of their homes.
//!
//! ```text
//! kept/ID.ckpt  the checkpoint      kept/ID.part  one that is arriving      kept/ID.json  what is known of it
//! ```
//! A lease is not written down: a daemon that starts takes each as renewed at that moment.

use crate::state_dir::StateDir;
use armento_client::api::LEASE;
use armento_model::{NodeName, TreeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// In the state directory.
const DIR: &str = "kept";

/// What outlives the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub home: NodeName,
    pub tree: TreeId,
    /// The user, as this node has it, too.
    pub uid: u32,
    pub user: String,
    pub command: String,
    /// Boot identifier of the home's kernel.
    pub boot: String,
    /// After which hosts end bodies of the home, milliseconds.
    pub dead_ms: u64,
    /// Of the checkpoint that is complete; `None`: there is none.
    pub bytes: Option<u64>,
    /// When it was, Unix time in milliseconds.
    pub made_ms: u64,
    /// The programs were recovered, or are being.
    pub taken: bool,
    /// The keeper at the home has ended, its tree perhaps not.
    #[serde(default)]
    pub unsure: bool,
}

/// A checkpoint that is arriving.
pub struct Arriving {
    pub size: u64,
    pub sha256: String,
    pub received: u64,
    pub digest: ring::digest::Context,
    pub file: File,
}

pub struct Entry {
    pub meta: Meta,
    /// When the home asked for something last.
    pub renewed: Instant,
    pub arriving: Option<Arriving>,
    /// The home was told that it was taken, and has ended it.
    pub told: bool,
}

impl Entry {
    /// How long the tree may still run: at home under its lease, elsewhere until its hosts end it.
    pub fn wait(&self) -> Duration {
        (LEASE + Duration::from_millis(self.meta.dead_ms)).saturating_sub(self.renewed.elapsed())
    }
}

pub struct Kept {
    pub all: BTreeMap<String, Entry>,
    state: StateDir,
}

impl Kept {
    /// What the daemon before this one has kept.
    pub fn recover(state: &StateDir) -> Kept {
        let mut all = BTreeMap::new();
        let files = fs::read_dir(state.path().join(DIR)).into_iter().flatten();
        for name in files.filter_map(|f| f.ok()?.file_name().into_string().ok()) {
            if name.ends_with(".part") {
                let _ = fs::remove_file(state.path().join(DIR).join(&name));
            }
            let Some(id) = name.strip_suffix(".json") else {
                continue;
            };
            match state.read_json::<Meta>(&format!("{DIR}/{name}")) {
                Ok(Some(meta)) if id_of(&meta.home, meta.tree) == id => {
                    let entry = Entry {
                        meta,
                        renewed: Instant::now(),
                        arriving: None,
                        told: false,
                    };
                    all.insert(id.to_owned(), entry);
                }
                Ok(_) => {}
                Err(e) => tracing::warn!("a kept checkpoint is not known any more: {e}"),
            }
        }
        Kept {
            all,
            state: state.clone(),
        }
    }

    pub fn dir(&self) -> PathBuf {
        self.state.path().join(DIR)
    }

    /// Of a complete checkpoint.
    pub fn file(&self, id: &str) -> PathBuf {
        self.dir().join(format!("{id}.ckpt"))
    }

    /// Of one that is arriving.
    pub fn part(&self, id: &str) -> PathBuf {
        self.dir().join(format!("{id}.part"))
    }

    pub fn write(&self, id: &str, meta: &Meta) -> Result<(), crate::error::FarmError> {
        self.state.write_json(&format!("{DIR}/{id}.json"), meta)
    }

    /// Nothing of it is kept any more.
    pub fn forget(&mut self, id: &str) {
        let json = self.dir().join(format!("{id}.json"));
        for path in [json, self.file(id), self.part(id)] {
            let _ = fs::remove_file(path);
        }
        self.all.remove(id);
    }
}

/// With which a checkpoint is named.
pub fn id_of(home: &NodeName, tree: TreeId) -> String {
    format!("{home}-{tree}")
}
