//! Open files: reads, writes, and what belongs to a description.

use crate::protocol::{Attr, Reply, Request, Who};
use crate::server::inodes::{Node, attr, proc_path};
use crate::server::opens::{LOOK_EVERY, errno, kill_privileges, roomy};
use crate::server::res::Res;
use crate::server::session::Session;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Flags of open(2) that a mount may ask for. O_DIRECT is for the mount's own cache; a link is not followed anyway.
const FLAGS: OFlags = OFlags::ACCMODE
    .union(OFlags::APPEND)
    .union(OFlags::TRUNC)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::NOATIME)
    .union(OFlags::NONBLOCK);

/// File systems whose sizes say nothing: linux/magic.h, proc, sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs,
/// configfs, bpf, efivarfs, pstore.
const SIZELESS: [u64; 11] = [
    0x9fa0,
    0x6265_6572,
    0x27_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0xcafe_4a11,
    0xde5e_81e4,
    0x6165_676c,
];

/// KERNEL: times of files are those of the last tick, 10 ms at most (CONFIG_HZ=100).
fn settled(a: &Attr) -> bool {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as i128);
    now - (i128::from(a.ctime.s) * 1_000_000_000 + i128::from(a.ctime.ns)) > 20_000_000
}

/// Whether reads are to reach the file each time.
fn is_direct(f: &File, a: &Attr) -> bool {
    (a.size == 0 || a.size == 4096)
        && rustix::fs::fstatfs(f).is_ok_and(|s| SIZELESS.contains(&(s.f_type as u64)))
}

impl Session {
    pub fn open(&self, id: u64, flags: u32, kill: bool) -> Res<Reply> {
        let node = self.inodes.node(id)?;
        let flags = OFlags::from_bits_retain(flags) & FLAGS;
        match node.kind {
            libc::S_IFREG => {}
            libc::S_IFDIR => return Err(Errno::ISDIR),
            libc::S_IFLNK => return Err(Errno::LOOP),
            // Pipes, sockets and devices are those of the mount's own kernel.
            _ => return Err(Errno::NXIO),
        }
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC) {
            self.inodes.writable(&node)?;
        }
        let f = self.inodes.open_again(id, &node, flags | OFlags::CLOEXEC)?;
        if kill && flags.contains(OFlags::TRUNC) && self.is_root() {
            kill_privileges(&f);
        }
        let f = File::from(f);
        let attr = self.shown(&node, attr(&f)?);
        let direct = is_direct(&f, &attr);
        let (file, open) = self.files.add(f, id, flags)?;
        let roomy = open.roomy.load(Ordering::Relaxed);
        Ok(Reply::Opened {
            file,
            direct,
            roomy,
            settled: settled(&attr),
            attr,
        })
    }

    pub fn opendir(&self, id: u64) -> Res<Reply> {
        let node = self.inodes.node(id)?;
        if node.kind != libc::S_IFDIR {
            return Err(Errno::NOTDIR);
        }
        // A directory above exports is not read itself.
        let path = if node.above.is_some() {
            "/proc/self/fd".into()
        } else {
            node.path()
        };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let f = rustix::fs::open(path, flags, Mode::empty())?;
        let attr = self.inodes.attr(&node)?;
        let (file, _) = self.files.add(f.into(), id, flags)?;
        Ok(Reply::Opened {
            file,
            attr,
            direct: false,
            roomy: false,
            settled: false,
        })
    }

    /// After `Ok` the file is new or was there, and is open.
    pub fn create(
        &self,
        dir: u64,
        name: &[u8],
        flags: u32,
        mode: u32,
        kill: bool,
        who: Who,
    ) -> Res<Reply> {
        let parent = self.inodes.node(dir)?;
        self.inodes.writable_name(&parent, name)?;
        let wanted = OFlags::from_bits_retain(flags);
        let exclusive = wanted & OFlags::EXCL;
        let flags = wanted & FLAGS;
        crate::sys::umask(who.umask);
        // Never opens what it did not make: a pipe that somebody has put there would block.
        let how = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let watched = self.watch(dir, &parent);
        let mode = Mode::from_raw_mode(mode);
        match self.make_own(watched, dir, name, || {
            rustix::fs::openat(&parent.fd, name, how, mode)
        }) {
            Ok(f) => {
                self.give_group(&f, &parent, who);
                let f = File::from(f);
                let mut entry = self.entry(dir, &parent, name)?;
                self.keep(watched, dir, name, &mut entry);
                let (file, open) = self.files.add(f, entry.id, flags)?;
                Ok(Reply::Created {
                    entry,
                    file,
                    roomy: open.roomy.load(Ordering::Relaxed),
                })
            }
            Err(Errno::EXIST) if exclusive.is_empty() => {
                let entry = self.entry(dir, &parent, name)?;
                match self.open(entry.id, flags.bits(), kill) {
                    Ok(Reply::Opened {
                        file, attr, roomy, ..
                    }) => Ok(Reply::Created {
                        entry: crate::protocol::Entry { attr, ..entry },
                        file,
                        roomy,
                    }),
                    Ok(_) => Err(Errno::IO),
                    Err(e) => {
                        self.forget(entry.id, 1);
                        Err(e)
                    }
                }
            }
            Err(e) => Err(e),
        }
    }

    pub fn tmpfile(&self, dir: u64, flags: u32, mode: u32, who: Who) -> Res<Reply> {
        let parent = self.inodes.node(dir)?;
        self.inodes.writable(&parent)?;
        let wanted = OFlags::from_bits_retain(flags);
        let flags = wanted & FLAGS;
        crate::sys::umask(who.umask);
        let how = flags | OFlags::TMPFILE | wanted & OFlags::EXCL | OFlags::CLOEXEC;
        let f = rustix::fs::open(parent.path(), how, Mode::from_raw_mode(mode))?;
        self.give_group(&f, &parent, who);
        let fd = rustix::fs::open(proc_path(&f), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let a = attr(&fd)?;
        let node = Node {
            fd: Arc::new(fd),
            export: parent.export,
            above: None,
            kind: a.kind(),
        };
        let id = self.inodes.enter(&node, &a, dir, b"")?;
        let entry = crate::protocol::Entry {
            id,
            acls: crate::server::inodes::acls(&node),
            attr: a,
            name_kept: false,
            attr_kept: false,
        };
        let (file, open) = self.files.add(f.into(), id, flags)?;
        Ok(Reply::Created {
            entry,
            file,
            roomy: open.roomy.load(Ordering::Relaxed),
        })
    }

    /// Reads into `room`. `Err(AGAIN)` if `now` and the bytes are not in memory.
    pub fn read(&self, file: u64, at: u64, room: &mut [u8], now: bool) -> Res<usize> {
        let open = self.files.get(file)?;
        let mut n = 0;
        while n < room.len() {
            let part = &mut room[n..];
            let got = if now {
                let mut v = [IoSliceMut::new(part)];
                match rustix::io::preadv2(&open.file, &mut v, at + n as u64, ReadWriteFlags::NOWAIT)
                {
                    Err(Errno::OPNOTSUPP) => open
                        .file
                        .read_at(&mut room[n..], at + n as u64)
                        .map_err(errno),
                    r => r,
                }
            } else {
                open.file.read_at(part, at + n as u64).map_err(errno)
            };
            match got {
                Ok(0) => break,
                Ok(got) => n += got,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if now => return Err(Errno::AGAIN),
                Err(e) if n == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(n)
    }

    pub fn write(&self, file: u64, at: u64, data: &[u8], kill: bool) -> Res<Reply> {
        let open = self.files.get(file)?;
        if kill && self.is_root() {
            kill_privileges(&open.file);
        }
        let mut n = 0;
        let mut why = 0;
        while n < data.len() {
            match open.file.write_at(&data[n..], at + n as u64) {
                Ok(0) => {
                    why = libc::EIO;
                    break;
                }
                Ok(put) => n += put,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if n == 0 => return Err(errno(e)),
                Err(e) => {
                    why = e.raw_os_error().unwrap_or(libc::EIO);
                    break;
                }
            }
        }
        if open.writes.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 || why != 0 {
            open.roomy.store(roomy(&open.file), Ordering::Relaxed);
        }
        Ok(Reply::Written {
            len: n as u32,
            why,
            roomy: open.roomy.load(Ordering::Relaxed),
        })
    }

    /// What may wait for a disk for long.
    pub fn slow_call(&self, r: &Request) -> Res<Reply> {
        match *r {
            Request::Fsync { file, data_only } => {
                let open = self.files.get(file)?;
                if data_only {
                    rustix::fs::fdatasync(&open.file)?;
                } else {
                    rustix::fs::fsync(&open.file)?;
                }
                Ok(Reply::Done)
            }
            Request::Fallocate {
                file,
                at,
                len,
                mode,
            } => {
                let open = self.files.get(file)?;
                rustix::fs::fallocate(&open.file, FallocateFlags::from_bits_retain(mode), at, len)?;
                Ok(Reply::Done)
            }
            Request::Lseek { file, at, whence } => {
                let open = self.files.get(file)?;
                let to = match whence as i32 {
                    libc::SEEK_DATA => SeekFrom::Data(at),
                    libc::SEEK_HOLE => SeekFrom::Hole(at),
                    libc::SEEK_END => SeekFrom::End(at as i64),
                    libc::SEEK_SET => SeekFrom::Start(at),
                    _ => return Err(Errno::INVAL),
                };
                Ok(Reply::Offset(rustix::fs::seek(&open.file, to)?))
            }
            Request::CopyRange {
                file,
                at,
                to,
                to_at,
                len,
            } => {
                let (from, to) = (self.files.get(file)?, self.files.get(to)?);
                let (mut at, mut to_at) = (at, to_at);
                // Bounded, so that a session can end: the caller goes on with the rest.
                let len = (len as usize).min(1 << 30);
                let n = rustix::fs::copy_file_range(
                    &from.file,
                    Some(&mut at),
                    &to.file,
                    Some(&mut to_at),
                    len,
                )?;
                Ok(Reply::Written {
                    len: n as u32,
                    why: 0,
                    roomy: false,
                })
            }
            _ => Err(Errno::NOSYS),
        }
    }

    /// A new file belongs to the caller's group where the directory does not say another and the user is in it.
    pub fn give_group(&self, f: impl std::os::fd::AsFd, parent: &Node, who: Who) {
        if who.gid == self.ids.1 || attr(&parent.fd).is_ok_and(|a| a.mode & libc::S_ISGID != 0) {
            return;
        }
        let gid = rustix::fs::Gid::from_raw(who.gid);
        let _ = rustix::fs::chownat(&f, "", None, Some(gid), rustix::fs::AtFlags::EMPTY_PATH);
    }
}
