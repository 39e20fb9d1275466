//! struct msghdr and arrays of them.
//!
//! ```text
//!  0 name  8 namelen  16 iov  24 iovlen  32 control  40 controllen  48 flags
//! 56 msg_len (struct mmsghdr only)
//! ```

use super::Refuse;
use super::iov::{self, Follow};
use super::packer::{Packer, Ptr, word32, word64};
use crate::OutRule;
use crate::mem::{BAD, Mem};

const MSGHDR: u64 = 56;
const MMSGHDR: u64 = 64;
const NAMELEN: usize = 8;
const IOV: usize = 16;
const IOVLEN: usize = 24;
const CONTROL: usize = 32;
const CONTROLLEN: usize = 40;
const MSG_LEN: usize = 56;

/// KERNEL: sizeof(struct sockaddr_storage); longer names are truncated.
const NAME_MAX: u64 = 128;
/// Well above net.core.optmem_max of any kernel (128 KiB): larger ones return ENOBUFS.
const CONTROL_MAX: u64 = 1 << 20;

impl<M: Mem> Packer<'_, M> {
    pub(super) fn msg_in(&mut self, at: Ptr, addr: u64) -> Result<(), Refuse> {
        match self.read_piece(at, addr, MSGHDR)? {
            Some(hdr) => self.header_in(hdr),
            None => Ok(()),
        }
    }

    pub(super) fn msg_out(&mut self, at: Ptr, addr: u64) -> Result<(), Refuse> {
        match self.read_piece(at, addr, MSGHDR)? {
            Some(hdr) => self.header_out(hdr, addr, 0, Follow::Ret),
            None => Ok(()),
        }
    }

    /// sendmmsg (`sending`) and recvmmsg: the count is in argument `i + 1`.
    pub(super) fn mmsg(&mut self, i: usize, addr: u64, sending: bool) -> Result<(), Refuse> {
        let count = u64::from(self.packed.args[i + 1] as u32).min(iov::MAX);
        let got = self.read_some_piece(Ptr::Arg(i), addr, count * MMSGHDR)?;
        let Some((hdrs, bytes)) = got else {
            return Ok(());
        };
        // A truncated header faults when its turn comes; the messages before it count.
        let whole = bytes / MMSGHDR as usize;
        if whole == 0 && count > 0 {
            self.packed.arg_ptrs &= !(1 << i);
            self.set(Ptr::Arg(i), BAD);
            return Ok(());
        }
        self.packed.args[i + 1] = whole as u64;
        for k in 0..whole {
            let hdr = hdrs + k * MMSGHDR as usize;
            let home = addr + k as u64 * MMSGHDR;
            let min = k as u32 + 1;
            let rule = OutRule::AtLeast(min);
            let len_out = self.out_in_data(hdr + MSG_LEN, 4, rule, home + MSG_LEN as u64)?;
            if sending {
                self.header_in(hdr)?;
            } else {
                self.header_out(hdr, home, min, Follow::Message { min, len_out })?;
            }
        }
        Ok(())
    }

    fn header_in(&mut self, hdr: usize) -> Result<(), Refuse> {
        let name = word64(&self.packed.data, hdr);
        let name_len = self.name_len(hdr);
        if name_len > 0 && self.usable(name)? {
            self.read_piece(Ptr::Data(hdr), name, name_len)?;
        }
        let control = word64(&self.packed.data, hdr + CONTROL);
        let control_len = word64(&self.packed.data, hdr + CONTROLLEN);
        if control_len > 0 && self.usable(control)? {
            if control_len > CONTROL_MAX {
                self.set(Ptr::Data(hdr + CONTROL), BAD);
            } else {
                self.read_piece(Ptr::Data(hdr + CONTROL), control, control_len)?;
            }
        }
        match self.message_iov(hdr)? {
            Some((at, count)) => self.segments_in(at, count),
            None => Ok(()),
        }
    }

    fn header_out(
        &mut self,
        hdr: usize,
        home: u64,
        min: u32,
        follow: Follow,
    ) -> Result<(), Refuse> {
        let rule = OutRule::AtLeast(min);
        let name_out = self.out_in_data(hdr + NAMELEN, 4, rule, home + NAMELEN as u64)?;
        // controllen and, after it, flags
        let tail = home + CONTROLLEN as u64;
        let control_out = self.out_in_data(hdr + CONTROLLEN, 12, rule, tail)?;

        let name = word64(&self.packed.data, hdr);
        let name_len = self.name_len(hdr);
        if name_len > 0
            && self.usable(name)?
            && let Some(out) = self.out_late(Ptr::Data(hdr), name, name_len, rule)?
        {
            self.limit(out, name_out, 0);
        }
        let control = word64(&self.packed.data, hdr + CONTROL);
        let control_len = word64(&self.packed.data, hdr + CONTROLLEN);
        if control_len > 0
            && self.usable(control)?
            && let Some(out) =
                self.out_late(Ptr::Data(hdr + CONTROL), control, control_len, rule)?
        {
            self.limit(out, control_out, 0);
        }
        match self.message_iov(hdr)? {
            Some((at, count)) => self.segments_out(at, count, follow),
            None => Ok(()),
        }
    }

    fn name_len(&self, hdr: usize) -> u64 {
        let len = word32(&self.packed.data, hdr + NAMELEN) as i32;
        u64::try_from(len).unwrap_or(0).min(NAME_MAX)
    }

    fn message_iov(&mut self, hdr: usize) -> Result<Option<(usize, u64)>, Refuse> {
        let addr = word64(&self.packed.data, hdr + IOV);
        let count = word64(&self.packed.data, hdr + IOVLEN);
        if count == 0 || !self.usable(addr)? {
            return Ok(None);
        }
        let at = self.iov_array(Ptr::Data(hdr + IOV), addr, count)?;
        Ok(at.map(|at| (at, count)))
    }
}
