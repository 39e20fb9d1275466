//! Scattered buffers: readv, writev and the buffers of messages.

use super::Refuse;
use super::packer::{Packer, Ptr, word64};
use crate::OutRule;
use crate::mem::{BAD, Mem};

/// KERNEL: UIO_MAXIOV. More is refused before any of it is read.
pub(super) const MAX: u64 = 1024;
/// sizeof(struct iovec)
const IOVEC: usize = 16;

/// The return value that determines the valid part of an output segment.
#[derive(Clone, Copy)]
pub(super) enum Follow {
    /// The returned total.
    Ret,
    /// Valid as a whole if the return value is at least this; the output named holds the number of bytes.
    Message { min: u32, len_out: usize },
}

impl<M: Mem> Packer<'_, M> {
    /// For writev and the like: truncated where the body's memory ends.
    pub(super) fn iov_in(&mut self, i: usize, addr: u64) -> Result<(), Refuse> {
        // KERNEL: import_iovec takes an unsigned int.
        let count = u64::from(self.packed.args[i + 1] as u32);
        let Some(at) = self.iov_array(Ptr::Arg(i), addr, count)? else {
            return Ok(());
        };
        let mut before = 0;
        for k in 0..count as usize {
            let entry = at + k * IOVEC;
            let (base, len) = self.segment(entry);
            if len == 0 {
                continue;
            }
            let got = match self.usable(base)? {
                true => self.read_some_piece(Ptr::Data(entry), base, len)?,
                false => None,
            };
            let got = got.map_or(0, |(_, got)| got as u64);
            if got < len && before + got > 0 {
                // The kernel would write up to here and return that count.
                self.set(Ptr::Data(entry + 8), got);
                if got == 0 {
                    self.set(Ptr::Data(entry), 0);
                }
                self.packed.args[i + 1] = k as u64 + 1;
                return Ok(());
            }
            before += got;
        }
        Ok(())
    }

    /// For readv and the like.
    pub(super) fn iov_out(&mut self, i: usize, addr: u64) -> Result<(), Refuse> {
        // KERNEL: import_iovec takes an unsigned int.
        let count = u64::from(self.packed.args[i + 1] as u32);
        if let Some(at) = self.iov_array(Ptr::Arg(i), addr, count)? {
            self.segments_out(at, count, Follow::Ret)?;
        }
        Ok(())
    }

    /// The array itself, its segments still with the body's addresses.
    pub(super) fn iov_array(
        &mut self,
        at: Ptr,
        addr: u64,
        count: u64,
    ) -> Result<Option<usize>, Refuse> {
        if count > MAX {
            self.set(at, BAD);
            return Ok(None);
        }
        let array = self.read_piece(at, addr, count * IOVEC as u64)?;
        // With a negative length the whole call is EINVAL: home returns that without any buffer.
        let Some(off) = array else { return Ok(None) };
        let wrong = (0..count as usize).any(|k| (self.segment(off + k * IOVEC).1 as i64) < 0);
        if wrong {
            for k in 0..count as usize {
                self.set(Ptr::Data(off + k * IOVEC), BAD);
            }
            return Ok(None);
        }
        Ok(Some(off))
    }

    /// Segments of a message to send: all are readable or the call faults, as for sockets.
    pub(super) fn segments_in(&mut self, at: usize, count: u64) -> Result<(), Refuse> {
        for k in 0..count as usize {
            let entry = at + k * IOVEC;
            let (base, len) = self.segment(entry);
            if len > 0 && self.usable(base)? {
                self.read_piece(Ptr::Data(entry), base, len)?;
            }
        }
        Ok(())
    }

    pub(super) fn segments_out(
        &mut self,
        at: usize,
        count: u64,
        follow: Follow,
    ) -> Result<(), Refuse> {
        let mut skip = 0u32;
        for k in 0..count as usize {
            let entry = at + k * IOVEC;
            let (base, len) = self.segment(entry);
            if len == 0 || !self.usable(base)? {
                skip = skip.saturating_add(len.min(u32::MAX.into()) as u32);
                continue;
            }
            let rule = match follow {
                Follow::Ret => OutRule::RetBytes { skip },
                Follow::Message { min, .. } => OutRule::AtLeast(min),
            };
            let out = self.out_late(Ptr::Data(entry), base, len, rule)?;
            if let (Some(out), Follow::Message { len_out, .. }) = (out, follow) {
                self.limit(out, len_out, skip);
            }
            skip = skip.saturating_add(len as u32);
        }
        Ok(())
    }

    fn segment(&self, entry: usize) -> (u64, u64) {
        let data = &self.packed.data;
        (word64(data, entry), word64(data, entry + 8))
    }
}
