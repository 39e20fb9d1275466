//! Transfers the mapped files that a target lacks.
//!
//! From: `migrate/src/source/mod.rs`, at the offer. Next: `migrate/src/target.rs`.

use super::content_match::{Like, SIZES};
use crate::image::{Area, files_of};
use crate::source::{Job, Opened};
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_wire::talk::{self, FileKey};
use armento_wire::{WireError, bulk, write_frame};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Instant;

impl<R: Read, W: Write> Job<'_, R, W> {
    /// Transfers the files that were mapped since the offer, or since the last call. Called while the process runs, and
    /// once more when it is frozen: a program that starts maps its libraries one after the other.
    pub fn more(&mut self, areas: &[Area], files: &mut Opened) -> Result<()> {
        let mut new = files_of(areas);
        new.retain(|k| !self.told.contains(k));
        if new.is_empty() {
            return Ok(());
        }
        write_frame(self.w, bulk::MORE, &[&talk::encode(&new)])?;
        let lacks = self.lacks()?;
        self.told.extend(new);
        self.carry(&lacks, files)
    }

    fn lacks(&mut self) -> Result<Vec<FileKey>> {
        let mut buf = Vec::new();
        match self.read_answer(&mut buf)? {
            bulk::LACKS => {}
            _ => return Err(WireError::Garbled("answer to files").into()),
        }
        Ok(talk::decode(&buf, "files it lacks")?)
    }

    pub(crate) fn carry(&mut self, keys: &[FileKey], files: &mut Opened) -> Result<()> {
        let mut left = keys;
        while !left.is_empty() {
            let (now, later) = left.split_at(query_batch(left));
            self.carry_some(now, files)?;
            left = later;
        }
        Ok(())
    }

    /// All but those of which the target has an identical copy.
    fn carry_some(&mut self, keys: &[FileKey], files: &mut Opened) -> Result<()> {
        let all = keys.iter();
        let alike: Vec<Like> = all.filter_map(|k| Like::of(k, &files(k)?)).collect();
        let mut has: Vec<FileKey> = alike.iter().map(|like| like.key).collect();
        if !alike.is_empty() {
            write_frame(self.w, bulk::ALIKE, &[&talk::encode(&alike)])?;
            let lacks = self.lacks()?;
            has.retain(|k| !lacks.contains(k));
        }
        for key in keys.iter().filter(|k| !has.contains(k)) {
            let f = files(key)
                .ok_or_else(|| MigrateError::Stays(Stay::Busy, "a mapped file went away".into()))?;
            self.file(key, &f)?;
        }
        Ok(())
    }

    fn file(&mut self, key: &FileKey, f: &File) -> Result<()> {
        write_frame(self.w, bulk::FILE, &[&talk::encode(key)])?;
        let mut at = 0;
        while at < key.size {
            let begun = Instant::now();
            let n = f
                .read_at(&mut self.block.buf, at)
                .local("read a file that is sent")?;
            if n == 0 {
                break;
            }
            let raw = &self.block.buf[..n];
            self.bytes += self.pack.send_bytes(self.w, raw, begun)?;
            at += n as u64;
        }
        Ok(())
    }
}

/// Both sides read the files in question before they answer: at most as much at once as the largest single file.
fn query_batch(keys: &[FileKey]) -> usize {
    let mut sum = 0u64;
    let fits = |key: &&FileKey| {
        sum = sum.saturating_add(key.size);
        sum <= *SIZES.end()
    };
    keys.iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_bounded_by_size() {
        let check = |sizes: &[u64], want| {
            let key = |&size| FileKey {
                dev: 1,
                ino: 1,
                size,
                ctime_ns: 0,
            };
            let keys: Vec<FileKey> = sizes.iter().map(key).collect();
            assert_eq!(query_batch(&keys), want, "{sizes:?}");
        };
        let most = *SIZES.end();
        check(&[1], 1);
        check(&[most, 1], 1);
        check(&[most / 2, most / 2, 1], 2);
        check(&[u64::MAX, u64::MAX], 1);
        check(&[1, u64::MAX, 1], 1);
    }
}
