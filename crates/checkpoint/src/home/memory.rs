//! Memory of memfd_create(2) that processes have open.

use super::found::Found;
use super::kinds::Kind;
use super::outside::{Holders, MEMFD, is_memory};
use super::table::{Entry, Group};
use super::types::{Home, Memory};
use super::values::Bytes;
use rustix::fs::{SeekFrom, fcntl_get_seals, fstatfs, major, minor, seek};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// KERNEL: include/uapi/linux/magic.h. Memory of huge pages (MFD_HUGETLB) is of another file system.
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
pub const PAGE: usize = 4096;

/// All of it, each once, and what each group of descriptors is.
pub fn find(groups: &[Group], holders: &Holders) -> (Vec<Memory>, BTreeMap<usize, Found>) {
    let (mut all, mut found) = (Vec::<Memory>::new(), BTreeMap::new());
    let mut known: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        let entry = group.first();
        if !is_memory(entry) {
            continue;
        }
        let memory = match known.get(&entry.inode()) {
            Some(number) => Ok(*number),
            None => one(entry, holders).map(|memory| {
                let number = all.len() as u32;
                known.insert(entry.inode(), number);
                all.push(memory);
                number
            }),
        };
        let what = memory.map(|memory| Found::Inside(Box::new(Kind::Memory { memory })));
        found.insert(at, what.unwrap_or_else(|no| no));
    }
    (all, found)
}

fn one(entry: &Entry, holders: &Holders) -> Result<Memory, Found> {
    let what = "memory without a file (memfd_create)";
    if let Some(holder) = holders.of_memory(entry.inode()) {
        return Err(Found::no(format!("{what} that {holder} has too")));
    }
    let unreadable = |e: io::Error| Found::failed(what, e);
    let copy = entry.copy().map_err(unreadable)?;
    let system = fstatfs(&copy).map_err(|e| unreadable(e.into()))?;
    if system.f_type as i64 != TMPFS_MAGIC {
        return Err(Found::no(format!("{what} of huge pages")));
    }
    let seals = fcntl_get_seals(&copy).map_err(|e| unreadable(e.into()))?;
    let name = entry.link.0.strip_prefix(MEMFD).unwrap_or_default();
    let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
    let (dev, ino) = entry.inode();
    Ok(Memory {
        name: Some(Bytes(name.to_vec())),
        dev: u64::from(major(dev)) << 32 | u64::from(minor(dev)),
        ino,
        size: entry.found.st_size as u64,
        mode: entry.found.st_mode & 0o7777,
        seals: seals.bits(),
        open: true,
        mapped_by: Vec::new(),
    })
}

impl Home {
    /// Memory that is open, by its number: the content as it is now, while a process has it open.
    pub fn open_memory(&self) -> io::Result<Vec<(u32, File)>> {
        let mut all: Vec<(u32, File)> = Vec::new();
        for p in &self.processes {
            for d in &p.descriptors {
                let of = self.descriptions.get(d.description as usize);
                let Some(Kind::Memory { memory }) = of.map(|d| &d.kind) else {
                    continue;
                };
                if !all.iter().any(|(known, _)| known == memory) {
                    let path = format!("/proc/{}/fd/{}", p.pid, d.fd);
                    all.push((*memory, File::open(path)?));
                }
            }
        }
        Ok(all)
    }
}

/// Takes a page of memory: its offset, and what it holds.
pub type TakePage<'a, E> = &'a mut dyn FnMut(u64, &[u8; PAGE]) -> Result<(), E>;

/// Gives every page that holds something, by its offset; the last one is filled up with zeros. KERNEL: lseek(2), SEEK_DATA.
pub fn copy_content<E: From<io::Error>>(file: &File, take: TakePage<'_, E>) -> Result<(), E> {
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    loop {
        let data = match seek(file.as_fd(), SeekFrom::Data(at)) {
            Ok(data) => data,
            // Behind the last.
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(e) => return Err(io::Error::from(e).into()),
        };
        let end = seek(file.as_fd(), SeekFrom::Hole(data)).map_err(io::Error::from)?;
        at = data / PAGE as u64 * PAGE as u64;
        while at < end {
            let want = ((end - at).next_multiple_of(PAGE as u64) as usize).min(PIECE);
            buffer[..want].fill(0);
            let mut got = 0;
            while got < want {
                match file.read_at(&mut buffer[got..want], at + got as u64)? {
                    0 => break,
                    n => got += n,
                }
            }
            if got == 0 {
                return Ok(());
            }
            let (pages, _) = buffer[..want].as_chunks::<PAGE>();
            for page in pages {
                take(at, page)?;
                at += PAGE as u64;
            }
        }
    }
}
