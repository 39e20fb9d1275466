//! Calls that write to pipes, sockets and terminals and may be interrupted after a part; and receives that wait for a
//! whole message and may be interrupted after a part.

use crate::Packed;
use crate::mem::{Fault, Mem};
use crate::x86_64::nr;

/// KERNEL: UIO_MAXIOV; more is refused.
const SEGMENTS_MAX: u64 = 1024;
/// sizeof(struct iovec), and in struct msghdr the offset of the array pointer. Its length follows.
const IOVEC: u64 = 16;
const MSG_IOV: u64 = 16;

/// Contiguous bytes.
struct Piece {
    addr: u64,
    len: u64,
}

/// The address of the array of segments, or the only segment itself.
enum Form {
    One(Piece),
    Many { array: u64, count: u64 },
}

/// Whether a call moves bytes by its first argument, a descriptor, at its present position.
pub fn transfers(call: u64) -> bool {
    matches!(
        call,
        nr::READ
            | nr::READV
            | nr::RECVFROM
            | nr::RECVMSG
            | nr::WRITE
            | nr::WRITEV
            | nr::SENDTO
            | nr::SENDMSG
    )
}

/// Whether it is such a call, and waits until everything is written. That also depends on its descriptor.
pub fn sends(call: u64, args: &[u64; 6]) -> bool {
    let waits = |flags: u64| flags as i32 & libc::MSG_DONTWAIT == 0;
    match call {
        nr::WRITE | nr::WRITEV => true,
        nr::SENDTO => waits(args[3]),
        nr::SENDMSG => waits(args[2]),
        _ => false,
    }
}

/// Whether it waits until everything requested has arrived. That also depends on its descriptor. KERNEL: recv(2),
/// MSG_WAITALL.
pub fn gathers(call: u64, args: &[u64; 6]) -> bool {
    let flags = args[3] as i32;
    let otherwise = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    call == nr::RECVFROM && flags & libc::MSG_WAITALL != 0 && flags & otherwise == 0
}

/// The number of bytes that such a call transfers. `None`: it is another call, or its memory cannot be read.
pub fn payload<M: Mem>(call: u64, args: &[u64; 6], mem: &mut M) -> Option<u64> {
    match form(call, args, mem)? {
        Form::One(piece) => Some(piece.len),
        Form::Many { array, count } => {
            let all = segments(array, count, mem).ok()?;
            all.iter().try_fold(0u64, |sum, s| sum.checked_add(s.len))
        }
    }
}

/// As [`payload`], for a packed call, or one that [`gathers`].
pub fn packed_payload(p: &Packed) -> Option<u64> {
    if gathers(p.nr.into(), &p.args) {
        return Some(p.args[2]);
    }
    if !sends(p.nr.into(), &p.args) || p.arg_ptrs & 0b10 == 0 {
        return None;
    }
    payload(p.nr.into(), &p.args, &mut Area(&p.data))
}

/// A write to a file that can be answered before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileWrite {
    pub fd: i32,
    /// Offset in the file; `None`: the description's own.
    pub at: Option<u64>,
    pub len: u64,
}

/// What a call writes to a file. `None`: it is another call, its memory cannot be read, or it has flags.
pub fn file_write<M: Mem>(call: u64, args: &[u64; 6], mem: &mut M) -> Option<FileWrite> {
    let (at, form) = match call {
        nr::WRITE | nr::WRITEV => (None, form(call, args, mem)?),
        nr::PWRITE64 => (Some(args[3]), form(nr::WRITE, args, mem)?),
        nr::PWRITEV => (Some(args[3]), form(nr::WRITEV, args, mem)?),
        _ => return None,
    };
    let len = match form {
        Form::One(piece) => piece.len,
        Form::Many { array, count } => {
            let all = segments(array, count, mem).ok()?;
            all.iter().try_fold(0u64, |sum, s| sum.checked_add(s.len))?
        }
    };
    let fd = args[0] as i32;
    Some(FileWrite { fd, at, len })
}

/// Appends the bytes of a [`FileWrite`]. `None`: not all of them can be read, and nothing was appended.
pub fn append_bytes<M: Mem>(
    call: u64,
    args: &[u64; 6],
    mem: &mut M,
    to: &mut Vec<u8>,
) -> Option<()> {
    let all = match call {
        nr::WRITE | nr::PWRITE64 => vec![Piece {
            addr: args[1],
            len: args[2],
        }],
        nr::WRITEV | nr::PWRITEV => segments(args[1], u64::from(args[2] as u32), mem).ok()?,
        _ => return None,
    };
    let before = to.len();
    for s in all {
        let at = to.len();
        to.resize(at + s.len as usize, 0);
        if mem.read(s.addr, &mut to[at..]).is_err() {
            to.truncate(before);
            return None;
        }
    }
    Some(())
}

/// The result of a posted call: bytes that it writes; 0 for a close.
pub fn posted(p: &Packed) -> u64 {
    match u64::from(p.nr) {
        nr::WRITE | nr::PWRITE64 => p.args[2],
        _ => 0,
    }
}

/// The call, by number and arguments, for the bytes after the first `put`: of scattered bytes, for the next segment.
/// `None`: nothing is left.
pub fn rest<M: Mem>(call: u64, args: &[u64; 6], mem: &mut M, put: u64) -> Option<(u64, [u64; 6])> {
    let all = match form(call, args, mem)? {
        Form::One(piece) => vec![piece],
        Form::Many { array, count } => segments(array, count, mem).ok()?,
    };
    let mut left = put;
    let next = all.into_iter().find_map(|s| {
        let skip = left.min(s.len);
        left -= skip;
        (skip < s.len).then_some((s.addr.wrapping_add(skip), s.len - skip))
    });
    let ((addr, len), fd) = (next?, args[0]);
    // A stream's peer is fixed, and descriptors were sent with the first byte. KERNEL: a send that was partly done
    // returns that part, without SIGPIPE, if the peer disconnects then (do_error in tcp_sendmsg_locked).
    let quiet = |flags: u64| flags | libc::MSG_NOSIGNAL as u64;
    Some(match call {
        nr::SENDTO => (nr::SENDTO, [fd, addr, len, quiet(args[3]), 0, 0]),
        nr::SENDMSG => (nr::SENDTO, [fd, addr, len, quiet(args[2]), 0, 0]),
        _ => (nr::WRITE, [fd, addr, len, 0, 0, 0]),
    })
}

fn form<M: Mem>(call: u64, args: &[u64; 6], mem: &mut M) -> Option<Form> {
    let (addr, len) = (args[1], args[2]);
    match call {
        nr::WRITE | nr::SENDTO => Some(Form::One(Piece { addr, len })),
        nr::WRITEV => Some(Form::Many {
            array: addr,
            // KERNEL: import_iovec takes an unsigned int.
            count: u64::from(len as u32),
        }),
        nr::SENDMSG => Some(Form::Many {
            array: word(mem, addr.checked_add(MSG_IOV)?).ok()?,
            count: word(mem, addr.checked_add(MSG_IOV + 8)?).ok()?,
        }),
        _ => None,
    }
}

fn segments<M: Mem>(array: u64, count: u64, mem: &mut M) -> Result<Vec<Piece>, Fault> {
    if count > SEGMENTS_MAX {
        return Err(Fault);
    }
    let mut raw = vec![0; (count * IOVEC) as usize];
    mem.read(array, &mut raw)?;
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap_or_default());
    let one = |e: &[u8]| Piece {
        addr: word(&e[..8]),
        len: word(&e[8..]),
    };
    Ok(raw.chunks_exact(IOVEC as usize).map(one).collect())
}

/// The segments of a struct iovec array: address and length. `None`: they cannot be read, or the kernel refuses so many.
pub fn scattered<M: Mem>(array: u64, count: u64, mem: &mut M) -> Option<Vec<(u64, u64)>> {
    let all = segments(array, count, mem).ok()?;
    Some(all.into_iter().map(|s| (s.addr, s.len)).collect())
}

fn word<M: Mem>(mem: &mut M, addr: u64) -> Result<u64, Fault> {
    let mut raw = [0; 8];
    mem.read(addr, &mut raw)?;
    Ok(u64::from_le_bytes(raw))
}

/// The bytes of a packed call, at their offsets.
struct Area<'a>(&'a [u8]);

impl Mem for Area<'_> {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        match self.read_some(addr, buf) == buf.len() {
            true => Ok(()),
            false => Err(Fault),
        }
    }

    fn read_some(&mut self, addr: u64, buf: &mut [u8]) -> usize {
        let there = usize::try_from(addr).ok().and_then(|at| self.0.get(at..));
        let there = there.unwrap_or_default();
        let n = there.len().min(buf.len());
        buf[..n].copy_from_slice(&there[..n]);
        n
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault)
    }
}
