//! Numbers of linux/fuse.h, protocol 7.

pub const MAJOR: u32 = 7;
/// What this program knows: FUSE_STATX (6.6).
pub const MINOR: u32 = 39;

macro_rules! numbers {
    ($t:ty: $($name:ident = $value:expr),* $(,)?) => { $(pub const $name: $t = $value;)* };
}

numbers! { u32:
    LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8, MKDIR = 9,
    UNLINK = 10, RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16, STATFS = 17,
    RELEASE = 18, FSYNC = 20, SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23, REMOVEXATTR = 24, FLUSH = 25,
    INIT = 26, OPENDIR = 27, READDIR = 28, RELEASEDIR = 29, FSYNCDIR = 30, GETLK = 31, SETLK = 32,
    SETLKW = 33, CREATE = 35, INTERRUPT = 36, DESTROY = 38, BATCH_FORGET = 42, FALLOCATE = 43,
    READDIRPLUS = 44, RENAME2 = 45, LSEEK = 46, COPY_FILE_RANGE = 47, TMPFILE = 51,
}

numbers! { i32: NOTIFY_INVAL_INODE = 2, NOTIFY_INVAL_ENTRY = 3 }

/// Capabilities, FUSE_ASYNC_READ and so on.
pub mod cap {
    numbers! { u64:
        ASYNC_READ = 1 << 0, POSIX_LOCKS = 1 << 1, BIG_WRITES = 1 << 5,
        DONT_MASK = 1 << 6, FLOCK_LOCKS = 1 << 10, AUTO_INVAL_DATA = 1 << 12, DO_READDIRPLUS = 1 << 13,
        READDIRPLUS_AUTO = 1 << 14, ASYNC_DIO = 1 << 15, PARALLEL_DIROPS = 1 << 18, POSIX_ACL = 1 << 20,
        MAX_PAGES = 1 << 22, HANDLE_KILLPRIV_V2 = 1 << 28, SETXATTR_EXT = 1 << 29, INIT_EXT = 1 << 30,
        HAS_EXPIRE_ONLY = 1 << 35, DIRECT_IO_ALLOW_MMAP = 1 << 36,
    }
}

/// Flags of the answer to an open, FOPEN_….
pub mod fopen {
    numbers! { u32: DIRECT_IO = 1 << 0, KEEP_CACHE = 1 << 1 }
}

/// Which attributes a setattr sets, FATTR_….
pub mod fattr {
    numbers! { u32:
        MODE = 1 << 0, UID = 1 << 1, GID = 1 << 2, SIZE = 1 << 3, ATIME = 1 << 4, MTIME = 1 << 5, FH = 1 << 6,
        ATIME_NOW = 1 << 7, MTIME_NOW = 1 << 8, KILL_SUIDGID = 1 << 11,
    }
}

/// FUSE_LK_FLOCK.
pub const LK_FLOCK: u32 = 1;
/// FUSE_WRITE_KILL_SUIDGID.
pub const WRITE_KILL: u32 = 1 << 2;
/// FUSE_OPEN_KILL_SUIDGID.
pub const OPEN_KILL: u32 = 1;
/// FUSE_SETXATTR_ACL_KILL_SGID.
pub const SETXATTR_KILL_SGID: u32 = 1;
/// FUSE_FSYNC_FDATASYNC.
pub const FSYNC_DATA: u32 = 1;
/// The root of a mount.
pub const ROOT: u64 = 1;
