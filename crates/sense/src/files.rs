//! Kernel files that are read several times a second, and kept open: opening costs more than reading.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// Files kept open; further ones are read and closed.
const FILES_MAX: usize = 32;
/// The longest of them, memory.stat, takes a page or two.
const BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct Files(Mutex<HashMap<String, File>>);

impl Files {
    /// Each read from offset 0 returns new contents. KERNEL: Documentation/filesystems/seq_file.rst.
    pub fn read(&self, path: &str) -> Option<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = kept.get(path) {
            if let Some(text) = content(file) {
                return Some(text);
            }
            // The group was removed; there may be a new one of that name.
            kept.remove(path);
        }
        let file = File::open(path).ok()?;
        let text = content(&file)?;
        if kept.len() < FILES_MAX {
            kept.insert(path.to_owned(), file);
        }
        Some(text)
    }
}

/// A longer file is read in pieces, each from its own moment: sufficient for numbers that vary.
fn content(file: &File) -> Option<String> {
    let mut bytes = vec![0; BYTES_MAX];
    let mut len = 0;
    while len < BYTES_MAX {
        match file.read_at(&mut bytes[len..], len as u64).ok()? {
            0 => break,
            n => len += n,
        }
    }
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_read_again() {
        let path = std::env::temp_dir().join(format!("armento-files-{}", std::process::id()));
        let name = path.to_str().expect("a name");
        let files = Files::default();
        assert_eq!(files.read(name), None);
        std::fs::write(&path, "one").expect("written");
        assert_eq!(files.read(name).as_deref(), Some("one"));
        std::fs::write(&path, "two and more").expect("written");
        assert_eq!(files.read(name).as_deref(), Some("two and more"));
        std::fs::remove_file(&path).expect("removed");
        assert!(
            files
                .read("/proc/meminfo")
                .is_some_and(|t| t.contains("MemAvailable"))
        );
    }
}
