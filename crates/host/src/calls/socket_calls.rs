//! What each call means to connections that go directly to another host. Pure but for what it reads from the guest.
//!
//! From: `sockets.rs`.

use super::direct_calls::{Meaning, meaning};
use crate::state::{BodyMem, GuestThread, Transfer};
use armento_abi::{Mem, sends};
use armento_tracee::notify::Notice;

/// KERNEL: read(2), write(2): at most MAX_RW_COUNT bytes are transferred.
const MOST: u64 = 0x7fff_f000;
/// KERNEL: struct msghdr: name 8, its length 4, padding 4, segments 8, their number 8, ancillary data 8, its length 8, flags 4.
const MSGHDR: usize = 56;
/// Offsets in it of the length of the name, of that of the ancillary data, and of the flags.
pub const MSG_NAMELEN: u64 = 8;
pub const MSG_CONTROLLEN: u64 = 40;
pub const MSG_FLAGS: u64 = 48;
/// Entries of a poll, or descriptors of a select, that are looked at; one with more takes all connections home.
const POLLED_MAX: u64 = 16 << 10;
/// sizeof(struct pollfd).
const POLLFD: u64 = 8;

/// Flags of calls that are made here. Others go home.
const SENDS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;
const RECEIVES: i32 = libc::MSG_DONTWAIT
    | libc::MSG_PEEK
    | libc::MSG_WAITALL
    | libc::MSG_NOSIGNAL
    | libc::MSG_CMSG_CLOEXEC;

/// What such a call wants. `None`: home is to make it.
pub fn transfer(n: &Notice, thread: &GuestThread) -> Option<Transfer> {
    let [_, at, len, flags, name, name_len] = n.args;
    let mut mem = BodyMem(thread);
    let one = |len: u64| vec![(at, len)];
    let (sends, pieces, flags, header) = match i64::from(n.nr) {
        libc::SYS_read => (false, one(len.min(MOST)), 0, None),
        libc::SYS_write => (true, one(len.min(MOST)), 0, None),
        libc::SYS_readv => (false, segments(at, len, &mut mem)?, 0, None),
        libc::SYS_writev => (true, segments(at, len, &mut mem)?, 0, None),
        libc::SYS_recvfrom if name == 0 => (false, one(len.min(MOST)), flags as i32, None),
        libc::SYS_sendto if name == 0 && name_len == 0 => {
            (true, one(len.min(MOST)), flags as i32, None)
        }
        libc::SYS_recvmsg | libc::SYS_sendmsg => {
            let sends = i64::from(n.nr) == libc::SYS_sendmsg;
            let mut raw = [0u8; MSGHDR];
            mem.read(at, &mut raw).ok()?;
            let word = |at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().unwrap_or([0; 8]));
            let (name, control) = (word(0), word(MSG_CONTROLLEN as usize));
            if name != 0 || sends && control != 0 {
                return None;
            }
            let pieces = segments(word(16), word(24), &mut mem)?;
            (sends, pieces, len as i32, (!sends).then_some(at))
        }
        _ => return None,
    };
    let known = if sends { SENDS } else { RECEIVES };
    let has = |flag: i32| flags & flag != 0;
    let whole = !sends && has(libc::MSG_WAITALL);
    // A part of it that has come can be told to home only of recv (`abi/src/sends.rs`).
    let odd = whole && (has(libc::MSG_PEEK) || i64::from(n.nr) != libc::SYS_recvfrom);
    let len = pieces
        .iter()
        .try_fold(0u64, |sum, p| sum.checked_add(p.1))?;
    // KERNEL: recv(2) with a length of 0 waits.
    let waits = len == 0 && !sends && !matches!(i64::from(n.nr), libc::SYS_read | libc::SYS_readv);
    if flags & !known != 0 || odd || waits || len > MOST {
        return None;
    }
    Some(Transfer {
        sends,
        pieces,
        len,
        peeks: has(libc::MSG_PEEK),
        whole,
        dont_wait: has(libc::MSG_DONTWAIT),
        header,
    })
}

fn segments(array: u64, count: u64, mem: &mut BodyMem<'_>) -> Option<Vec<(u64, u64)>> {
    sends::scattered(array, u64::from(count as u32), mem)
}

/// Descriptors that a call names in any other way.
#[derive(Debug, PartialEq, Eq)]
pub enum Touched {
    Some(Vec<i32>),
    /// From the first to the last.
    Range(u32, u32),
    All,
}

impl Touched {
    pub fn has(&self, fd: i32) -> bool {
        match self {
            Touched::Some(fds) => fds.contains(&fd),
            Touched::Range(first, last) => {
                u32::try_from(fd).is_ok_and(|fd| (*first..=*last).contains(&fd))
            }
            Touched::All => true,
        }
    }
}

/// Which connections a call needs at home.
pub fn touched(n: &Notice, thread: &GuestThread) -> Touched {
    let none = Touched::Some(Vec::new());
    match i64::from(n.nr) {
        libc::SYS_poll | libc::SYS_ppoll => polled(n.args[0], n.args[1], thread),
        libc::SYS_select | libc::SYS_pselect6 => selected(&n.args, thread),
        libc::SYS_epoll_ctl => Touched::Some(vec![n.args[2] as i32]),
        libc::SYS_getsockopt | libc::SYS_getsockname | libc::SYS_getpeername => none,
        libc::SYS_unshare => Touched::All,
        _ => match meaning(n, thread) {
            Meaning::Nothing
            | Meaning::Uses(..)
            | Meaning::Syncs(_)
            | Meaning::Is(..)
            | Meaning::Asks(_)
            | Meaning::Locks(_) => none,
            Meaning::Closes(fd) | Meaning::Duplicates(fd, None) => Touched::Some(vec![fd]),
            Meaning::Duplicates(old, Some(new)) => Touched::Some(vec![old, new]),
            Meaning::ClosesRange(first, last) => Touched::Range(first, last),
            Meaning::Ends(fds) => Touched::Some(fds),
            Meaning::EndsAll => Touched::All,
        },
    }
}

fn polled(array: u64, count: u64, thread: &GuestThread) -> Touched {
    let count = u64::from(count as u32);
    if count > POLLED_MAX {
        return Touched::All;
    }
    let mut raw = vec![0u8; (count * POLLFD) as usize];
    match BodyMem(thread).read(array, &mut raw) {
        Ok(()) => Touched::Some(
            raw.chunks_exact(POLLFD as usize)
                .map(|e| i32::from_le_bytes([e[0], e[1], e[2], e[3]]))
                .collect(),
        ),
        // It fails at home.
        Err(_) => Touched::Some(Vec::new()),
    }
}

fn selected(args: &[u64; 6], thread: &GuestThread) -> Touched {
    let count = u64::from(args[0] as u32);
    if count > POLLED_MAX {
        return Touched::All;
    }
    let mut fds = Vec::new();
    for set in args[1..4].iter().filter(|set| **set != 0) {
        let mut raw = vec![0u8; count.div_ceil(64) as usize * 8];
        if BodyMem(thread).read(*set, &mut raw).is_err() {
            continue;
        }
        let is_set = |fd: &i32| raw[*fd as usize / 8] & 1 << (fd % 8) != 0;
        fds.extend((0..count as i32).filter(is_set));
    }
    Touched::Some(fds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Process;
    use armento_model::{HomePid, HomeTid};
    use std::sync::Arc;

    /// A thread whose memory is this process's.
    fn thread() -> Arc<GuestThread> {
        let (pid, tid) = (HomePid::of_home(7), HomeTid::of_home(7));
        let here = std::process::id() as i32;
        GuestThread::new(pid, tid, here, Arc::new(Process::default()))
    }

    fn call(nr: i64, args: [u64; 6]) -> Notice {
        Notice {
            nr: nr as i32,
            args,
            ..Notice::default()
        }
    }

    #[test]
    fn plain_transfers_are_made_here_and_others_at_home() {
        let t = thread();
        let of = |nr, args| transfer(&call(nr, args), &t);
        let plain = of(libc::SYS_read, [3, 64, 10, 0, 0, 0]).expect("a read");
        assert_eq!((plain.sends, plain.len, plain.whole), (false, 10, false));
        let flags = |f: i32| of(libc::SYS_recvfrom, [3, 64, 10, f as u64, 0, 0]);
        assert!(flags(libc::MSG_WAITALL).is_some_and(|t| t.whole));
        assert!(flags(libc::MSG_PEEK | libc::MSG_DONTWAIT).is_some_and(|t| t.peeks && t.dont_wait));
        assert_eq!(flags(libc::MSG_OOB), None);
        assert_eq!(flags(libc::MSG_PEEK | libc::MSG_WAITALL), None);
        assert_eq!(
            of(libc::SYS_recvfrom, [3, 64, 10, 0, 4096, 4096]),
            None,
            "it asks for the address"
        );
        let send = |f: i32| of(libc::SYS_sendto, [3, 64, 10, f as u64, 0, 0]);
        assert!(send(libc::MSG_NOSIGNAL).is_some_and(|t| t.sends));
        assert_eq!(send(libc::MSG_OOB), None);
        let bytes = [7u8; 4];
        let iov = [bytes.as_ptr() as u64, 4];
        let mut head = [0u64; 7];
        (head[2], head[3]) = (iov.as_ptr() as u64, 1);
        let message =
            |head: &[u64; 7]| of(libc::SYS_sendmsg, [3, head.as_ptr() as u64, 0, 0, 0, 0]);
        assert_eq!(message(&head).map(|t| t.len), Some(4));
        head[5] = 24;
        assert_eq!(message(&head), None, "it may bring descriptors");
    }

    #[test]
    fn calls_name_the_connections_that_they_need_at_home() {
        let t = thread();
        let of = |nr, args| touched(&call(nr, args), &t);
        let some = |fds: &[i32]| Touched::Some(fds.to_vec());
        let set = [(5i32, 0u32), (-1, 0), (9, 0)];
        let poll = [set.as_ptr() as u64, 3, 0, 0, 0, 0];
        assert_eq!(of(libc::SYS_poll, poll), some(&[5, -1, 9]));
        let bits = [1u64 << 5 | 1 << 63, 1];
        let select = [65, bits.as_ptr() as u64, 0, 0, 0, 0];
        assert_eq!(of(libc::SYS_select, select), some(&[5, 63, 64]));
        assert_eq!(of(libc::SYS_shutdown, [5, 1, 0, 0, 0, 0]), some(&[5]));
        assert_eq!(of(libc::SYS_setsockopt, [5, 1, 1, 0, 0, 0]), some(&[5]));
        assert_eq!(of(libc::SYS_getsockopt, [5, 1, 1, 0, 0, 0]), some(&[]));
        assert_eq!(of(libc::SYS_dup2, [5, 6, 0, 0, 0, 0]), some(&[5, 6]));
        assert_eq!(of(libc::SYS_epoll_ctl, [3, 1, 5, 0, 0, 0]), some(&[5]));
        assert_eq!(of(libc::SYS_execve, [0; 6]), Touched::All);
        assert!(of(libc::SYS_close_range, [3, 9, 0, 0, 0, 0]).has(9));
        assert_eq!(of(libc::SYS_getppid, [5; 6]), some(&[]));
    }
}
