//! What each call means to files that are open on this node itself. Pure but for what it reads from the guest.
//!
//! From: `direct.rs`.

use super::clone_args::requested;
use crate::state::{BodyMem, GuestThread};
use armento_abi::{Arg, Mem, sends};
use armento_tracee::notify::Notice;

/// Offset in struct msghdr of the length of its ancillary data. KERNEL: recvmsg(2).
const MSG_CONTROLLEN: u64 = 40;

/// A use of a file. `at`: offset in the file; `None`: the description's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Read { at: Option<u64> },
    Write { at: Option<u64> },
    Seek { offset: i64, whence: i32 },
}

impl Request {
    /// Bytes that it has moved, if this is its result.
    pub fn bytes(&self, ret: i64) -> u64 {
        match self {
            Request::Seek { .. } => 0,
            _ => ret.try_into().unwrap_or(0),
        }
    }
}

/// What a call does with descriptors, if their files are open here.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It neither sees nor changes an offset, nor who has a description.
    Nothing,
    /// It reads, writes or seeks.
    Uses(i32, Request),
    /// It waits until what was written is on the disk.
    Syncs(i32),
    Closes(i32),
    /// From the first to the last.
    ClosesRange(u32, u32),
    /// Its result is known, of every regular file.
    Is(i32, i64),
    /// It is about the file and not about its offset.
    Asks(Vec<i32>),
    /// It may depend on the offset.
    Locks(i32),
    /// Another descriptor of the process gets the description: this one, if that is known.
    Duplicates(i32, Option<i32>),
    /// It changes the description, or may give it to another process.
    Ends(Vec<i32>),
    /// Another process has all descriptions from then on.
    EndsAll,
}

/// Calls that are about a file by its descriptor and leave the offset alone.
const ABOUT_FILE: [i64; 19] = [
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_flock,
    libc::SYS_fchown,
    libc::SYS_fsetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_fremovexattr,
    libc::SYS_utimensat,
    libc::SYS_futimesat,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_epoll_ctl,
];

/// Commands of fcntl about record locks. KERNEL: fcntl(2): a range may begin at the offset.
const LOCKS: [i32; 6] = [
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];
/// … that see neither the offset nor change the description.
const FLAGS: [i32; 3] = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];

/// … that make a descriptor.
const DUPLICATES: [i32; 2] = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];

/// The descriptor that a call duplicates. Its result is the new one.
pub fn duplicates(nr: i64, args: &[u64; 6]) -> Option<i32> {
    let makes = match nr {
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => true,
        libc::SYS_fcntl => DUPLICATES.contains(&(args[1] as i32)),
        _ => false,
    };
    makes.then_some(args[0] as i32)
}

pub fn meaning(n: &Notice, thread: &GuestThread) -> Meaning {
    let (nr, fd) = (i64::from(n.nr), n.args[0] as i32);
    match nr {
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_readv | libc::SYS_preadv => {
            let at = [libc::SYS_pread64, libc::SYS_preadv].contains(&nr);
            uses(n, at, |at| Request::Read { at })
        }
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev => {
            let at = [libc::SYS_pwrite64, libc::SYS_pwritev].contains(&nr);
            uses(n, at, |at| Request::Write { at })
        }
        libc::SYS_lseek => {
            let seek = Request::Seek {
                offset: n.args[1] as i64,
                whence: n.args[2] as i32,
            };
            Meaning::Uses(fd, seek)
        }
        libc::SYS_fsync | libc::SYS_fdatasync => Meaning::Syncs(fd),
        libc::SYS_close => Meaning::Closes(fd),
        // KERNEL: close_range(2): with a flag nothing of this process's is closed.
        libc::SYS_close_range if n.args[2] == 0 => {
            Meaning::ClosesRange(n.args[0] as u32, n.args[1] as u32)
        }
        libc::SYS_close_range => Meaning::Nothing,
        // KERNEL: a regular file is no terminal.
        libc::SYS_ioctl if n.args[1] == libc::TCGETS => Meaning::Is(fd, -i64::from(libc::ENOTTY)),
        libc::SYS_fcntl if LOCKS.contains(&(n.args[1] as i32)) => Meaning::Locks(fd),
        libc::SYS_fcntl if FLAGS.contains(&(n.args[1] as i32)) => Meaning::Nothing,
        libc::SYS_dup => Meaning::Duplicates(fd, None),
        libc::SYS_fcntl if DUPLICATES.contains(&(n.args[1] as i32)) => {
            Meaning::Duplicates(fd, None)
        }
        libc::SYS_dup2 | libc::SYS_dup3 => Meaning::Duplicates(fd, Some(n.args[1] as i32)),
        libc::SYS_mmap => Meaning::Asks(vec![n.args[4] as i32]),
        libc::SYS_sendmsg | libc::SYS_sendmmsg if sends_nothing_else(n, thread) => Meaning::Nothing,
        libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_execve | libc::SYS_execveat => {
            Meaning::EndsAll
        }
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => {
            let thread = requested(n, thread.here).is_some_and(|w| w.has(libc::CLONE_THREAD));
            match thread {
                true => Meaning::Nothing,
                false => Meaning::EndsAll,
            }
        }
        // Writes are cut, or killed, by it: home's kernel does that.
        libc::SYS_setrlimit if limits_size(n.args[0]) => Meaning::EndsAll,
        libc::SYS_prlimit64 if limits_size(n.args[1]) && n.args[2] != 0 => Meaning::EndsAll,
        _ => {
            let fds = named(n);
            match ABOUT_FILE.contains(&nr) {
                _ if fds.is_empty() => Meaning::Nothing,
                true => Meaning::Asks(fds),
                false => Meaning::Ends(fds),
            }
        }
    }
}

fn limits_size(resource: u64) -> bool {
    resource as u32 == libc::RLIMIT_FSIZE
}

fn uses(n: &Notice, at: bool, request: impl FnOnce(Option<u64>) -> Request) -> Meaning {
    let at = at.then_some(n.args[3]);
    Meaning::Uses(n.args[0] as i32, request(at))
}

/// Arguments that are descriptors, by the call table.
fn named(n: &Notice) -> Vec<i32> {
    let Some(row) = armento_abi::row(n.nr as u64) else {
        return Vec::new();
    };
    let kinds = row.args.iter().zip(n.args);
    let fds = kinds.filter(|(kind, _)| **kind == Arg::Fd);
    fds.map(|(_, value)| value as i32).collect()
}

/// Whether a message brings no descriptors: it has no ancillary data.
fn sends_nothing_else(n: &Notice, thread: &GuestThread) -> bool {
    let mut len = [1u8; 8];
    let at = n.args[1].checked_add(MSG_CONTROLLEN);
    i64::from(n.nr) == libc::SYS_sendmsg
        && at.is_some_and(|at| BodyMem(thread).read(at, &mut len).is_ok())
        && len == [0; 8]
}

/// The pieces of the guest's memory that a read or write is about. `None`: they cannot be read.
pub fn pieces(n: &Notice, mem: &mut BodyMem<'_>) -> Option<Vec<(u64, u64)>> {
    match i64::from(n.nr) {
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_writev | libc::SYS_pwritev => {
            sends::scattered(n.args[1], u64::from(n.args[2] as u32), mem)
        }
        _ => Some(vec![(n.args[1], n.args[2])]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Process;
    use armento_model::{HomePid, HomeTid};
    use std::sync::Arc;

    fn of(nr: i64, args: [u64; 6]) -> Meaning {
        let (pid, tid) = (HomePid::of_home(7), HomeTid::of_home(7));
        let me = std::process::id() as i32;
        let thread = GuestThread::new(pid, tid, me, Arc::new(Process::default()));
        let n = Notice {
            nr: nr as i32,
            args,
            ..Notice::default()
        };
        meaning(&n, &thread)
    }

    #[test]
    fn calls_end_only_what_they_may_share_or_move() {
        let check = |nr, args, want: Meaning| assert_eq!(of(nr, args), want, "{nr}");
        check(
            libc::SYS_pread64,
            [5, 0, 1, 9, 0, 0],
            Meaning::Uses(5, Request::Read { at: Some(9) }),
        );
        check(
            libc::SYS_write,
            [5, 0, 1, 9, 0, 0],
            Meaning::Uses(5, Request::Write { at: None }),
        );
        check(libc::SYS_getppid, [5; 6], Meaning::Nothing);
        check(libc::SYS_fstat, [5, 0, 0, 0, 0, 0], Meaning::Asks(vec![5]));
        check(
            libc::SYS_dup,
            [5, 0, 0, 0, 0, 0],
            Meaning::Duplicates(5, None),
        );
        check(
            libc::SYS_dup2,
            [5, 6, 0, 0, 0, 0],
            Meaning::Duplicates(5, Some(6)),
        );
        check(
            libc::SYS_sendfile,
            [5, 6, 0, 9, 0, 0],
            Meaning::Ends(vec![5, 6]),
        );
        let fcntl = |command: i32| of(libc::SYS_fcntl, [5, command as u64, 0, 0, 0, 0]);
        assert_eq!(fcntl(libc::F_GETFL), Meaning::Nothing);
        assert_eq!(fcntl(libc::F_SETLKW), Meaning::Locks(5));
        assert_eq!(fcntl(libc::F_DUPFD), Meaning::Duplicates(5, None));
        assert_eq!(fcntl(libc::F_SETFL), Meaning::Ends(vec![5]));
    }

    #[test]
    fn only_threads_leave_descriptions_with_their_process() {
        let clone = |flags: i32| of(libc::SYS_clone, [flags as u64, 0, 0, 0, 0, 0]);
        let thread = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_FILES;
        assert_eq!(clone(thread), Meaning::Nothing);
        assert_eq!(clone(libc::SIGCHLD), Meaning::EndsAll);
        assert_eq!(clone(libc::CLONE_VM | libc::CLONE_VFORK), Meaning::EndsAll);
        assert_eq!(of(libc::SYS_execve, [0; 6]), Meaning::EndsAll);
    }

    #[test]
    fn messages_without_ancillary_data_bring_no_descriptors() {
        let mut head = [0u64; 7];
        let send = |head: &[u64; 7]| of(libc::SYS_sendmsg, [1, head.as_ptr() as u64, 0, 0, 0, 0]);
        assert_eq!(send(&head), Meaning::Nothing);
        head[5] = 24;
        assert_eq!(send(&head), Meaning::EndsAll);
        assert_eq!(of(libc::SYS_sendmsg, [1, 8, 0, 0, 0, 0]), Meaning::EndsAll);
    }
}
