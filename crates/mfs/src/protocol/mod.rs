//! What a mount and a file server say to each other.
//!
//! Frames with a number; replies carry the number of their request and may come in any order. Two streams join one
//! session: one for names and attributes, one for bytes, so that no lookup waits behind a large read. Requests of one
//! stream are carried out in their order, except those that may wait for a disk or a lock.
//!
//! This room opens no socket and touches no file. Start at [`Request`]; `frame.rs` has the bytes.

mod frame;

pub use frame::{FrameReader, ProtocolError, encode, encode_before, encode_into};
use serde::{Deserialize, Serialize};

/// Version of this protocol; both sides must have the same.
pub const VERSION: u8 = 1;
/// Bytes of data in one frame: 256 pages, what FUSE sends at most without a sysctl (KERNEL: fs.fuse.max_pages_limit).
pub const DATA_MAX: usize = 1 << 20;
/// Bytes of a message beside its data: a batch of directory entries is the longest.
pub const HEAD_MAX: usize = 256 << 10;
/// KERNEL: NAME_MAX of Linux, limits.h.
pub const NAME_MAX: usize = 255;
/// KERNEL: PATH_MAX of Linux, limits.h.
pub const PATH_MAX: usize = 4096;
/// KERNEL: XATTR_SIZE_MAX, xattr(7).
pub const XATTR_MAX: usize = 64 << 10;
/// The number of frames that answer nothing.
pub const EVENT: u64 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Names, attributes, locks, events.
    Names,
    /// Reads, writes, and what must follow writes in their order.
    Bytes,
}

/// The first frame of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u8,
    /// Random; both streams of a session say the same, and so does one that takes a broken session up again.
    pub session: [u8; 16],
    pub lane: Lane,
    /// The mount point, and this node below it: absolute link targets are shown below it.
    pub point: Vec<u8>,
    pub below: Vec<u8>,
    /// Whether the mount keeps names and attributes, and so has to be told of changes.
    pub cache: bool,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub version: u8,
    /// Counts the sessions that this server began; another number: nothing of the old session is left.
    pub epoch: u64,
    pub root: Entry,
    /// All of the node is exported, to be written.
    pub whole: bool,
}

/// What makes a file the same file. A file system gives an inode's number again, but not with the same time of birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    pub dev: u64,
    pub ino: u64,
    /// Nanoseconds; 0 if the file system does not know.
    pub born: i128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time {
    pub s: i64,
    pub ns: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
    /// With the file's type.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: (u32, u32),
    pub blksize: u32,
}

impl Attr {
    pub fn identity(&self) -> Identity {
        Identity {
            dev: self.dev,
            ino: self.ino,
            born: i128::from(self.btime.s) * 1_000_000_000 + i128::from(self.btime.ns),
        }
    }

    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }
}

/// Which access control lists a file has, if that was looked up: the mount need not ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acls {
    pub known: bool,
    pub access: bool,
    pub default: bool,
}

/// A file that the mount refers to by `id` from now on, until it forgets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub id: u64,
    pub attr: Attr,
    pub acls: Acls,
    /// The mount is told when the name means another file.
    pub name_kept: bool,
    /// The mount is told when an attribute changes.
    pub attr_kept: bool,
}

/// Whose group a new file gets, and the mask of its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub gid: u32,
    pub umask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetTime {
    Now,
    At(Time),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    /// Set-user-ID and set-group-ID end with it.
    pub kill: bool,
}

/// A range lock of fcntl(2); `end` is the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    /// F_RDLCK, F_WRLCK, F_UNLCK.
    pub kind: i32,
    pub pid: u32,
}

/// `node` and `dir` are ids of files, `file` is a number of an open file. Names are single components.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Ping,
    /// Ids and how many times each was given. No reply.
    Forget(Vec<(u64, u64)>),
    /// The request with this number need not wait any longer. No reply of its own.
    Cancel(u64),
    /// The file at this path below the root, if it is still the same.
    Resolve {
        names: Vec<Vec<u8>>,
        want: Identity,
    },
    Lookup {
        dir: u64,
        name: Vec<u8>,
    },
    Getattr {
        node: u64,
        file: Option<u64>,
    },
    Setattr {
        node: u64,
        file: Option<u64>,
        set: Set,
    },
    Readlink {
        node: u64,
    },
    Symlink {
        dir: u64,
        name: Vec<u8>,
        target: Vec<u8>,
        who: Who,
    },
    Mknod {
        dir: u64,
        name: Vec<u8>,
        mode: u32,
        rdev: (u32, u32),
        who: Who,
    },
    Mkdir {
        dir: u64,
        name: Vec<u8>,
        mode: u32,
        who: Who,
    },
    Unlink {
        dir: u64,
        name: Vec<u8>,
    },
    Rmdir {
        dir: u64,
        name: Vec<u8>,
    },
    Rename {
        dir: u64,
        name: Vec<u8>,
        to: u64,
        new: Vec<u8>,
        flags: u32,
    },
    Link {
        node: u64,
        dir: u64,
        name: Vec<u8>,
    },
    Open {
        node: u64,
        flags: u32,
        kill: bool,
    },
    Create {
        dir: u64,
        name: Vec<u8>,
        flags: u32,
        mode: u32,
        kill: bool,
        who: Who,
    },
    Tmpfile {
        dir: u64,
        flags: u32,
        mode: u32,
        who: Who,
    },
    Read {
        file: u64,
        at: u64,
        len: u32,
    },
    /// With data.
    Write {
        file: u64,
        at: u64,
        kill: bool,
    },
    Close {
        file: u64,
    },
    Fsync {
        file: u64,
        data_only: bool,
    },
    Opendir {
        node: u64,
    },
    Readdir {
        file: u64,
        at: u64,
        plus: bool,
    },
    Statfs {
        node: u64,
    },
    Getxattr {
        node: u64,
        name: Vec<u8>,
    },
    Listxattr {
        node: u64,
    },
    /// With data.
    Setxattr {
        node: u64,
        name: Vec<u8>,
        flags: u32,
        /// KERNEL: FUSE_SETXATTR_ACL_KILL_SGID.
        kill_sgid: bool,
    },
    Removexattr {
        node: u64,
        name: Vec<u8>,
    },
    Getlk {
        node: u64,
        file: u64,
        owner: u64,
        range: Range,
    },
    Setlk {
        node: u64,
        file: u64,
        owner: u64,
        range: Range,
        wait: bool,
    },
    /// All range locks of an owner on a file end.
    Unlock {
        node: u64,
        owner: u64,
    },
    Flock {
        file: u64,
        kind: i32,
        wait: bool,
    },
    Fallocate {
        file: u64,
        at: u64,
        len: u64,
        mode: u32,
    },
    Lseek {
        file: u64,
        at: u64,
        whence: u32,
    },
    CopyRange {
        file: u64,
        at: u64,
        to: u64,
        to_at: u64,
        len: u64,
    },
}

impl Request {
    /// Made twice it does not do the same again.
    pub fn once(&self) -> bool {
        use Request::*;
        match self {
            Ping | Forget(_) | Cancel(_) | Readlink { .. } | Read { .. } | Statfs { .. } => false,
            Getattr { .. } | Getxattr { .. } | Listxattr { .. } | Getlk { .. } => false,
            Fsync { .. } | Lseek { .. } => false,
            // A lookup counts references, an open makes a number.
            _ => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    pub name: Vec<u8>,
    pub ino: u64,
    /// DT_REG and so on, dirent.h.
    pub kind: u8,
    /// Where the next entry is.
    pub next: u64,
    pub entry: Option<Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub block: u32,
    pub fragment: u32,
    pub name_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Error(i32),
    Done,
    Entry(Entry),
    /// There is no such name; kept: the mount is told when there is.
    Absent {
        kept: bool,
    },
    Attr {
        attr: Attr,
        kept: bool,
    },
    Opened {
        file: u64,
        attr: Attr,
        /// The file is none of a disk: its size says nothing, its bytes are not kept.
        direct: bool,
        /// Writes may be answered before they are made.
        roomy: bool,
        /// The last change is so long ago that another would show in the times.
        settled: bool,
    },
    Created {
        entry: Entry,
        file: u64,
        roomy: bool,
    },
    /// So many bytes; fewer than there were because of this error.
    Written {
        len: u32,
        why: i32,
        roomy: bool,
    },
    /// With data: bytes of a file, a link's target, the value of an extended attribute or their list.
    Data,
    /// Entries until position `next`.
    Dir {
        entries: Vec<DirEntry>,
        next: u64,
        end: bool,
    },
    Space(Space),
    Lock(Option<Range>),
    Offset(u64),
    /// The files that have other names now.
    Renamed {
        moved: Option<Identity>,
        exchanged: Option<Identity>,
    },
}

/// Frames with the number [`EVENT`], from the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A name that the mount keeps, and perhaps the attributes of its file, are not as they were.
    Name {
        dir: u64,
        name: Vec<u8>,
        child: Option<u64>,
        gone: bool,
    },
    Attr {
        node: u64,
    },
    /// Events were lost: everything that is kept.
    All,
}

/// Whether `name` is one component of a path.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name != b"."
        && name != b".."
        && !name.iter().any(|b| *b == b'/' || *b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_components() {
        let check = |n: &[u8], good: bool| assert_eq!(is_name(n), good, "{n:?}");
        check(b"a", true);
        check(b"...", true);
        check(b"\xff\xfe\n", true);
        check(&[b'x'; 255], true);
        check(&[b'x'; 256], false);
        check(b"", false);
        check(b".", false);
        check(b"..", false);
        check(b"a/b", false);
        check(b"a\0b", false);
    }
}
