//! What each call means to files that are read ahead: served from there, or the end of it.
//!
//! From: `dispatch.rs`. Next: `readahead.rs`.

use super::readahead::{self, end_readahead};
use crate::state::{GuestThread, Host};
use crate::sync::lock;
use armento_tracee::notify::Notice;
use armento_tracee::sys;
use std::sync::Arc;

/// Serves a call from what is known. `false`: it is to be forwarded, and the offset at home is right for it.
pub fn served(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) -> bool {
    let fd = n.args[0] as i32;
    match i64::from(n.nr) {
        libc::SYS_read => return readahead::read(host, thread, n, fd),
        libc::SYS_getdents64 => return readahead::list(host, thread, n, fd),
        libc::SYS_pread64 => return readahead::read_at(host, thread, n, fd),
        libc::SYS_fstat => return readahead::stat(host, thread, n, (fd, n.args[1])),
        libc::SYS_newfstatat if of_descriptor(thread, n) => {
            return readahead::stat(host, thread, n, (fd, n.args[2]));
        }
        libc::SYS_ioctl if n.args[1] == libc::TCGETS => {
            if readahead::is_open(thread, fd) {
                // KERNEL: a regular file is no terminal.
                host.listener.reply(n.id, -i64::from(libc::ENOTTY));
                return true;
            }
        }
        libc::SYS_fcntl if FLAGS.contains(&(n.args[1] as i32)) => {}
        libc::SYS_lseek if readahead::seek(host, thread, n, fd) => return true,
        libc::SYS_close => {
            let mut a = lock(&thread.proc.readahead);
            a.counts.remove(&fd);
            readahead::close(host, thread.pid, &mut a, fd);
        }
        // Home may take a lease on the description that is mapped.
        libc::SYS_mmap => {
            let mut a = lock(&thread.proc.readahead);
            readahead::end(host, thread.pid, &mut a, Some(n.args[4] as i32));
        }
        libc::SYS_lseek => {
            let mut a = lock(&thread.proc.readahead);
            a.counts.remove(&fd);
            readahead::end(host, thread.pid, &mut a, Some(fd));
        }
        // It would fail with EWOULDBLOCK on home's lease, if it is of the same file.
        libc::SYS_open if hurries(n.args[1]) => end_readahead(host, &thread.proc, thread.pid),
        libc::SYS_openat if hurries(n.args[2]) => end_readahead(host, &thread.proc, thread.pid),
        nr if HARMLESS.contains(&nr) => {}
        _ => end_readahead(host, &thread.proc, thread.pid),
    }
    false
}

/// Whether an open with these flags may fail on a lease, instead of waiting for it. opendir(3) opens with O_NONBLOCK.
fn hurries(flags: u64) -> bool {
    let flags = flags as i32;
    flags & libc::O_NONBLOCK != 0 && flags & libc::O_DIRECTORY != libc::O_DIRECTORY
}

/// Commands of fcntl that neither see nor change the offset.
const FLAGS: [i32; 3] = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];

/// Whether a newfstatat is of its descriptor itself: with AT_EMPTY_PATH and the path "".
fn of_descriptor(thread: &GuestThread, n: &Notice) -> bool {
    let mut first = [1u8; 1];
    n.args[3] as i32 == libc::AT_EMPTY_PATH
        && matches!(sys::vm_read(thread.here, n.args[1], &mut first), Ok(1))
        && first == [0]
}

/// Calls that neither see nor change the offset or the set of descriptors that share it.
const HARMLESS: [i64; 47] = [
    libc::SYS_futex,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_times,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_wait4,
    libc::SYS_ftruncate,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pread64,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_getppid,
    libc::SYS_getrusage,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
    libc::SYS_getcwd,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdir,
    libc::SYS_chmod,
    libc::SYS_faccessat2,
];
