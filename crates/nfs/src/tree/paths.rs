//! Numbers of paths: the same on every server that has the tree, and found again after a restart without any file.
//!
//! The number of a path is a hash of its parent's number and its name. To open a number the server must have met the path:
//! it learns paths as clients look them up, and walks the whole tree when it is asked for one that it does not know.

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_128;

/// The number of the exported directory itself.
pub const TOP: u128 = 0;
/// Paths that a server remembers: 20 full systems, some 400 MiB.
const PATHS_MAX: usize = 4_000_000;
/// Deeper directories are not walked. KERNEL: PATH_MAX leaves room for no more of one letter each.
const DEPTH_MAX: usize = 2048;
/// A number that a walk did not find is looked for again after so long.
const WALK_AGAIN: Duration = Duration::from_secs(10);

/// Paths of one tree by number.
#[derive(Debug, Default)]
pub struct Paths {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Parent and name.
    names: HashMap<u128, (u128, Box<[u8]>)>,
    walked: Option<Instant>,
}

/// The number of a name in a directory.
pub fn number(parent: u128, name: &[u8]) -> u128 {
    xxh3_128(&[&parent.to_be_bytes()[..], name].concat())
}

impl Known {
    fn learn(&mut self, parent: u128, name: &[u8]) -> u128 {
        let number = number(parent, name);
        if self.names.len() < PATHS_MAX
            && let Entry::Vacant(vacant) = self.names.entry(number)
        {
            vacant.insert((parent, name.into()));
        }
        number
    }

    fn path(&self, mut number: u128) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        while number != TOP {
            let (parent, name) = self.names.get(&number)?;
            names.push(&name[..]);
            number = *parent;
            if names.len() > DEPTH_MAX {
                return None;
            }
        }
        names.reverse();
        Some(if names.is_empty() {
            b".".to_vec()
        } else {
            names.join(&b'/')
        })
    }
}

impl Paths {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A path that a client has met; its number.
    pub fn learn(&self, parent: u128, name: &[u8]) -> u128 {
        self.known().learn(parent, name)
    }

    /// The path of a number, relative to the tree. Before: root, for the walk.
    pub fn path(&self, number: u128, top: BorrowedFd) -> Option<Vec<u8>> {
        let mut known = self.known();
        if let Some(path) = known.path(number) {
            return Some(path);
        }
        if known.walked.is_some_and(|at| at.elapsed() < WALK_AGAIN) {
            return None;
        }
        // Others wait: they would have to walk as well.
        walk(&mut known, top);
        known.walked = Some(Instant::now());
        known.path(number)
    }

    /// The directory of a path; itself for the top. Before: the number is known.
    pub fn parent(&self, number: u128) -> Option<u128> {
        match number {
            TOP => Some(TOP),
            _ => self.known().names.get(&number).map(|(parent, _)| *parent),
        }
    }
}

/// Learns every path below. What cannot be read is left out.
fn walk(known: &mut Known, top: BorrowedFd) {
    let Ok(first) = open(top, c".") else {
        return;
    };
    let mut open_dirs = vec![(TOP, first)];
    while let Some((parent, dir)) = open_dirs.last_mut() {
        let parent = *parent;
        let Some(Ok(entry)) = dir.next() else {
            open_dirs.pop();
            continue;
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let number = known.learn(parent, name.to_bytes());
        let may_be_dir = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if may_be_dir
            && open_dirs.len() < DEPTH_MAX
            && let Some((_, dir)) = open_dirs.last()
            && let Ok(fd) = dir.fd()
            && let Ok(below) = open(fd, name)
        {
            open_dirs.push((number, below));
        }
    }
}

fn open(dir: BorrowedFd, name: &std::ffi::CStr) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd: OwnedFd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    Dir::new(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;

    #[test]
    fn an_unknown_number_is_found_by_a_walk() {
        let dir = std::env::temp_dir().join(format!("armento-nfs-paths-{}", std::process::id()));
        fs::create_dir_all(dir.join("usr/lib")).expect("dirs");
        fs::write(dir.join("usr/lib/a"), "").expect("file");
        let top = fs::File::open(&dir).expect("top");
        let number = ["usr", "lib", "a"]
            .iter()
            .fold(TOP, |parent, name| number(parent, name.as_bytes()));
        let paths = Paths::default();
        let path = paths.path(number, top.as_fd());
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(path.as_deref(), Some(&b"usr/lib/a"[..]));
        let parent = paths.parent(number).expect("known");
        assert_eq!(
            paths.path(parent, top.as_fd()).as_deref(),
            Some(&b"usr/lib"[..])
        );
        assert_eq!(paths.path(TOP, top.as_fd()).as_deref(), Some(&b"."[..]));
        assert_eq!(paths.path(7, top.as_fd()), None);
    }
}
