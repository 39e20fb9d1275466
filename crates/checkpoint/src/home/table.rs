//! Descriptors of all processes, grouped by open file description.

use super::fdinfo::{self, FdInfo};
use super::sys;
use super::values::Bytes;
use armento_model::Pid;
use rustix::fs::FileType;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Descriptors of one process beyond which no checkpoint is made.
pub const DESCRIPTORS_MAX: usize = 1 << 20;

/// One descriptor of one process.
pub struct Entry {
    /// Index of the process.
    pub owner: usize,
    pub pid: Pid,
    pub fd: i32,
    /// Where `/proc/PID/fd/N` leads, as the kernel writes it.
    pub link: Bytes,
    pub found: Metadata,
    pub info: FdInfo,
}

impl Entry {
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.found.mode())
    }

    /// Device and inode, which pipes and sockets have too.
    pub fn inode(&self) -> (u64, u64) {
        (self.found.dev(), self.found.ino())
    }

    pub fn has_flag(&self, flag: i32) -> bool {
        self.info.flags & flag as u32 != 0
    }

    pub fn reads(&self) -> bool {
        self.info.flags as i32 & libc::O_ACCMODE != libc::O_WRONLY
    }

    pub fn writes(&self) -> bool {
        self.info.flags as i32 & libc::O_ACCMODE != libc::O_RDONLY
    }

    pub fn starts(&self, with: &str) -> bool {
        self.link.0.starts_with(with.as_bytes())
    }

    /// The same open file description, here.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        sys::copy_descriptor(self.pid, self.fd)
    }
}

/// All descriptors of one open file description; never empty.
pub struct Group {
    pub members: Vec<Entry>,
}

impl Group {
    pub fn first(&self) -> &Entry {
        &self.members[0]
    }
}

/// The descriptors of one process, by number. Those in `skip` belong to the tracer.
pub fn entries(owner: usize, pid: Pid, skip: &[i32]) -> io::Result<Vec<Entry>> {
    let dir = PathBuf::from(format!("/proc/{pid}/fd"));
    let mut numbers: Vec<i32> = Vec::new();
    for entry in fs::read_dir(&dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.parse().ok());
        numbers.extend(number.filter(|n| !skip.contains(n)));
        if numbers.len() > DESCRIPTORS_MAX {
            return Err(io::Error::other("it has more than a million descriptors"));
        }
    }
    numbers.sort_unstable();
    let one = |fd: i32| -> io::Result<Entry> {
        let at = dir.join(fd.to_string());
        Ok(Entry {
            owner,
            pid,
            fd,
            link: Bytes::from(fs::read_link(&at)?.as_path()),
            found: fs::metadata(&at)?,
            info: fdinfo::parse(&fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}"))?),
        })
    };
    numbers.into_iter().map(one).collect()
}

/// Groups in the order of their first descriptors. KERNEL: kcmp(2) orders open file descriptions; only those of one inode
/// and name need to be compared.
pub fn group(entries: Vec<Entry>) -> io::Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    // Of each inode the groups in the kernel's order.
    let mut known: HashMap<(u64, u64, Bytes), Vec<usize>> = HashMap::new();
    for entry in entries {
        let key = (entry.found.dev(), entry.found.ino(), entry.link.clone());
        let alike = known.entry(key).or_default();
        match find(&groups, alike, &entry)? {
            Ok(at) => groups[alike[at]].members.push(entry),
            Err(at) => {
                alike.insert(at, groups.len());
                groups.push(Group {
                    members: vec![entry],
                });
            }
        }
    }
    Ok(groups)
}

/// As `binary_search_by`, with comparisons that may fail.
fn find(groups: &[Group], alike: &[usize], entry: &Entry) -> io::Result<Result<usize, usize>> {
    let (mut low, mut high) = (0, alike.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let other = groups[alike[middle]].first();
        match sys::compare_files((other.pid, other.fd), (entry.pid, entry.fd))? {
            Ordering::Equal => return Ok(Ok(middle)),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Ok(Err(low))
}
