//! The copies that this host knows, by the key of the file at home.

use super::cache::{Cache, Draft};
use crate::sync::lock;
use armento_wire::talk::FileKey;
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex};

pub struct FileTable {
    known: Mutex<HashMap<FileKey, Arc<File>>>,
    /// Most of them: each is a descriptor.
    max: usize,
    /// … which other hosts of the same user may have as well.
    pub cache: Cache,
}

impl FileTable {
    pub fn new(max: usize, cache: Cache) -> FileTable {
        FileTable {
            known: Mutex::default(),
            max,
            cache,
        }
    }

    pub fn get(&self, key: &FileKey) -> Option<Arc<File>> {
        lock(&self.known).get(key).cloned()
    }

    pub fn knows(&self, key: &FileKey) -> bool {
        lock(&self.known).contains_key(key)
    }

    /// Is there room for the copy of another file beside `coming`? Its process stays, or comes home, where there is none.
    pub fn has_room(&self, coming: usize) -> bool {
        lock(&self.known).len() + coming < self.max
    }

    pub fn insert(&self, key: FileKey, file: File) -> Arc<File> {
        let file = Arc::new(file);
        lock(&self.known).insert(key, file.clone());
        file
    }

    /// A draft has all its bytes.
    pub fn finish(&self, key: FileKey, draft: Draft) -> Arc<File> {
        let file = self.cache.publish(draft);
        self.insert(key, file)
    }

    /// Forgets the copies that are held nowhere else, and of which `keep` is false.
    pub fn forget(&self, keep: impl Fn(&FileKey) -> bool) {
        let held = |f: &Arc<File>| Arc::strong_count(f) > 1;
        lock(&self.known).retain(|k, f| keep(k) || held(f));
    }
}
