//! This node's own files in place of home's: nothing travels where the bytes are the same.
//!
//! From: `host/src/files/incoming.rs`. The nodes of a farm mostly run one distribution: a program's libraries are most of
//! what its first arrival would bring.

use crate::sys;
use armento_migrate::files::{Like, read_through};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

/// Copies this node's file of that path, if it has those bytes: what is there later may be something else. Otherwise
/// `to` is zeros.
pub fn copy(like: &Like, to: &File) -> io::Result<bool> {
    let Some(own) = own(like) else {
        return Ok(false);
    };
    let copied = read_through(&own, like.key.size, |at, bytes| to.write_all_at(bytes, at));
    if copied.is_ok_and(|digest| digest == like.digest) {
        return Ok(true);
    }
    to.set_len(0)?;
    sys::reserve(to, like.key.size)?;
    Ok(false)
}

/// KERNEL: inode(7): any user may read it. The host may run as the daemon's own user, where that is not root.
const FOR_ALL: u32 = 0o004;

/// This node's file of that path, if any user may read it.
fn own(like: &Like) -> Option<File> {
    if !like.may_be_looked_for() {
        return None;
    }
    let f = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(&like.path)
        .ok()?;
    let m = f.metadata().ok()?;
    let readable = m.is_file() && m.mode() & FOR_ALL != 0;
    (readable && m.len() == like.key.size).then_some(f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_migrate::image::files::file_key;
    use std::io::Read;

    #[test]
    fn only_the_same_bytes_are_taken() {
        let path = std::fs::canonicalize("/bin/sh").expect("a shell");
        let f = File::open(&path).expect("to read");
        let like = Like::of(&file_key(&f).expect("a file"), &f).expect("a system's file");
        let to = armento_tracee::sys::memfd("copy", like.key.size).expect("room");
        let bytes = || {
            let mut all = Vec::new();
            let mut from = File::open(format!(
                "/proc/self/fd/{}",
                std::os::fd::AsRawFd::as_raw_fd(&to)
            ))
            .expect("itself");
            from.read_to_end(&mut all).expect("read");
            all
        };
        assert!(copy(&like, &to).expect("copied"));
        assert_eq!(bytes(), std::fs::read(&path).expect("the shell"));
        let other = Like {
            digest: [7; 32],
            ..like.clone()
        };
        assert!(!copy(&other, &to).expect("looked at"));
        assert_eq!(bytes(), vec![0; like.key.size as usize]);
        let elsewhere = Like {
            path: "/usr/lib/armento-has-no-such.so".into(),
            ..like
        };
        assert!(!copy(&elsewhere, &to).expect("looked for"));
    }
}
