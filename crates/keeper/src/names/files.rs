//! Files in known directories of which a host knows the attributes.
//!
//! Each is held open with a read lease, so that nothing writes it or cuts it off unheard, and watched for all other changes
//! of what stat(2) says.

use super::attributes;
use super::sys;
use armento_leases::Leased;
use armento_tracee::sys as tsys;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// Files that a host knows at once, at most. Each is a descriptor and a watch: more would take longer to end than a host that
/// asks for them anew …
const FILES_MAX: usize = 2048;
/// … and at most this share of the descriptors that the keeper may have: what programs map and read needs some, too.
const FILES_SHARE: usize = 16;

#[derive(Default)]
pub struct Files {
    /// By the number of their watch: one file may have several paths.
    known: HashMap<i32, Known>,
}

struct Known {
    file: Leased,
    paths: Vec<Vec<u8>>,
}

impl Files {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub fn has_room(&self) -> bool {
        let limit = tsys::limit(0, libc::RLIMIT_NOFILE).map_or(0, |(now, _)| now as usize);
        self.known.len() < FILES_MAX.min(limit / FILES_SHARE)
    }

    /// Takes the lease and the watch, and returns the file's attributes. `None`: they may change unheard, or it is another
    /// file system's.
    pub fn learn(
        &mut self,
        inotify: &OwnedFd,
        (dir, dev): (&File, u64),
        (name, path): (&[u8], Vec<u8>),
        unwatched: &dyn Fn(u64) -> bool,
    ) -> Option<Vec<u8>> {
        let file = sys::open_file(dir, name).ok()?;
        let m = file.metadata().ok()?;
        if !m.is_file() || m.dev() != dev || !unwatched(m.ino()) {
            return None;
        }
        let file = Leased::take_own(file)?;
        let reads = attributes::is_seen_read(&file)?;
        let wd = sys::watch_file(inotify, &file, reads).ok()?;
        match self.known.get_mut(&wd) {
            Some(k) => k.paths.push(path),
            None => {
                let paths = vec![path];
                self.known.insert(wd, Known { file, paths });
            }
        }
        let told = self
            .known
            .get(&wd)
            .and_then(|k| attributes::of_file(&k.file));
        if told.is_none() {
            self.end(inotify, wd);
        }
        told
    }

    /// An event of this watch: the paths by which its file was known.
    pub fn changed(&mut self, inotify: &OwnedFd, wd: i32) -> Vec<Vec<u8>> {
        self.end(inotify, wd)
    }

    fn end(&mut self, inotify: &OwnedFd, wd: i32) -> Vec<Vec<u8>> {
        let Some(k) = self.known.remove(&wd) else {
            return Vec::new();
        };
        sys::unwatch(inotify, wd);
        k.paths
    }

    /// Takes files out that a process waits to write: by the descriptor of their lease, or all of which that is so. The
    /// leases end when what is returned is dropped.
    pub fn wanted(&mut self, inotify: &OwnedFd, fd: Option<RawFd>) -> Wanted {
        let is = |f: &Leased| fd.is_none_or(|fd| fd == f.as_raw_fd()) && f.is_wanted();
        self.take_if(inotify, |k| is(&k.file))
    }

    pub fn all(&mut self, inotify: &OwnedFd) -> Wanted {
        self.take_if(inotify, |_| true)
    }

    /// Ends what lies in directories that are not known any more.
    pub fn retain(&mut self, inotify: &OwnedFd, known: impl Fn(&[u8]) -> bool) {
        self.take_if(inotify, |k| k.paths.iter().any(|p| !known(p)));
    }

    fn take_if(&mut self, inotify: &OwnedFd, is: impl Fn(&Known) -> bool) -> Wanted {
        let mut w = Wanted::default();
        for (wd, k) in self.known.extract_if(|_, k| is(k)) {
            sys::unwatch(inotify, wd);
            w.paths.extend(k.paths);
            w.files.push(k.file);
        }
        w
    }
}

/// Files whose leases end when this is dropped.
#[derive(Default)]
pub struct Wanted {
    pub paths: Vec<Vec<u8>>,
    files: Vec<Leased>,
}

impl Wanted {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}
