//! A whole path, one directory after the other.

use super::resolve::{Chosen, lookup};
use super::tag::Client;
use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Lists a directory.
pub type List<'a> = &'a dyn Fn(&Path) -> io::Result<BTreeSet<String>>;

/// What a client gets for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The file on the server.
    pub path: PathBuf,
    pub exists: bool,
    /// For each part of the path below the root.
    pub parts: Vec<Chosen>,
}

/// Why a path could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error("cannot list {0}: {1}")]
    List(PathBuf, io::Error),
    #[error("{0} leads out of the root")]
    Outside(PathBuf),
}

/// Looks up `path` below `root` as `client` does. Links are not followed: the client follows them itself, and asks again.
pub fn walk(root: &Path, path: &Path, client: &Client, list: List) -> Result<Seen, ViewError> {
    let mut seen = Seen {
        path: root.to_owned(),
        exists: true,
        parts: Vec::new(),
    };
    for part in path.components() {
        let name = match part {
            Component::RootDir | Component::CurDir => continue,
            Component::Normal(name) => name.to_string_lossy(),
            _ => return Err(ViewError::Outside(path.to_owned())),
        };
        let names = match list(&seen.path) {
            Ok(names) => names,
            Err(e) => return Err(ViewError::List(seen.path, e)),
        };
        let chosen = lookup(&names, &name, client, &|_| true);
        seen.path.push(&chosen.name);
        seen.exists = chosen.exists;
        seen.parts.push(chosen);
        if !seen.exists {
            break;
        }
    }
    Ok(seen)
}
