//! Reads, writes and seeks of files that are open on this node, between them and the guest's memory.
//!
//! From: `direct.rs`. A use that this node's kernel refuses leaves file and offset as they were: home makes the call then.

use super::direct_calls::{Request, pieces};
use crate::state::{BodyMem, GuestThread, OpenFile, set_offset};
use crate::sync::lock;
use armento_abi::Mem;
use armento_tracee::notify::Notice;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Seek, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

/// Bytes that are read or written at once: so much memory a call takes.
const AT_ONCE: u64 = 8 << 20;
/// Up to so many bytes are moved by the thread that hears of calls, if that does not wait: another takes some 30
/// microseconds to begin.
const SHORT: u64 = 64 << 10;
/// KERNEL: read(2): at most MAX_RW_COUNT bytes are transferred.
const MOST: u64 = 0x7fff_f000;
/// KERNEL: preadv2(2): an offset of -1 is the description's own, which moves.
const OWN: u64 = u64::MAX;

/// Bytes of a buffer that is kept for the next call: fresh memory costs as much as the copy.
const KEPT: usize = 1 << 20;
/// Buffers that are kept.
const KEPT_MAX: usize = 2;
static BUFFERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// So many bytes, whatever they are.
struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    fn of(len: usize) -> Buffer {
        let kept = (len <= KEPT).then(|| lock(&BUFFERS).pop()).flatten();
        let bytes = kept.unwrap_or_else(|| {
            vec![
                0;
                if len > SHORT as usize {
                    len.max(KEPT)
                } else {
                    len
                }
            ]
        });
        Buffer { bytes, len }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut kept = lock(&BUFFERS);
        if self.bytes.len() == KEPT && kept.len() < KEPT_MAX {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

/// What a use came to that must not wait.
pub enum Outcome {
    Done(i64),
    /// It may take its time.
    Waits,
    /// Home is to make it.
    Fails,
}

/// An address of the guest's, and a length.
type Piece = (u64, u64);

/// Does it, if that needs no wait.
pub fn attempt(file: &OpenFile, thread: &GuestThread, n: &Notice, request: &Request) -> Outcome {
    let Ok(f) = file.file.try_lock() else {
        return Outcome::Waits;
    };
    let done = match request {
        Request::Seek { offset, whence } => Ok(moved(&f, *offset, *whence)),
        Request::Read { at } => quick_read(&f, thread, n, *at),
        Request::Write { at } => quick_write(&f, file.quick, thread, n, *at),
    };
    match done {
        Ok(Some(ret)) => Outcome::Done(ret),
        Ok(None) => Outcome::Fails,
        Err(Slow) => Outcome::Waits,
    }
}

/// Does it. `None`: home is to make it.
pub fn perform(
    file: &OpenFile,
    thread: &GuestThread,
    n: &Notice,
    request: &Request,
) -> Option<i64> {
    let f = lock(&file.file);
    match request {
        Request::Seek { offset, whence } => moved(&f, *offset, *whence),
        Request::Read { at } => read(&f, thread, n, *at),
        Request::Write { at } => write(&f, thread, n, *at),
    }
}

/// A use that would wait.
struct Slow;

/// KERNEL: lseek(2).
fn moved(f: &File, offset: i64, whence: i32) -> Option<i64> {
    let to = match whence {
        libc::SEEK_SET => SeekFrom::Start(offset.try_into().ok()?),
        libc::SEEK_CUR => SeekFrom::Current(offset),
        libc::SEEK_END => SeekFrom::End(offset),
        libc::SEEK_DATA => SeekFrom::Data(offset.try_into().ok()?),
        libc::SEEK_HOLE => SeekFrom::Hole(offset.try_into().ok()?),
        _ => return None,
    };
    seek(f, to).ok()?.try_into().ok()
}

fn total(pieces: &[Piece]) -> Option<u64> {
    pieces.iter().try_fold(0u64, |sum, p| sum.checked_add(p.1))
}

/// The pieces of the guest's memory, and how many bytes they are together.
fn wanted(thread: &GuestThread, n: &Notice) -> Option<(Vec<Piece>, u64)> {
    let mut all = pieces(n, &mut BodyMem(thread))?;
    let mut left = MOST;
    for p in &mut all {
        p.1 = p.1.min(left);
        left -= p.1;
    }
    let sum = total(&all)?;
    Some((all, sum))
}

fn quick_read(
    mut f: &File,
    thread: &GuestThread,
    n: &Notice,
    at: Option<u64>,
) -> Result<Option<i64>, Slow> {
    let Some((pieces, len)) = wanted(thread, n) else {
        return Ok(None);
    };
    if len > SHORT {
        return Err(Slow);
    }
    let Some(from) = at.or_else(|| f.stream_position().ok()) else {
        return Ok(None);
    };
    let mut bytes = Buffer::of(len as usize);
    let mut all = [IoSliceMut::new(&mut bytes)];
    let got = match preadv2(f, &mut all, from, ReadWriteFlags::NOWAIT) {
        Ok(got) => got,
        // Not in memory; or the file system cannot tell.
        Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Err(Slow),
        Err(_) => return Ok(None),
    };
    let end = from.saturating_add(got as u64);
    if (got as u64) < len && f.metadata().is_ok_and(|m| end < m.len()) {
        return Err(Slow);
    }
    if !scatter(thread, &pieces, &bytes[..got]) {
        return Ok(None);
    }
    if at.is_none() {
        set_offset(f, end);
    }
    Ok(Some(got as i64))
}

/// `quick`: a write waits for nothing but this machine's own disk.
fn quick_write(
    f: &File,
    quick: bool,
    thread: &GuestThread,
    n: &Notice,
    at: Option<u64>,
) -> Result<Option<i64>, Slow> {
    let Some((pieces, len)) = wanted(thread, n) else {
        return Ok(None);
    };
    if len > SHORT {
        return Err(Slow);
    }
    if quick {
        return Ok(write(f, thread, n, at));
    }
    let Some(bytes) = gather(thread, &pieces) else {
        return Ok(None);
    };
    let put = match pwritev2(
        f,
        &[IoSlice::new(&bytes)],
        at.unwrap_or(OWN),
        ReadWriteFlags::NOWAIT,
    ) {
        Ok(put) => put,
        Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Err(Slow),
        Err(_) => return Ok(None),
    };
    if put < bytes.len() {
        // It would have waited for the rest.
        let rest = write_bytes(f, &bytes[put..], at.map(|at| at + put as u64));
        return Ok(Some((put + rest.unwrap_or(0)) as i64));
    }
    Ok(Some(put as i64))
}

fn read(mut f: &File, thread: &GuestThread, n: &Notice, at: Option<u64>) -> Option<i64> {
    let (pieces, _) = wanted(thread, n)?;
    let from = at.or_else(|| f.stream_position().ok())?;
    let mut done = 0u64;
    for part in parts(&pieces) {
        let len = total(&part)? as usize;
        let mut bytes = Buffer::of(len);
        let got = match f.read_at(&mut bytes, from.checked_add(done)?) {
            Ok(got) => got,
            Err(_) if done > 0 => break,
            Err(_) => return None,
        };
        // The offset has not moved: home reads all of it anew, and has the right error.
        if !scatter(thread, &part, &bytes[..got]) {
            return None;
        }
        done += got as u64;
        if got < len {
            break;
        }
    }
    if at.is_none() {
        set_offset(f, from.checked_add(done)?);
    }
    done.try_into().ok()
}

fn write(f: &File, thread: &GuestThread, n: &Notice, at: Option<u64>) -> Option<i64> {
    let (pieces, _) = wanted(thread, n)?;
    let mut done = 0u64;
    for part in parts(&pieces) {
        let Some(bytes) = gather(thread, &part) else {
            break;
        };
        let to = match at {
            Some(at) => Some(at.checked_add(done)?),
            None => None,
        };
        let Ok(put) = write_bytes(f, &bytes, to) else {
            break;
        };
        done += put as u64;
        if put < bytes.len() {
            return done.try_into().ok();
        }
    }
    // What failed at its beginning is home's. KERNEL: what fails later returns what is done.
    let nothing = total(&pieces) == Some(0);
    (done > 0 || nothing).then_some(done as i64)
}

fn write_bytes(mut f: &File, bytes: &[u8], at: Option<u64>) -> std::io::Result<usize> {
    match at {
        Some(at) => f.write_at(bytes, at),
        None => f.write(bytes),
    }
}

/// The pieces in groups of at most [`AT_ONCE`] bytes. At least one group.
fn parts(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    let mut all = vec![Vec::new()];
    let mut room = AT_ONCE;
    for (mut addr, mut len) in pieces.iter().copied() {
        while len > 0 {
            if room == 0 {
                all.push(Vec::new());
                room = AT_ONCE;
            }
            let some = len.min(room);
            all.last_mut()
                .into_iter()
                .for_each(|part| part.push((addr, some)));
            (addr, len, room) = (addr.wrapping_add(some), len - some, room - some);
        }
    }
    all
}

fn gather(thread: &GuestThread, pieces: &[Piece]) -> Option<Buffer> {
    let mut bytes = Buffer::of(total(pieces)? as usize);
    let (mut mem, mut at) = (BodyMem(thread), 0);
    for (addr, len) in pieces {
        let next = at + *len as usize;
        mem.read(*addr, &mut bytes[at..next]).ok()?;
        at = next;
    }
    Some(bytes)
}

/// Writes bytes into the pieces, as far as they reach.
fn scatter(thread: &GuestThread, pieces: &[Piece], mut bytes: &[u8]) -> bool {
    for (addr, len) in pieces {
        let (now, rest) = bytes.split_at(bytes.len().min(*len as usize));
        if !now.is_empty() && !thread.write(*addr, now) {
            return false;
        }
        bytes = rest;
    }
    true
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

    fn call(nr: i64, args: [u64; 4]) -> Notice {
        let [a, b, c, d] = args;
        Notice {
            nr: nr as i32,
            args: [a, b, c, d, 0, 0],
            ..Notice::default()
        }
    }

    fn done(o: Outcome) -> Option<i64> {
        match o {
            Outcome::Done(ret) => Some(ret),
            _ => None,
        }
    }

    #[test]
    fn offsets_move_as_the_kernel_moves_them() {
        let memory = armento_tracee::sys::memfd("direct", 0).expect("memory");
        let (f, t) = (OpenFile::new(memory, false, true), thread());
        let text = *b"hello, world";
        let write = call(libc::SYS_write, [3, text.as_ptr() as u64, 12, 0]);
        assert_eq!(
            done(attempt(&f, &t, &write, &Request::Write { at: None })),
            Some(12)
        );
        let (offset, whence) = (-5, libc::SEEK_END);
        let seek = call(libc::SYS_lseek, [3, offset as u64, whence as u64, 0]);
        assert_eq!(
            done(attempt(&f, &t, &seek, &Request::Seek { offset, whence })),
            Some(7)
        );
        let mut two = [[0u8; 2]; 2];
        let iov = [two[0].as_mut_ptr() as u64, 2, two[1].as_mut_ptr() as u64, 2];
        let readv = call(libc::SYS_readv, [3, iov.as_ptr() as u64, 2, 0]);
        assert_eq!(
            perform(&f, &t, &readv, &Request::Read { at: None }),
            Some(4)
        );
        assert_eq!((two, f.offset()), ([*b"wo", *b"rl"], 11));
        let mut buf = [0u8; 8];
        let pread = call(libc::SYS_pread64, [3, buf.as_mut_ptr() as u64, 8, 9]);
        let at = Some(9);
        assert_eq!(perform(&f, &t, &pread, &Request::Read { at }), Some(3));
        assert_eq!((&buf[..3], f.offset()), (b"rld".as_slice(), 11));
    }

    #[test]
    fn what_home_has_to_tell_leaves_the_offset_alone() {
        let memory = armento_tracee::sys::memfd("direct", 100).expect("memory");
        let (f, t) = (OpenFile::new(memory, false, true), thread());
        let nowhere = call(libc::SYS_read, [3, 8, 50, 0]);
        // It fails, or would wait: tmpfs cannot tell.
        assert_eq!(
            done(attempt(&f, &t, &nowhere, &Request::Read { at: None })),
            None
        );
        assert_eq!(perform(&f, &t, &nowhere, &Request::Read { at: None }), None);
        assert_eq!(
            perform(&f, &t, &nowhere, &Request::Write { at: None }),
            None
        );
        let (offset, whence) = (-1, libc::SEEK_SET);
        assert_eq!(
            perform(&f, &t, &nowhere, &Request::Seek { offset, whence }),
            None
        );
        assert_eq!(f.offset(), 0);
    }

    #[test]
    fn much_is_moved_in_parts() {
        let pieces = [(0, AT_ONCE - 1), (1 << 40, 3)];
        let all = parts(&pieces);
        assert_eq!(all[0], [(0, AT_ONCE - 1), (1 << 40, 1)]);
        assert_eq!(all[1], [((1 << 40) + 1, 2)]);
        assert_eq!(parts(&[]), [Vec::new()]);
    }
}
