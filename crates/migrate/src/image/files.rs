//! Files behind the mappings of a process at home: their identity and their bytes.
//!
//! A private mapping travels as its file and the process's own pages. At home the mapping remains: the deputy keeps it,
//! with the inode number that home's kernel has for its file, whatever becomes of the name.

use super::area::{Area, Kind};
use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::inject::{Hold, ok};
use armento_tracee::maps::Vma;
use armento_tracee::pages::{Backing, Pagemap, Run};
use armento_tracee::region::Code;
use armento_tracee::{PAGE, sys};
use armento_wire::talk::FileKey;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

/// Largest file that travels whole because it is mapped, bytes.
pub const FILE_MAX: u64 = 256 << 20;
/// MREMAP_DONTUNMAP, which may be missing in the C library.
const DONTUNMAP: u64 = 4;
/// Bytes per read of a file without a name.
const LOOK: usize = 1 << 20;

/// Files that must not be touched while a process is examined.
#[derive(Clone, Debug, Default)]
pub struct Untouched {
    /// Files, and directories of files, by inode, that must not be opened: a process would notice (inotify(7)).
    watched: HashSet<u64>,
    served: Option<Served>,
}

/// A process of the tree serves file systems (fuse(4)). A request to it lasts until that process runs, and that process
/// may wait for the requesting thread.
#[derive(Clone, Debug)]
pub struct Served {
    /// The serving process, for messages.
    pub by: String,
    /// Devices, as in maps, of the mounted file systems that no process serves.
    pub others: HashSet<u64>,
}

impl Untouched {
    pub fn watches(&mut self, ino: u64) {
        self.watched.insert(ino);
    }

    pub fn serves(&mut self, served: Served) {
        self.served = Some(served);
    }

    /// Fails if a process of the tree would have to answer accesses to the file of `v`.
    fn answered(&self, v: &Vma) -> Result<()> {
        // The file systems of memory are in the kernel and not mounted.
        let memory = ["/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage"];
        let own = memory.iter().any(|m| v.name.starts_with(m));
        match &self.served {
            Some(s) if !own && !s.others.contains(&v.dev) => {
                let why = format!(
                    "{} (a file that {} of the same tree may serve)",
                    v.name, s.by
                );
                Err(MigrateError::Stays(Stay::KernelState, why))
            }
            _ => Ok(()),
        }
    }

    /// Whether `f` is watched; its directory counts, too.
    fn has(&self, f: &File) -> bool {
        if self.watched.is_empty() {
            return false;
        }
        let path = std::fs::read_link(format!("/proc/self/fd/{}", f.as_raw_fd()));
        let dir = path.ok().and_then(|p| p.parent()?.metadata().ok());
        let own = f.metadata().ok();
        own.into_iter()
            .chain(dir)
            .any(|m| self.watched.contains(&m.ino()))
    }
}

/// Keys of files, by device and inode as in maps. Overlay and btrfs report other numbers in stat.
#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<(u64, u64), FileKey>);

impl Names {
    pub fn get(&self, v: &Vma) -> Option<FileKey> {
        self.0.get(&(v.dev, v.ino)).copied()
    }

    pub fn learn(&mut self, v: &Vma, key: FileKey) {
        self.0.insert((v.dev, v.ino), key);
    }

    pub fn extend(&mut self, more: &Names) {
        self.0.extend(&more.0);
    }

    /// The file of a mapping in any version.
    pub fn identity(&self, v: &Vma) -> FileKey {
        bare(&self.get(v).unwrap_or_else(|| unversioned(v)))
    }
}

/// The key of the file in any version: without size and modification time.
pub fn bare(key: &FileKey) -> FileKey {
    FileKey {
        size: 0,
        ctime_ns: 0,
        ..*key
    }
}

/// Whether this is the key of a copy made for one move, which no other move can use.
pub fn rescued(key: &FileKey) -> bool {
    key.ctime_ns < 0
}

/// By inode number alone, as stat reports it on file systems with one device.
fn unversioned(v: &Vma) -> FileKey {
    let (major, minor) = ((v.dev >> 32) as u32, v.dev as u32);
    FileKey {
        dev: libc::makedev(major, minor),
        ino: v.ino,
        size: 0,
        ctime_ns: 0,
    }
}

/// The file behind `v`, one of `all`, opened with O_PATH (see [`readable`]), and its key. A mapping of a device has no
/// memory that could travel: such a process stays.
pub fn find(pid: i32, v: &Vma, all: &[Vma], untouched: &Untouched) -> Result<(FileKey, File)> {
    untouched.answered(v)?;
    if let Some(f) = open_mapped(pid, v).filter(|f| !untouched.has(f)) {
        let kind = f.metadata().local("look at a mapped file")?.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            let why = format!("{} (a device)", v.name);
            return Err(MigrateError::Stays(Stay::DeviceMapping, why));
        }
        if let Some(key) = file_key(&f) {
            return Ok((key, f));
        }
    }
    rescue(pid, v, all)
}

/// Copies a file that can no longer be opened (deleted, or replaced): the parts that the process maps. Where a mapping
/// has private pages, they are copied instead of the file's until [`look_below`]. After: the key is this copy's alone
/// (see [`rescued`]).
fn rescue(pid: i32, v: &Vma, all: &[Vma]) -> Result<(FileKey, File)> {
    let mine = |o: &&Vma| !o.shared && (o.dev, o.ino) == (v.dev, v.ino);
    let views: Vec<&Vma> = all.iter().filter(mine).collect();
    let end = views.iter().map(|o| o.off + o.len()).max().unwrap_or(0);
    if end > FILE_MAX {
        let why = format!("{} (a mapped file too big to travel)", v.name);
        return Err(MigrateError::Stays(Stay::NoRoom, why));
    }
    let copy = sys::memfd("armento-rescued", 0).local("make a file of memory")?;
    let mem = File::open(format!("/proc/{pid}/mem")).of_process("open its memory")?;
    let mut buf = vec![0u8; LOOK];
    for view in views {
        let mut at = view.start;
        while at < view.end {
            let want = ((view.end - at) as usize).min(LOOK);
            // There is nothing beyond the end of the file.
            let got = mem.read_at(&mut buf[..want], at).unwrap_or(0);
            if got == 0 {
                break;
            }
            copy.write_all_at(&buf[..got], view.off + (at - view.start))
                .local("keep a file that is gone")?;
            at += got as u64;
        }
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let key = FileKey {
        size: copy.metadata().local("keep a file that is gone")?.len(),
        ctime_ns: now.map_or(-1, |t| -(t.as_nanos() as i64)),
        ..unversioned(v)
    };
    Ok((key, copy))
}

/// Reads what the rescued files hold under the process's private pages: the process would see that if it gave those up.
/// Before: no thread of it runs, and it dies with this process: its pages are moved for a moment. KERNEL: mremap(2)
/// with MREMAP_DONTUNMAP (since 5.13 for files): the pages move, the mapping stays, and shows the file.
pub fn look_below(
    h: &mut Hold,
    code: &Code,
    areas: &[Area],
    files: &HashMap<FileKey, File>,
) -> Result<()> {
    let map = Pagemap::open(h.tid).of_process("open its page map")?;
    let mem = File::open(format!("/proc/{}/mem", h.tid)).of_process("open its memory")?;
    let moves = libc::MREMAP_MAYMOVE as u64;
    for a in areas {
        let Kind::File { key, off, .. } = a.kind else {
            continue;
        };
        let Some(copy) = files.get(&key).filter(|_| rescued(&key)) else {
            continue;
        };
        let own = map
            .held(a.run(), Backing::File)
            .of_process("read its page map")?
            .all();
        let len = a.end - a.start;
        if own.is_empty() {
            continue;
        }
        let flags = moves | DONTUNMAP;
        let aside = h.call(code, libc::SYS_mremap, [a.start, len, len, flags, 0, 0])?;
        let Ok(aside) = ok("mremap", h.tid, aside.0) else {
            // Its address space has no free range: the private pages stay in the copy.
            continue;
        };
        let read = copy_runs(&mem, copy, &own, off.wrapping_sub(a.start));
        let back = [
            aside,
            len,
            len,
            moves | libc::MREMAP_FIXED as u64,
            a.start,
            0,
        ];
        h.batch_ok(code, "mremap", &[(libc::SYS_mremap, back)])?;
        read?;
    }
    Ok(())
}

/// Copies the bytes of `runs` to offset plus `shift` in a file. Parts truncated by now are skipped.
fn copy_runs(mem: &File, to: &File, runs: &[Run], shift: u64) -> Result<()> {
    let mut buf = vec![0u8; PAGE as usize];
    for &(start, end) in runs {
        for at in (start..end).step_by(PAGE as usize) {
            if mem.read_exact_at(&mut buf, at).is_ok() {
                to.write_all_at(&buf, at.wrapping_add(shift))
                    .local("keep a file that is gone")?;
            }
        }
    }
    Ok(())
}

/// Opens a path with O_PATH, which no process notices. KERNEL: open(2), O_PATH.
fn place(path: String) -> io::Result<File> {
    let flags = libc::O_PATH;
    File::options().read(true).custom_flags(flags).open(path)
}

/// Opens the result of [`find`] for reading. KERNEL: a file that is reopened by its descriptor may have no name.
pub fn readable(f: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", f.as_raw_fd()))
}

/// Whether [`readable`] will succeed: the owner may have removed the read permission since the file was mapped.
fn may_be_read(f: &File) -> bool {
    let path = format!("/proc/self/fd/{}", f.as_raw_fd());
    accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).is_ok()
}

/// Opens the file behind a mapping with O_PATH, and checks that it is the same file and can be read.
pub(super) fn open_mapped(pid: i32, v: &Vma) -> Option<File> {
    let own = place(format!("/proc/{pid}/map_files/{:x}-{:x}", v.start, v.end));
    if let Some(f) = own.ok().filter(may_be_read) {
        return Some(f);
    }
    if v.name.ends_with(" (deleted)") {
        return None;
    }
    let f = place(format!("/proc/{pid}/root{}", v.name)).ok()?;
    if !may_be_read(&f) {
        return None;
    }
    let m = f.metadata().ok()?;
    if m.ino() == v.ino || same_bytes(pid, v, &f) {
        Some(f)
    } else {
        None
    }
}

/// Overlay file systems have other inode numbers in maps: compare the first page instead.
fn same_bytes(pid: i32, v: &Vma, f: &File) -> bool {
    let Ok(f) = readable(f) else { return false };
    let (mut a, mut b) = ([0u8; PAGE as usize], [0u8; PAGE as usize]);
    v.prot & libc::PROT_WRITE == 0
        && matches!(sys::vm_read(pid, v.start, &mut a), Ok(n) if n == a.len())
        && f.read_at(&mut b, v.off).is_ok()
        && a == b
}

/// KERNEL: file times are those of the last tick, 10 ms at most (CONFIG_HZ=100); exact ones come with 6.13.
const TICK: Duration = Duration::from_millis(20);

/// The key of an open regular file. A file changed just now could change again within the same timestamp: waits until
/// that time has passed.
pub fn file_key(f: &File) -> Option<FileKey> {
    let mut m = f.metadata().ok()?;
    if !m.file_type().is_file() {
        return None;
    }
    let changed = |m: &Metadata| m.ctime() * 1_000_000_000 + m.ctime_nsec();
    let now = sys::clock_ns(libc::CLOCK_REALTIME).unwrap_or(0);
    let age = now.checked_sub(changed(&m).max(0) as u64);
    let left = age.and_then(|ns| TICK.checked_sub(Duration::from_nanos(ns)));
    if let Some(left) = left {
        std::thread::sleep(left);
        m = f.metadata().ok()?;
    }
    Some(FileKey {
        dev: m.dev(),
        ino: m.ino(),
        size: m.size(),
        ctime_ns: changed(&m),
    })
}

/// Whether the user of `pid` cannot write this file, so that no process of that user can change it while we use a copy.
pub fn unwritable(pid: i32, f: &File) -> bool {
    let (Ok(st), Ok(m)) = (armento_tracee::status::read(pid), f.metadata()) else {
        return false;
    };
    st.uid[1] != 0 && m.uid() != st.uid[1] && m.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_tracee::maps;

    #[test]
    fn own_executable_is_found_and_rescued() {
        let me = std::process::id() as i32;
        let all = maps::read(me).expect("own maps");
        let here = own_executable_is_found_and_rescued as fn() as usize as u64;
        let v = all.iter().find(|v| v.start <= here && here < v.end);
        let v = v.expect("own code");
        let (key, f) = find(me, v, &all, &Untouched::default()).expect("own program");
        let mut untouched = Untouched::default();
        untouched.watches(key.ino);
        let (copied, _) = find(me, v, &all, &untouched).expect("a copy");
        assert!(rescued(&copied));
        let f = readable(&f).expect("to read");
        let mut names = Names::default();
        assert_eq!((names.get(v), names.identity(v).ino), (None, v.ino));
        names.learn(v, key);
        assert_eq!(names.identity(v), bare(&key));

        let (copied, copy) = rescue(me, v, &all).expect("a copy");
        assert_eq!((copied.ino, copied.size % PAGE), (v.ino, 0));
        assert!(rescued(&copied) && !rescued(&key));
        let (mut a, mut b) = ([0u8; 64], [0u8; 64]);
        f.read_exact_at(&mut a, v.off).expect("the program");
        copy.read_exact_at(&mut b, v.off).expect("the copy");
        assert_eq!(a, b);
    }
}
