//! Files that a process has open on this node itself, by the descriptors of home.

use crate::sync::lock;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Files of one process that are open here; more are used through home.
const FILES_MAX: usize = 256;

/// As long as a descriptor is here nothing else has its description, and home's offset of it stays behind.
#[derive(Default)]
pub struct Direct {
    files: HashMap<i32, Arc<OpenFile>>,
    /// How often all were given up: what was asked before that is void.
    pub ended: u64,
}

/// A description of this node's own, of the file that home has open.
pub struct OpenFile {
    /// Held during each use: a use by another thread waits, as in the kernel.
    pub file: Mutex<File>,
    /// Other nodes see what was written when it is closed.
    pub relaxed: bool,
    /// A write waits for nothing but this machine's own disk.
    pub quick: bool,
    /// The offset that home was sent last.
    sent: AtomicU64,
}

impl OpenFile {
    pub fn new(file: File, relaxed: bool, quick: bool) -> OpenFile {
        OpenFile {
            file: Mutex::new(file),
            relaxed,
            quick,
            sent: AtomicU64::new(0),
        }
    }

    /// The offset, for home, which has it then. Waits for a use that is under way.
    pub fn offset(&self) -> u64 {
        let at = lock(&self.file).stream_position().unwrap_or(0);
        self.sent.store(at, Ordering::Relaxed);
        at
    }

    /// The same, if no use is under way and home does not have it yet.
    pub fn new_offset(&self) -> Option<u64> {
        let at = self.file.try_lock().ok()?.stream_position().ok()?;
        (self.sent.swap(at, Ordering::Relaxed) != at).then_some(at)
    }

    pub fn is_busy(&self) -> bool {
        self.file.try_lock().is_err()
    }

    /// What was written is on the disk, or at its server.
    pub fn sync(&self) -> std::io::Result<()> {
        let file = lock(&self.file).try_clone()?;
        file.sync_all()
    }
}

/// Sets the offset of a file.
pub fn set_offset(mut file: &File, at: u64) {
    // An offset of a regular file can be set.
    let _ = file.seek(SeekFrom::Start(at));
}

impl Direct {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn get(&self, fd: i32) -> Option<Arc<OpenFile>> {
        self.files.get(&fd).cloned()
    }

    /// A file was opened; false: there is no room for it.
    pub fn add(&mut self, fd: i32, file: OpenFile) -> bool {
        let room = self.files.len() < FILES_MAX;
        if room {
            self.files.insert(fd, Arc::new(file));
        }
        room
    }

    pub fn all(&self) -> impl Iterator<Item = (i32, &Arc<OpenFile>)> {
        self.files.iter().map(|(fd, f)| (*fd, f))
    }

    /// Another descriptor has the same description from now on; `of`: nothing, if that is used through home.
    pub fn duplicated(&mut self, of: i32, fd: i32) {
        match self.files.get(&of).cloned() {
            Some(file) => self.files.insert(fd, file),
            None => self.files.remove(&fd),
        };
    }

    /// Takes a descriptor out, with all others that have its description.
    pub fn take(&mut self, fd: i32) -> Option<Arc<OpenFile>> {
        let file = self.files.remove(&fd)?;
        self.files.retain(|_, other| !Arc::ptr_eq(other, &file));
        Some(file)
    }

    /// The descriptor is closed.
    pub fn remove(&mut self, fd: i32) -> Option<Arc<OpenFile>> {
        self.files.remove(&fd)
    }

    /// One descriptor of each description.
    pub fn take_all(&mut self) -> Vec<(i32, Arc<OpenFile>)> {
        self.ended += 1;
        let mut all: Vec<(i32, Arc<OpenFile>)> = Vec::new();
        for (fd, file) in self.files.drain() {
            if !all.iter().any(|(_, known)| Arc::ptr_eq(known, &file)) {
                all.push((fd, file));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file() -> OpenFile {
        OpenFile::new(
            armento_tracee::sys::memfd("direct", 0).expect("memory"),
            false,
            true,
        )
    }

    #[test]
    fn an_offset_is_told_once() {
        let f = file();
        assert_eq!(f.new_offset(), None, "home is there, too");
        lock(&f.file).write_all(b"abc").expect("written");
        assert_eq!(f.new_offset(), Some(3));
        assert_eq!((f.new_offset(), f.offset()), (None, 3));
        let busy = lock(&f.file);
        assert!(f.is_busy() && f.new_offset().is_none());
        drop(busy);
    }

    #[test]
    fn descriptors_of_one_description_are_given_up_together() {
        let mut d = Direct::default();
        assert!(d.add(3, file()) && d.add(4, file()));
        d.duplicated(3, 1);
        d.duplicated(9, 4);
        assert!(
            d.get(4).is_none(),
            "it was replaced by what is used through home"
        );
        d.remove(3);
        d.duplicated(1, 5);
        assert!(d.take(5).is_some() && d.is_empty());
        assert!(d.add(3, file()));
        d.duplicated(3, 7);
        assert_eq!(d.take_all().len(), 1);
    }

    #[test]
    fn what_was_asked_before_all_were_given_up_is_void() {
        let mut d = Direct::default();
        let asked = d.ended;
        assert!(d.add(3, file()) && !d.is_empty());
        assert_eq!(d.take_all().len(), 1);
        assert!(d.is_empty() && d.ended != asked);
        let all = (0..2 * FILES_MAX as i32).filter(|fd| d.add(*fd, file()));
        assert_eq!(all.count(), FILES_MAX);
    }
}
