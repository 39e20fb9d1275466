//! Listings.

use crate::protocol::{Acls, DirEntry, Entry, Reply};
use crate::server::exports::Place;
use crate::server::inodes::{Node, acls_at, attr_at, path_of};
use crate::server::res::Res;
use crate::server::session::Session;
use crate::sync::lock;
use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Entries of a batch at most, and bytes of their names: a message stays below its limit (an entry with attributes has
/// up to 200 bytes beside the name).
const ENTRIES_MAX: usize = 512;
const NAMES_MAX: usize = 64 << 10;
/// Bytes that are asked of the kernel at once: it fills at most one such buffer a call.
const BUFFER: usize = 16 << 10;

fn kind_of(t: FileType) -> u8 {
    match t {
        FileType::RegularFile => libc::DT_REG,
        FileType::Directory => libc::DT_DIR,
        FileType::Symlink => libc::DT_LNK,
        FileType::Fifo => libc::DT_FIFO,
        FileType::Socket => libc::DT_SOCK,
        FileType::CharacterDevice => libc::DT_CHR,
        FileType::BlockDevice => libc::DT_BLK,
        _ => libc::DT_UNKNOWN,
    }
}

impl Session {
    /// Entries from position `at` on, which an entry's `next` was, or 0.
    pub fn readdir(&self, file: u64, at: u64, plus: bool) -> Res<Reply> {
        let open = self.files.get(file)?;
        let dir = self.inodes.node(open.node)?;
        if let Some(above) = &dir.above {
            return self.names_above(open.node, &dir, above, at, plus);
        }
        let mut position = lock(&open.dir);
        if *position != Some(at) {
            rustix::fs::seek(&open.file, SeekFrom::Start(at))?;
        }
        *position = None;
        let under = (!self.inodes.exports().plain)
            .then(|| path_of(&dir.fd))
            .transpose()?;
        let mut buf = [MaybeUninit::uninit(); BUFFER];
        let mut raw = RawDir::new(&open.file, &mut buf);
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut end = true;
        let mut last = at;
        while let Some(e) = raw.next() {
            let e = match e {
                Ok(e) => e,
                // A directory that is removed has no entries.
                Err(Errno::NOENT) => break,
                Err(e) => return Err(e),
            };
            let name = e.file_name().to_bytes().to_vec();
            let next = e.next_entry_cookie();
            last = next;
            bytes += name.len() + 16;
            let shown = under.as_ref().is_none_or(|u| self.is_shown(u, &name));
            if shown {
                entries.push(DirEntry {
                    ino: e.ino(),
                    kind: kind_of(e.file_type()),
                    next,
                    entry: None,
                    name,
                });
            }
            let full = entries.len() >= ENTRIES_MAX || bytes >= NAMES_MAX;
            if full && raw.is_buffer_empty() {
                *position = Some(next);
                end = false;
                break;
            }
            if entries.len() >= 4 * ENTRIES_MAX {
                end = false;
                break;
            }
        }
        if plus {
            // Watched first, as for a lookup.
            let watched = self.watch(open.node, &dir);
            for e in &mut entries {
                e.entry = self.seen(open.node, &dir, &e.name, under.is_none(), watched);
            }
        }
        Ok(Reply::Dir {
            entries,
            next: last,
            end,
        })
    }

    fn is_shown(&self, under: &Path, name: &[u8]) -> bool {
        name == b"."
            || name == b".."
            || matches!(
                self.inodes
                    .exports()
                    .place(&under.join(OsStr::from_bytes(name))),
                Place::In(_)
            )
    }

    /// An entry with its attributes. `None`: the mount looks it up when it is used.
    fn seen(&self, id: u64, dir: &Node, name: &[u8], plain: bool, watched: bool) -> Option<Entry> {
        if name == b"." || name == b".." {
            return None;
        }
        let (attr, child) = if plain {
            let attr = attr_at(&dir.fd, name).ok()?;
            let child = self.inodes.enter_seen(&attr, id, name, dir.export).ok()?;
            (self.shown_at(dir, name, attr), child)
        } else {
            let f = self.inodes.find(dir, name).ok()?;
            let child = self.inodes.enter(&f.node, &f.attr, id, name).ok()?;
            (self.shown(&f.node, f.attr), child)
        };
        let mut e = Entry {
            id: child,
            acls: acls_at(dir, name, attr.kind()),
            attr,
            name_kept: false,
            attr_kept: false,
        };
        self.keep(watched, id, name, &mut e);
        Some(e)
    }

    fn names_above(&self, id: u64, dir: &Node, path: &Path, at: u64, plus: bool) -> Res<Reply> {
        let names = self.inodes.exports().names_above(path);
        let mut all: Vec<DirEntry> = [&b"."[..], b".."]
            .into_iter()
            .chain(names.iter().map(Vec::as_slice))
            .zip(1..)
            .map(|(name, next)| DirEntry {
                name: name.to_vec(),
                ino: next,
                kind: libc::DT_DIR,
                next,
                entry: None,
            })
            .collect();
        let mut entries: Vec<_> = all.drain(all.len().min(at as usize)..).collect();
        entries.retain_mut(|e| {
            if e.name == b"." || e.name == b".." {
                return true;
            }
            // An export that is not there is not shown.
            let Ok(f) = self.inodes.find(dir, &e.name) else {
                return false;
            };
            e.ino = f.attr.ino;
            if plus && let Ok(child) = self.inodes.enter(&f.node, &f.attr, id, &e.name) {
                e.entry = Some(Entry {
                    id: child,
                    attr: f.attr,
                    acls: Acls::default(),
                    name_kept: false,
                    attr_kept: false,
                });
            }
            true
        });
        Ok(Reply::Dir {
            next: all.len() as u64,
            entries,
            end: true,
        })
    }
}
