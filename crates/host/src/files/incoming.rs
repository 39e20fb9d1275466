//! The files of one arriving process: which must come along, and where their bytes go.
//!
//! From: `host/src/moves/arrive.rs`, one for each move.

use super::cache::Draft;
use super::local_copies;
use super::table::FileTable;
use armento_migrate::files::Like;
use armento_migrate::image::files::FILE_MAX;
use armento_migrate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_wire::talk::FileKey;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Its process may stand still by now: then a second copy is better than to wait for the one that another host fetches.
pub const MORE_MAX: Duration = Duration::from_millis(50);

/// The files that one move brings, until its end.
pub struct Incoming {
    files: Arc<FileTable>,
    /// Those that come with this move, while they are not complete.
    fresh: BTreeMap<FileKey, Draft>,
    /// … and those that are: the table forgets none that an arrival holds.
    came: Vec<Arc<File>>,
}

impl Incoming {
    /// Nothing has come yet.
    pub fn new(files: &Arc<FileTable>) -> Incoming {
        Incoming {
            files: files.clone(),
            fresh: BTreeMap::new(),
            came: Vec::new(),
        }
    }

    /// Which must come along: neither known here nor to another host of this user, nor on their way
    /// to one. In the order of their keys: two hosts must not wait for each other.
    pub fn missing(&mut self, mut files: Vec<FileKey>, wait: Duration) -> Result<Vec<FileKey>> {
        files.sort_unstable();
        let table = self.files.clone();
        let mut missing = Vec::new();
        for key in files.into_iter().filter(|k| !table.knows(k)) {
            let no_room = |why: &str| Err(MigrateError::Stays(Stay::NoRoom, why.into()));
            if !table.has_room(self.fresh.len()) {
                return no_room("this host has no descriptors left for its files");
            }
            if key.size > FILE_MAX {
                return no_room("a mapped file too big to travel");
            }
            let found = match table.cache.get(&key, false) {
                Some(f) => Ok(f),
                None => table.cache.draft(&key, false, wait)?,
            };
            match found {
                Ok(f) => drop(table.insert(key, f)),
                Err(draft) => {
                    self.fresh.insert(key, draft);
                    missing.push(key);
                }
            }
        }
        Ok(missing)
    }

    /// Takes this node's own files in place of home's. Returns those that it could not.
    pub fn alike(&mut self, files: Vec<Like>) -> Result<Vec<FileKey>> {
        let mut lacks = Vec::new();
        for like in files {
            match self.fresh.remove(&like.key) {
                Some(draft)
                    if local_copies::copy(&like, &draft.file).local("copy a mapped file")? =>
                {
                    self.keep_one(like.key, draft)
                }
                draft => {
                    lacks.push(like.key);
                    self.fresh.extend(draft.map(|d| (like.key, d)));
                }
            }
        }
        Ok(lacks)
    }

    /// A part of a file; of one that does not come it is dropped.
    pub fn write(&self, key: &FileKey, off: u64, bytes: &[u8]) -> Result<()> {
        if let Some(draft) = self.fresh.get(key) {
            draft
                .file
                .write_all_at(bytes, off)
                .local("keep a mapped file")?;
        }
        Ok(())
    }

    /// All bytes of all files have come.
    pub fn keep(&mut self) {
        for (key, draft) in std::mem::take(&mut self.fresh) {
            self.keep_one(key, draft);
        }
    }

    fn keep_one(&mut self, key: FileKey, draft: Draft) {
        self.came.push(self.files.finish(key, draft));
    }
}
