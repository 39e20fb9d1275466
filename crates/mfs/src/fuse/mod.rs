//! The kernel's side of a mount: /dev/fuse.
//!
//! KERNEL: fuse(4), linux/fuse.h. Not through a library: fuser 0.18 answers FUSE_INTERRUPT with ENOSYS, so that a killed
//! process would wait for its lock for ever, and does not say which locks are those of flock(2).
//!
//! This room knows no node and keeps no state. Start at [`Device`]; `abi.rs` has the numbers, `request.rs` what the
//! kernel asks, `reply.rs` what it is answered.

mod abi;
mod reply;
mod request;

pub use abi::*;
pub use reply::{Attributes, Listing, Times, attr_out, entry_out, init_out, statfs_out};
pub use request::{Args, Head};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What `df` and /proc/mounts show.
const SOURCE: &str = "armento";
const KIND: &str = "fuse.mfs";

pub struct Device {
    fd: OwnedFd,
    point: PathBuf,
    /// FUSE_EXPIRE_ONLY (Linux 6.2) can be used.
    pub expires: AtomicBool,
}

impl Device {
    /// Mounts. After it the first request is FUSE_INIT.
    pub fn mount(point: &Path, max_read: u32) -> io::Result<Device> {
        let point = std::fs::canonicalize(point)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other,max_read={max_read}",
            fd.as_raw_fd()
        );
        let options = std::ffi::CString::new(options)?;
        rustix::mount::mount(
            SOURCE,
            &point,
            KIND,
            MountFlags::NODEV | MountFlags::NOSUID,
            options.as_c_str(),
        )?;
        Ok(Device {
            fd,
            point,
            expires: AtomicBool::new(false),
        })
    }

    pub fn point(&self) -> &Path {
        &self.point
    }

    /// How far the kernel reads ahead. KERNEL: sysfs, class/bdi.
    pub fn read_ahead(&self, kib: u32) {
        let Some((major, minor)) = device_of(&self.point) else {
            return;
        };
        let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        // Without it reads are asked for in pieces of 128 KiB: slower.
        let _ = std::fs::write(path, kib.to_string());
    }

    /// The next request. `Ok(None)`: it is unmounted.
    pub fn receive(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.fd, &mut *buf) {
                Ok(n) => return Ok(Some(n)),
                // KERNEL: ENOENT: the request was interrupted before it was read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Answers a request; `error` is 0 or an errno. A caller that is gone is no error.
    pub fn reply(&self, unique: u64, error: i32, parts: &[&[u8]]) {
        let len: usize = 16 + parts.iter().map(|p| p.len()).sum::<usize>();
        let head = out_head(len, -error, unique);
        let mut all = [IoSlice::new(&head), IoSlice::new(&[]), IoSlice::new(&[])];
        for (to, p) in all[1..].iter_mut().zip(parts) {
            *to = IoSlice::new(p);
        }
        let n = 1 + parts.len().min(2);
        let _ = rustix::io::writev(&self.fd, &all[..n]);
    }

    /// Tells the kernel that something it keeps is not so any more.
    fn notify(&self, code: i32, parts: [&[u8]; 2]) -> io::Result<()> {
        let len = 16 + parts[0].len() + parts[1].len();
        let head = out_head(len, code, 0);
        let all = [
            IoSlice::new(&head),
            IoSlice::new(parts[0]),
            IoSlice::new(parts[1]),
        ];
        match rustix::io::writev(&self.fd, &all) {
            // It does not know the file or name.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// A name, and the attributes of its directory. It waits for calls in that directory.
    pub fn invalidate_name(&self, dir: u64, name: &[u8]) -> io::Result<()> {
        let mut b = dir.to_le_bytes().to_vec();
        b.extend((name.len() as u32).to_le_bytes());
        // Only so that it is asked again: who works in a directory stays in it.
        b.extend(u32::from(self.expires.load(Relaxed)).to_le_bytes());
        let mut zero_ended = name.to_vec();
        zero_ended.push(0);
        self.notify(NOTIFY_INVAL_ENTRY, [&b, &zero_ended])
    }

    /// The attributes of a file; and its pages, if `pages`.
    pub fn invalidate_file(&self, node: u64, pages: bool) -> io::Result<()> {
        let mut b = node.to_le_bytes().to_vec();
        // KERNEL: fuse_reverse_inval_inode: a negative offset leaves the pages.
        b.extend((if pages { 0i64 } else { -1 }).to_le_bytes());
        b.extend(0i64.to_le_bytes());
        self.notify(NOTIFY_INVAL_INODE, [&b, &[]])
    }

    /// Unmounts. Files that are open there give errors from then on, once the descriptor is closed.
    pub fn unmount(&self) -> io::Result<()> {
        Ok(rustix::mount::unmount(&self.point, UnmountFlags::DETACH)?)
    }
}

fn device_of(point: &Path) -> Option<(u32, u32)> {
    // Not by stat(2), which would ask this mount itself.
    let info = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let want = point.to_str()?.replace(' ', "\\040");
    let line = info.lines().rfind(|l| l.split(' ').nth(4) == Some(&want))?;
    let (major, minor) = line.split(' ').nth(2)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn out_head(len: usize, error: i32, unique: u64) -> [u8; 16] {
    let mut b = [0; 16];
    b[..4].copy_from_slice(&(len as u32).to_le_bytes());
    b[4..8].copy_from_slice(&error.to_le_bytes());
    b[8..].copy_from_slice(&unique.to_le_bytes());
    b
}
