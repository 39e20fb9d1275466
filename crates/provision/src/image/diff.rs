//! What differs between two roots.

use super::manifest::{Entry, Kind};
use super::scan;
use super::store::Generation;
use crate::problem::BootError;
use serde::Serialize;
use std::collections::BTreeMap;

/// One path that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Change {
    Added {
        path: String,
    },
    Removed {
        path: String,
    },
    /// `what`: content, mode, owner, kind.
    Changed {
        path: String,
        what: Vec<&'static str>,
    },
}

/// From the files of one generation to those of another, by path.
pub fn diff(from: &[Entry], to: &[Entry]) -> Vec<Change> {
    let index = |all: &'_ [Entry]| -> BTreeMap<String, Entry> {
        all.iter().map(|e| (e.path.clone(), e.clone())).collect()
    };
    let (from, to) = (index(from), index(to));
    let mut changes = Vec::new();
    for (path, old) in &from {
        match to.get(path) {
            None => changes.push(Change::Removed { path: path.clone() }),
            Some(new) => {
                let what = differences(old, new);
                if !what.is_empty() {
                    changes.push(Change::Changed {
                        path: path.clone(),
                        what,
                    });
                }
            }
        }
    }
    let added = to.keys().filter(|p| !from.contains_key(*p));
    changes.extend(added.map(|path| Change::Added { path: path.clone() }));
    changes.sort_by(|a, b| path(a).cmp(path(b)));
    changes
}

/// Edits of a live root since its generation was made.
pub fn edited(generation: &Generation) -> Result<Vec<Change>, BootError> {
    Ok(diff(
        &generation.manifest()?.files,
        &scan(&generation.root())?,
    ))
}

fn path(change: &Change) -> &str {
    match change {
        Change::Added { path } | Change::Removed { path } | Change::Changed { path, .. } => path,
    }
}

fn differences(old: &Entry, new: &Entry) -> Vec<&'static str> {
    let mut what = Vec::new();
    match (&old.kind, &new.kind) {
        (a, b) if a == b => {}
        (Kind::File { .. }, Kind::File { .. }) | (Kind::Link { .. }, Kind::Link { .. }) => {
            what.push("content");
        }
        _ => what.push("kind"),
    }
    if old.mode != new.mode {
        what.push("mode");
    }
    if (old.uid, old.gid) != (new.uid, new.gid) {
        what.push("owner");
    }
    what
}
