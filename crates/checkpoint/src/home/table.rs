//! Descriptors of all processes, grouped by open file description.

use super::fdinfo::{self, FdInfo};
use super::sys;
use super::values::Bytes;
use armento_model::Pid;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

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
    pub found: Stat,
    pub info: FdInfo,
}

impl Entry {
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.found.st_mode)
    }

    /// Device and inode, which pipes and sockets have too.
    pub fn inode(&self) -> (u64, u64) {
        (self.found.st_dev, self.found.st_ino)
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

    /// The same open file description, here. Where the process runs and has another file there by now: EBADF.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        let copy = sys::copy_descriptor(self.pid, self.fd)?;
        let found = fstat(&copy)?;
        match (found.st_dev, found.st_ino) == self.inode() {
            true => Ok(copy),
            false => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }
}

impl Entry {
    /// Whether the process has another file there by now, or had it when it was looked at: it runs.
    pub fn has_changed(&self) -> bool {
        let path = format!("/proc/{}/fd/{}", self.pid, self.fd);
        let link = fs::read_link(&path);
        let inode = rustix::fs::stat(&path).map(|found| (found.st_dev, found.st_ino));
        !link.is_ok_and(|l| Bytes::from(l.as_path()) == self.link) || inode != Ok(self.inode())
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
    let path = format!("/proc/{pid}/fd");
    let mut numbers: Vec<i32> = Vec::new();
    for entry in fs::read_dir(&path)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.parse().ok());
        numbers.extend(number.filter(|n| !skip.contains(n)));
        if numbers.len() > DESCRIPTORS_MAX {
            return Err(io::Error::other("it has more than a million descriptors"));
        }
    }
    numbers.sort_unstable();
    // From open directories: the way through /proc is the larger part of a look.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let links = open(&path, flags, Mode::empty())?;
    let infos = open(format!("/proc/{pid}/fdinfo"), flags, Mode::empty())?;
    let mut buffer = vec![0; 4096];
    let mut one = |fd: i32| -> io::Result<Entry> {
        let name = fd.to_string();
        let reading = OFlags::RDONLY | OFlags::CLOEXEC;
        let info = openat(&infos, &name, reading, Mode::empty())?;
        let text = read_all(&info, &mut buffer)?;
        Ok(Entry {
            owner,
            pid,
            fd,
            link: Bytes(readlinkat(&links, &name, Vec::new())?.into_bytes()),
            found: statat(&links, &name, AtFlags::empty())?,
            info: fdinfo::parse(&String::from_utf8_lossy(text)),
        })
    };
    // One that was closed meanwhile, by a process that runs, is left out.
    let closed = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    let found = numbers.into_iter().map(&mut one);
    found
        .filter(|one| !one.as_ref().is_err_and(closed))
        .collect()
}

/// KERNEL: fs/seq_file.c: a read gives less than it was asked for at the end only, of a file that is shown at once.
fn read_all<'a>(file: &OwnedFd, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    let mut length = 0;
    loop {
        let n = rustix::io::read(file, &mut buffer[length..])?;
        length += n;
        if length < buffer.len() {
            return Ok(&buffer[..length]);
        }
        buffer.resize(2 * length, 0);
    }
}

/// Groups in the order of their first descriptors. KERNEL: kcmp(2) orders open file descriptions; only those of one inode
/// and name need to be compared.
pub fn group(entries: Vec<Entry>) -> io::Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    // Of each inode the groups in the kernel's order.
    let mut known: HashMap<(u64, u64, Bytes), Vec<usize>> = HashMap::new();
    // Children mostly have what their parents have, under the same numbers.
    let mut last: HashMap<i32, usize> = HashMap::new();
    for entry in entries {
        let (fd, guess) = (entry.fd, last.get(&entry.fd).copied());
        if let Some(at) = guess
            && alike(groups[at].first(), &entry)
            && compare(groups[at].first(), &entry)?.is_eq()
        {
            groups[at].members.push(entry);
            continue;
        }
        let (dev, ino) = entry.inode();
        let same = known.entry((dev, ino, entry.link.clone())).or_default();
        match find(&groups, same, &entry)? {
            Ok(at) => {
                groups[same[at]].members.push(entry);
                last.insert(fd, same[at]);
            }
            Err(at) => {
                same.insert(at, groups.len());
                last.insert(fd, groups.len());
                groups.push(Group {
                    members: vec![entry],
                });
            }
        }
    }
    Ok(groups)
}

fn alike(a: &Entry, b: &Entry) -> bool {
    a.inode() == b.inode() && a.link == b.link
}

fn compare(a: &Entry, b: &Entry) -> io::Result<Ordering> {
    sys::compare_files((a.pid, a.fd), (b.pid, b.fd))
}

/// As `binary_search_by`, with comparisons that may fail.
fn find(groups: &[Group], among: &[usize], entry: &Entry) -> io::Result<Result<usize, usize>> {
    let (mut low, mut high) = (0, among.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(groups[among[middle]].first(), entry)? {
            Ordering::Equal => return Ok(Ok(middle)),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Ok(Err(low))
}
