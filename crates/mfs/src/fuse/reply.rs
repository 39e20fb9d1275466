//! What the kernel is answered: structures of linux/fuse.h as bytes.

use crate::protocol::{Attr, Space};
use std::time::Duration;

/// A file's attributes with the numbers that this mount gives it.
pub struct Attributes<'a> {
    pub node: u64,
    pub ino: u64,
    pub attr: &'a Attr,
}

/// For how long the kernel may keep a name and attributes.
#[derive(Clone, Copy, Default)]
pub struct Times {
    pub name: Duration,
    pub attr: Duration,
}

/// KERNEL: new_encode_dev: what is sent of a device number is 32 bits.
fn device((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn attr(b: &mut Vec<u8>, a: &Attributes<'_>) {
    let x = a.attr;
    for v in [
        a.ino,
        x.size,
        x.blocks,
        x.atime.s as u64,
        x.mtime.s as u64,
        x.ctime.s as u64,
    ] {
        b.extend(v.to_le_bytes());
    }
    for v in [
        x.atime.ns,
        x.mtime.ns,
        x.ctime.ns,
        x.mode,
        x.nlink,
        x.uid,
        x.gid,
        device(x.rdev),
        x.blksize,
        0,
    ] {
        b.extend(v.to_le_bytes());
    }
}

/// struct fuse_entry_out. Node 0: there is no such name.
pub fn entry_out(a: &Attributes<'_>, t: Times) -> Vec<u8> {
    let mut b = Vec::with_capacity(128);
    b.extend(a.node.to_le_bytes());
    b.extend(0u64.to_le_bytes());
    b.extend(t.name.as_secs().to_le_bytes());
    b.extend(t.attr.as_secs().to_le_bytes());
    b.extend(t.name.subsec_nanos().to_le_bytes());
    b.extend(t.attr.subsec_nanos().to_le_bytes());
    attr(&mut b, a);
    b
}

/// struct fuse_attr_out.
pub fn attr_out(a: &Attributes<'_>, keep: Duration) -> Vec<u8> {
    let mut b = Vec::with_capacity(104);
    b.extend(keep.as_secs().to_le_bytes());
    b.extend(keep.subsec_nanos().to_le_bytes());
    b.extend(0u32.to_le_bytes());
    attr(&mut b, a);
    b
}

/// struct fuse_statfs_out.
pub fn statfs_out(s: &Space) -> Vec<u8> {
    let mut b = Vec::with_capacity(80);
    for v in [s.blocks, s.free, s.available, s.files, s.files_free] {
        b.extend(v.to_le_bytes());
    }
    for v in [s.block, s.name_max, s.fragment] {
        b.extend(v.to_le_bytes());
    }
    b.resize(80, 0);
    b
}

/// struct fuse_init_out.
pub fn init_out(
    minor: u32,
    max_readahead: u32,
    flags: u64,
    background: u16,
    max_write: u32,
) -> Vec<u8> {
    let mut b = Vec::with_capacity(64);
    for v in [super::MAJOR, minor, max_readahead, flags as u32] {
        b.extend(v.to_le_bytes());
    }
    b.extend(background.to_le_bytes());
    b.extend((background / 4 * 3).to_le_bytes());
    b.extend(max_write.to_le_bytes());
    // Times in nanoseconds.
    b.extend(1u32.to_le_bytes());
    b.extend(((max_write / 4096) as u16).to_le_bytes());
    b.extend(0u16.to_le_bytes());
    b.extend(((flags >> 32) as u32).to_le_bytes());
    b.resize(64, 0);
    b
}

/// Entries of a directory until the kernel's buffer is full.
pub struct Listing {
    b: Vec<u8>,
    size: usize,
}

impl Listing {
    pub fn new(size: usize) -> Listing {
        Listing {
            b: Vec::with_capacity(size),
            size,
        }
    }

    /// Adds struct fuse_dirent, behind `entry` (struct fuse_entry_out) if that was asked for. False if it does not fit.
    pub fn add(
        &mut self,
        entry: Option<&[u8]>,
        ino: u64,
        next: u64,
        kind: u8,
        name: &[u8],
    ) -> bool {
        let len = entry.map_or(0, <[u8]>::len) + 24 + name.len();
        let padded = len.next_multiple_of(8);
        if self.b.len() + padded > self.size {
            return false;
        }
        let end = self.b.len() + padded;
        self.b.extend_from_slice(entry.unwrap_or(&[]));
        self.b.extend(ino.to_le_bytes());
        self.b.extend(next.to_le_bytes());
        self.b.extend((name.len() as u32).to_le_bytes());
        self.b.extend(u32::from(kind).to_le_bytes());
        self.b.extend_from_slice(name);
        self.b.resize(end, 0);
        true
    }

    pub fn bytes(&self) -> &[u8] {
        &self.b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_lengths() {
        let attr = Attr::default();
        let a = Attributes {
            node: 1,
            ino: 2,
            attr: &attr,
        };
        assert_eq!(entry_out(&a, Times::default()).len(), 128);
        assert_eq!(attr_out(&a, Duration::ZERO).len(), 104);
        assert_eq!(statfs_out(&Space::default()).len(), 80);
        assert_eq!(init_out(39, 0, 0, 12, 1 << 20).len(), 64);
        let mut l = Listing::new(64);
        assert!(l.add(None, 1, 1, 4, b"12345678") && l.add(None, 1, 2, 4, b"12345678"));
        assert!(!l.add(None, 1, 3, 4, b"1"));
        assert_eq!(l.bytes().len(), 64);
    }
}
