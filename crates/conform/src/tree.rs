//! The files that a guest left in its directory: names, kinds, sizes, modes, digests.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::task::{Capture, Entry};

/// Limit of files of one guest; the rest is summarised by one entry.
const FILES_MAX: usize = 5000;
/// Bytes of a stream that are kept for display.
const HEAD_MAX: usize = 256 << 10;

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&SHA256, bytes).as_ref())
}

/// Everything below `root`, sorted by name.
pub fn list(root: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for found in fs::read_dir(&folder)? {
            let path = found?.path();
            let meta = fs::symlink_metadata(&path)?;
            if entries.len() >= FILES_MAX {
                entries.push(entry(
                    "(more than the limit of files)",
                    "dir",
                    &meta,
                    String::new(),
                ));
                return Ok(entries);
            }
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            let (kind, digest) = contents(&path, &meta)?;
            entries.push(entry(&name, kind, &meta, digest));
            if meta.is_dir() {
                todo.push(path);
            }
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

fn entry(path: &str, kind: &str, meta: &Metadata, sha256: String) -> Entry {
    // Sizes and link counts of directories depend on the file system, not on the guest.
    let (bytes, links) = if meta.is_dir() {
        (0, 0)
    } else {
        (meta.len(), meta.nlink())
    };
    Entry {
        path: path.into(),
        kind: kind.into(),
        mode: meta.mode() & 0o7777,
        bytes,
        links,
        sha256,
    }
}

fn contents(path: &Path, meta: &Metadata) -> io::Result<(&'static str, String)> {
    let kind = meta.file_type();
    if kind.is_file() {
        return Ok(("file", file_digest(path)?));
    }
    if kind.is_symlink() {
        return Ok(("link", sha256(fs::read_link(path)?.as_os_str().as_bytes())));
    }
    let word = match kind {
        k if k.is_dir() => "dir",
        k if k.is_fifo() => "fifo",
        k if k.is_socket() => "socket",
        _ => "device",
    };
    Ok((word, String::new()))
}

fn file_digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; 64 << 10];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex(context.finish().as_ref())),
            n => context.update(&chunk[..n]),
        }
    }
}

/// A stream being captured.
pub struct Stream {
    context: Context,
    head: Vec<u8>,
    bytes: u64,
}

impl Stream {
    pub fn new() -> Stream {
        Stream {
            context: Context::new(&SHA256),
            head: Vec::new(),
            bytes: 0,
        }
    }

    pub fn take(&mut self, chunk: &[u8]) {
        self.context.update(chunk);
        self.bytes += chunk.len() as u64;
        let room = HEAD_MAX - self.head.len();
        self.head.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    pub fn finish(self) -> Capture {
        Capture {
            bytes: self.bytes,
            sha256: hex(self.context.finish().as_ref()),
            head: self.head.iter().map(|&b| char::from(b)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_counts_all_bytes_and_keeps_the_head() {
        let mut stream = Stream::new();
        let chunk = vec![0xe9; HEAD_MAX - 1];
        stream.take(&chunk);
        stream.take(b"abc");
        let capture = stream.finish();
        assert_eq!(capture.bytes, HEAD_MAX as u64 + 2);
        assert_eq!(capture.head.chars().count(), HEAD_MAX);
        assert!(capture.head.ends_with("\u{e9}a"));
    }

    #[test]
    fn digest_is_sha256() {
        assert!(sha256(b"abc").starts_with("ba7816bf"));
    }
}
