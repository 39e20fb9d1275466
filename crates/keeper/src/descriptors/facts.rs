//! Looks at one descriptor.
//!
//! From: `keeper/src/deputy/wait_loop.rs`, for a call whose host asked. Next: the host's table of descriptors
//! (`host/src/state/descriptors.rs`).

use super::quota::has_quota;
use crate::sys;
use armento_model::Pid;
use armento_tracee::sys as tsys;
use armento_wire::talk::{Device, DeviceKind, POSTS_MARGIN, POSTS_OFFSET_MAX};
use std::fs::{File, Metadata};
use std::io::Seek;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// File systems of this machine alone, whose files change only through its own kernel: statfs(2).
const LOCAL: [i64; 6] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs
    0xf2f5_2010, // f2fs
];

/// Bytes that may be posted to one descriptor while a permission holds. A tenth of the margin: ten writers of one tree
/// stay within it.
const GRANT: u64 = POSTS_MARGIN / 10;

/// Flags of a description whose writes are on the disk when they return, or that wants aligned memory.
const SLOW: i32 = libc::O_SYNC | libc::O_DSYNC | libc::O_DIRECT | libc::O_PATH;

/// A descriptor of a regular file or directory on a local file system, or of a device. Its close cannot fail.
pub struct Facts {
    /// So many bytes may be posted to it now; 0 if writes have to be waited for.
    pub writes: u64,
    pub device: Option<Device>,
    /// Its description, and what the file is like.
    pub file: File,
    pub metadata: Metadata,
}

/// `None`: it is another kind of file, or its file system could answer a close with an error.
pub fn facts(pid: Pid, fd: i32) -> Option<Facts> {
    let file = File::from(tsys::steal_fd(pid, fd).ok()?);
    let metadata = file.metadata().ok()?;
    if metadata.file_type().is_char_device() {
        let device = Some(device(&file, metadata.rdev())?);
        return Some(Facts {
            writes: 0,
            device,
            file,
            metadata,
        });
    }
    if !metadata.is_file() && !metadata.is_dir() {
        return None;
    }
    let fs = sys::space(&file).filter(|fs| is_local(fs.magic))?;
    let writes = match may_post(pid, &file, &metadata, &fs) {
        true => GRANT,
        false => 0,
    };
    Some(Facts {
        writes,
        device: None,
        file,
        metadata,
    })
}

/// KERNEL: Documentation/admin-guide/devices.txt: minor numbers of major 1.
fn device(file: &File, number: u64) -> Option<Device> {
    let kind = match (libc::major(number), libc::minor(number)) {
        (1, 3) => DeviceKind::Null,
        (1, 5) => DeviceKind::Zero,
        (1, 7) => DeviceKind::Full,
        (1, 8 | 9) => DeviceKind::Random,
        _ => return None,
    };
    let flags = sys::status_flags(file).filter(|f| f & libc::O_PATH == 0)?;
    let mode = flags & libc::O_ACCMODE;
    Some(Device {
        kind,
        reads: mode != libc::O_WRONLY,
        writes: mode != libc::O_RDONLY,
    })
}

pub fn is_local(magic: i64) -> bool {
    LOCAL.contains(&magic)
}

/// Whether nothing but the disk itself can make a write fail, or end it early, or make it wait for the disk.
fn may_post(pid: Pid, mut file: &File, m: &Metadata, fs: &sys::Space) -> bool {
    let Some(flags) = sys::status_flags(file) else {
        return false;
    };
    let writable = [libc::O_WRONLY, libc::O_RDWR].contains(&(flags & libc::O_ACCMODE));
    if !writable || flags & SLOW != 0 || fs.synchronous || fs.free < POSTS_MARGIN {
        return false;
    }
    let at = file.stream_position().unwrap_or(u64::MAX);
    at.max(m.size()) < POSTS_OFFSET_MAX
        && !sys::is_synchronous(file)
        && !sys::may_be_sealed(file)
        && tsys::limit(pid, libc::RLIMIT_FSIZE).is_some_and(|(soft, _)| soft == libc::RLIM_INFINITY)
        && !has_quota(m.dev())
        && !sys::counts_quota(file)
}
