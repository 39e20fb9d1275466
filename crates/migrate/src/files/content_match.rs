//! Files of which the target has an identical copy: mostly libraries. They are not transferred.
//!
//! From: `transfer.rs` (the source describes them). Next: `host/src/files/local_copies.rs` (the target looks them up).
//!
//! Digests of the contents are compared: name, size and time may match where the bytes differ.

use armento_wire::talk::FileKey;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Component, PathBuf};

/// Bytes. A smaller file is sent in less time than the question takes (at 1 Gbit/s in half a millisecond, some round
/// trips), and a larger one is hardly a library.
pub const SIZES: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 20;
/// Where programs and libraries of a system are. A node does not disclose whether it has any other file. Source:
/// Filesystem Hierarchy Standard 3.0.
const SYSTEM: [&str; 5] = ["/usr", "/lib", "/lib64", "/bin", "/sbin"];
/// Bytes per read: fits into the nearest caches.
const BLOCK: usize = 128 << 10;

pub type Digest = [u8; 32];

/// A file of the source, and its path there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Like {
    pub key: FileKey,
    pub path: PathBuf,
    /// SHA-256 of `key.size` bytes.
    pub digest: Digest,
}

impl Like {
    /// `None`: the name leads to no such file any more, or sending it is faster than asking.
    pub fn of(key: &FileKey, f: &File) -> Option<Like> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", f.as_raw_fd())).ok()?;
        let mut like = Like {
            key: *key,
            path,
            digest: Digest::default(),
        };
        if !like.may_be_looked_for() {
            return None;
        }
        like.digest = read_through(f, key.size, |_, _| Ok(())).ok()?;
        Some(like)
    }

    /// Whether it is a file whose existence a node may disclose.
    pub fn may_be_looked_for(&self) -> bool {
        let plain = |c| matches!(c, Component::RootDir | Component::Normal(_));
        SIZES.contains(&self.key.size)
            && self.path.components().all(plain)
            && SYSTEM.iter().any(|dir| self.path.starts_with(dir))
    }
}

/// Reads `size` bytes, passes each block with its offset to `each`, and returns their digest. Fewer bytes are an error.
pub fn read_through(
    f: &File,
    size: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<Digest> {
    let (mut all, mut buf, mut at) = (Context::new(&SHA256), vec![0; BLOCK], 0);
    while at < size {
        let most = usize::try_from(size - at).map_or(BLOCK, |left| left.min(BLOCK));
        let n = f.read_at(&mut buf[..most], at)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        all.update(&buf[..n]);
        each(at, &buf[..n])?;
        at += n as u64;
    }
    let mut digest = Digest::default();
    digest.copy_from_slice(all.finish().as_ref());
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(path: &str, size: u64) -> Like {
        let key = FileKey {
            dev: 1,
            ino: 2,
            size,
            ctime_ns: 3,
        };
        Like {
            key,
            path: path.into(),
            digest: Digest::default(),
        }
    }

    #[test]
    fn only_system_files_are_looked_up() {
        let check = |path, size, want| {
            let got = like(path, size).may_be_looked_for();
            assert_eq!(got, want, "{path} {size}");
        };
        check("/usr/lib/libc.so.6", 2 << 20, true);
        check("/lib64/ld.so", 2 << 20, true);
        check("/usr/lib/libc.so.6", 4096, false);
        check("/usr/lib/libc.so.6", 1 << 40, false);
        check("/home/me/libmine.so", 2 << 20, false);
        check("/etc/shadow", 2 << 20, false);
        check("/usr/../etc/shadow", 2 << 20, false);
        check("/usrlocal/x", 2 << 20, false);
        check("usr/lib/x", 2 << 20, false);
        check("/memfd:armento (deleted)", 2 << 20, false);
    }

    #[test]
    fn digest_equals_sha256sum() {
        let path = std::env::temp_dir().join(format!("armento-alike-{}", std::process::id()));
        let bytes: Vec<u8> = (0..300_001u32).map(|n| (n * 7 % 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("written");
        let f = File::open(&path).expect("there");
        let mut shown = vec![0; bytes.len()];
        let got = read_through(&f, bytes.len() as u64, |at, block| {
            shown[at as usize..][..block.len()].copy_from_slice(block);
            Ok(())
        });
        let more = read_through(&f, bytes.len() as u64 + 1, |_, _| Ok(()));
        let said = std::process::Command::new("sha256sum").arg(&path).output();
        std::fs::remove_file(&path).expect("gone");
        let said = String::from_utf8(said.expect("sha256sum").stdout).expect("text");
        let hex: String = got
            .expect("read")
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(said.split(' ').next(), Some(hex.as_str()));
        assert_eq!(shown, bytes);
        assert!(more.is_err());
    }
}
