//! Fetches a file from home that a guest maps.
//!
//! From: `mmap.rs`, `host/src/home/messages.rs`. Next: `keeper/src/calls/dispatch.rs`.

use crate::files::OTHER_MAX;
use crate::state::Shared;
use armento_wire::talk::{FileKey, ToHome, ToHost};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// How long home may take to send the bytes of one block of a file.
const BLOCK_MAX: Duration = Duration::from_secs(30);

/// The copy of a home file: known here, from the cache, or fetched completely.
pub fn fetch_file(shared: &Shared, key: &FileKey, mapped_shared: bool) -> Option<Arc<File>> {
    let files = &shared.files;
    if let Some(f) = files.get(key) {
        return Some(f);
    }
    if !files.has_room(0) {
        return None;
    }
    if let Some(f) = files.cache.get(key, mapped_shared) {
        return Some(files.insert(*key, f));
    }
    let draft = match files.cache.draft(key, mapped_shared, OTHER_MAX).ok()? {
        Ok(done) => return Some(files.insert(*key, done)),
        Err(draft) => draft,
    };
    let answer = shared
        .home
        .ask_stream(|seq| ToHome::Fetch { seq, key: *key });
    let mut have = 0;
    loop {
        match answer.recv_timeout(BLOCK_MAX) {
            Ok(ToHost::FileBytes {
                off, bytes, end, ..
            }) => {
                draft.file.write_all_at(&bytes, off).ok()?;
                have += bytes.len() as u64;
                if end {
                    break;
                }
            }
            _ => return None,
        }
    }
    // Home has it no more, or it was cut meanwhile: no guest is to see zeros for it.
    (have == key.size).then(|| files.finish(*key, draft))
}
