//! One directory, as it is read for a host.

use super::{attributes, sys};
use crate::descriptors::is_local;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;

/// Longest list of names that is sent. A directory with more is asked about at home, name by name.
const NAMES_MAX: usize = 256 << 10;

/// KERNEL: inode(7). Everybody may search it.
const SEARCH: u32 = 0o111;
/// Symbolic links in it are followed only by their owner. KERNEL: sysctl/fs.rst, protected_symlinks.
const STICKY_WRITABLE: u32 = 0o1002;

/// struct linux_dirent64: inode u64, offset i64, length u16, type u8, name. KERNEL: getdents(2).
const LENGTH: usize = 16;
const TYPE: usize = 18;
const NAME: usize = 19;

/// Sent for an entry whose type the file system does not tell: zero ends a name.
const UNKNOWN: u8 = b'?';

pub struct Directory {
    pub file: File,
    /// Device and inode.
    pub id: (u64, u64),
    /// Its symbolic links must not be followed by what is known here.
    pub guarded: bool,
}

/// Opens a directory by a path without symbolic links, if lookups in it depend on its entries alone: on a local file
/// system, searchable for everybody, without access control lists.
pub fn open(path: &[u8]) -> Option<Directory> {
    let file = sys::open_directory(path, true)
        .or_else(|_| sys::open_directory(path, false))
        .ok()?;
    let m = file.metadata().ok()?;
    let local = is_local(crate::sys::file_system(&file)?);
    let plain = m.mode() & SEARCH == SEARCH && !sys::has_acl(&file) && !sys::has_odd_names(&file);
    (local && plain).then(|| Directory {
        id: (m.dev(), m.ino()),
        guarded: m.mode() & STICKY_WRITABLE == STICKY_WRITABLE || !sys::follows_links(&file),
        file,
    })
}

impl Directory {
    /// Its entries: for each a byte of its type, its name, a zero byte. The file stands at its end afterwards.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let (mut names, mut buf) = (Vec::new(), vec![0u8; 32 << 10]);
        loop {
            let n = sys::getdents(&self.file, &mut buf)?;
            if n == 0 {
                return Ok(Some(names));
            }
            append(&mut names, &buf[..n]);
            if names.len() > NAMES_MAX {
                return Ok(None);
            }
        }
    }

    /// The names of regular files in it. The file stands at its end afterwards.
    pub fn files(&self) -> Vec<Vec<u8>> {
        let names = (&self.file).rewind().and_then(|()| self.read());
        let names = names.ok().flatten().unwrap_or_default();
        let all = names.split(|c| *c == 0).filter_map(|e| e.split_first());
        let files = all.filter(|(kind, _)| **kind == libc::DT_REG);
        files.map(|(_, name)| name.to_vec()).collect()
    }

    /// What statx(2) says of it, if that stays as long as it is watched.
    pub fn attributes(&self) -> Option<Vec<u8>> {
        attributes::of_directory(&self.file)
    }

    /// Whether its file system tells the time of birth also when it is not asked for.
    pub fn tells_birth(&self) -> bool {
        attributes::tells_birth(&self.file)
    }

    /// After: a change of its entries that another process can have seen has been queued as an event. KERNEL:
    /// iterate_dir takes the lock under which names change and their events are queued.
    pub fn settle(&self) {
        // At the end of the directory nothing is read.
        let _ = sys::getdents(&self.file, &mut [0u8; 280]);
    }
}

/// What getdents(2) gives of a directory from its beginning, up to so many bytes, and whether that is all; it stands at its
/// beginning again afterwards.
pub fn entries(mut d: &File, most: usize) -> Option<(Vec<u8>, bool)> {
    let (mut bytes, mut len) = (vec![0u8; most], 0);
    let end = loop {
        match sys::getdents(d, &mut bytes[len..]) {
            Ok(0) => break true,
            Ok(n) => len += n,
            // The next entry does not fit.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && len > 0 => break false,
            Err(_) => return None,
        }
    };
    d.rewind().ok()?;
    bytes.truncate(len);
    Some((bytes, end))
}

fn append(names: &mut Vec<u8>, raw: &[u8]) {
    let mut at = 0;
    while let Some(entry) = raw.get(at..).filter(|e| e.len() > NAME) {
        let len = u16::from_le_bytes([entry[LENGTH], entry[LENGTH + 1]]) as usize;
        let name = entry[NAME..].split(|c| *c == 0).next().unwrap_or_default();
        if name != b"." && name != b".." {
            names.push(match entry[TYPE] {
                libc::DT_UNKNOWN => UNKNOWN,
                kind => kind,
            });
            names.extend_from_slice(name);
            names.push(0);
        }
        if len == 0 {
            return;
        }
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_types_and_names() {
        let dir = std::env::temp_dir().join(format!("armento-names-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("sub")).expect("made");
        std::fs::write(dir.join("file"), "").expect("written");
        std::os::unix::fs::symlink("file", dir.join("link")).expect("linked");
        use std::os::unix::ffi::OsStrExt;
        let path = dir.canonicalize().expect("it is there");
        let d = open(path.as_os_str().as_bytes());
        if let Some(d) = d {
            let names = d.read().expect("it can be read").expect("it is short");
            let mut all: Vec<_> = names.split(|c| *c == 0).filter(|e| !e.is_empty()).collect();
            all.sort_by_key(|e| e[1..].to_vec());
            let want: [(u8, &[u8]); 3] = [
                (libc::DT_REG, b"file"),
                (libc::DT_LNK, b"link"),
                (libc::DT_DIR, b"sub"),
            ];
            let got: Vec<(u8, &[u8])> = all.iter().map(|e| (e[0], &e[1..])).collect();
            assert_eq!(got, want);
        }
        assert!(open(path.join("link").as_os_str().as_bytes()).is_none());
        std::fs::remove_dir_all(dir).expect("removed");
        assert!(open(b"/proc").is_none(), "its names come and go unseen");
    }
}
